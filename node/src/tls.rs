//! Certificates: loading those of the listeners, and making an authority with its
//! nodes' certificates for `hearth certs` and `hearth dev`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use raft::PeerTls;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};

use crate::bootstrap::write_secret;
use crate::config;
use crate::webhooks::new_key;

/// Why there is no TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A PEM file is missing or not what it should be.
    #[error("cannot use {path}: {reason}")]
    Pem {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// Certificate and key do not fit, or the library refuses them.
    #[error("cannot set up TLS: {0}")]
    Setup(#[from] rustls::Error),
    /// Certificates could not be made.
    #[error("cannot make certificates: {0}")]
    Make(#[from] rcgen::Error),
    /// They could not be read or written.
    #[error("cannot read or write certificates: {0}")]
    Write(#[from] std::io::Error),
}

/// Makes `ring` the one provider of cryptography of this process.
pub(crate) fn install_provider() {
    // An error means that it is installed already.
    drop(rustls::crypto::ring::default_provider().install_default());
}

fn pem_error(path: &Path, reason: &dyn std::fmt::Display) -> TlsError {
    TlsError::Pem { path: path.to_owned(), reason: reason.to_string() }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let certificates = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| pem_error(path, &error))?;
    match certificates.is_empty() {
        true => Err(pem_error(path, &"it holds no certificate")),
        false => Ok(certificates),
    }
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_file(path).map_err(|error| pem_error(path, &error))
}

/// The server side of the public listener: HTTP/2 and HTTP/1.1.
pub(crate) fn server(config: &config::Public) -> Result<Arc<ServerConfig>, TlsError> {
    let (chain, key) = (certificates(&config.certificate)?, private_key(&config.key)?);
    let mut tls = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key)?;
    tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(tls))
}

/// The server side of the peer listener: HTTP/2, for callers that show a
/// certificate of the cluster's authority.
pub(crate) fn peer_server(config: &config::Peer) -> Result<Arc<ServerConfig>, TlsError> {
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

/// What this node shows when it calls its peers.
pub(crate) fn peer_client(config: &config::Peer) -> Result<PeerTls, TlsError> {
    let read = |path: &Path| std::fs::read(path).map_err(|error| pem_error(path, &error));
    Ok(PeerTls {
        authority: read(&config.authority)?,
        certificate: read(&config.certificate)?,
        key: read(&config.key)?,
    })
}

/// A folder with an authority and the certificates that it signed. The authority's
/// key lies there too: keep the folder where only operators reach it.
pub(crate) struct Certificates {
    folder: PathBuf,
}

/// One node's files.
pub(crate) struct NodeFiles {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

impl Certificates {
    /// The authority in `folder`, made there if there is none.
    pub(crate) fn in_folder(folder: &Path) -> Result<Self, TlsError> {
        let certificates = Self { folder: folder.to_owned() };
        if certificates.authority().exists() && !certificates.authority_key().exists() {
            let path = certificates.authority_key();
            return Err(pem_error(&path, &"it is not there, but its ca.pem is: bring it back"));
        }
        if !certificates.authority().exists() {
            let key = KeyPair::generate()?;
            let authority = authority_params()?.self_signed(&key)?;
            // The certificate last: it says that both are there.
            write_secret(&certificates.authority_key(), &key.serialize_pem())?;
            std::fs::write(certificates.authority(), authority.pem())?;
        }
        if !certificates.cluster_key().exists() {
            write_secret(&certificates.cluster_key(), &new_key())?;
        }
        Ok(certificates)
    }

    /// The key that seals secrets in the state: all nodes have the same.
    pub(crate) fn cluster_key(&self) -> PathBuf {
        self.folder.join("cluster.key")
    }

    pub(crate) fn authority(&self) -> PathBuf {
        self.folder.join("ca.pem")
    }

    fn authority_key(&self) -> PathBuf {
        self.folder.join("ca.key")
    }

    fn files(&self, node: u64) -> NodeFiles {
        let (certificate, key) = (format!("node-{node}.pem"), format!("node-{node}.key"));
        NodeFiles { certificate: self.folder.join(certificate), key: self.folder.join(key) }
    }

    /// Whether a node has a certificate.
    pub(crate) fn has(&self, node: u64) -> bool {
        // Written last: it says that both files are there.
        self.files(node).key.exists()
    }

    /// A node's certificate for `hosts` (names and addresses), for agents and for
    /// peers, made if there is none.
    pub(crate) fn of_node(&self, node: u64, hosts: &[String]) -> Result<NodeFiles, TlsError> {
        let files = self.files(node);
        if self.has(node) {
            return Ok(files);
        }
        let authority_key = KeyPair::from_pem(&std::fs::read_to_string(self.authority_key())?)?;
        let issuer = Issuer::new(authority_params()?, authority_key);
        let mut params = CertificateParams::new(hosts)?;
        params.distinguished_name.push(DnType::CommonName, format!("hearth node {node}"));
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &issuer)?;
        std::fs::write(&files.certificate, certificate.pem())?;
        write_secret(&files.key, &key.serialize_pem())?;
        Ok(files)
    }
}

fn authority_params() -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(Vec::<String>::new())?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, "Hearth cluster CA");
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    Ok(params)
}
