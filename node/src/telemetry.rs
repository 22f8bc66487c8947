//! Logging to standard error, as text or JSON.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

use crate::config::{Log, LogFormat};
use crate::error::text;

/// Configures logging of the whole process. It can be called once.
pub(crate) fn start(log: &Log) -> Result<(), String> {
    let filter = EnvFilter::try_new(&log.filter).map_err(|error| format!("log.filter: {error}"))?;
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    match log.format {
        LogFormat::Text => lines.try_init(),
        LogFormat::Json => lines.json().try_init(),
    }
    .map_err(text)
}
