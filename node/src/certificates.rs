//! Creates a certificate authority, certificates of nodes, and the cluster key, for
//! `hearth certs` and `hearth dev`.

use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use storage::file::{replace, replace_secret};

use crate::webhooks::new_cluster_key;

/// Why certificates cannot be created.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CertificateError {
    /// The key of the authority is missing or unreadable.
    #[error("cannot use {path}: {reason}")]
    AuthorityKey {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A certificate cannot be generated.
    #[error("cannot create certificates: {0}")]
    Generate(#[from] rcgen::Error),
    /// A file cannot be written.
    #[error("cannot write certificates: {0}")]
    Write(#[from] storage::Error),
}

/// A folder with an authority and the certificates that it signed. It contains the authority's
/// private key: only operators should have access to the folder.
pub(crate) struct Certificates {
    folder: PathBuf,
}

/// The files of one node.
pub(crate) struct NodeFiles {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

impl Certificates {
    /// Opens the authority in `folder`. Creates it, and the cluster key, if they are missing.
    pub(crate) fn in_folder(folder: &Path) -> Result<Self, CertificateError> {
        let certificates = Self { folder: folder.to_owned() };
        let has_authority = certificates.authority().exists();
        if has_authority && !certificates.authority_key().exists() {
            return Err(CertificateError::AuthorityKey {
                path: certificates.authority_key(),
                reason: "it is missing, but its ca.pem exists: bring it back".into(),
            });
        }
        if !has_authority {
            let key = KeyPair::generate()?;
            let authority = authority_params()?.self_signed(&key)?;
            // The certificate is last: its existence implies that of the key.
            replace_secret(&certificates.authority_key(), key.serialize_pem().as_bytes())?;
            replace(&certificates.authority(), authority.pem().as_bytes())?;
        }
        if !certificates.cluster_key().exists() {
            replace_secret(&certificates.cluster_key(), new_cluster_key().as_bytes())?;
        }
        Ok(certificates)
    }

    /// The key that seals webhook secrets, the same on all nodes.
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
        // The key is written last: its existence implies that of the certificate.
        self.files(node).key.exists()
    }

    /// The certificate of a node for `hosts` (names and addresses), for clients and for other
    /// nodes. Creates it if it is missing.
    pub(crate) fn of_node(
        &self,
        node: u64,
        hosts: &[String],
    ) -> Result<NodeFiles, CertificateError> {
        let files = self.files(node);
        if self.has(node) {
            return Ok(files);
        }
        let path = self.authority_key();
        let authority_key = std::fs::read_to_string(&path)
            .map_err(|error| CertificateError::AuthorityKey { path, reason: error.to_string() })?;
        let issuer = Issuer::new(authority_params()?, KeyPair::from_pem(&authority_key)?);
        let mut params = CertificateParams::new(hosts)?;
        params.distinguished_name.push(DnType::CommonName, format!("hearth node {node}"));
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &issuer)?;
        replace(&files.certificate, certificate.pem().as_bytes())?;
        replace_secret(&files.key, key.serialize_pem().as_bytes())?;
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
