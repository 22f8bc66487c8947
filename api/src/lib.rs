//! The public HTTP face: routes, authentication, limits, the wire format. It
//! reads through `storage::Reader`, writes through `raft::Handle`, and holds no
//! rule of the domain and no writer.
//!
//! [`public`] is the router of the HTTPS listener, [`operator`] that of the
//! operator's own, [`openapi`] the description of the former.

mod app;
mod auth;
mod consistency;
mod embed;
mod error;
mod extract;
mod hooks;
mod limits;
mod metrics;
mod middleware;
mod observed;
mod openapi;
mod routes;
mod wire;
mod write;

pub use app::{App, Identity};
pub use embed::{EmbedError, Embedder, Embedding};
pub use hooks::Hooks;
pub use limits::{BODY_BYTES_MAX, REQUESTS_MAX};
pub use metrics::{Gauges, Metrics};
pub use routes::{openapi, operator, public};
