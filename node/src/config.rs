//! A node's configuration: one TOML file, each key also as `HEARTH__SECTION__KEY`
//! in the environment. An unknown key is an error: a typing mistake must not
//! become a default. `deploy/hearth.toml` documents every key.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::{Table, Value};

/// What environment variables begin with.
const PREFIX: &str = "HEARTH__";

/// Everything that can be set.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// This node.
    pub node: Node,
    /// The public HTTPS listener.
    pub public: Public,
    /// The operator's listener.
    #[serde(default)]
    pub operator: Operator,
    /// Timing of elections.
    #[serde(default)]
    pub raft: Raft,
    /// The embedding model.
    pub embedder: Embedder,
    /// What is logged.
    #[serde(default)]
    pub log: Log,
}

/// See `deploy/hearth.toml`, as for every section below.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// Id, unique in the cluster and never reused.
    pub id: u64,
    /// Folder of everything that this node keeps.
    pub data: PathBuf,
    /// Name of the tenant that a new cluster begins with.
    #[serde(default = "default_tenant")]
    pub tenant: String,
}

/// The public HTTPS listener.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Public {
    /// Address and port.
    pub listen: SocketAddr,
    /// PEM file with the certificate chain.
    pub certificate: PathBuf,
    /// PEM file with its private key.
    pub key: PathBuf,
}

/// The operator's listener: plain HTTP, without a key.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Operator {
    /// Address and port; keep it on loopback or a network of its own.
    pub listen: SocketAddr,
}

/// Timing of elections.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Raft {
    /// How often a leader shows that it leads.
    pub heartbeat_ms: u64,
    /// Shortest time without a leader before an election.
    pub election_min_ms: u64,
    /// Longest such time.
    pub election_max_ms: u64,
}

/// Which embedder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EmbedderKind {
    /// A model in ONNX form.
    Onnx,
    /// Hashed words, without meaning: for tests only.
    Hashing,
}

/// The embedding model.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Embedder {
    /// Which embedder.
    #[serde(default = "default_embedder")]
    pub kind: EmbedderKind,
    /// Folder with `manifest.json`, the model and its tokenizer.
    #[serde(default)]
    pub model: PathBuf,
    /// The ONNX Runtime library.
    #[serde(default)]
    pub library: PathBuf,
    /// Threads that embed, each with a session of some 215 MB.
    #[serde(default = "default_threads")]
    pub threads: usize,
}

/// What is logged.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Log {
    /// A filter as in `info,raft=debug`.
    pub filter: String,
    /// `text` or `json`.
    pub format: LogFormat,
}

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// For people.
    Text,
    /// For collectors.
    Json,
}

fn default_tenant() -> String {
    "default".into()
}

fn default_embedder() -> EmbedderKind {
    EmbedderKind::Onnx
}

fn default_threads() -> usize {
    2
}

impl Default for Operator {
    fn default() -> Self {
        Self { listen: SocketAddr::from(([127, 0, 0, 1], 4281)) }
    }
}

impl Default for Raft {
    fn default() -> Self {
        Self { heartbeat_ms: 150, election_min_ms: 450, election_max_ms: 900 }
    }
}

impl Default for Log {
    fn default() -> Self {
        Self { filter: "info,openraft=error,ort=warn".into(), format: LogFormat::Text }
    }
}

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
    /// The file, or a variable that overrides it, is not right.
    #[error("{path}: {message}")]
    Invalid {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        message: String,
    },
}

impl Config {
    /// Reads the file at `path`, with `environment` on top.
    ///
    /// # Errors
    /// When the file cannot be read, or a key is unknown, missing or of another type.
    pub fn load(
        path: &Path,
        environment: impl Iterator<Item = (String, String)>,
    ) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| ConfigError::Read { path: path.to_owned(), source })?;
        Self::parse(&text, environment)
            .map_err(|message| ConfigError::Invalid { path: path.to_owned(), message })
    }

    fn parse(
        text: &str,
        environment: impl Iterator<Item = (String, String)>,
    ) -> Result<Self, String> {
        let mut table: Table = text.parse().map_err(|error: toml::de::Error| error.to_string())?;
        for (name, value) in environment {
            let Some(path) = name.strip_prefix(PREFIX) else { continue };
            let path = path.to_lowercase();
            let (section, key) =
                path.split_once("__").ok_or_else(|| format!("{name} names no section and key"))?;
            let section = table.entry(section).or_insert_with(|| Table::new().into());
            let section = section.as_table_mut().ok_or_else(|| format!("{name}: no section"))?;
            section.insert(key.to_owned(), scalar(&value));
        }
        let config: Self = table.try_into().map_err(|error| error.to_string())?;
        match () {
            () if config.node.id == 0 => Err("node.id must be 1 or more".into()),
            () if config.node.tenant.trim().is_empty() => {
                Err("node.tenant must not be empty".into())
            }
            () => Ok(config),
        }
    }
}

/// The value of a variable: a TOML number, boolean or quoted string where it
/// reads as one, else the text as it stands.
fn scalar(text: &str) -> Value {
    match format!("value = {text}")
        .parse::<Table>()
        .ok()
        .and_then(|mut table| table.remove("value"))
    {
        Some(value @ (Value::Integer(_) | Value::Boolean(_) | Value::String(_))) => value,
        _ => Value::String(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &str = include_str!("../../deploy/hearth.toml");

    fn with(environment: &[(&str, &str)]) -> Result<Config, String> {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Config::parse(SAMPLE, environment.iter().map(owned))
    }

    #[test]
    fn the_documented_file_is_a_valid_one_and_names_the_defaults() {
        let config = with(&[]).unwrap();
        assert_eq!(config.raft.heartbeat_ms, Raft::default().heartbeat_ms);
        assert_eq!(config.raft.election_min_ms, Raft::default().election_min_ms);
        assert_eq!(config.raft.election_max_ms, Raft::default().election_max_ms);
        assert_eq!(config.operator.listen, Operator::default().listen);
        assert_eq!(config.log.filter, Log::default().filter);
        assert_eq!(config.embedder.threads, default_threads());
        assert_eq!(config.embedder.kind, default_embedder());
        assert_eq!(config.node.tenant, default_tenant());
    }

    #[test]
    fn every_key_can_come_from_the_environment() {
        let config = with(&[
            ("HEARTH__NODE__ID", "7"),
            ("HEARTH__PUBLIC__LISTEN", "127.0.0.1:9"),
            ("HEARTH__LOG__FORMAT", "json"),
            ("HEARTH__NODE__TENANT", "\"2024\""),
            ("PATH", "/bin"),
        ])
        .unwrap();
        assert_eq!(config.node.id, 7);
        assert_eq!(config.public.listen.port(), 9);
        assert_eq!(config.log.format, LogFormat::Json);
        assert_eq!(config.node.tenant, "2024");
    }

    #[test]
    fn unknown_keys_are_errors_wherever_they_come_from() {
        assert!(with(&[("HEARTH__NODE__IDD", "7")]).unwrap_err().contains("idd"));
        assert!(with(&[("HEARTH__NODES__ID", "7")]).unwrap_err().contains("nodes"));
        assert!(with(&[("HEARTH__NODE", "7")]).is_err());
        assert!(with(&[("HEARTH__NODE__ID", "0")]).unwrap_err().contains("node.id"));
        let misspelt = SAMPLE.replace("heartbeat_ms", "hartbeat_ms");
        assert!(Config::parse(&misspelt, std::iter::empty()).unwrap_err().contains("hartbeat_ms"));
    }
}
