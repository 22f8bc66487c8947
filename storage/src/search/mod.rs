//! Reading by rank: search by meaning, hot context, lists. One scan over the
//! columns of a tenant, one bounded heap; what differs is the order.

mod best;
mod list;
mod plan;
mod query;
mod scan;

pub use list::{HotRequest, ListRequest, Order, Page, Sort};
pub use query::{Hit, SearchRequest};
pub use scan::{Filter, TierFilter};
