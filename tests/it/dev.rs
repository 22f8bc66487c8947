//! `hearth dev` prints one line, runs until told, and ends what it started; a
//! killed node stays down and comes back by `hearth serve`.

use reqwest::Method;
use serde_json::json;
use tests::wait_gone;

use crate::options;

#[tokio::test]
async fn the_json_line_says_how_to_reach_the_cluster() {
    let mut cluster = options().start();
    let node = &cluster.info["nodes"][0];
    assert_eq!(node["id"], 1);
    assert_eq!(cluster.info["leader"], 1);
    assert!(cluster.url().starts_with("https://127.0.0.1:"));
    assert!(cluster.ops().starts_with("http://127.0.0.1:"));
    assert!(cluster.key().starts_with("sk-"));
    assert!(cluster.data().join("hearth.toml").exists());
    let status = cluster.ask_bare(Method::GET, "/api/v1/status").send().await.ok();
    assert_eq!(status["status"], "ok");
    assert_eq!(status["version"], "2.9.0");
    assert_eq!(status["role"], "leader");
    let pid = cluster.pid();
    assert!(cluster.end(), "SIGTERM is an orderly end");
    wait_gone(pid);
}

#[tokio::test]
async fn a_killed_node_stays_down_and_serve_brings_it_back_on_the_same_port() {
    let cluster = options().start();
    let stored = cluster.create(&json!({"label": "still here"})).await;
    cluster.kill_node();
    assert!(cluster.readyz().await.is_none(), "it stays down");
    let mut node = cluster.serve();
    cluster.ready().await;
    let path = format!("/agent/nodes/{}", stored["id"].as_str().unwrap());
    let found = cluster.ask(Method::GET, &path).send().await.ok();
    assert_eq!(found["label"], "still here");
    assert!(node.stop(), "SIGTERM is an orderly end: {}", node.log());
}

#[tokio::test]
async fn a_folder_keeps_its_nodes_and_certs_keep_their_authority() {
    let mut cluster = options().start();
    assert!(cluster.end());
    let run = |arguments: &[&str]| {
        let ran = std::process::Command::new(env!("CARGO_BIN_EXE_hearth-under-test"))
            .args(arguments)
            .arg(cluster.folder())
            .output()
            .unwrap();
        assert!(!ran.status.success());
        String::from_utf8_lossy(&ran.stderr).into_owned()
    };
    let more = run(&["dev", "--nodes", "3", "--base-port", "0", "--data"]);
    assert!(more.contains("holds a cluster of 1"), "{more}");
    let moved = run(&["dev", "--base-port", "5000", "--data"]);
    assert!(moved.contains("--base-port 0"), "{moved}");
    let authority = cluster.folder().join("ca.pem");
    let before = std::fs::read(&authority).unwrap();
    std::fs::rename(cluster.folder().join("ca.key"), cluster.folder().join("kept-elsewhere"))
        .unwrap();
    let certs = run(&["certs", "--node", "9", "--host", "x", "--folder"]);
    assert!(certs.contains("bring it back"), "{certs}");
    assert_eq!(std::fs::read(&authority).unwrap(), before, "no other authority took its place");
}

#[tokio::test]
async fn health_and_metrics_are_on_the_operators_listener() {
    let cluster = options().start();
    let (status, text) = cluster.readyz().await.unwrap();
    assert!(status.is_success());
    assert!(text.contains("[+] leader ok") && text.ends_with("ready\n"), "{text}");
    let live = cluster.ask_bare(Method::GET, "/livez").send().await;
    assert!(live.status.is_success());
    assert_eq!(cluster.metric("hearth_is_leader").await, 1.0);
    assert!(cluster.metric("hearth_log_wal_syncs_total").await > 0.0);
    let public = cluster.ask_bare(Method::GET, "/metrics").send().await;
    assert_eq!(public.status, 404, "metrics are not for the public listener");
}

#[tokio::test]
async fn one_folder_is_run_once_and_keeps_its_ports() {
    let mut cluster = options().start();
    let config = std::fs::read_to_string(cluster.data().join("hearth.toml")).unwrap();
    let second = std::process::Command::new(env!("CARGO_BIN_EXE_hearth-under-test"))
        .args(["dev", "--json", "--base-port", "0", "--embedder", "hashing", "--data"])
        .arg(cluster.folder())
        .output()
        .unwrap();
    assert!(!second.status.success());
    let told = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(told.contains("another `hearth dev` runs"), "{told}");
    let after = std::fs::read_to_string(cluster.data().join("hearth.toml")).unwrap();
    assert_eq!(config, after);
    assert!(cluster.end());
}

#[tokio::test]
async fn a_folder_of_another_node_is_refused() {
    let cluster = options().start();
    cluster.kill_node();
    let mut node = cluster.serve_with(&[("HEARTH__NODE__ID", "5")]);
    assert!(!node.ended());
    assert!(node.log().contains("belongs to node 1"), "{}", node.log());
}
