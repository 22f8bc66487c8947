//! The parts of the `hearth` binary: configuration, composition root, embedder,
//! TLS, telemetry, command line. No rule of the domain is here.

mod background;
mod bootstrap;
pub mod cli;
pub mod config;
mod connections;
pub mod embed;
mod gauges;
mod identity;
mod listeners;
pub mod serve;
mod telemetry;
mod tls;
mod webhooks;
