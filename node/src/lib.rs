//! The parts of the `hearth` binary: command line, configuration, composition root, embedder,
//! TLS, webhooks. Rules of the domain are in the `storage` crate.

mod activity;
mod background;
mod backup;
mod bootstrap;
mod certificates;
mod check;
pub mod cli;
mod client;
mod collector;
mod config;
mod connections;
mod credentials;
mod disk;
pub mod embed;
mod endpoint;
mod engine;
mod error;
mod extractor;
mod failure;
mod frames;
#[cfg(feature = "fuzzing")]
pub mod fuzz;
mod identity;
mod join;
mod labelled_metrics;
mod listeners;
mod logging;
mod memory;
mod metrics;
mod model_change;
mod networks;
mod places;
mod process;
pub mod program;
mod proxy_protocol;
mod serve;
mod service_manager;
mod starting;
mod tenant_metrics;
mod tls;
mod unreadable;
mod webhooks;

/// The allocator of the binaries. It returns unused pages to the system after ten seconds: that of
/// glibc kept hundreds of megabytes of deleted memories.
pub use tikv_jemallocator::Jemalloc as Allocator;
