//! Nodes with `node.id = "auto"` find their ids, join, and replace their former selves after the loss of
//! their disks, without an operator.

use tokio::sync::Mutex;

use super::membership::{NewNode, wipe};
use super::*;

const AUTO: (&str, &str) = ("HEARTH__NODE__ID", "auto");

/// Ids and roles of the members, as a node sees them.
async fn members(node: &Node) -> Vec<(u64, String)> {
    let status = node.ops_request(Method::GET, "/cluster").try_send().await;
    let status = status.map(|response| response.body).unwrap_or_default();
    let members = status["members"].as_array().cloned().unwrap_or_default();
    let member = |one: &Value| (one["id"].as_u64().unwrap(), string(&one["role"]).to_owned());
    members.iter().map(member).collect()
}

/// Waits until exactly these nodes are members, and all of them vote.
async fn voting(node: &Node, ids: &[u64]) {
    let all = |members: &Vec<(u64, String)>| {
        let found: Vec<_> = members.iter().map(|(id, _)| *id).collect();
        found == ids && members.iter().all(|(_, role)| role != "learner")
    };
    eventually("they vote", async || members(node).await, all).await;
}

#[tokio::test]
async fn nodes_without_ids_make_a_cluster_and_grow() {
    let cluster = options().start();
    let nodes = [(); 3].map(|()| NewNode::beside(&cluster));
    let member = |(id, node): (u64, &NewNode)| format!("{id}={}", node.address);
    let members = (1..).zip(&nodes).map(member).collect::<Vec<_>>().join(", ");
    let processes = nodes.each_ref().map(|node| node.serve_auto(&members, &["--bootstrap"]));
    let status = async |node: &NewNode| {
        let status = cluster.client.get(format!("http://{}/cluster", node.ops));
        let response = status.bearer_auth(&cluster.operator_key).send().await.ok()?;
        let status: Value = response.json().await.ok()?;
        let members = status["members"].as_array()?.iter();
        Some(members.filter(|one| one["role"] != "learner").map(|one| one["id"].clone()).collect())
    };
    let observe = async || status(&nodes[1]).await;
    let are = |ids: Vec<u64>| {
        move |found: &Option<Vec<Value>>| *found == Some(ids.iter().map(|id| json!(id)).collect())
    };
    eventually("three vote", observe, are(vec![1, 2, 3])).await;
    // It asks two nodes, and is in no list.
    let fourth = NewNode::beside(&cluster);
    let process = fourth.serve_auto(&members, &["--bootstrap"]);
    eventually("four vote", observe, are(vec![1, 2, 3, 4])).await;
    drop((processes, process));
}

/// They may take the same id, and a change of the members may still be under way: both go on.
#[tokio::test]
async fn two_nodes_join_at_once() {
    let cluster = options().nodes(3).start();
    converged(&cluster).await;
    let member = |node: &Node| format!("{}={}", node.id(), node.peer_address());
    let members_of = cluster.nodes().map(member).collect::<Vec<_>>().join(", ");
    let nodes = [(); 2].map(|()| NewNode::beside(&cluster));
    let processes = Mutex::new(nodes.each_ref().map(|node| node.serve_auto(&members_of, &[])));
    let restarted = async || {
        for (node, process) in nodes.iter().zip(processes.lock().await.iter_mut()) {
            if process.has_ended() {
                *process = node.serve_auto(&members_of, &[]);
            }
        }
        members(&cluster).await
    };
    let all_vote = |members: &Vec<(u64, String)>| {
        members.len() == 5 && members.iter().all(|(_, role)| role != "learner")
    };
    eventually("all five vote", restarted, all_vote).await;
    assert_equal_states(&cluster).await;
}

#[tokio::test]
async fn emptied_node_replaces_its_former_self() {
    let cluster = options().nodes(3).start();
    let stored = cluster.store(&labelled("kept by the others")).await;
    let [leader, _, lost] = cluster.leader_first().await;
    lost.kill();
    wipe(lost);
    let process = lost.serve_with(&[AUTO]);
    let mut ids: Vec<u64> = cluster.nodes().map(Node::id).filter(|id| *id != lost.id()).collect();
    ids.push(4);
    voting(leader, &ids).await;
    assert!(process.log().contains("had this address until now"), "{}", process.log());
    lost.ready().await;
    let found = lost.get(&format!("/agent/nodes/{}", stored)).await;
    assert_eq!(found["label"], "kept by the others");
    assert_equal_states(leader).await;
    // It keeps its new id.
    drop(process);
    let _process = lost.serve_with(&[AUTO]);
    lost.ready().await;
    voting(leader, &ids).await;
}

/// Its id could vote twice, and the entries that only it had are lost.
#[tokio::test]
async fn replacement_waits_for_a_majority_of_the_others() {
    let cluster = options().nodes(3).start();
    cluster.create(&labelled("kept")).await;
    let [leader, away, lost] = cluster.leader_first().await;
    away.kill();
    lost.kill();
    wipe(lost);
    let mut process = lost.serve_with(&[AUTO]);
    let log = async || process.log();
    eventually("it says that it waits", log, |log| log.contains("waiting to join")).await;
    assert!(!process.has_ended(), "{}", process.log());
    away.restart().await;
    let mut ids: Vec<u64> = cluster.nodes().map(Node::id).filter(|id| *id != lost.id()).collect();
    ids.push(4);
    voting(leader, &ids).await;
}

/// While no other node responds, it cannot know that its id is used up. It ends once one does. Who
/// restarts it, as systemd and Kubernetes do, need not know.
#[tokio::test]
async fn emptied_node_that_starts_first_begins_anew() {
    let cluster = options().nodes(3).start();
    cluster.create(&labelled("kept")).await;
    cluster.nodes().for_each(Node::kill);
    let lost = cluster.at(2);
    wipe(lost);
    let process = Mutex::new((lost.serve_with(&[AUTO]), 0));
    lost.up().await;
    for node in [cluster.at(0), cluster.at(1)] {
        node.start_with(&[]);
    }
    cluster.at(0).ready().await;
    let restarted = async || {
        let mut process = process.lock().await;
        if process.0.has_ended() {
            *process = (lost.serve_with(&[AUTO]), process.1 + 1);
        }
        members(cluster.at(0)).await
    };
    let is_replaced = |members: &Vec<(u64, String)>| {
        members.iter().map(|(id, _)| *id).eq([1, 2, 4])
            && members.iter().all(|(_, role)| role != "learner")
    };
    eventually("it votes as a new node", restarted, is_replaced).await;
    assert!(process.lock().await.1 > 0);
    assert_equal_states(cluster.at(0)).await;
}

#[tokio::test]
async fn node_with_another_operator_key_waits() {
    let cluster = options().nodes(3).start();
    let (other, lost) = (tempfile::tempdir().unwrap(), cluster.at(2));
    let folder = other.path().to_str().unwrap();
    cluster.run(&["certs", "--folder", folder, "--node", "9", "--host", "node-9"]).await;
    lost.kill();
    wipe(lost);
    let key = other.path().join("operator.key");
    let process = lost.serve_with(&[AUTO, ("HEARTH__OPERATOR__KEY_FILE", key.to_str().unwrap())]);
    let log = async || process.log();
    let says_why = |log: &String| log.contains("has another key than the other nodes");
    eventually("it says why it waits", log, says_why).await;
}
