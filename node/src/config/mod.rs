//! A node's configuration: one TOML file, and environment variables over it.
//!
//! The variable of a key is `HEARTH__SECTION__KEY`. A key that does not exist is an error,
//! wherever it comes from: a misspelt key must not silently keep its default.
//! `deploy/hearth.toml` documents every key.

mod sections;
mod source;

use std::path::Path;

use figment::Figment;
use raft::is_address;
use serde::Deserialize;
use url::Url;

pub(crate) use sections::{
    Backup, Cluster, Disk, Embedder, EmbedderKind, Log, LogCompaction, LogFormat, Mcp, Memory,
    ModelEndpoint, Node, Operator, Peer, Public, Raft, Search, Tracing, Webhooks,
};
use sections::{DEFAULTS, WITHOUT_DEFAULT};
pub(crate) use source::AUTO;
use source::{MISTYPED_PREFIX, PREFIX, SEPARATOR, Source};

use crate::error::text;

/// An election needs this many missed heartbeats at least.
const HEARTBEATS_PER_ELECTION: u64 = 3;

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    pub(crate) node: Node,
    pub(crate) public: Public,
    pub(crate) mcp: Mcp,
    pub(crate) operator: Operator,
    pub(crate) peer: Peer,
    pub(crate) cluster: Cluster,
    pub(crate) raft: Raft,
    pub(crate) log_compaction: LogCompaction,
    pub(crate) search: Search,
    pub(crate) memory: Memory,
    pub(crate) disk: Disk,
    pub(crate) backup: Backup,
    pub(crate) embedder: Embedder,
    pub(crate) reranker: ModelEndpoint,
    pub(crate) extractor: ModelEndpoint,
    pub(crate) webhooks: Webhooks,
    pub(crate) log: Log,
    pub(crate) tracing: Tracing,
}

impl Config {
    /// Reads the file at `path`. Variables in `environment` override its keys. An error names
    /// the key, and the file or the variable.
    pub(crate) fn load(
        path: &Path,
        environment: impl Iterator<Item = (String, String)>,
    ) -> Result<Self, String> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        Self::parse(path, &text, environment)
    }

    fn parse(
        path: &Path,
        toml: &str,
        environment: impl Iterator<Item = (String, String)>,
    ) -> Result<Self, String> {
        let invalid = |message| format!("{}: {message}", path.display());
        let bad_key = |message| format!("invalid configuration: {message}");
        let defaults = Source::file(Path::new("the defaults"), DEFAULTS).map_err(text)?;
        let file = Source::file(path, toml).map_err(|error| invalid(text(error)))?;
        let mut sources = Figment::from(defaults).merge(file);
        for (name, value) in environment {
            if let Some(setting) = mistyped(&name) {
                return Err(bad_key(format!("{name} is no setting: write {setting}")));
            }
            if let Some(variable) = Source::variable(&name, &value).map_err(bad_key)? {
                sources = sources.merge(variable);
            }
        }
        let config: Self = sources.extract().map_err(|error| bad_key(text(error)))?;
        config.validate().map_err(invalid)?;
        Ok(config)
    }

    /// Names of this node on the operator's listener, besides addresses and names without a dot.
    pub(crate) fn known_hosts(&self) -> Vec<String> {
        self.operator.hosts.iter().cloned().chain([self.peer.advertised_host()]).collect()
    }

    /// Checks the rules that types do not express.
    fn validate(&self) -> Result<(), String> {
        let Self { node, operator, peer, raft, log_compaction, embedder, memory, .. } = self;
        let Self { public, webhooks, backup, tracing, .. } = self;
        let positive = [
            ("raft.heartbeat_ms", raft.heartbeat_ms),
            ("raft.verify_seconds", raft.verify_seconds),
            ("log_compaction.log_bytes", log_compaction.log_bytes),
            ("log_compaction.interval_seconds", log_compaction.interval_seconds),
            ("log_compaction.follower_timeout_seconds", log_compaction.follower_timeout_seconds),
            ("embedder.threads", embedder.threads as u64),
            ("memory.max_bytes", memory.max_bytes.unwrap_or(1)),
            ("webhooks.timeout_ms", webhooks.timeout_ms),
            ("backup.interval_hours", backup.interval_hours.into()),
        ];
        if let Some((key, _)) = positive.into_iter().find(|(_, value)| *value == 0) {
            return Err(format!("{key} must be 1 or more"));
        }
        let election_min_ms = raft.heartbeat_ms.saturating_mul(HEARTBEATS_PER_ELECTION);
        let rules = [
            (!node.tenant.trim().is_empty(), "node.tenant must not be empty"),
            (
                !public.plain_http || public.listen.ip().is_loopback(),
                "public.plain_http sends keys and memories unencrypted: public.listen must be a \
                 loopback address",
            ),
            (
                !operator.hosts.iter().any(|host| host.contains(':')),
                "operator.hosts must be names without ports",
            ),
            (
                tracing.url.is_empty() || is_of_collector(&tracing.url),
                "tracing.url must be http://HOST:PORT or https://HOST:PORT; the node adds /v1/traces. Credentials are headers, in \
                 the variable OTEL_EXPORTER_OTLP_HEADERS",
            ),
            (
                is_address(&peer.advertised_address()),
                "peer.address must be a host and a port, as in node-1.example:4282",
            ),
            (
                raft.election_min_ms >= election_min_ms,
                "raft.election_min_ms must be at least three times raft.heartbeat_ms",
            ),
            (
                raft.election_max_ms > raft.election_min_ms,
                "raft.election_max_ms must be greater than raft.election_min_ms",
            ),
        ];
        let broken = rules.into_iter().find(|(holds, _)| !holds);
        broken.map_or(Ok(()), |(_, rule)| Err(rule.into()))
    }
}

/// Whether a text is a URL that a collector can have. One with credentials would show them in reports.
fn is_of_collector(text: &str) -> bool {
    Url::parse(text).is_ok_and(|url| {
        ["http", "https"].contains(&url.scheme())
            && (url.username(), url.password()) == ("", None)
            && (url.query(), url.fragment()) == (None, None)
            // It is added.
            && !url.path().ends_with("/v1/traces")
    })
}

/// The variable that is meant by one that joins section and key by one underscore.
fn mistyped(variable: &str) -> Option<String> {
    let name = variable.strip_prefix(MISTYPED_PREFIX)?.to_lowercase();
    let is_it = |(section, key): &(String, String)| format!("{section}_{key}") == name;
    let (section, key) = settings().into_iter().find(is_it)?;
    Some(format!("{PREFIX}{section}{SEPARATOR}{key}").to_uppercase())
}

/// Section and key of every setting.
fn settings() -> Vec<(String, String)> {
    let defaults = DEFAULTS.lines().scan("", |section, line| {
        let opened = line.strip_prefix('[').and_then(|line| line.strip_suffix(']'));
        *section = opened.unwrap_or(*section);
        Some(line.split_once(" = ").map(|(key, _)| (*section, key)))
    });
    let others = WITHOUT_DEFAULT.iter().map(|setting| setting.split_once('.'));
    let all = defaults.chain(others).flatten();
    all.map(|(section, key)| (section.to_owned(), key.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::time::Duration;

    use super::*;

    const SAMPLE: &str = include_str!("../../../deploy/hearth.toml");

    fn parse(text: &str, environment: &[(&str, &str)]) -> Result<Config, String> {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let path = Path::new("/etc/hearth.toml");
        Config::parse(path, text, environment.iter().map(owned))
    }

    fn with(environment: &[(&str, &str)]) -> Result<Config, String> {
        parse(SAMPLE, environment)
    }

    #[test]
    fn sample_file_is_valid_and_states_the_defaults() {
        let config = with(&[]).unwrap();
        let sample: toml::Table = SAMPLE.parse().unwrap();
        let defaults: toml::Table = DEFAULTS.parse().unwrap();
        for (section, keys) in defaults {
            for (key, value) in keys.as_table().unwrap() {
                assert_eq!(sample[&section][key], *value, "{section}.{key}");
            }
        }
        assert_eq!(config.search.exact_max, storage::Options::default().exact_max);
        assert_eq!(config.embedder.threads, sections::default_threads());
        assert_eq!(config.embedder.kind, EmbedderKind::default());
        assert_eq!(config.node.tenant, sections::default_tenant());
    }

    #[test]
    fn sample_file_has_every_setting() {
        // Optional keys are comments in it.
        let lines = SAMPLE.lines().map(|line| {
            let key = line
                .strip_prefix("# ")
                .filter(|line| line.split_once(" = ").is_some_and(|(key, _)| !key.contains(' ')));
            key.unwrap_or(line)
        });
        let sample: toml::Table = lines.collect::<Vec<_>>().join("\n").parse().unwrap();
        let keys = |(section, keys): (String, toml::Value)| {
            let keys: Vec<_> = keys.as_table().unwrap().keys().cloned().collect();
            keys.into_iter().map(move |key| (section.clone(), key))
        };
        let of_sample: BTreeSet<_> = sample.into_iter().flat_map(keys).collect();
        assert_eq!(of_sample, settings().into_iter().collect());
        assert_eq!(mistyped("HEARTH_BACKUP_URL").unwrap(), "HEARTH__BACKUP__URL");
        for other in ["HEARTH_OPERATOR_KEY", "HEARTH_PEER_PORT", "HEARTH__NODE__ID"] {
            assert_eq!(mistyped(other), None, "{other}");
        }
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
    fn known_hosts_include_the_peer_address() {
        let address = ("HEARTH__PEER__ADDRESS", "node-1.example:4282");
        let hosts =
            |text| with(&[address, ("HEARTH__OPERATOR__HOSTS", text)]).map(|c| c.known_hosts());
        assert_eq!(hosts("").unwrap(), ["node-1.example"]);
        assert_eq!(
            hosts("a.example, b.example").unwrap(),
            ["a.example", "b.example", "node-1.example"]
        );
        assert!(hosts("a.example:4281").unwrap_err().contains("operator.hosts"));
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
        let mistyped = with(&[("HEARTH_NODE__ID", "7")]).unwrap_err();
        assert!(mistyped.contains("HEARTH_NODE__ID is no setting: write HEARTH__NODE__ID"));
        assert!(with(&[("HEARTH_CACHE", "/tmp")]).is_ok(), "not a setting of a node");
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
        assert!(with(&[("HEARTH__NODE__TENANT", " ")]).unwrap_err().contains("node.tenant"));
        assert!(with(&[("HEARTH__RAFT__HEARTBEAT_MS", "401")]).unwrap_err().contains("election"));
        assert!(with(&[("HEARTH__RAFT__ELECTION_MAX_MS", "1200")]).unwrap_err().contains("max_ms"));
        for url in ["http://collector:4318", "https://collector.example/tenant"] {
            assert_eq!(with(&[("HEARTH__TRACING__URL", url)]).unwrap().tracing.url, url);
        }
        for url in ["collector:4318", "http://name:word@collector:4318", "https://collector?key=1"]
        {
            let error = with(&[("HEARTH__TRACING__URL", url)]).unwrap_err();
            assert!(error.contains("tracing.url must be"), "{error}");
        }
        let loopback = with(&[("HEARTH__PEER__LISTEN", "127.0.0.1:4282")]).unwrap();
        assert_eq!(loopback.peer.advertised_address(), "127.0.0.1:4282");
        let machine = with(&[]).unwrap().peer.advertised_address();
        assert!(machine.ends_with(":4282") && !machine.starts_with("0.0.0.0"), "{machine}");
    }

    #[test]
    fn zeros_and_unusable_addresses_are_rejected() {
        for key in [
            "node.id",
            "raft.heartbeat_ms",
            "raft.verify_seconds",
            "log_compaction.log_bytes",
            "log_compaction.interval_seconds",
            "log_compaction.follower_timeout_seconds",
            "embedder.threads",
            "memory.max_bytes",
            "webhooks.timeout_ms",
            "backup.interval_hours",
        ] {
            let variable = format!("HEARTH__{}", key.to_uppercase().replace('.', "__"));
            let error = with(&[(&variable, "0")]).unwrap_err();
            assert!(error.contains(&format!("{key} must be 1 or more")), "{error}");
        }
        for address in ["", "node-1", "node-1:", ":4282", "node-1:0", "node-1:99999", "a b:1"] {
            let error = with(&[("HEARTH__PEER__ADDRESS", address)]).unwrap_err();
            assert!(error.contains("peer.address"), "{address}: {error}");
            let member = format!("1={address}");
            let error = with(&[("HEARTH__CLUSTER__MEMBERS", &member)]).unwrap_err();
            assert!(error.contains("CLUSTER__MEMBERS"), "{address}: {error}");
        }
        for listen in ["4282", "node-1:4282", "127.0.0.1", "127.0.0.1:x", "[::1:4282"] {
            let error = with(&[("HEARTH__PEER__LISTEN", listen)]).unwrap_err();
            assert!(error.contains("PEER__LISTEN"), "{listen}: {error}");
        }
        assert!(with(&[("HEARTH__PEER__ADDRESS", "[::1]:4282")]).is_ok());
    }
}
