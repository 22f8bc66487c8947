//! A node that opens its data is alive at once, and not ready: it says how far it is.

#![cfg(feature = "failpoints")]

use super::*;

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
