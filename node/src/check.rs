//! What a node needs, examined without starting it: `hearth serve --check` and `hearth doctor`.

use std::fmt::Display;
use std::io::{self, Write};
use std::net::TcpListener;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use raft::causes;
use reqwest::Client;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::config::{Config, Operator};
use crate::credentials::{Credentials, read_operator_key};
use crate::disk::Disk;
use crate::embed::{HttpReranker, model_in};
use crate::error::{cannot, text};
use crate::extractor::HttpExtractor;
use crate::identity;
use crate::join::configured_id;
use crate::tls;
use crate::webhooks::Webhooks;

/// Days before its expiry from which a certificate should be renewed.
const RENEW_DAYS: i64 = 14;
/// Syncs of a file that are measured.
const SYNCS: usize = 10;
/// Time limit of a connection to another node.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// What was found, or what is wrong and how to mend it.
pub(crate) type CheckResult = Result<String, String>;

/// The name of each check, and its result.
pub(crate) async fn check(config: &Config) -> Vec<(&'static str, CheckResult)> {
    let mut results = vec![
        ("certificates", certificates(config)),
        ("peer certificate", peer_certificate(config)),
        ("peer address", own_address(config)),
        ("operator key", operator_key(config)),
        ("files of keys", key_files(config)),
        ("data folder", data_folder(config)),
        ("cluster key", cluster_key(config)),
        ("place of backups", place_of_backups(config)),
        ("model", model_in(&config.embedder, &config.embedder.model).map(|model| model.name)),
    ];
    if !config.reranker.url.is_empty() {
        let reranker = HttpReranker::of(&config.reranker, &Arc::default());
        results.push(("reranker", reranker.map(|_| config.reranker.model.clone())));
    }
    if !config.extractor.url.is_empty() {
        let extractor = HttpExtractor::of(&config.extractor, &Arc::default());
        results.push(("extractor", extractor.map(|_| config.extractor.model.clone())));
    }
    let Config { public, operator, peer, .. } = config;
    for (name, address) in [("public listener", public.listen), ("peer listener", peer.listen)] {
        results.push((name, listener(address)));
    }
    results.push(("operator listener", operator_listener(operator)));
    let mut slowest = Duration::ZERO;
    let peers = peer_client(config);
    for address in config.cluster.members.values() {
        let (result, took) = member(address, peers.as_ref()).await;
        results.push(("member", result));
        slowest = slowest.max(took);
    }
    results.push(("timers", timers(config, slowest)));
    results
}

/// Whether the timers of Raft suit this network and this disk (docs/cluster.md). `round_trip` is the
/// time of a message to the farthest member and back.
fn timers(config: &Config, round_trip: Duration) -> CheckResult {
    let sync = match config.node.data.exists() {
        true => slowest_sync(&config.node.data).map_err(cannot("measure a sync of the disk"))?,
        false => Duration::ZERO,
    };
    let heartbeat = Duration::from_millis(config.raft.heartbeat_ms);
    // The time that openraft gives a call for a vote.
    let vote = Duration::from_millis(config.raft.election_min_ms) * 3 / 4;
    let took = |time: Duration| format!("{:.1} ms", time.as_secs_f64() * 1e3);
    let found = match round_trip {
        Duration::ZERO => format!("a sync takes {}; no round trip was measured", took(sync)),
        _ => format!("a round trip takes {}, a sync {}", took(round_trip), took(sync)),
    };
    let mend = |key: &str, least: Duration| {
        Err(format!("{found}: set raft.{key} to {} or more, on all nodes", least.as_millis()))
    };
    if round_trip > heartbeat {
        return mend("heartbeat_ms", 2 * round_trip);
    }
    if round_trip + sync > vote {
        return mend("election_min_ms", 2 * (round_trip + sync));
    }
    Ok(found)
}

/// The longest of some syncs of a file in a folder. The file has no name.
fn slowest_sync(folder: &Path) -> io::Result<Duration> {
    let mut file = tempfile::tempfile_in(folder)?;
    let mut slowest = Duration::ZERO;
    for _ in 0..SYNCS {
        file.write_all(&[0; 4_096])?;
        let started = Instant::now();
        file.sync_data()?;
        slowest = slowest.max(started.elapsed());
    }
    Ok(slowest)
}

/// Prints one line for each check. An error counts those that need to be mended.
#[expect(clippy::print_stdout, reason = "the output of the commands")]
pub(crate) fn report(results: &[(&str, CheckResult)]) -> Result<(), String> {
    for (name, result) in results {
        match result {
            Ok(found) => println!("[+] {name}: {found}"),
            Err(wrong) => println!("[-] {name}: {wrong}"),
        }
    }
    match results.iter().filter(|(_, result)| result.is_err()).count() {
        0 => Ok(()),
        wrong => Err(format!("{wrong} of {} checks failed", results.len())),
    }
}

fn certificates(config: &Config) -> CheckResult {
    let credentials = Credentials::load(config)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_err(text)?.as_secs() as i64;
    let mut found = Vec::new();
    for (certificate, expires_at) in credentials.expiries {
        let days = (expires_at - now).div_euclid(86_400);
        match days {
            ..0 => return Err(format!("the {certificate} certificate has expired: renew it")),
            0..RENEW_DAYS => {
                return Err(format!(
                    "the {certificate} certificate expires in {days} days: renew it"
                ));
            }
            _ => found.push(format!("{certificate} expires in {days} days")),
        }
    }
    Ok(found.join(", "))
}

/// Other nodes must accept this node's certificate at the address that they use, and this node
/// theirs.
fn peer_certificate(config: &Config) -> CheckResult {
    tls::check_peer(&config.peer)?;
    Ok(format!("valid for {}", config.peer.advertised_host()))
}

/// The other nodes connect to the address in their list of members.
fn own_address(config: &Config) -> CheckResult {
    let address = config.peer.advertised_address();
    match config.cluster.members.get(&config.node.id) {
        Some(listed) if *listed != address => Err(format!(
            "{address} is not {listed}, which cluster.members has for node {}: correct node.id, or set \
             peer.address",
            config.node.id
        )),
        _ => Ok(address),
    }
}

/// What other nodes need of this one. At another address than the others know, or than its certificate
/// names, it takes part in nothing. A certificate that is expired, or of another authority, may be replaced
/// while it runs.
pub(crate) fn check_peer_settings(config: &Config) -> Result<(), String> {
    own_address(config)?;
    tls::check_own_name(&config.peer)?;
    if let Err(reason) = peer_certificate(config) {
        tracing::error!(reason, "the peer certificate does not fit");
    }
    Ok(())
}

fn operator_key(config: &Config) -> CheckResult {
    match &config.operator.key_file {
        Some(file) => {
            read_operator_key(file)?;
            Ok(format!("{}", file.display()))
        }
        None => Ok("none: `hearth cluster` is refused".into()),
    }
}

/// Either of some of these files is enough to own the cluster.
fn key_files(config: &Config) -> CheckResult {
    let Config { public, peer, operator, webhooks, .. } = config;
    let optional = [&operator.key_file, &webhooks.key].into_iter().flatten();
    for file in [&public.key, &peer.key].into_iter().chain(optional) {
        // One that is missing has a line of its own.
        let is_open = |metadata: std::fs::Metadata| metadata.mode() & 0o004 != 0;
        if file.metadata().is_ok_and(is_open) {
            let file = file.display();
            return Err(format!("{file} is readable for every user: chmod 640 {file}"));
        }
    }
    Ok("not readable for every user".into())
}

/// A bucket is not contacted.
fn place_of_backups(config: &Config) -> CheckResult {
    let url = config.backup.url.as_deref().unwrap_or_default();
    match url {
        "" => Ok("none".into()),
        url if url.contains("://") => Ok(url.into()),
        folder => match tempfile::tempfile_in(folder) {
            Ok(_) => Ok(folder.into()),
            Err(error) => Err(format!(
                "cannot write to {folder}: {error}. It must exist, belong to the user of the node, \
                 and be in ReadWritePaths of its unit"
            )),
        },
    }
}

fn data_folder(config: &Config) -> CheckResult {
    let data = &config.node.data;
    if !data.exists() {
        let parent = data.ancestors().find(|folder| folder.exists());
        let parent = parent.ok_or("no folder above it exists")?;
        return Ok(format!("{} will be created below {}", data.display(), parent.display()));
    }
    let node = configured_id(config)?;
    let identity = identity::read(data, node)?;
    let (space, is_full) = Disk::new(data, config.disk.reserve_bytes)
        .describe()
        .map_err(cannot("measure the free disk space"))?;
    if is_full {
        return Err(format!("{}: the disk is full, {space}: free space", data.display()));
    }
    let node = if identity.is_some() { format!("of node {node}") } else { "new".into() };
    Ok(format!("{}, {node}, {space}", data.display()))
}

fn cluster_key(config: &Config) -> CheckResult {
    Webhooks::new(&config.webhooks)?;
    let found = |file: &Path| file.display().to_string();
    Ok(config.webhooks.key.as_deref().map_or("none: webhooks cannot have secrets".into(), found))
}

fn listener(address: impl std::net::ToSocketAddrs + Display) -> CheckResult {
    match TcpListener::bind(&address) {
        Ok(_) => Ok(format!("{address} is free")),
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {
            Ok(format!("{address} is in use, perhaps by this node"))
        }
        Err(error) => Err(format!("cannot listen on {address}: {error}")),
    }
}

/// It has no TLS, so it is for one machine or a network of operators.
fn operator_listener(operator: &Operator) -> CheckResult {
    let found = listener(operator.listen)?;
    let Operator { listen, key_file, .. } = operator;
    match (listen.ip().is_unspecified(), key_file) {
        (false, _) => Ok(found),
        (true, None) => Err(format!(
            "{listen} is open to every network without a key: set operator.listen to loopback, or \
             operator.key_file"
        )),
        (true, Some(_)) => {
            Ok(format!("{found}; every network that reaches it reads health and metrics"))
        }
    }
}

/// A client with the certificate of this node; `None` if that is not usable, which another line says.
fn peer_client(config: &Config) -> Option<Client> {
    let tls = tls::peer_client(&config.peer).ok()?;
    let client = Client::builder().tls_backend_preconfigured(tls).no_proxy();
    client.timeout(CONNECT_TIMEOUT).build().ok()
}

/// Connects to a member, and shows it the certificate. Returns also the time of the connection; zero if it
/// accepted none.
async fn member(address: &str, peers: Option<&Client>) -> (CheckResult, Duration) {
    let found: Vec<_> = match tokio::net::lookup_host(address).await {
        Ok(found) => found.collect(),
        Err(error) => return (Err(format!("cannot resolve {address}: {error}")), Duration::ZERO),
    };
    if found.is_empty() {
        return (Err(format!("{address} has no address")), Duration::ZERO);
    }
    let started = Instant::now();
    let Ok(Ok(_)) = timeout(CONNECT_TIMEOUT, TcpStream::connect(&found[..])).await else {
        return (Ok(format!("{address} accepts no connection now")), Duration::ZERO);
    };
    let took = started.elapsed();
    let Some(peers) = peers else { return (Ok(format!("{address} accepts connections")), took) };
    let result = match peers.get(format!("https://{address}/")).send().await {
        Ok(_) => Ok(format!("{address} accepts connections and the certificate")),
        Err(error) => Err(format!("{address}: {}", causes(&error))),
    };
    (result, took)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_listener_without_key_is_a_fault() {
        let check = |address: &str, key_file: Option<&str>| {
            let (listen, hosts) = (address.parse().unwrap(), Vec::new());
            operator_listener(&Operator {
                listen,
                health_listen: None,
                key_file: key_file.map(Into::into),
                hosts,
            })
        };
        for address in ["0.0.0.0:0", "[::]:0"] {
            let fault = check(address, None).unwrap_err();
            assert!(fault.contains("open to every network without a key"), "{fault}");
            let found = check(address, Some("operator.key")).unwrap();
            assert!(found.contains("every network"), "{found}");
        }
        assert!(!check("127.0.0.1:0", None).unwrap().contains("every network"));
    }
}
