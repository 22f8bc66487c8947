//! A node that opens its data is alive at once, and not ready: it says how far it is.

use std::path::Path;

use super::*;

#[cfg(feature = "failpoints")]
#[tokio::test]
async fn starting_node_is_alive_and_reports_progress() {
    let cluster = options().start();
    let stored = cluster.store(&labelled("before the restart")).await;
    cluster.kill();
    let starting = cluster.serve_with(&[("FAILPOINTS", "index-rebuild=sleep(3000)")]);
    let respond = async |path: &str| {
        let response = cluster.client.get(format!("{}{path}", cluster.ops())).send().await.ok()?;
        Some((response.status(), response.text().await.ok()?))
    };
    let live = async || respond("/livez").await;
    let (status, _) =
        eventually("it is alive", live, Option::is_some).await.expect("it was checked");
    assert!(status.is_success());
    let (status, text) = respond("/readyz").await.expect("a response");
    assert_eq!(status, 503);
    assert!(text.contains("data failed: opening, 0 memories indexed"), "{text}");
    cluster.ready().await;
    let found = cluster.get(&format!("/agent/nodes/{stored}")).await;
    assert_eq!(found["label"], "before the restart");
    drop(starting);
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &to.join(entry.file_name())),
            false => drop(std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap()),
        }
    }
}

/// An operator copies the data folder of a node to another machine, and starts both.
#[tokio::test]
async fn copied_node_is_reported_by_its_peers() {
    let cluster = options().nodes(3).start();
    let [_, original] = cluster.leader_first().await;
    original.shut_down().await;
    let data = cluster.folder().join("copied");
    copy(&original.data(), &data);
    original.restart().await;
    let [public, operator, peer] = free_addresses().map(|address| address.to_string());
    let address = original.peer_address();
    let _twin = original.serve_with(&[
        ("HEARTH__NODE__DATA", data.to_str().unwrap()),
        ("HEARTH__PUBLIC__LISTEN", &public),
        ("HEARTH__OPERATOR__LISTEN", &operator),
        ("HEARTH__PEER__LISTEN", &peer),
        ("HEARTH__PEER__ADDRESS", &address),
    ]);
    let logs = async || {
        let others = cluster.nodes().filter(|node| node.id() != original.id());
        others.map(|node| std::fs::read_to_string(node.data().join("node.log")).unwrap()).collect()
    };
    let is_reported =
        |logs: &Vec<String>| logs.iter().any(|log| log.contains("two processes send as this node"));
    eventually("a peer reports it", logs, is_reported).await;
}

/// The protocol of systemd: a unit of `Type=notify` is up when the node serves, and a silent node is
/// restarted.
#[tokio::test]
async fn service_manager_hears_of_each_state() {
    let cluster = options().start();
    cluster.kill();
    let address = cluster.folder().join("notify");
    let manager = tokio::net::UnixDatagram::bind(&address).unwrap();
    let heard = async || {
        let mut bytes = [0; 256];
        let length = manager.recv(&mut bytes).await.unwrap();
        String::from_utf8(bytes[..length].to_vec()).unwrap()
    };
    let environment = [("NOTIFY_SOCKET", address.to_str().unwrap()), ("WATCHDOG_USEC", "300000")];
    cluster.start_with(&environment);
    assert_eq!(heard().await, "STATUS=opens its data\n");
    // A slow start has signs of life before it.
    let serves = eventually("it serves", heard, |text| text != "WATCHDOG=1\n").await;
    assert_eq!(serves, "READY=1\nSTATUS=serves\n");
    assert!(cluster.readyz().await.is_some(), "it responds");
    assert_eq!([heard().await, heard().await], ["WATCHDOG=1\n", "WATCHDOG=1\n"]);
    let stops = eventually("it stops", heard, |text| text != "WATCHDOG=1\n");
    let ((), stops) = tokio::join!(cluster.shut_down(), stops);
    assert_eq!(stops, "STOPPING=1\nSTATUS=stops\n");
}
