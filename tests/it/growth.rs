//! A cluster grows from one node to three and five, and shrinks to one again, under load.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::membership::NewNode;
use super::*;

const WRITERS: usize = 4;

struct Growing {
    cluster: Arc<Cluster>,
    /// The added nodes by their ids. Their processes end with them.
    added: BTreeMap<i64, (NewNode, Process)>,
}

impl Growing {
    /// Runs `hearth cluster` until it succeeds.
    async fn operate(&self, arguments: &[&str]) -> String {
        let all = [&["cluster", "--ops", self.cluster.ops()], arguments].concat();
        let run = async || self.cluster.run(&all).await;
        let what = format!("hearth cluster {arguments:?}");
        eventually(&what, run, |(succeeded, _)| *succeeded).await.1
    }

    async fn add(&mut self, id: i64) {
        let node = NewNode::beside(&self.cluster);
        let process = node.serve_as(id);
        let (number, address) = (id.to_string(), node.address.clone());
        self.added.insert(id, (node, process));
        let text = self.operate(&["add", "--id", &number, "--address", &address]).await;
        assert!(text.contains(&format!("Node {id} votes.")), "{text}");
    }

    async fn remove(&mut self, id: i64) {
        self.operate(&["remove", "--id", &id.to_string()]).await;
        let (_, mut process) = self.added.remove(&id).unwrap();
        process.kill();
    }

    async fn voters(&self) -> usize {
        let status: Value = self.cluster.ops_request(Method::GET, "/cluster").send().await.ok();
        array(&status["members"]).iter().filter(|member| member["role"] != "learner").count()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cluster_grows_and_shrinks_under_load() {
    let cluster = Arc::new(options().start());
    let writers = Writers::start(&cluster, WRITERS);
    let mut growing = Growing { cluster: Arc::clone(&cluster), added: BTreeMap::new() };
    for (id, voters) in [(2, 2), (3, 3), (4, 4), (5, 5)] {
        growing.add(id).await;
        assert_eq!(growing.voters().await, voters);
        writers.acknowledge(50).await;
    }
    // The leader itself is removed: it hands over first.
    growing.operate(&["transfer", "--to", "5"]).await;
    writers.acknowledge(50).await;
    for (id, voters) in [(5, 4), (4, 3), (3, 2), (2, 1)] {
        growing.remove(id).await;
        assert_eq!(growing.voters().await, voters);
        writers.acknowledge(50).await;
    }
    let acknowledged = writers.stop().await;
    assert_stored_once(&cluster, &acknowledged, WRITERS).await;
}
