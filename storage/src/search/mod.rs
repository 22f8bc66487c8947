//! Reading by rank: search by meaning, hot context, lists. One scan over the
//! columns of a tenant, one bounded heap; what differs is the order.

mod best;
mod list;
mod plan;
mod preview;
mod query;
mod scan;

pub use list::{HotRequest, ListRequest, Order, Page, Sort};
pub use preview::ColdAhead;
pub use query::{Found, Hit, SearchRequest};
pub use scan::{Filter, TierFilter};
