//! The sections of the configuration, and the defaults of their keys. `deploy/hearth.toml`
//! documents the keys.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::num::{NonZeroU32, NonZeroU64};
use std::path::PathBuf;
use std::time::Duration;

use api::McpProfile;
use ipnet::IpNet;
use serde::Deserialize;

use crate::config::source::{list, members, node_id, pauses};
use crate::program::installed;

/// The other keys.
pub(super) const WITHOUT_DEFAULT: [&str; 25] = [
    "node.id",
    "node.data",
    "node.tenant",
    "public.listen",
    "public.certificate",
    "public.key",
    "operator.health_listen",
    "operator.key_file",
    "peer.listen",
    "peer.address",
    "peer.authority",
    "peer.certificate",
    "peer.key",
    "memory.max_bytes",
    "disk.reserve_bytes",
    "backup.url",
    "embedder.kind",
    "embedder.model",
    "embedder.library",
    "embedder.threads",
    "embedder.change_per_second",
    "reranker.key_file",
    "extractor.key_file",
    "webhooks.key",
    "webhooks.authority",
];

/// The optional sections, with all keys that have a default.
pub(super) const DEFAULTS: &str = r#"
[public]
plain_http = false
drain_seconds = 0
origins = ""
proxies = ""
[mcp]
profile = "memories"
tools = ""
[operator]
listen = "127.0.0.1:4281"
hosts = ""
[cluster]
members = ""
[raft]
heartbeat_ms = 400
election_min_ms = 1200
election_max_ms = 1800
verify_seconds = 86400
[log_compaction]
log_bytes = 134217728
interval_seconds = 600
keep_entries = 1000
follower_timeout_seconds = 300
[search]
exact_max = 50000
[memory]
[disk]
[backup]
interval_hours = 24
keep = 7
log_seconds = 5
[embedder]
[reranker]
url = ""
model = ""
timeout_ms = 300
[extractor]
url = ""
model = ""
timeout_ms = 30000
[webhooks]
allow = ""
timeout_ms = 15000
retry_seconds = "5, 300, 1800, 7200, 18000, 36000, 50400, 72000, 86400"
[log]
filter = "info,openraft=error,openraft::raft::raft_inner=off,ort=warn,rmcp=error"
format = "text"
slow_ms = 1000
one_of = 100
[tracing]
url = ""
one_of = 100
"#;

/// The identity of this node.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// Id: 1 or more, unique in the cluster, never reused; or [`AUTO`](crate::config::AUTO).
    #[serde(deserialize_with = "node_id")]
    pub id: u64,
    /// The data folder of this node.
    pub data: PathBuf,
    /// Name of the first tenant of a new cluster.
    #[serde(default = "default_tenant")]
    pub tenant: String,
}

pub(super) fn default_tenant() -> String {
    "default".into()
}

/// The initial members of the cluster. A bootstrap creates the cluster of them, and each node
/// reserves handshakes for their hosts.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cluster {
    /// Peer address (host and port) per node id, as `1=host:port, 2=host:port`. Empty: this node
    /// alone.
    #[serde(deserialize_with = "members")]
    pub members: BTreeMap<u64, String>,
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
    /// Serves HTTP without TLS, on loopback only, in place of HTTPS.
    pub plain_http: bool,
    /// Origins whose web pages may use the interface, as `https://a.example, https://b.example`.
    #[serde(deserialize_with = "list")]
    pub origins: Vec<String>,
    /// Seconds that a node which stops waits for balancers, after it is no longer ready.
    pub drain_seconds: u64,
    /// Networks of balancers that send the addresses of their clients by the PROXY protocol.
    #[serde(deserialize_with = "list")]
    pub proxies: Vec<IpNet>,
}

/// The endpoint of the Model Context Protocol.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mcp {
    /// `memories`, or `knowledge-graph`.
    pub profile: McpProfile,
    /// Names of the tools that it offers, with commas between them; empty is all.
    #[serde(deserialize_with = "list")]
    pub tools: Vec<String>,
}

/// The operator's listener: plain HTTP. Health and metrics require no key.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Operator {
    /// Address and port, on loopback or in a network of operators only.
    pub listen: SocketAddr,
    /// Address and port for health and metrics alone.
    pub health_listen: Option<SocketAddr>,
    /// File with the operator key, the same on all nodes. Without it, operations on the cluster
    /// are refused.
    pub key_file: Option<PathBuf>,
    /// Names with a dot that requests may use for this node, as `a.example, b.example`.
    #[serde(deserialize_with = "list")]
    pub hosts: Vec<String>,
}

/// The listener for other nodes: mutual TLS.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Peer {
    /// Address and port.
    pub listen: SocketAddr,
    /// Host and port for other nodes. If absent, `listen`, with the name of this machine in place of an
    /// unspecified address.
    pub address: Option<String>,
    /// PEM file with the authority that signed the certificates of all nodes.
    pub authority: PathBuf,
    /// PEM file with the certificate chain of this node.
    pub certificate: PathBuf,
    /// PEM file with its private key.
    pub key: PathBuf,
}

impl Peer {
    /// Host and port that other nodes connect to.
    pub fn advertised_address(&self) -> String {
        let machine = || rustix::system::uname().nodename().to_string_lossy().into_owned();
        let listen = || match self.listen.ip().is_unspecified() {
            true => format!("{}:{}", machine(), self.listen.port()),
            false => self.listen.to_string(),
        };
        self.address.clone().unwrap_or_else(listen)
    }

    /// The host alone: a name, or an address without brackets.
    pub fn advertised_host(&self) -> String {
        let address = self.advertised_address();
        let host = address.rsplit_once(':').map_or(address.as_str(), |(host, _)| host);
        host.trim_matches(['[', ']']).to_owned()
    }
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Raft {
    /// Interval of the leader's heartbeats.
    pub heartbeat_ms: u64,
    /// Shortest time without a leader before an election.
    pub election_min_ms: u64,
    /// Longest time without a leader before an election.
    pub election_max_ms: u64,
    /// Interval at which the states of all nodes are compared.
    pub verify_seconds: u64,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogCompaction {
    /// Growth of the log, in bytes, that triggers compaction.
    pub log_bytes: u64,
    /// Time since the last compaction that triggers one regardless of growth.
    pub interval_seconds: u64,
    /// Entries that compaction keeps.
    pub keep_entries: u64,
    /// Silence after which a follower no longer delays compaction.
    pub follower_timeout_seconds: u64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EmbedderKind {
    /// The model of a folder, as its manifest says.
    #[default]
    Model,
    /// Hashed words, without meaning. For tests only.
    Hashing,
}

/// The embedding model.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Embedder {
    #[serde(default)]
    pub kind: EmbedderKind,
    /// Folder with `manifest.json`, and what it names. Empty if absent and none is installed.
    #[serde(default = "installed_model")]
    pub model: PathBuf,
    /// The ONNX Runtime library. Empty if absent and none is installed.
    #[serde(default = "installed_library")]
    pub library: PathBuf,
    /// Threads of the embedder. Each has a session of about 215 MB.
    #[serde(default = "default_threads")]
    pub threads: usize,
    /// Memories per second that a change of the model embeds at most. If absent, as many as it can.
    pub change_per_second: Option<NonZeroU32>,
}

/// An endpoint with a model that reads texts: a reranker, or an extractor.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelEndpoint {
    /// URL of its requests. Empty: there is none.
    pub url: String,
    /// Name of its model.
    pub model: String,
    /// File with the key that it expects as a bearer token.
    pub key_file: Option<PathBuf>,
    /// Time limit of a request.
    pub timeout_ms: NonZeroU64,
}

fn installed_model() -> PathBuf {
    installed().map(|it| it.model).unwrap_or_default()
}

fn installed_library() -> PathBuf {
    installed().map(|it| it.library).unwrap_or_default()
}

pub(super) fn default_threads() -> usize {
    2
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Search {
    /// Candidates up to which a search scores all of them. Larger searches use the HNSW graph.
    pub exact_max: usize,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Memory {
    /// Resident memory in bytes above which new work is rejected. If absent, 80 % of the memory
    /// of the control group or the machine.
    pub max_bytes: Option<u64>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Disk {
    /// Free space in bytes below which a disk counts as full. If absent, 5 % of the file system, and
    /// 1 GiB at most. 0 turns it off.
    pub reserve_bytes: Option<u64>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Backup {
    /// Where scheduled backups go: a folder or a URL. Without it, or if it is empty, there are none.
    pub url: Option<String>,
    /// Hours between two backups.
    pub interval_hours: u32,
    /// Backups that stay; with 0, none is removed.
    pub keep: usize,
    /// Seconds between two segments of the log that go to the same place; with 0, none do.
    pub log_seconds: u32,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Webhooks {
    /// File with the key that seals secrets, the same on all nodes.
    pub key: Option<PathBuf>,
    /// Allowed networks besides the public internet, as `10.1.0.0/16, ::1/128`.
    #[serde(deserialize_with = "list")]
    pub allow: Vec<IpNet>,
    /// PEM file with certificate authorities of receivers, besides those of the system.
    pub authority: Option<PathBuf>,
    /// Time limit of one request.
    pub timeout_ms: u64,
    /// Pauses after failed attempts, as `5, 300`. The number of pauses bounds the retries.
    #[serde(deserialize_with = "pauses")]
    pub retry_seconds: Vec<Duration>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Log {
    /// Levels per module, as `info,raft=debug`.
    pub filter: String,
    pub format: LogFormat,
    /// Milliseconds after which a request is slow, and has a line.
    pub slow_ms: u64,
    /// One of so many other requests has a line; with 0, none does.
    pub one_of: u64,
}

/// Traces of requests.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tracing {
    /// Where the collector is, as `http://collector:4318`. Empty: no request is traced.
    pub url: String,
    /// One of so many requests is traced; with 0, only those whose clients trace them.
    pub one_of: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// For people.
    Text,
    /// JSON, for log collectors.
    Json,
}
