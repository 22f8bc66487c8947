//! `hearth dev` prints one line, runs until SIGTERM, and ends its nodes. A killed node stays down
//! until `hearth serve` starts it.

use super::*;

#[tokio::test]
async fn json_line_describes_the_cluster() {
    let mut cluster = options().start();
    let node = &cluster.info["nodes"][0];
    assert_eq!(node["id"], 1);
    assert_eq!(cluster.info["leader"], 1);
    assert!(cluster.url().starts_with("https://127.0.0.1:"));
    assert!(cluster.ops().starts_with("http://127.0.0.1:"));
    assert!(cluster.key.starts_with("sk-"));
    assert!(cluster.data().join("hearth.toml").exists());
    let status = cluster.bare_request(Method::GET, "/api/v1/status").send().await.ok();
    assert_fields(&status, json!({"status": "ok", "version": "2.9.0", "role": "leader"}));
    let pid = cluster.pid();
    assert!(cluster.stop().await, "SIGTERM is an orderly end");
    wait_gone(pid).await;
}

#[tokio::test]
async fn serve_restarts_a_killed_node_on_its_port() {
    let cluster = options().start();
    let stored = cluster.store(&json!({"label": "still here"})).await;
    cluster.kill();
    assert!(cluster.readyz().await.is_none(), "it stays down");
    cluster.restart().await;
    let found = cluster.get(&format!("/agent/nodes/{stored}")).await;
    assert_eq!(found["label"], "still here");
    // SIGTERM is an orderly end.
    cluster.shut_down().await;
}

#[tokio::test]
async fn folder_keeps_its_nodes_and_its_authority() {
    let mut cluster = options().start();
    assert!(cluster.stop().await);
    let run = async |arguments: &[&str]| {
        let folder = cluster.folder().to_str().unwrap();
        let (succeeded, text) = cluster.run(&[arguments, &[folder]].concat()).await;
        assert!(!succeeded, "{text}");
        text
    };
    let more = run(&["dev", "--nodes", "3", "--base-port", "0", "--data"]).await;
    assert!(more.contains("holds a cluster of 1"), "{more}");
    let moved = run(&["dev", "--base-port", "5000", "--data"]).await;
    assert!(moved.contains("--base-port 0"), "{moved}");
    let authority = cluster.folder().join("ca.pem");
    let before = std::fs::read(&authority).unwrap();
    std::fs::remove_file(cluster.folder().join("ca.key")).unwrap();
    let certs = run(&["certs", "--node", "9", "--host", "x", "--folder"]).await;
    assert!(certs.contains("copy it back"), "{certs}");
    assert_eq!(std::fs::read(&authority).unwrap(), before, "the authority is unchanged");
}

#[tokio::test]
async fn operators_listener_serves_health_and_metrics() {
    let cluster = options().start();
    let (status, text) = cluster.readyz().await.unwrap();
    assert!(status.is_success());
    assert!(text.contains("[+] leader ok") && text.ends_with("ready\n"), "{text}");
    let live = cluster.bare_request(Method::GET, "/livez").send().await;
    assert!(live.status.is_success());
    assert_eq!(cluster.metric("hearth_is_leader").await, 1.0);
    assert!(cluster.metric("hearth_log_wal_syncs_total").await > 0.0);
    let public = cluster.bare_request(Method::GET, "/metrics").send().await;
    assert_eq!(public.status, 404, "the public listener serves no metrics");
}

#[tokio::test]
async fn folder_runs_once_and_keeps_its_ports() {
    let mut cluster = options().start();
    let config = std::fs::read_to_string(cluster.data().join("hearth.toml")).unwrap();
    let folder = cluster.folder().to_str().unwrap();
    let arguments =
        ["dev", "--json", "--base-port", "0", "--embedder", "hashing", "--data", folder];
    let (succeeded, text) = cluster.run(&arguments).await;
    assert!(!succeeded && text.contains("another `hearth dev` runs"), "{text}");
    let after = std::fs::read_to_string(cluster.data().join("hearth.toml")).unwrap();
    assert_eq!(config, after);
    assert!(cluster.stop().await);
}

#[tokio::test]
async fn data_folder_of_another_node_is_rejected() {
    let cluster = options().start();
    cluster.kill();
    let log = cluster.failed_start(&[("HEARTH__NODE__ID", "5")]).await;
    assert!(log.contains("belongs to node 1"), "{log}");
}
