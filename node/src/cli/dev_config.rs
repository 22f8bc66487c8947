//! Writes the configuration file of a node of a development cluster.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::certificates::{Certificates, NodeFiles};
use crate::cli::dev_ports::Ports;

/// Name of a node's configuration file, in its data folder.
pub(crate) const CONFIG_FILE: &str = "hearth.toml";
/// Networks that webhooks of a development cluster may reach.
const LOOPBACK_NETWORKS: &str = "127.0.0.0/8, ::1/128";

/// The content of the file. It sets the keys that have no default or differ from it.
#[derive(Serialize)]
struct File<'a> {
    node: NodeSection<'a>,
    public: PublicSection<'a>,
    operator: OperatorSection,
    peer: PeerSection<'a>,
    cluster: ClusterSection<'a>,
    webhooks: WebhooksSection<'a>,
    embedder: EmbedderSection<'a>,
}

#[derive(Serialize)]
struct NodeSection<'a> {
    id: u64,
    data: &'a Path,
}

#[derive(Serialize)]
struct PublicSection<'a> {
    listen: SocketAddr,
    certificate: &'a Path,
    key: &'a Path,
}

#[derive(Serialize)]
struct OperatorSection {
    listen: SocketAddr,
}

#[derive(Serialize)]
struct PeerSection<'a> {
    listen: SocketAddr,
    authority: PathBuf,
    certificate: &'a Path,
    key: &'a Path,
}

#[derive(Serialize)]
struct ClusterSection<'a> {
    members: &'a str,
}

#[derive(Serialize)]
struct WebhooksSection<'a> {
    key: PathBuf,
    allow: &'a str,
}

#[derive(Serialize)]
struct EmbedderSection<'a> {
    kind: &'a str,
    model: PathBuf,
    library: PathBuf,
}

/// What the configuration of a node depends on, besides the cluster.
pub(crate) struct NodeConfig<'a> {
    id: u64,
    data: &'a Path,
    ports: Ports,
    certificates: &'a Certificates,
    files: &'a NodeFiles,
}

impl<'a> NodeConfig<'a> {
    pub(crate) fn new(
        id: u64,
        data: &'a Path,
        ports: Ports,
        certificates: &'a Certificates,
        files: &'a NodeFiles,
    ) -> Self {
        Self { id, data, ports, certificates, files }
    }

    /// Writes the file into the data folder. `members` are all nodes, as in key
    /// `cluster.members`.
    pub(crate) fn write(&self, members: &str, embedder: &str) -> Result<(), String> {
        let (model, library) = cached_model()?;
        let listen = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
        let (certificate, key) = (&*self.files.certificate, &*self.files.key);
        let file = File {
            node: NodeSection { id: self.id, data: self.data },
            public: PublicSection { listen: listen(self.ports.public), certificate, key },
            operator: OperatorSection { listen: listen(self.ports.operator) },
            peer: PeerSection {
                listen: listen(self.ports.peer),
                authority: self.certificates.authority(),
                certificate,
                key,
            },
            cluster: ClusterSection { members },
            webhooks: WebhooksSection {
                key: self.certificates.cluster_key(),
                allow: LOOPBACK_NETWORKS,
            },
            embedder: EmbedderSection { kind: embedder, model, library },
        };
        let path = self.data.join(CONFIG_FILE);
        let text = toml::to_string(&file).map_err(|error| error.to_string())?;
        let text = format!(
            "# Written by `hearth dev`. Start this node again with:\n\
             #   hearth serve --config {}\n{text}",
            path.display()
        );
        storage::file::replace(&path, text.as_bytes()).map_err(|error| error.to_string())
    }
}

/// Where `make setup` stores the model and ONNX Runtime.
fn cached_model() -> Result<(PathBuf, PathBuf), String> {
    let folder = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let cache = folder("HEARTH_CACHE")
        .or_else(|| folder("XDG_CACHE_HOME").map(|cache| cache.join("hearth")))
        .or_else(|| folder("HOME").map(|home| home.join(".cache/hearth")))
        .ok_or("no cache folder: set HEARTH_CACHE")?;
    let library = cache.join("onnxruntime/libonnxruntime.so.1.31.1");
    Ok((cache.join("models/all-MiniLM-L6-v2"), library))
}
