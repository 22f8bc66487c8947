//! Section `log`: filter and format of log lines.

use serde::Deserialize;

/// Log output.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Log {
    /// Levels per module, as `info,raft=debug`.
    pub filter: String,
    /// The format of log lines.
    pub format: LogFormat,
}

/// Formats of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// For people.
    Text,
    /// JSON, for log collectors.
    Json,
}

impl Default for Log {
    fn default() -> Self {
        Self { filter: "info,openraft=error,ort=warn,hnsw_rs=warn".into(), format: LogFormat::Text }
    }
}
