//! TLS of the listeners and of calls to other nodes, from PEM files.

use std::path::Path;
use std::sync::Arc;

use raft::PeerTls;
use rustls::client::verify_server_name;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::{ParsedCertificate, WantsServerCert, WebPkiClientVerifier};
use rustls::{
    ClientConfig, ClientConnection, ConfigBuilder, RootCertStore, ServerConfig, ServerConnection,
};
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::config::{Peer, Public};
use crate::error::{cannot, text, unusable};

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

/// The Unix time at which the first certificate of a PEM file expires.
pub(crate) fn expires_at(path: &Path) -> Result<i64, String> {
    let mut first = i64::MAX;
    for certificate in certificates(path)? {
        let (_, parsed) = X509Certificate::from_der(&certificate).map_err(unusable(path))?;
        first = first.min(parsed.validity().not_after.timestamp());
    }
    Ok(first)
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

/// Checks the certificates as another node would: a handshake of this node with itself under the
/// name `host`, in both roles.
pub(crate) fn check_peer(config: &Peer, host: &str) -> Result<(), String> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(&config.authority)? {
        roots.add(certificate).map_err(text)?;
    }
    let key = PrivateKeyDer::from_pem_file(&config.key).map_err(unusable(&config.key))?;
    let client = ClientConfig::builder()
        .with_root_certificates(roots)
        .with_client_auth_cert(certificates(&config.certificate)?, key)
        .map_err(text)?;
    let name = ServerName::try_from(host.to_owned()).map_err(text)?;
    let mut client = ClientConnection::new(Arc::new(client), name).map_err(text)?;
    let mut server = ServerConnection::new(peer_server(config)?).map_err(text)?;
    while client.is_handshaking() || server.is_handshaking() {
        let (mut sent, mut answered) = (Vec::new(), Vec::new());
        client.write_tls(&mut sent).map_err(text)?;
        server.read_tls(&mut sent.as_slice()).map_err(text)?;
        server.process_new_packets().map_err(text)?;
        server.write_tls(&mut answered).map_err(text)?;
        client.read_tls(&mut answered.as_slice()).map_err(text)?;
        client.process_new_packets().map_err(text)?;
    }
    Ok(())
}

/// Whether the certificate names this host, valid or not.
pub(crate) fn names_host(config: &Peer, host: &str) -> Result<bool, String> {
    let chain = certificates(&config.certificate)?;
    let own = ParsedCertificate::try_from(&chain[0]).map_err(unusable(&config.certificate))?;
    let name = ServerName::try_from(host).map_err(text)?;
    Ok(verify_server_name(&own, &name).is_ok())
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
