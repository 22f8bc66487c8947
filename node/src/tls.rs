//! TLS of the listeners and of calls to other nodes, from PEM files.

use std::fmt::{self, Debug, Display, Formatter};
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::{ParsedCertificate, WantsServerCert, WebPkiClientVerifier};
use rustls::{
    CertificateError, ClientConfig, ClientConnection, ConfigBuilder, DigitallySignedStruct,
    OtherError, RootCertStore, ServerConfig, ServerConnection, SignatureScheme,
};
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

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

/// Whose a certificate is, and the authority that issued it.
pub(crate) struct Names {
    pub(crate) subject: String,
    pub(crate) issuer: String,
}

fn names(certificate: &CertificateDer<'_>) -> Result<Names, String> {
    let (_, parsed) = X509Certificate::from_der(certificate).map_err(text)?;
    Ok(Names { subject: parsed.subject().to_string(), issuer: parsed.issuer().to_string() })
}

/// The names in the first certificate of a PEM text.
pub(crate) fn names_in(pem: &[u8]) -> Result<Names, String> {
    names(&CertificateDer::from_pem_slice(pem).map_err(text)?)
}

/// The names and addresses of hosts that the first certificate of a PEM text has.
pub(crate) fn hosts_in(pem: &[u8]) -> Result<Vec<String>, String> {
    let certificate = CertificateDer::from_pem_slice(pem).map_err(text)?;
    let (_, parsed) = X509Certificate::from_der(&certificate).map_err(text)?;
    let named = parsed.subject_alternative_name().map_err(text)?;
    let names = named.map(|it| it.value.general_names.iter()).into_iter().flatten();
    let hosts = names.filter_map(|name| match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => match bytes.len() {
            4 => Some(IpAddr::from(<[u8; 4]>::try_from(*bytes).ok()?).to_string()),
            _ => Some(IpAddr::from(<[u8; 16]>::try_from(*bytes).ok()?).to_string()),
        },
        _ => None,
    });
    Ok(hosts.collect())
}

/// Whether the first certificate in a PEM text is of this public key.
pub(crate) fn has_public_key(pem: &[u8], key: &[u8]) -> Result<bool, String> {
    let certificate = CertificateDer::from_pem_slice(pem).map_err(text)?;
    let (_, parsed) = X509Certificate::from_der(&certificate).map_err(text)?;
    Ok(&*parsed.public_key().subject_public_key.data == key)
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
    let verifier = WebPkiClientVerifier::builder(roots(&config.authority)?)
        .build()
        .map_err(unusable(&config.authority))?;
    let builder = ServerConfig::builder().with_client_cert_verifier(verifier);
    server(builder, &config.certificate, &config.key, &[b"http/1.1"])
}

/// For calls to other nodes, with the certificate of this one.
pub(crate) fn peer_client(config: &Peer) -> Result<ClientConfig, String> {
    let verifier = WebPkiServerVerifier::builder(roots(&config.authority)?)
        .build()
        .map_err(unusable(&config.authority))?;
    let trusted: Result<Vec<_>, _> =
        certificates(&config.authority)?.iter().map(|it| names(it).map(|it| it.subject)).collect();
    let verifier = NamingVerifier { verifier, trusted: trusted?.join(" and ") };
    let key = PrivateKeyDer::from_pem_file(&config.key).map_err(unusable(&config.key))?;
    let mut tls = ClientConfig::builder()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_client_auth_cert(certificates(&config.certificate)?, key)
        .map_err(cannot("set up TLS"))?;
    tls.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(tls)
}

/// The authorities in a PEM file.
fn roots(path: &Path) -> Result<Arc<RootCertStore>, String> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots.add(certificate).map_err(unusable(path))?;
    }
    Ok(Arc::new(roots))
}

/// The verifier of rustls. Its error about an unknown authority says which one, and which are known.
#[derive(Debug)]
struct NamingVerifier {
    verifier: Arc<WebPkiServerVerifier>,
    trusted: String,
}

#[derive(thiserror::Error)]
#[error("it is of the authority {issuer}, and this node trusts {trusted}")]
struct UnknownAuthority {
    issuer: String,
    trusted: String,
}

/// rustls prints the errors of others in this form only.
impl Debug for UnknownAuthority {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        Display::fmt(self, f)
    }
}

impl ServerCertVerifier for NamingVerifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let unknown = |error| match (&error, names(certificate)) {
            (
                rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer),
                Ok(Names { issuer, .. }),
            ) => {
                let named = UnknownAuthority { issuer, trusted: self.trusted.clone() };
                CertificateError::Other(OtherError(Arc::new(named))).into()
            }
            _ => error,
        };
        self.verifier
            .verify_server_cert(certificate, intermediates, name, ocsp, now)
            .map_err(unknown)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.verifier.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.verifier.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier.supported_verify_schemes()
    }
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

/// Checks the certificates as another node would: a handshake of this node with itself under the name
/// that others use, in both roles.
pub(crate) fn check_peer(config: &Peer) -> Result<(), String> {
    shake_hands(config).map_err(rejected_at(&config.advertised_host()))
}

fn rejected_at(host: &str) -> impl Fn(String) -> String {
    move |error| {
        format!(
            "another node would reject it at {host}: {error}. `hearth certs --host {host}` names it"
        )
    }
}

fn shake_hands(config: &Peer) -> Result<(), String> {
    let name = ServerName::try_from(config.advertised_host()).map_err(text)?;
    let mut client = ClientConnection::new(Arc::new(peer_client(config)?), name).map_err(text)?;
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

/// Checks that the certificate, valid or not, names the host that other nodes connect to.
pub(crate) fn check_own_name(config: &Peer) -> Result<(), String> {
    let host = config.advertised_host();
    let chain = certificates(&config.certificate)?;
    let own = ParsedCertificate::try_from(&chain[0]).map_err(unusable(&config.certificate))?;
    let name = ServerName::try_from(host.as_str()).map_err(text)?;
    let verified = verify_server_name(&own, &name);
    verified.map_err(|_| rejected_at(&host)("it does not name this host".to_owned()))
}
