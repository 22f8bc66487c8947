//! A node's configuration: one TOML file, each key also as `HEARTH__SECTION__KEY`
//! in the environment. An unknown key is an error: a typing mistake must not
//! become a default. `deploy/hearth.toml` documents every key.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use ipnet::IpNet;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
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
    /// The listener for other nodes.
    pub peer: Peer,
    /// What the cluster begins as.
    #[serde(default)]
    pub cluster: Cluster,
    /// Timing of elections.
    #[serde(default)]
    pub raft: Raft,
    /// How memories are searched.
    #[serde(default)]
    pub search: Search,
    /// The embedding model.
    pub embedder: Embedder,
    /// What triggers send.
    #[serde(default)]
    pub webhooks: Webhooks,
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

/// The listener for other nodes: mutual TLS.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Peer {
    /// Address and port.
    pub listen: SocketAddr,
    /// Host and port by which other nodes reach it; as `listen` if absent.
    #[serde(default)]
    pub address: Option<String>,
    /// PEM file with the authority that signed all nodes of the cluster.
    pub authority: PathBuf,
    /// PEM file with this node's certificate chain, signed by it.
    pub certificate: PathBuf,
    /// PEM file with its private key.
    pub key: PathBuf,
}

impl Peer {
    /// Host and port by which other nodes reach this one.
    pub fn reached_at(&self) -> String {
        self.address.clone().unwrap_or_else(|| self.listen.to_string())
    }
}

/// What the cluster begins as; not looked at afterwards.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Cluster {
    /// Founding members as `1=host:port, 2=host:port`; this node alone if absent.
    #[serde(deserialize_with = "members")]
    pub members: BTreeMap<u64, String>,
}

/// Reads `1=host:port, 2=host:port`.
fn members<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<u64, String>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let mut members = BTreeMap::new();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let member = part.split_once('=');
        let member =
            member.and_then(|(id, address)| Some((id.trim().parse().ok()?, address.trim())));
        let (id, address) =
            member.filter(|(id, address)| *id > 0 && address.contains(':')).ok_or_else(|| {
                D::Error::custom(format!("{part:?} is no member: write 1=host:port, 2=host:port"))
            })?;
        if members.insert(id, address.to_owned()).is_some() {
            return Err(D::Error::custom(format!("member {id} stands there twice")));
        }
    }
    Ok(members)
}

/// Timing of elections, and of the log's upkeep.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Raft {
    /// How often a leader shows that it leads.
    pub heartbeat_ms: u64,
    /// Shortest time without a leader before an election.
    pub election_min_ms: u64,
    /// Longest such time.
    pub election_max_ms: u64,
    /// Log bytes after which the state is made durable and the log cut.
    pub cut_bytes: u64,
    /// Time after which that is done all the same.
    pub cut_seconds: u64,
    /// Entries that a cut leaves.
    pub cut_keep_entries: u64,
    /// For how long a follower that went silent still holds cuts back.
    pub cut_hold_seconds: u64,
    /// How often the states of all nodes are compared.
    pub verify_seconds: u64,
}

/// How memories are searched.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Search {
    /// Memories that a search scores all of, rather than ask a graph.
    pub exact_max: usize,
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

/// What triggers send.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Webhooks {
    /// File with the key that seals their secrets, the same on all nodes.
    pub key: Option<PathBuf>,
    /// Networks that they may reach besides the public internet, as `10.1.0.0/16, ::1/128`.
    #[serde(deserialize_with = "listed")]
    pub allow: Vec<IpNet>,
    /// PEM file with authorities of receivers, besides those that the system trusts.
    pub authority: Option<PathBuf>,
    /// How long a receiver may take to answer.
    pub timeout_ms: u64,
    /// Pauses after each failed attempt, as `5, 300`; after the last one it is given up.
    #[serde(deserialize_with = "pauses")]
    pub retry_seconds: Vec<Duration>,
}

/// Reads a list with commas between its items; one number alone is one too.
fn listed<'de, D: Deserializer<'de>, T: FromStr>(deserializer: D) -> Result<Vec<T>, D::Error> {
    let text = match Value::deserialize(deserializer)? {
        Value::String(text) => text,
        other => other.to_string(),
    };
    let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
    let read =
        |item: &str| item.parse().map_err(|_| D::Error::custom(format!("{item:?} cannot be read")));
    items.map(read).collect()
}

/// Longest pause before a failed delivery is tried again.
const RETRY_MAX: Duration = Duration::from_secs(30 * 86_400);

fn pauses<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Duration>, D::Error> {
    let seconds: Vec<f64> = listed(deserializer)?;
    let pause = |seconds: f64| {
        Duration::try_from_secs_f64(seconds)
            .ok()
            .filter(|pause| *pause <= RETRY_MAX)
            .ok_or_else(|| D::Error::custom(format!("{seconds}: 0 to 30 days are possible")))
    };
    seconds.into_iter().map(pause).collect()
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
        Self {
            heartbeat_ms: 100,
            election_min_ms: 400,
            election_max_ms: 800,
            cut_bytes: 128 << 20,
            cut_seconds: 600,
            cut_keep_entries: 1_000,
            cut_hold_seconds: 300,
            verify_seconds: 86_400,
        }
    }
}

impl Default for Search {
    fn default() -> Self {
        Self { exact_max: storage::Options::default().exact_max }
    }
}

impl Default for Webhooks {
    fn default() -> Self {
        const HOUR: u64 = 3_600;
        let retries =
            [5, 300, 1_800, 2 * HOUR, 5 * HOUR, 10 * HOUR, 14 * HOUR, 20 * HOUR, 24 * HOUR];
        Self {
            key: None,
            allow: Vec::new(),
            authority: None,
            timeout_ms: 15_000,
            retry_seconds: retries.map(Duration::from_secs).into(),
        }
    }
}

impl Default for Log {
    fn default() -> Self {
        Self { filter: "info,openraft=error,ort=warn,hnsw_rs=warn".into(), format: LogFormat::Text }
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
            () if config.raft.verify_seconds == 0 => {
                Err("raft.verify_seconds must be 1 or more".into())
            }
            () if config.raft.heartbeat_ms.saturating_mul(3) > config.raft.election_min_ms => {
                Err("raft.election_min_ms must be three times raft.heartbeat_ms, or more".into())
            }
            () if config.peer.address.is_none() && config.peer.listen.ip().is_unspecified() => {
                Err("peer.address must say how other nodes reach peer.listen".into())
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
        assert_eq!(config.raft, Raft::default());
        assert_eq!(config.search, Search::default());
        assert_eq!(config.operator.listen, Operator::default().listen);
        assert_eq!(
            config.webhooks,
            Webhooks { key: config.webhooks.key.clone(), ..Webhooks::default() }
        );
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
            ("HEARTH__PEER__ADDRESS", "a.example:1"),
            ("HEARTH__NODE__TENANT", "\"2024\""),
            ("PATH", "/bin"),
        ])
        .unwrap();
        assert_eq!(config.node.id, 7);
        assert_eq!(config.public.listen.port(), 9);
        assert_eq!(config.log.format, LogFormat::Json);
        assert_eq!(config.peer.reached_at(), "a.example:1");
        assert_eq!(config.node.tenant, "2024");
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
        let one = with(&[("HEARTH__WEBHOOKS__RETRY_SECONDS", "7")]).unwrap().webhooks;
        assert_eq!(one.retry_seconds, [Duration::from_secs(7)]);
        assert!(with(&[("HEARTH__WEBHOOKS__ALLOW", "127.0.0.1/99")]).is_err());
        assert!(with(&[("HEARTH__WEBHOOKS__RETRY_SECONDS", "-1,2")]).is_err());
    }

    #[test]
    fn founding_members_are_a_list_of_ids_and_addresses() {
        let members = |text| with(&[("HEARTH__CLUSTER__MEMBERS", text)]).map(|c| c.cluster.members);
        let found = members("1=a:1, 3 = [::1]:9,").unwrap();
        assert_eq!(found, BTreeMap::from([(1, "a:1".into()), (3, "[::1]:9".into())]));
        for bad in ["1", "x=a:1", "0=a:1", "1=a", "1=a:1,1=b:1"] {
            assert!(members(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn unknown_keys_are_errors_wherever_they_come_from() {
        assert!(with(&[("HEARTH__NODE__IDD", "7")]).unwrap_err().contains("idd"));
        assert!(with(&[("HEARTH__NODES__ID", "7")]).unwrap_err().contains("nodes"));
        assert!(with(&[("HEARTH__NODE", "7")]).is_err());
        assert!(with(&[("HEARTH__NODE__ID", "0")]).unwrap_err().contains("node.id"));
        assert!(with(&[("HEARTH__RAFT__HEARTBEAT_MS", "134")]).unwrap_err().contains("election"));
        let misspelt = SAMPLE.replace("heartbeat_ms", "hartbeat_ms");
        assert!(Config::parse(&misspelt, std::iter::empty()).unwrap_err().contains("hartbeat_ms"));
    }
}
