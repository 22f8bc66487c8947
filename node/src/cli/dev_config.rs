//! The configuration file and the ports of a node of a development cluster.

use std::net::TcpListener;
use std::ops::Range;
use std::path::{Path, PathBuf};

use api::random_bytes;
use serde_json::json;

use crate::certificates::Certificates;
use crate::config::Config;
use crate::error::text;

/// Name of a node's configuration file, in its data folder.
pub(crate) const CONFIG_FILE: &str = "hearth.toml";
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "::1"];
/// Range of free ports. It excludes the range from which the system assigns ports to outgoing
/// connections, which could take a port before its node binds it.
const FREE_PORTS: Range<u16> = 10_240..32_768;
const FREE_TRIES: usize = 100;
const PORTS_PER_NODE: u16 = 3;
/// Reserve of disk space of a node: several share a disk, which is that of a laptop.
const RESERVE_BYTES: u64 = 64 << 20;

/// What the nodes of a development cluster have in common.
#[derive(Debug, Clone)]
pub(crate) struct NodeOptions {
    /// `model` or `hashing`.
    pub(crate) embedder: String,
    /// Whether clients use HTTP in place of HTTPS.
    pub(crate) plain_http: bool,
}

impl NodeOptions {
    /// The options of real use: the embedding model, and HTTPS.
    pub(crate) fn real() -> Self {
        Self { embedder: "model".into(), plain_http: false }
    }
}

/// The ports of a node on loopback.
#[derive(Clone, Copy)]
pub(crate) struct Ports {
    pub(crate) public: u16,
    pub(crate) operator: u16,
    pub(crate) peer: u16,
}

/// Chooses the ports of each node. A node whose configuration exists keeps its ports. A new node
/// gets ports from `base` on, or free ones if `base` is 0.
pub(crate) fn choose_ports(base: u16, configs: &[PathBuf]) -> Result<Vec<Ports>, String> {
    let mut free = FreePorts::default();
    let mut ports = Vec::new();
    for (at, config) in (0..).zip(configs) {
        let first = base + PORTS_PER_NODE * at;
        ports.push(if config.exists() {
            let config = Config::load(config, std::iter::empty())?;
            let (public, operator) = (config.public.listen.port(), config.operator.listen.port());
            // The ports are part of the addresses that other nodes have stored.
            if base != 0 && public != first {
                return Err("these nodes have other ports: keep them with --base-port 0".into());
            }
            Ports { public, operator, peer: config.peer.listen.port() }
        } else if base != 0 {
            Ports { public: first, operator: first + 1, peer: first + 2 }
        } else {
            Ports { public: free.next()?, operator: free.next()?, peer: free.next()? }
        });
    }
    Ok(ports)
}

/// Finds free ports. All stay bound until the last is found, so that they differ.
#[derive(Default)]
struct FreePorts(Vec<TcpListener>);

impl FreePorts {
    fn next(&mut self) -> Result<u16, String> {
        for _ in 0..FREE_TRIES {
            let random = usize::from(u16::from_be_bytes(random_bytes()));
            let port = FREE_PORTS.start + (random % FREE_PORTS.len()) as u16;
            if let Ok(listener) = TcpListener::bind(("127.0.0.1", port)) {
                self.0.push(listener);
                return Ok(port);
            }
        }
        Err("no free port found".to_owned())
    }
}

/// Writes the configuration file of a node into its data folder, with the keys that have no
/// default or differ from it. `members` are all nodes, as in key `cluster.members`.
pub(crate) fn write_config(
    id: u64,
    data: &Path,
    ports: Ports,
    certificates: &Certificates,
    members: &str,
    options: &NodeOptions,
) -> Result<(), String> {
    let file = |path: &Path| {
        path.to_str().map(String::from).ok_or("path contains invalid UTF-8 characters")
    };
    let listen = |port: u16| format!("127.0.0.1:{port}");
    let files = certificates.of_node(id, &LOOPBACK.map(String::from))?;
    let (certificate, key) = (file(&files.certificate)?, file(&files.key)?);
    let mut public =
        json!({ "listen": listen(ports.public), "certificate": certificate, "key": key });
    if options.plain_http {
        // Older versions do not know this key.
        public["plain_http"] = true.into();
    }
    let config = json!({
        "node": { "id": id, "data": file(data)? },
        "public": public,
        "operator": {
            "listen": listen(ports.operator),
            "key_file": file(&certificates.operator_key())?,
        },
        "peer": {
            "listen": listen(ports.peer),
            "authority": file(&certificates.authority())?,
            "certificate": certificate,
            "key": key,
        },
        "cluster": { "members": members },
        "disk": { "reserve_bytes": RESERVE_BYTES },
        "webhooks": {
            "key": file(&certificates.cluster_key())?,
            "allow": "127.0.0.0/8, ::1/128",
        },
        "embedder": { "kind": options.embedder },
    });
    let path = data.join(CONFIG_FILE);
    let config = format!(
        "# Written by `hearth dev`. Start this node again with:\n\
         #   hearth serve --config {}\n{}",
        path.display(),
        toml::to_string(&config).map_err(text)?
    );
    storage::file::replace(&path, config.as_bytes()).map_err(text)
}
