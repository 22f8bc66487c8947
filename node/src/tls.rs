//! TLS of the listeners and of calls to other nodes, from PEM files.

use std::path::Path;
use std::sync::Arc;

use raft::PeerTls;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{WantsServerCert, WebPkiClientVerifier};
use rustls::{ConfigBuilder, RootCertStore, ServerConfig};

use crate::config::{Peer, Public};
use crate::error::{cannot, unusable};

/// Installs `ring` as the cryptography provider of rustls in this process.
pub(crate) fn install_provider() {
    // An error means that a provider is already installed.
    drop(rustls::crypto::ring::default_provider().install_default());
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let certificates = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(unusable(path))?;
    match certificates.is_empty() {
        true => Err(unusable(path)("it contains no certificate")),
        false => Ok(certificates),
    }
}

/// For clients: HTTP/2 and HTTP/1.1.
pub(crate) fn public_server(config: &Public) -> Result<Arc<ServerConfig>, String> {
    let builder = ServerConfig::builder().with_no_client_auth();
    server(builder, &config.certificate, &config.key, &[b"h2", b"http/1.1"])
}

/// For other nodes: HTTP/1.1, which they upgrade, with a certificate of the cluster's authority.
pub(crate) fn peer_server(config: &Peer) -> Result<Arc<ServerConfig>, String> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(&config.authority)? {
        roots.add(certificate).map_err(cannot("set up TLS"))?;
    }
    let verifier = WebPkiClientVerifier::builder(Arc::new(roots))
        .build()
        .map_err(unusable(&config.authority))?;
    let builder = ServerConfig::builder().with_client_cert_verifier(verifier);
    server(builder, &config.certificate, &config.key, &[b"http/1.1"])
}

fn server(
    builder: ConfigBuilder<ServerConfig, WantsServerCert>,
    certificate: &Path,
    key: &Path,
    protocols: &[&[u8]],
) -> Result<Arc<ServerConfig>, String> {
    let chain = certificates(certificate)?;
    let key = PrivateKeyDer::from_pem_file(key).map_err(unusable(key))?;
    let mut tls = builder.with_single_cert(chain, key).map_err(cannot("set up TLS"))?;
    tls.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    Ok(Arc::new(tls))
}

/// For calls to other nodes.
pub(crate) fn peer_client(config: &Peer) -> Result<PeerTls, String> {
    let read = |path: &Path| std::fs::read(path).map_err(unusable(path));
    Ok(PeerTls {
        authority: read(&config.authority)?,
        certificate: read(&config.certificate)?,
        key: read(&config.key)?,
    })
}
