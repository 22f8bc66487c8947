//! Reading by rank: search by meaning, hot context, lists. One scan over the
//! columns of a tenant, one bounded heap; what differs is the order.

mod forecast;
mod list;
mod overview;
mod plan;
mod query;
mod related;
mod scan;
mod suggest;
mod tick_scan;
mod top_k;
mod traverse;

pub use forecast::ColdForecast;
pub use list::{HotRequest, ListRequest, Order, Page, Sort};
pub use overview::{HEAT_BANDS, Overview};
pub use query::{Hit, SearchRequest, SearchResults, Traversal};
pub use related::{GraphView, Neighbour};
pub use scan::{Filter, TierFilter};
