//! Creates a certificate authority, certificates of nodes, the cluster key and the operator key,
//! for `hearth certs` and `hearth dev`.

use std::path::{Path, PathBuf};

use jiff::{SignedDuration, Timestamp, tz::TimeZone};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};
use storage::file::{replace, replace_secret};

use crate::error::{cannot, unusable};
use crate::operator_key::new_operator_key;
use crate::webhooks::new_cluster_key;

/// Default validity of a node's certificate in days: the most that browsers accept.
pub(crate) const NODE_DAYS: u32 = 397;
/// Validity of an authority in days.
const AUTHORITY_DAYS: u32 = 3_652;

/// A folder with an authority and the certificates that it signed. It contains the authority's
/// private key: only operators should have access to the folder.
pub(crate) struct Certificates {
    folder: PathBuf,
}

pub(crate) struct NodeFiles {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

impl Certificates {
    /// Opens the authority in `folder`. Creates it, and the keys of the cluster, if they are
    /// missing.
    pub(crate) fn in_folder(folder: &Path) -> Result<Self, String> {
        let certificates = Self { folder: folder.to_owned() };
        let write_error = cannot("write certificates");
        let has_authority = certificates.authority().exists();
        if has_authority && !certificates.authority_key().exists() {
            let reason = "it is missing, but its ca.pem exists: copy it back into this folder";
            return Err(unusable(&certificates.authority_key())(reason));
        }
        if !has_authority {
            let (authority, key) = new_authority().map_err(cannot("create certificates"))?;
            // The certificate is last: its existence implies that of the key.
            replace_secret(&certificates.authority_key(), key.as_bytes()).map_err(&write_error)?;
            replace(&certificates.authority(), authority.as_bytes()).map_err(&write_error)?;
        }
        for (path, new_key) in [
            (certificates.cluster_key(), new_cluster_key as fn() -> String),
            (certificates.operator_key(), new_operator_key),
        ] {
            if !path.exists() {
                replace_secret(&path, new_key().as_bytes()).map_err(&write_error)?;
            }
        }
        Ok(certificates)
    }

    /// The key that seals webhook secrets, the same on all nodes.
    pub(crate) fn cluster_key(&self) -> PathBuf {
        self.folder.join("cluster.key")
    }

    /// The key of operators, the same on all nodes.
    pub(crate) fn operator_key(&self) -> PathBuf {
        self.folder.join("operator.key")
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
    pub(crate) fn of_node(&self, node: u64, hosts: &[String]) -> Result<NodeFiles, String> {
        if self.has(node) { Ok(self.files(node)) } else { self.renew(node, hosts, NODE_DAYS) }
    }

    /// Creates or replaces the certificate of a node, which is valid for so many days.
    pub(crate) fn renew(
        &self,
        node: u64,
        hosts: &[String],
        days: u32,
    ) -> Result<NodeFiles, String> {
        let files = self.files(node);
        let path = self.authority_key();
        let authority_key = std::fs::read_to_string(&path).map_err(unusable(&path))?;
        let (certificate, key) = new_certificate(&authority_key, node, hosts, days)
            .map_err(cannot("create certificates"))?;
        let write_error = cannot("write certificates");
        replace(&files.certificate, certificate.as_bytes()).map_err(&write_error)?;
        replace_secret(&files.key, key.as_bytes()).map_err(&write_error)?;
        Ok(files)
    }
}

/// A new authority: its certificate and its key as PEM texts.
fn new_authority() -> Result<(String, String), rcgen::Error> {
    let key = KeyPair::generate()?;
    let mut params = authority_params()?;
    limit(&mut params, AUTHORITY_DAYS);
    Ok((params.self_signed(&key)?.pem(), key.serialize_pem()))
}

fn authority_params() -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(Vec::<String>::new())?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, "Hearth cluster CA");
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    Ok(params)
}

/// Sets the validity: from yesterday on, since clocks differ, for so many days from today.
fn limit(params: &mut CertificateParams, days: u32) {
    let day = |days: i64| {
        let at = Timestamp::now() + SignedDuration::from_hours(24 * days);
        let date = at.to_zoned(TimeZone::UTC).date();
        date_time_ymd(i32::from(date.year()), date.month() as u8, date.day() as u8)
    };
    (params.not_before, params.not_after) = (day(-1), day(i64::from(days)));
}

/// A new certificate of a node and its key as PEM texts.
fn new_certificate(
    authority_key: &str,
    node: u64,
    hosts: &[String],
    days: u32,
) -> Result<(String, String), rcgen::Error> {
    let issuer = Issuer::new(authority_params()?, KeyPair::from_pem(authority_key)?);
    let mut params = CertificateParams::new(hosts)?;
    limit(&mut params, days);
    params.distinguished_name.push(DnType::CommonName, format!("hearth node {node}"));
    params.use_authority_key_identifier_extension = true;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    let key = KeyPair::generate()?;
    Ok((params.signed_by(&key, &issuer)?.pem(), key.serialize_pem()))
}
