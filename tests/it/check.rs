//! `hearth serve --check` finds what would keep a node from working, and says what to mend. It
//! changes nothing. Certificates that change are used without a restart or a signal.

use std::collections::BTreeSet;
use std::fs::Permissions;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;

use super::*;

/// Runs the check with the configuration of the first node.
async fn check(cluster: &Cluster, environment: &[(&str, &str)]) -> (bool, String) {
    let config = cluster.data().join("hearth.toml");
    let mut command = tokio::process::Command::new(cluster.binary());
    command.args(["serve", "--check", "--config"]).arg(config).envs(environment.iter().copied());
    let ran = command.output().await.unwrap();
    let text = String::from_utf8([ran.stdout, ran.stderr].concat()).unwrap();
    (ran.status.success(), text)
}

/// Creates the certificate of the first node again, for the same hosts if there is none.
async fn renew(cluster: &Cluster, host: Option<&str>, days: &str) {
    let folder = cluster.folder().to_str().unwrap();
    let arguments = ["certs", "--renew", "--folder", folder, "--node", "1", "--days", days];
    let host: Vec<_> = host.into_iter().flat_map(|host| ["--host", host]).collect();
    let (succeeded, text) = cluster.run(&[&arguments[..], &host].concat()).await;
    assert!(succeeded, "{text}");
}

/// The connections of the first node from and to the peer listeners: both addresses of each.
fn peer_connections(cluster: &Cluster) -> BTreeSet<String> {
    let port = |node: &Node| node.peer_address().parse::<SocketAddr>().unwrap().port();
    let ports: Vec<_> = cluster.nodes().map(|node| format!(":{:04X}", port(node))).collect();
    let process = format!("/proc/{}", cluster.pid());
    let opened = std::fs::read_dir(format!("{process}/fd")).unwrap();
    let sockets = opened.filter_map(|file| std::fs::read_link(file.unwrap().path()).ok());
    let sockets: BTreeSet<_> =
        sockets.map(|socket| socket.to_string_lossy().into_owned()).collect();
    let table = std::fs::read_to_string(format!("{process}/net/tcp")).unwrap();
    let connections = table.lines().filter_map(|line| {
        let fields: Vec<_> = line.split_whitespace().collect();
        let (addresses, is_established) =
            (format!("{} {}", fields[1], fields[2]), fields[3] == "01");
        let is_own = sockets.contains(&format!("socket:[{}]", fields[9]));
        let is_of_peers = ports.iter().any(|port| addresses.contains(port));
        (is_established && is_own && is_of_peers).then_some(addresses)
    });
    connections.collect()
}

#[tokio::test]
async fn check_names_what_is_wrong() {
    let cluster = options().nodes(3).start();
    let (succeeded, text) = check(&cluster, &[]).await;
    assert!(succeeded, "{text}");
    for found in [
        "[+] certificates: public expires in 396 days",
        "[+] peer certificate: valid for 127.0.0.1",
        "of node 1",
        "MiB free, reserve 64 MiB",
        "accepts connections",
        "is in use, perhaps by this node",
    ] {
        assert!(text.contains(found), "{found}: {text}");
    }
    for (name, value, wrong) in [
        ("HEARTH__PEER__ADDRESS", "elsewhere.example:4282", "[-] peer certificate: another node"),
        ("HEARTH__NODE__ID", "9", "belongs to node 1"),
        ("HEARTH__WEBHOOKS__KEY", "/no/such/file", "[-] cluster key: webhooks.key /no/such/file"),
        ("HEARTH__EMBEDDER__KIND", "model", "model"),
        ("HEARTH__CLUSTER__MEMBERS", "1=no-such-host.invalid:1", "[-] member: cannot resolve"),
        ("HEARTH__PUBLIC__LISTEN", "192.0.2.1:1", "cannot listen on 192.0.2.1:1"),
        ("HEARTH__OPERATOR__KEY_FILE", "/no/such/key", "[-] operator key: cannot use /no/such/key"),
        ("HEARTH__OPERATOR__LISTEN", "0.0.0.0", "HEARTH__OPERATOR__LISTEN"),
        ("HEARTH__CLUSTER__MEMBERS", "1=127.0.0.1:1", "[-] peer address: 127.0.0.1"),
        ("HEARTH__BACKUP__URL", "/no/such/place", "[-] place of backups: cannot write to /no/such"),
    ] {
        let no_model = ("HEARTH__EMBEDDER__MODEL", "/no/such/folder");
        let (succeeded, text) = check(&cluster, &[(name, value), no_model]).await;
        assert!(!succeeded && text.contains(wrong), "{name}: {text}");
    }
    for name in ["HEARTH_NODE__ID", "HEARTH_NODE_ID"] {
        let (succeeded, text) = check(&cluster, &[(name, "1")]).await;
        assert!(!succeeded && text.contains("write HEARTH__NODE__ID"), "{text}");
    }
    // The certificates of another cluster: the members reject them.
    let other = cluster.folder().join("other");
    let other = other.to_str().unwrap();
    let certs = ["certs", "--folder", other, "--node", "1", "--host", "127.0.0.1"];
    assert!(cluster.run(&certs).await.0);
    let files = ["node-1/ca.pem", "node-1/node.pem", "node-1/node.key"];
    let [authority, certificate, key] = files.map(|file| format!("{other}/{file}"));
    let (succeeded, text) = check(
        &cluster,
        &[
            ("HEARTH__PEER__AUTHORITY", &authority),
            ("HEARTH__PEER__CERTIFICATE", &certificate),
            ("HEARTH__PEER__KEY", &key),
        ],
    )
    .await;
    assert!(!succeeded && text.contains("and this node trusts CN=Hearth cluster CA"), "{text}");
    let key = cluster.data().join("node.key");
    std::fs::set_permissions(&key, Permissions::from_mode(0o644)).unwrap();
    let (succeeded, text) = check(&cluster, &[]).await;
    assert!(!succeeded && text.contains("node.key is readable for every user: chmod"), "{text}");
    std::fs::set_permissions(&key, Permissions::from_mode(0o600)).unwrap();
    renew(&cluster, None, "9").await;
    let (succeeded, text) = check(&cluster, &[]).await;
    assert!(!succeeded && text.contains("expires in 8 days: renew it"), "{text}");
}

#[tokio::test]
async fn changed_certificates_are_used_without_a_signal() {
    let cluster = options().nodes(3).start();
    let before_reload = peer_connections(&cluster);
    assert!(before_reload.len() >= 4, "to and from each other node: {before_reload:?}");
    let expiry = "hearth_certificate_expires_timestamp_seconds{certificate=\"peer\"}";
    let before = cluster.metrics(expiry).await;
    renew(&cluster, None, "30").await;
    let expires_at = async || cluster.metrics(expiry).await;
    eventually("the new one is used", expires_at, |after| *after < before).await;
    // Connections with the old one end, in both directions.
    let remaining = async || peer_connections(&cluster);
    let has_none = |remaining: &BTreeSet<String>| remaining.is_disjoint(&before_reload);
    eventually("other connections are used", remaining, has_none).await;
    let log = std::fs::read_to_string(cluster.data().join("node.log")).unwrap();
    assert!(!log.contains("reload failed"), "{log}");
    cluster.create(&labelled("the cluster works")).await;
    assert_equal_states(&cluster).await;
}

/// It would take part in nothing. An expired certificate may be renewed while it runs.
#[tokio::test]
async fn node_that_others_would_reject_ends() {
    let cluster = options().nodes(3).start();
    cluster.kill();
    let elsewhere = ("HEARTH__PEER__ADDRESS", "elsewhere.example:4282");
    let log = cluster.failed_start(&[elsewhere]).await;
    assert!(log.contains("which cluster.members has for node 1: correct node.id, or set"), "{log}");
    renew(&cluster, Some("elsewhere.example"), "30").await;
    let log = cluster.failed_start(&[]).await;
    let reason = "another node would reject it at 127.0.0.1: ";
    assert!(log.contains(reason) && log.contains("`hearth certs --host 127.0.0.1`"), "{log}");
    renew(&cluster, Some("127.0.0.1"), "30").await;
    let process = cluster.serve_with(&[]);
    cluster.ready().await;
    // While it runs, it keeps the one that the others accept.
    renew(&cluster, Some("elsewhere.example"), "30").await;
    let log = async || process.log();
    eventually("it reports the other name", log, |log| log.contains("reload failed")).await;
    cluster.create(&labelled("all nodes take part")).await;
    converged(&cluster).await;
}
