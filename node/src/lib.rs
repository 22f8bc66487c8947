//! The parts of the `hearth` binary: configuration, composition root, embedder,
//! TLS, telemetry, command line. No rule of the domain is here.

pub mod cli;
pub mod config;
pub mod embed;
mod form;
mod gauges;
pub mod serve;
mod telemetry;
mod tls;
