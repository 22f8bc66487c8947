//! What an operator sees of a node while the cluster has no leader.

use super::*;

/// Lines of a node's log that a healthy cluster would not have, for a loss of two nodes.
const LINES_MAX: usize = 20;

#[tokio::test]
async fn node_shows_its_own_view_and_logs_little() {
    let cluster = options().nodes(3).start();
    cluster.create(&labelled("kept")).await;
    let [leader, other, left] = cluster.leader_first().await;
    let log = || std::fs::read_to_string(left.data().join("node.log")).unwrap();
    let before = log();
    let leads = format!("this node has a leader leader={}", leader.id());
    assert!(before.contains(&leads), "{before}");
    leader.kill();
    other.kill();
    let status = ["cluster", "--ops", left.ops(), "status"];
    // It may have become the leader meanwhile. Then it leads until its lease ends.
    let leads = async || cluster.run(&status).await.0;
    eventually("the node has no leader", leads, |leads| !leads).await;
    // Each takes some seconds: it waits for a leader.
    for _ in 0..3 {
        let (succeeded, text) = cluster.run(&status).await;
        assert!(!succeeded && text.contains("has no leader"), "{text}");
        assert!(text.contains(&format!("Node {} knows no leader", left.id())), "{text}");
        let members = text.lines().filter(|line| line.contains("127.0.0.1:")).count();
        assert_eq!(members, 3, "{text}");
    }
    let status = left.status().await.unwrap();
    assert_eq!(status["leader"], Value::Null, "{status}");
    let after = log();
    let lines: Vec<&str> = after[before.len()..].lines().collect();
    assert!(lines.len() <= LINES_MAX, "{} lines:\n{}", lines.len(), lines.join("\n"));
}
