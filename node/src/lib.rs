//! The parts of the `hearth` binary: configuration, composition root, embedder,
//! TLS, telemetry, command line. No rule of the domain is here.

pub mod cli;
pub mod config;
mod connections;
mod duties;
pub mod embed;
mod form;
mod gauges;
mod identity;
mod listeners;
pub mod serve;
mod telemetry;
mod tls;
mod webhooks;
