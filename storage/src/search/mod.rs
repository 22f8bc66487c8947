//! Ranked reads over the index: search, lists, hot context, counts, and the scan of ticks.
//!
//! All of them scan the columns of a tenant (`scan`) and keep the best rows in a bounded heap
//! (`top_k`). They differ in the order and in the upper bounds that prune the scan. A search
//! may also use the HNSW graph (`plan`). The public methods are on [`crate::Reader`].

pub(crate) mod execute;
pub(crate) mod filter;
pub(crate) mod forecast;
pub(crate) mod list;
pub(crate) mod overview;
mod plan;
pub(crate) mod query;
pub(crate) mod related;
mod scan;
pub(crate) mod suggest;
pub(crate) mod tick_scan;
mod top_k;
mod traverse;

pub use execute::SearchCounters;
pub use filter::{Filter, TierFilter};
pub use forecast::ColdForecast;
pub use list::{HotRequest, ListRequest, Order, Page, Sort};
pub use overview::{HEAT_BANDS, Overview};
pub use query::{Hit, SearchRequest, SearchResults, Traversal};
pub use related::{GraphView, Neighbour};
