//! Certificates: loading those of a listener, and making those of a development
//! cluster. Production brings its own.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

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
    /// Development certificates could not be made.
    #[error("cannot make development certificates: {0}")]
    Make(#[from] rcgen::Error),
    /// They could not be written.
    #[error("cannot write development certificates: {0}")]
    Write(#[from] std::io::Error),
}

/// Makes `ring` the one provider of cryptography of this process.
pub(crate) fn install_provider() {
    // An error means that it is installed already.
    drop(rustls::crypto::ring::default_provider().install_default());
}

/// The server side of a listener that speaks HTTP/2 and HTTP/1.1.
pub(crate) fn server(certificate: &Path, key: &Path) -> Result<Arc<ServerConfig>, TlsError> {
    let pem = |path: &Path, reason: &dyn std::fmt::Display| TlsError::Pem {
        path: path.to_owned(),
        reason: reason.to_string(),
    };
    let chain = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| pem(certificate, &error))?;
    let key = PrivateKeyDer::from_pem_file(key).map_err(|error| pem(key, &error))?;
    let mut config = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// Files of a development cluster's certificates.
pub(crate) struct Development {
    pub(crate) ca: PathBuf,
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

impl Development {
    /// Certificates for loopback in `folder`, made there if there are none.
    pub(crate) fn in_folder(folder: &Path) -> Result<Self, TlsError> {
        let files = Self {
            ca: folder.join("ca.pem"),
            certificate: folder.join("node.pem"),
            key: folder.join("node.key"),
        };
        if !(files.ca.exists() && files.certificate.exists() && files.key.exists()) {
            files.make()?;
        }
        Ok(files)
    }

    /// The authority signs one certificate and its key is forgotten.
    fn make(&self) -> Result<(), TlsError> {
        let mut params = CertificateParams::new(Vec::<String>::new())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "Hearth development CA");
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate()?;
        let ca = params.self_signed(&key)?;
        let issuer = Issuer::new(params, key);

        let names = ["localhost", "127.0.0.1", "::1"].map(String::from);
        let mut params = CertificateParams::new(names.to_vec())?;
        params.distinguished_name.push(DnType::CommonName, "hearth");
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let node_key = KeyPair::generate()?;
        let node = params.signed_by(&node_key, &issuer)?;

        std::fs::write(&self.ca, ca.pem())?;
        std::fs::write(&self.certificate, node.pem())?;
        crate::form::write_secret(&self.key, &node_key.serialize_pem())?;
        Ok(())
    }
}
