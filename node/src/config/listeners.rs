//! Sections `public`, `operator` and `peer`: addresses and certificates of the three listeners.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::Deserialize;

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

/// The operator's listener: plain HTTP, without authentication.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Operator {
    /// Address and port, on loopback or in a network of operators only.
    pub listen: SocketAddr,
}

impl Default for Operator {
    fn default() -> Self {
        Self { listen: SocketAddr::from(([127, 0, 0, 1], 4281)) }
    }
}

/// The listener for other nodes: mutual TLS.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Peer {
    /// Address and port.
    pub listen: SocketAddr,
    /// Host and port for other nodes; `listen` if absent.
    #[serde(default)]
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
        self.address.clone().unwrap_or_else(|| self.listen.to_string())
    }

    pub(super) fn validate(&self) -> Result<(), String> {
        if self.address.is_none() && self.listen.ip().is_unspecified() {
            return Err("peer.address is required: peer.listen names no address that other nodes \
                        can connect to"
                .into());
        }
        Ok(())
    }
}
