//! A node's configuration: one TOML file, and environment variables over it.
//!
//! The variable of a key is `HEARTH__SECTION__KEY`. A key that does not exist is an error,
//! wherever it comes from: a misspelt key must not silently keep its default.
//! `deploy/hearth.toml` documents every key.

mod embedder;
mod listeners;
mod log;
mod node;
mod raft;
mod source;
mod webhooks;

use std::path::{Path, PathBuf};

use figment::Figment;
use serde::Deserialize;

pub use embedder::{Embedder, EmbedderKind, Search};
pub use listeners::{Operator, Peer, Public};
pub use log::{Log, LogFormat};
pub use node::{Cluster, Node};
pub use raft::{LogCompaction, Raft};
pub use webhooks::Webhooks;

use source::Source;

/// All sections. `deploy/hearth.toml` documents their keys.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The identity of this node.
    pub node: Node,
    /// The public HTTPS listener.
    pub public: Public,
    /// The operator's listener.
    #[serde(default)]
    pub operator: Operator,
    /// The listener for other nodes.
    pub peer: Peer,
    /// The initial members of the cluster.
    #[serde(default)]
    pub cluster: Cluster,
    /// Timing of Raft.
    #[serde(default)]
    pub raft: Raft,
    /// Compaction of the Raft log.
    #[serde(default)]
    pub log_compaction: LogCompaction,
    /// Vector search.
    #[serde(default)]
    pub search: Search,
    /// The embedding model.
    pub embedder: Embedder,
    /// Delivery of webhooks.
    #[serde(default)]
    pub webhooks: Webhooks,
    /// Log output.
    #[serde(default)]
    pub log: Log,
}

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// A key is unknown, missing, or has a value of the wrong type. The text names the key, and
    /// the file or the variable.
    #[error("invalid configuration: {0}")]
    Key(String),
    /// The file is not TOML, or the values of some keys contradict a rule.
    #[error("{path}: {message}")]
    Invalid {
        /// The file.
        path: PathBuf,
        /// What is wrong. It names the key.
        message: String,
    },
}

impl Config {
    /// Reads the file at `path`. Variables in `environment` override its keys.
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub fn load(
        path: &Path,
        environment: impl Iterator<Item = (String, String)>,
    ) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| ConfigError::Read { path: path.to_owned(), source })?;
        Self::parse(path, &text, environment)
    }

    fn parse(
        path: &Path,
        text: &str,
        environment: impl Iterator<Item = (String, String)>,
    ) -> Result<Self, ConfigError> {
        let invalid = |message| ConfigError::Invalid { path: path.to_owned(), message };
        let file = Source::file(path, text).map_err(|error| invalid(error.to_string()))?;
        let mut sources = Figment::from(file);
        for (name, value) in environment {
            if let Some(variable) = Source::variable(&name, &value).map_err(ConfigError::Key)? {
                sources = sources.merge(variable);
            }
        }
        let config: Self =
            sources.extract().map_err(|error| ConfigError::Key(error.to_string()))?;
        config.validate().map_err(invalid)?;
        Ok(config)
    }

    /// Checks the rules that types do not express.
    fn validate(&self) -> Result<(), String> {
        self.node.validate()?;
        self.peer.validate()?;
        self.raft.validate()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use super::*;

    const SAMPLE: &str = include_str!("../../../deploy/hearth.toml");

    fn parse(text: &str, environment: &[(&str, &str)]) -> Result<Config, String> {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let path = Path::new("/etc/hearth.toml");
        Config::parse(path, text, environment.iter().map(owned)).map_err(|error| error.to_string())
    }

    fn with(environment: &[(&str, &str)]) -> Result<Config, String> {
        parse(SAMPLE, environment)
    }

    #[test]
    fn sample_file_is_valid_and_states_the_defaults() {
        let config = with(&[]).unwrap();
        assert_eq!(config.raft, Raft::default());
        assert_eq!(config.log_compaction, LogCompaction::default());
        assert_eq!(config.search, Search::default());
        assert_eq!(config.operator.listen, Operator::default().listen);
        assert_eq!(
            config.webhooks,
            Webhooks { key: config.webhooks.key.clone(), ..Webhooks::default() }
        );
        assert_eq!(config.log.filter, Log::default().filter);
        assert_eq!(config.embedder.threads, embedder::default_threads());
        assert_eq!(config.embedder.kind, embedder::default_kind());
        assert_eq!(config.node.tenant, node::default_tenant());
    }

    #[test]
    fn environment_overrides_every_key() {
        let config = with(&[
            ("HEARTH__NODE__ID", "7"),
            ("HEARTH__PUBLIC__LISTEN", "127.0.0.1:9"),
            ("HEARTH__LOG__FORMAT", "json"),
            ("HEARTH__PEER__ADDRESS", "a.example:1"),
            ("HEARTH__NODE__TENANT", "\"2024\""),
            ("HEARTH__LOG_COMPACTION__KEEP_ENTRIES", "5"),
            ("PATH", "/bin"),
        ])
        .unwrap();
        assert_eq!(config.node.id, 7);
        assert_eq!(config.public.listen.port(), 9);
        assert_eq!(config.log.format, LogFormat::Json);
        assert_eq!(config.peer.advertised_address(), "a.example:1");
        assert_eq!(config.node.tenant, "2024");
        assert_eq!(config.log_compaction.keep_entries, 5);
    }

    #[test]
    fn webhooks_have_lists_of_networks_and_pauses() {
        let config = with(&[
            ("HEARTH__WEBHOOKS__ALLOW", "127.0.0.0/8, ::1/128"),
            ("HEARTH__WEBHOOKS__RETRY_SECONDS", "0.05, 1"),
        ]);
        let webhooks = config.unwrap().webhooks;
        assert_eq!(webhooks.allow.len(), 2);
        assert_eq!(webhooks.retry_seconds, [Duration::from_millis(50), Duration::from_secs(1)]);
        for (text, pause) in [("7", Duration::from_secs(7)), ("0.05", Duration::from_millis(50))] {
            let one = with(&[("HEARTH__WEBHOOKS__RETRY_SECONDS", text)]).unwrap().webhooks;
            assert_eq!(one.retry_seconds, [pause]);
        }
        assert!(with(&[("HEARTH__WEBHOOKS__ALLOW", "127.0.0.1/99")]).is_err());
        assert!(with(&[("HEARTH__WEBHOOKS__RETRY_SECONDS", "-1,2")]).is_err());
    }

    #[test]
    fn initial_members_are_ids_and_addresses() {
        let members = |text| with(&[("HEARTH__CLUSTER__MEMBERS", text)]).map(|c| c.cluster.members);
        let found = members("1=a:1, 3 = [::1]:9,").unwrap();
        assert_eq!(found, BTreeMap::from([(1, "a:1".into()), (3, "[::1]:9".into())]));
        for bad in ["1", "x=a:1", "0=a:1", "1=a", "1=a:1,1=b:1"] {
            assert!(members(bad).is_err(), "{bad}");
        }
        assert!(members("1=a:1,1=b:1").unwrap_err().contains("duplicate member id 1"));
    }

    #[test]
    fn unknown_keys_are_errors_in_every_source() {
        assert!(with(&[("HEARTH__NODE__IDD", "7")]).unwrap_err().contains("idd"));
        assert!(with(&[("HEARTH__NODES__ID", "7")]).unwrap_err().contains("nodes"));
        assert!(with(&[("HEARTH__NODE", "7")]).is_err());
        assert!(with(&[("HEARTH__", "7")]).is_err());
        let misspelt = SAMPLE.replace("heartbeat_ms", "hartbeat_ms");
        assert!(parse(&misspelt, &[]).unwrap_err().contains("hartbeat_ms"));
    }

    #[test]
    fn errors_name_the_key_and_its_source() {
        let error = with(&[("HEARTH__NODE__ID", "one")]).unwrap_err();
        assert!(error.contains("HEARTH__NODE__ID"), "{error}");
        let error = parse(&SAMPLE.replace("id = 1", "id = \"one\""), &[]).unwrap_err();
        assert!(error.contains("node.id") && error.contains("/etc/hearth.toml"), "{error}");
        let error = parse(&SAMPLE.replace("id = 1", ""), &[]).unwrap_err();
        assert!(error.contains("`id`") && error.contains("/etc/hearth.toml"), "{error}");
        let error = parse("[node\n", &[]).unwrap_err();
        assert!(error.contains("/etc/hearth.toml") && error.contains("line 1"), "{error}");
    }

    #[test]
    fn rules_beyond_types_are_checked() {
        assert!(with(&[("HEARTH__NODE__ID", "0")]).unwrap_err().contains("node.id"));
        assert!(with(&[("HEARTH__NODE__TENANT", " ")]).unwrap_err().contains("node.tenant"));
        assert!(with(&[("HEARTH__RAFT__HEARTBEAT_MS", "134")]).unwrap_err().contains("election"));
        assert!(with(&[("HEARTH__RAFT__VERIFY_SECONDS", "0")]).unwrap_err().contains("verify"));
        let no_address = SAMPLE.replace("address = \"node-1.example:4282\"", "");
        assert!(parse(&no_address, &[]).unwrap_err().contains("peer.address"));
    }
}
