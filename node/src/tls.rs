//! TLS of the listeners and of calls to other nodes, from PEM files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use raft::PeerTls;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};

use crate::config::{Config, Peer, Public};

/// Why TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A PEM file is missing or invalid.
    #[error("cannot use {path}: {reason}")]
    Pem {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The library rejects the certificate or the key, or they do not match.
    #[error("cannot set up TLS: {0}")]
    Setup(#[from] rustls::Error),
}

/// Installs `ring` as the cryptography provider of rustls in this process.
pub(crate) fn install_provider() {
    // An error means that a provider is already installed.
    drop(rustls::crypto::ring::default_provider().install_default());
}

/// TLS settings of all connections of a node.
pub(crate) struct Tls {
    /// For clients: HTTP/2 and HTTP/1.1.
    pub(crate) public_server: Arc<ServerConfig>,
    /// For other nodes: HTTP/2, with a certificate of the cluster's authority.
    pub(crate) peer_server: Arc<ServerConfig>,
    /// To other nodes.
    pub(crate) peer_client: PeerTls,
}

impl Tls {
    /// Reads the PEM files of `config`.
    pub(crate) fn load(config: &Config) -> Result<Self, TlsError> {
        Ok(Self {
            public_server: public_server(&config.public)?,
            peer_server: peer_server(&config.peer)?,
            peer_client: peer_client(&config.peer)?,
        })
    }
}

fn pem_error(path: &Path, reason: &dyn std::fmt::Display) -> TlsError {
    TlsError::Pem { path: path.to_owned(), reason: reason.to_string() }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let certificates = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| pem_error(path, &error))?;
    match certificates.is_empty() {
        true => Err(pem_error(path, &"it contains no certificate")),
        false => Ok(certificates),
    }
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_file(path).map_err(|error| pem_error(path, &error))
}

fn public_server(config: &Public) -> Result<Arc<ServerConfig>, TlsError> {
    let (chain, key) = (certificates(&config.certificate)?, private_key(&config.key)?);
    let mut tls = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key)?;
    tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(tls))
}

fn peer_server(config: &Peer) -> Result<Arc<ServerConfig>, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(&config.authority)? {
        roots.add(certificate)?;
    }
    let verifier = WebPkiClientVerifier::builder(Arc::new(roots))
        .build()
        .map_err(|error| pem_error(&config.authority, &error))?;
    let (chain, key) = (certificates(&config.certificate)?, private_key(&config.key)?);
    let builder = ServerConfig::builder().with_client_cert_verifier(verifier);
    let mut tls = builder.with_single_cert(chain, key)?;
    tls.alpn_protocols = vec![b"h2".to_vec()];
    Ok(Arc::new(tls))
}

fn peer_client(config: &Peer) -> Result<PeerTls, TlsError> {
    let read = |path: &Path| std::fs::read(path).map_err(|error| pem_error(path, &error));
    Ok(PeerTls {
        authority: read(&config.authority)?,
        certificate: read(&config.certificate)?,
        key: read(&config.key)?,
    })
}
