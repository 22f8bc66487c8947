//! The public interface over HTTP. [`service`] holds what it does; [`routes`] adapts it to
//! HTTP; [`requests`] and [`responses`] are its types. It reads through `storage::Reader`,
//! writes through `raft::Handle`, and contains no rules of the domain.
//!
//! [`public`] is the router of the HTTPS listener, [`operator`] that of the operator's
//! listener, [`public_openapi`] and [`operator_openapi`] their descriptions.

mod admission;
mod app;
mod auth;
mod dashboard_files;
mod error;
mod following;
#[cfg(feature = "fuzzing")]
pub mod fuzz;
mod guard;
mod host;
mod limits;
mod mcp;
mod metrics;
mod middleware;
mod openapi;
mod prelude;
mod request_log;
mod requests;
mod responses;
mod routes;
mod service;
mod spans;
mod words;

pub use admission::budget::network;
pub use admission::budget::{
    BudgetUse, Full, KeyBudget, KeyOfTenant, KeyShare, NetworkBudget, NetworkShare,
};
pub use admission::memory::MemoryUse;
pub use app::App;
pub use auth::Connection;
pub use host::one_host;
pub use limits::{BODY_BYTES_MAX, REQUESTS_MAX};
pub use mcp::McpProfile;
pub use metrics::Metrics;
pub use metrics::RequestCounts;
pub use metrics::SAMPLE_INTERVAL;
pub use middleware::{too_many_headers, unreadable_head};
pub use request_log::RequestOptions;
pub use routes::{PublicOptions, operator, operator_openapi, public, public_openapi};
pub use service::access::random_bytes;
pub use service::node::{
    BackupProgress, BackupStatus, BackupSummary, Backups, EmbedError, EmbedScope, Embedded,
    Embedder, Embedding, ExtractedFact, Extractor, Hooks, Reranker, TextRole,
};
pub use service::recalls::DueReport;
