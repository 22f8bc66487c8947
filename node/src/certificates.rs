//! Creates a certificate authority, certificates of nodes, the cluster key and the operator key,
//! for `hearth certs` and `hearth dev`.

use std::path::{Path, PathBuf};

use api::random_bytes;
use jiff::{SignedDuration, Timestamp, tz::TimeZone};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};
use sha2::{Digest, Sha256};
use storage::file::{replace, replace_secret};
use storage::model::api_key::OperatorKey;

use crate::error::{cannot, unusable};
use crate::tls::{has_public_key, hosts_in, names_in};
use crate::webhooks::new_cluster_key;

/// Default validity of a node's certificate in days: the most that browsers accept.
pub(crate) const NODE_DAYS: u32 = 397;
/// Validity of an authority in days.
const AUTHORITY_DAYS: u32 = 3_652;

/// Bytes of an authority's fingerprint in its name.
const FINGERPRINT_BYTES: usize = 8;
const AUTHORITY: &str = "ca.pem";
const CLUSTER_KEY: &str = "cluster.key";
const OPERATOR_KEY: &str = "operator.key";

/// A folder with an authority, and a folder `node-N` for each node with its certificate. It contains the
/// authority's private key: only operators should have access to the folder.
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
        let has_authority = certificates.authority().exists();
        if has_authority && !certificates.authority_key().exists() {
            let reason = "it is missing, but its ca.pem exists: copy it back into this folder";
            return Err(unusable(&certificates.authority_key())(reason));
        }
        if !has_authority {
            let (authority, key) = new_authority().map_err(cannot("create certificates"))?;
            // The certificate is last: its existence implies that of the key.
            write_secret(&certificates.authority_key(), &key)?;
            write(&certificates.authority(), &authority)?;
        }
        for (path, new_key) in [
            (certificates.cluster_key(), new_cluster_key as fn() -> String),
            (certificates.operator_key(), || OperatorKey::text_from_random(random_bytes()) + "\n"),
        ] {
            if !path.exists() {
                write_secret(&path, &new_key())?;
            }
        }
        Ok(certificates)
    }

    /// The key that seals webhook secrets, the same on all nodes.
    pub(crate) fn cluster_key(&self) -> PathBuf {
        self.folder.join(CLUSTER_KEY)
    }

    /// The key of operators, the same on all nodes.
    pub(crate) fn operator_key(&self) -> PathBuf {
        self.folder.join(OPERATOR_KEY)
    }

    pub(crate) fn authority(&self) -> PathBuf {
        self.folder.join(AUTHORITY)
    }

    fn authority_key(&self) -> PathBuf {
        self.folder.join("ca.key")
    }

    /// The folder of a node.
    pub(crate) fn node_folder(&self, node: u64) -> PathBuf {
        self.folder.join(format!("node-{node}"))
    }

    fn files(&self, node: u64) -> NodeFiles {
        let folder = self.node_folder(node);
        NodeFiles { certificate: folder.join("node.pem"), key: folder.join("node.key") }
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

    /// The names and addresses in the certificate of a node.
    pub(crate) fn hosts(&self, node: u64) -> Result<Vec<String>, String> {
        hosts_in(read(&self.files(node).certificate)?.as_bytes())
    }

    /// Creates or replaces the certificate of a node, which is valid for so many days.
    pub(crate) fn renew(
        &self,
        node: u64,
        hosts: &[String],
        days: u32,
    ) -> Result<NodeFiles, String> {
        let files = self.files(node);
        let (authority, key) = self.signing()?;
        let issuer =
            Issuer::from_ca_cert_pem(&authority, key).map_err(cannot("create certificates"))?;
        let (certificate, key) =
            new_certificate(&issuer, node, hosts, days).map_err(cannot("create certificates"))?;
        std::fs::create_dir_all(self.node_folder(node)).map_err(cannot("write certificates"))?;
        write(&files.certificate, &certificate)?;
        write_secret(&files.key, &key)?;
        Ok(files)
    }

    /// Copies what all nodes share into the folder of a node: it then has all files of `/etc/hearth`.
    pub(crate) fn share_with(&self, node: u64) -> Result<(), String> {
        let copy = |name: &str| self.node_folder(node).join(name);
        write(&copy(AUTHORITY), &read(&self.authority())?)?;
        write_secret(&copy(CLUSTER_KEY), &read(&self.cluster_key())?)?;
        write_secret(&copy(OPERATOR_KEY), &read(&self.operator_key())?)
    }

    /// The nodes that have a folder.
    pub(crate) fn nodes(&self) -> Result<Vec<u64>, String> {
        let entries = std::fs::read_dir(&self.folder).map_err(unusable(&self.folder))?;
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let mut nodes: Vec<u64> =
            names.filter_map(|name| name.strip_prefix("node-")?.parse().ok()).collect();
        nodes.sort_unstable();
        Ok(nodes)
    }

    /// The authority that signs: its certificate, and its key.
    fn signing(&self) -> Result<(String, KeyPair), String> {
        let path = self.authority_key();
        let key = KeyPair::from_pem(&read(&path)?).map_err(unusable(&path))?;
        for authority in self.authorities()? {
            if has_public_key(authority.as_bytes(), key.public_key_raw())? {
                return Ok((authority, key));
            }
        }
        Err(unusable(&path)("it is not the key of an authority in ca.pem"))
    }

    /// The certificates of the authorities as PEM texts, the newest first.
    fn authorities(&self) -> Result<Vec<String>, String> {
        let end = "-----END CERTIFICATE-----";
        let trimmed = |part: &str| format!("{}\n", part.trim());
        let text = read(&self.authority())?;
        let found: Vec<String> =
            text.split_inclusive(end).filter(|part| part.contains(end)).map(trimmed).collect();
        if found.is_empty() {
            Err(unusable(&self.authority())("it has no certificate"))
        } else {
            Ok(found)
        }
    }

    /// Begins the replacement of the authority: a new one signs from now on, and nodes that get the file
    /// trust both.
    pub(crate) fn begin_new_authority(&self) -> Result<(), String> {
        let (old, _) = self.signing()?;
        if let [new, _, ..] = self.authorities()?.as_slice()
            && *new == old
        {
            return Err("it has begun: end it with --retire-authority".to_owned());
        }
        let (authority, key) = new_authority().map_err(cannot("create certificates"))?;
        // Before the key, so that the file has a certificate for it, whenever this ends.
        write(&self.authority(), &format!("{authority}{old}"))?;
        write_secret(&self.authority_key(), &key)
    }

    /// Ends it: the certificate of the former authority goes.
    pub(crate) fn retire_authority(&self) -> Result<(), String> {
        let authorities = self.authorities()?;
        let [new, _old] = authorities.as_slice() else {
            return Err("the file has one authority: begin with --new-authority".to_owned());
        };
        // A replacement that was interrupted has begun again only with --new-authority.
        if self.signing()?.0 != *new {
            return Err("ca.key is not of the new authority: repeat --new-authority".to_owned());
        }
        let (name, nodes) = (names_in(new.as_bytes())?.subject, self.nodes()?);
        if nodes.is_empty() {
            return Err("the folder has no node: do all of them have new certificates?".to_owned());
        }
        for node in nodes {
            let file = self.files(node).certificate;
            let found = names_in(&std::fs::read(&file).map_err(unusable(&file))?)?.issuer;
            if found != name {
                return Err(format!("{} is of {found}: renew it first", file.display()));
            }
        }
        write(&self.authority(), new)
    }
}

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(unusable(path))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    replace(path, text.as_bytes()).map_err(cannot("write certificates"))
}

fn write_secret(path: &Path, text: &str) -> Result<(), String> {
    replace_secret(path, text.as_bytes()).map_err(cannot("write certificates"))
}

/// A new authority: its certificate and its key as PEM texts.
fn new_authority() -> Result<(String, String), rcgen::Error> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new(Vec::<String>::new())?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    // Errors about a certificate name its authority: two of them differ.
    let fingerprint = Sha256::digest(key.public_key_raw());
    let name = format!("Hearth cluster CA {}", hex::encode(&fingerprint[..FINGERPRINT_BYTES]));
    params.distinguished_name.push(DnType::CommonName, name);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    limit(&mut params, AUTHORITY_DAYS);
    Ok((params.self_signed(&key)?.pem(), key.serialize_pem()))
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
    issuer: &Issuer<'_, KeyPair>,
    node: u64,
    hosts: &[String],
    days: u32,
) -> Result<(String, String), rcgen::Error> {
    let mut params = CertificateParams::new(hosts)?;
    limit(&mut params, days);
    params.distinguished_name.push(DnType::CommonName, format!("hearth node {node}"));
    params.use_authority_key_identifier_extension = true;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    let key = KeyPair::generate()?;
    Ok((params.signed_by(&key, issuer)?.pem(), key.serialize_pem()))
}
