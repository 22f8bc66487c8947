//! Reading by rank: search by meaning, hot context, lists. One scan over the
//! columns of a tenant, one bounded heap; what differs is the order.

mod best;
mod cooled;
mod list;
mod overview;
mod plan;
mod preview;
mod query;
mod related;
mod scan;
mod suggest;
mod traverse;

pub use list::{HotRequest, ListRequest, Order, Page, Sort};
pub use overview::{HEAT_BANDS, Overview};
pub use preview::ColdAhead;
pub use query::{Found, Hit, SearchRequest, Via};
pub use related::{GraphView, Neighbour};
pub use scan::{Filter, TierFilter};
