//! Ranked reads over the index: search, lists, hot context, counts, and the scan of ticks.
//!
//! All of them scan the columns of a tenant (`scan`) and keep the best rows in a bounded heap
//! (`top_k`). They differ in the order and in the upper bounds that prune the scan. A search
//! may also use the HNSW graph (`best`), and adds what neighbours in time pass on (`context`). The public methods are on [`crate::Reader`].

mod best;
mod candidates;
mod condition;
mod context;
mod execute;
pub(crate) mod filter;
mod hygiene;
mod list;
mod overview;
pub(crate) mod query;
mod related;
mod retention;
mod scan;
mod scoring;
mod tick_scan;
mod top_k;

pub use candidates::{FoldCandidates, FoldGroup};
pub use condition::{CONDITION_DEPTH_MAX, CONDITIONS_MAX, Condition, TimeOf};
pub use filter::TEXT_BYTES_MAX;
pub use filter::{Filter, QuarantineFilter, TierFilter};
pub use hygiene::{DefectCount, Hygiene};
pub use list::{HotRequest, ListCursor, ListRequest, Order, Page, Sort};
pub use overview::{ColdForecast, Forecast, HEAT_BANDS, Overview};
pub use query::{Hit, SearchCounters, SearchRequest, SearchResults, Traversal};
pub use related::{GraphView, Neighbour};
pub use retention::DueRequest;
pub use tick_scan::{TickFinds, TickSteps};
pub(crate) use tick_scan::{next_tick, thresholds};
