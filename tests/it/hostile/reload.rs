//! SIGHUP makes a node read its certificates and the operator key again. It ends neither the
//! process nor a connection, and a broken file changes nothing.

use std::path::Path;
use std::process::Command;

use reqwest::tls::TlsInfo;
use reqwest::{Certificate, Client};

use crate::*;

const RELOADED: &str = "certificates and operator key reloaded";
const FAILED: &str = "reload failed";

/// Sends SIGHUP to a node, and waits until it has logged `result` once more.
async fn hang_up(node: &Node, result: &str) {
    let logged = || {
        let log = std::fs::read_to_string(node.data().join("node.log")).unwrap();
        log.matches(result).count()
    };
    let before = logged();
    signal(node.pid(), "HUP");
    eventually("a node reloads", async || logged(), |count| *count > before).await;
}

/// Creates certificates of a node in a folder, in place of existing ones.
async fn certify(cluster: &Cluster, folder: &Path, node: u64) {
    for name in ["node.pem", "node.key"] {
        drop(std::fs::remove_file(folder.join(format!("node-{node}/{name}"))));
    }
    let (folder, node) = (folder.to_str().unwrap(), node.to_string());
    let hosts = ["--host", "127.0.0.1", "--host", "localhost"];
    let arguments = [&["certs", "--folder", folder, "--node", &node][..], &hosts].concat();
    let (succeeded, text) = cluster.run(&arguments).await;
    assert!(succeeded, "{text}");
}

/// A client with its own connections that reports the certificates of nodes.
fn observer(cluster: &Cluster) -> Client {
    let pem = std::fs::read(cluster.folder().join("ca.pem")).unwrap();
    let authorities = Certificate::from_pem_bundle(&pem).unwrap();
    let builder = Client::builder().tls_certs_only(authorities).no_proxy().tls_info(true);
    builder.build().unwrap()
}

/// The certificate of the connection that a client has to a node, or opens.
async fn certificate(client: &Client, node: &Node) -> Vec<u8> {
    let response = client.get(format!("{}/api/v1/status", node.url())).send().await.unwrap();
    let info = response.extensions().get::<TlsInfo>().unwrap();
    info.peer_certificate().unwrap().to_vec()
}

#[tokio::test]
async fn renewed_credentials_serve_new_connections() {
    let cluster = options().start();
    let pid = cluster.pid();
    let open = observer(&cluster);
    let old = certificate(&open, &cluster).await;
    certify(&cluster, cluster.folder(), 1).await;
    let new_key = tempfile::tempdir().unwrap();
    certify(&cluster, new_key.path(), 1).await;
    let new_key = std::fs::read_to_string(new_key.path().join("operator.key")).unwrap();
    std::fs::write(cluster.folder().join("operator.key"), &new_key).unwrap();
    hang_up(&cluster, RELOADED).await;
    assert_ne!(certificate(&observer(&cluster), &cluster).await, old, "a new connection");
    assert_eq!(certificate(&open, &cluster).await, old, "the open connection");
    let old_key = cluster.ops_request(Method::GET, "/cluster").send().await;
    old_key.assert_error(401, "unauthorized");
    let status = cluster.client.get(format!("{}/cluster", cluster.ops()));
    Request(status.bearer_auth(new_key.trim())).send().await.ok();
    cluster.create(&json!({"label": "the same process"})).await;
    assert_eq!(cluster.status().await.unwrap()["role"], "leader");
    assert!(Path::new(&format!("/proc/{pid}")).exists());
}

#[tokio::test]
async fn broken_credentials_change_nothing() {
    let cluster = options().start();
    let old = certificate(&observer(&cluster), &cluster).await;
    let file = |name: &str| cluster.folder().join(name);
    let kept = ["node-1/node.pem", "node-1/node.key", "ca.pem", "operator.key"]
        .map(|name| (name, std::fs::read(file(name)).unwrap()));
    let other = tempfile::tempdir().unwrap();
    certify(&cluster, other.path(), 2).await;
    let key_of_another = std::fs::read(other.path().join("node-2/node.key")).unwrap();
    // All other files are valid and new.
    certify(&cluster, cluster.folder(), 1).await;
    for (name, broken) in [
        ("node-1/node.pem", &b"garbage"[..]),
        ("node-1/node.key", &key_of_another),
        ("ca.pem", b""),
        ("operator.key", b"op-hearth-00"),
    ] {
        let valid = std::fs::read(file(name)).unwrap();
        std::fs::write(file(name), broken).unwrap();
        hang_up(&cluster, FAILED).await;
        std::fs::write(file(name), valid).unwrap();
        assert_eq!(certificate(&observer(&cluster), &cluster).await, old, "{name}");
        cluster.ops_request(Method::GET, "/cluster").send().await.ok();
    }
    std::fs::remove_file(file("node-1/node.pem")).unwrap();
    hang_up(&cluster, FAILED).await;
    kept.iter().for_each(|(name, bytes)| std::fs::write(file(name), bytes).unwrap());
    hang_up(&cluster, RELOADED).await;
    assert_eq!(certificate(&observer(&cluster), &cluster).await, old);
}

/// What failed is tried again, although no file changes.
#[cfg(feature = "failpoints")]
#[tokio::test]
async fn failed_reload_is_tried_again() {
    let cluster = options().env("FAILPOINTS", "reload-credentials=2*return").start();
    let old = certificate(&observer(&cluster), &cluster).await;
    certify(&cluster, cluster.folder(), 1).await;
    let log = async || std::fs::read_to_string(cluster.data().join("node.log")).unwrap();
    let log = eventually("a node reloads", log, |log| log.contains(RELOADED)).await;
    assert_eq!(log.matches(FAILED).count(), 1, "one cause, one line");
    assert_ne!(certificate(&observer(&cluster), &cluster).await, old);
}

/// As after the terminal that a node was started in is closed.
#[tokio::test]
async fn node_that_cannot_log_reloads_and_serves() {
    let cluster = options().start();
    cluster.kill();
    let mut command = Command::new(BINARY);
    command.args(["serve", "--config"]).arg(cluster.data().join("hearth.toml"));
    // Every write to it fails.
    let process = Process::start(&mut command, "/dev/full".into());
    cluster.ready().await;
    for _ in 0..2 {
        let old = certificate(&observer(&cluster), &cluster).await;
        certify(&cluster, cluster.folder(), 1).await;
        signal(process.pid(), "HUP");
        let found = async || certificate(&observer(&cluster), &cluster).await;
        eventually("the new certificate is used", found, |found| *found != old).await;
    }
}

/// The commands of docs/operations.md. Nodes call each other with the new certificates, and reject the
/// old ones; the error says of which authority a certificate is.
#[tokio::test]
async fn authority_is_replaced_without_a_restart() {
    let cluster = options().nodes(3).start();
    converged(&cluster).await;
    let (folder, old) = (cluster.folder().to_str().unwrap(), tempfile::tempdir().unwrap());
    std::fs::create_dir(old.path().join("node-1")).unwrap();
    for name in ["node-1/node.pem", "node-1/node.key", "ca.pem"] {
        std::fs::copy(cluster.folder().join(name), old.path().join(name)).unwrap();
    }
    let certs = async |work: &str| cluster.run(&["certs", "--folder", folder, work]).await;
    let reload = async || {
        for node in cluster.nodes() {
            hang_up(node, RELOADED).await;
        }
        verify(&cluster).await
    };
    assert!(!certs("--retire-authority").await.0, "there is one authority");
    assert!(certs("--new-authority").await.0);
    assert_fields(&reload().await, json!({"equal": true}));
    let (succeeded, text) = certs("--new-authority").await;
    assert!(!succeeded && text.contains("end it with --retire-authority"), "{text}");
    let (succeeded, text) = certs("--retire-authority").await;
    assert!(!succeeded && text.contains("renew it first"), "{text}");
    for node in 1..=3 {
        certify(&cluster, cluster.folder(), node).await;
    }
    assert_fields(&reload().await, json!({"equal": true}));
    assert!(certs("--retire-authority").await.0);
    assert_fields(&reload().await, json!({"equal": true}));
    let url = peer_port::url(&cluster, "raft");
    let sent = peer_port::upgrade(&peer_port::client(&cluster, Some(old.path())), &url).await;
    assert!(sent.is_err(), "the old authority has no effect: {sent:?}");
    let new = peer_port::client(&cluster, Some(cluster.folder()));
    let sent = peer_port::upgrade(&new, &url).await;
    assert_eq!(sent.unwrap().status(), StatusCode::SWITCHING_PROTOCOLS);
    for node in cluster.nodes() {
        let transfer = cluster.ops_request(Method::POST, "/cluster/transfer");
        transfer.json(&json!({"to": node.id()})).send().await.ok();
    }
    assert_equal_states(&cluster).await;
    let authority = old.path().join("ca.pem");
    let file = ("HEARTH__PEER__AUTHORITY", authority.to_str().unwrap());
    cluster.kill();
    let process = cluster.serve_with(&[file]);
    let log = async || process.log();
    let names_both = |log: &String| {
        log.contains("it is of the authority CN=Hearth cluster CA ")
            && log.contains("and this node trusts CN=Hearth cluster CA ")
    };
    eventually("the error names both", log, names_both).await;
}
