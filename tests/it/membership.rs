//! Nodes join, vote and leave a running cluster. Neither an id nor a data folder changes its
//! owner.

use std::process::Command;
use std::time::Duration;

use super::*;

/// A node that `hearth dev` did not start.
pub(super) struct NewNode {
    folder: tempfile::TempDir,
    config: toml::Table,
    pub(super) address: String,
    pub(super) ops: String,
}

impl NewNode {
    /// With the certificate and configuration of the first node, but for id, folder and ports.
    pub(super) fn beside(cluster: &Cluster) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let addresses = free_addresses::<3>().map(|address| address.to_string());
        let text = std::fs::read_to_string(cluster.data().join("hearth.toml")).unwrap();
        let mut config: toml::Table = text.parse().unwrap();
        for (section, address) in ["public", "operator", "peer"].iter().zip(&addresses) {
            config[*section]["listen"] = address.as_str().into();
        }
        config["node"]["data"] = folder.path().join("data").to_str().unwrap().into();
        let [_, ops, address] = addresses;
        Self { folder, config, address, ops }
    }

    /// With everything of a node that does not run, but for id and folder.
    fn instead_of(node: &Node) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let text = std::fs::read_to_string(node.data().join("hearth.toml")).unwrap();
        let mut config: toml::Table = text.parse().unwrap();
        config["node"]["data"] = folder.path().join("data").to_str().unwrap().into();
        Self { folder, config, address: node.peer_address(), ops: node.ops().to_owned() }
    }

    /// Its data folder.
    pub(super) fn data(&self) -> std::path::PathBuf {
        self.folder.path().join("data")
    }

    /// Starts it as node 4.
    pub(super) fn serve(&self) -> Process {
        self.serve_as(4)
    }

    /// Starts it with an id.
    pub(super) fn serve_as(&self, id: i64) -> Process {
        self.start(id, self.config.clone(), &[])
    }

    /// Starts it to bootstrap a cluster of these members.
    fn bootstrap(&self, id: i64, members: &str) -> Process {
        let mut config = self.config.clone();
        config["cluster"]["members"] = members.into();
        self.start(id, config, &["--bootstrap"])
    }

    /// Starts it without an id. `members` are those of the cluster that it joins.
    pub(super) fn serve_auto(&self, members: &str, arguments: &[&str]) -> Process {
        let mut config = self.config.clone();
        config["cluster"]["members"] = members.into();
        self.start("auto", config, arguments)
    }

    fn start(
        &self,
        id: impl Into<toml::Value>,
        mut config: toml::Table,
        arguments: &[&str],
    ) -> Process {
        config["node"]["id"] = id.into();
        let path = self.folder.path().join("hearth.toml");
        std::fs::write(&path, config.to_string()).unwrap();
        let mut command = Command::new(BINARY);
        command.args(["serve", "--config"]).arg(path).args(arguments);
        Process::start(&mut command, self.folder.path().join("log"))
    }
}

/// Removes the data of a node that does not run, but for its configuration and its certificate.
pub(super) fn wipe(node: &Node) {
    let kept = ["hearth.toml", "node.pem", "node.key"];
    for entry in std::fs::read_dir(node.data()).unwrap().map(Result::unwrap) {
        match entry.file_type().unwrap().is_dir() {
            true => std::fs::remove_dir_all(entry.path()).unwrap(),
            false if kept.iter().any(|name| entry.file_name() == *name) => {}
            false => std::fs::remove_file(entry.path()).unwrap(),
        }
    }
}

#[tokio::test]
async fn bootstrap_is_safe_to_leave_on() {
    let cluster = options().nodes(3).start();
    cluster.create(&labelled("kept")).await;
    let serve = || {
        let mut command = Command::new(BINARY);
        command.args(["serve", "--bootstrap", "--config"]).arg(cluster.data().join("hearth.toml"));
        Process::start(&mut command, cluster.data().join("served.log"))
    };
    cluster.kill();
    let mut process = serve();
    cluster.ready().await;
    assert!(stored(&cluster).await.contains_key("kept"), "it is the cluster of before");
    process.kill();
    // Without its data it must not found another cluster beside the one that goes on.
    wipe(&cluster);
    let mut process = serve();
    assert!(!process.ended().await, "{}", process.log());
    // The members reject it, or it finds that they have a cluster, whichever comes first.
    let log = process.log();
    assert!(log.contains("with a new id") && log.contains("cluster replace"), "{log}");
    assert!(stored(cluster.at(1)).await.contains_key("kept"));
}

#[tokio::test]
async fn member_of_one_cluster_joins_no_other() {
    let cluster = options().nodes(3).start();
    let new = NewNode::beside(&cluster);
    let second = cluster.at(1).peer_address();
    let mut process = new.bootstrap(1, &format!("1={}, 2={second}", new.address));
    let log = async || process.log();
    eventually("it finds a cluster", log, |log| log.contains("no cluster was bootstrapped")).await;
    assert!(!process.ended().await, "{}", process.log());
    std::fs::remove_dir_all(new.folder.path().join("data")).unwrap();
    // Alone it bootstraps its own cluster, and then cannot join this one.
    let _process = new.bootstrap(4, &format!("4={}", new.address));
    let ready = async || {
        let response = cluster.client.get(format!("http://{}/readyz", new.ops)).send().await;
        response.is_ok_and(|response| response.status().is_success())
    };
    eventually("the new cluster is ready", ready, |ready| *ready).await;
    let add = json!({"id": 4, "address": new.address});
    let added = cluster.at(1).ops_request(Method::POST, "/cluster/members").json(&add).send().await;
    assert_conflict(&added, "belongs to another cluster");
}

/// One command line for all members, as a unit file or a stateful set has it.
#[tokio::test]
async fn all_members_start_with_bootstrap() {
    let beside = options().start();
    let nodes = [1, 2, 3].map(|_| NewNode::beside(&beside));
    let members: Vec<_> =
        nodes.iter().zip(1..).map(|(node, id)| format!("{id}={}", node.address)).collect();
    let members = members.join(", ");
    let start = |id: usize| nodes[id - 1].bootstrap(id as i64, &members);
    // The one that creates the cluster is the last.
    let mut processes = [start(3), start(2), start(1)];
    for node in &nodes {
        let ready = async || {
            let response = beside.client.get(format!("http://{}/readyz", node.ops)).send().await;
            response.is_ok_and(|response| response.status().is_success())
        };
        eventually("it is a member", ready, |ready| *ready).await;
    }
    let has_key = |node: &NewNode| node.folder.path().join("data/admin.key").exists();
    assert_eq!(nodes.each_ref().map(has_key), [true, false, false]);
    processes.iter_mut().for_each(Process::kill);
}

#[tokio::test]
async fn lone_node_with_bootstrap_waits_for_others() {
    let cluster = options().nodes(3).start();
    cluster.create(&labelled("kept")).await;
    cluster.nodes().for_each(Node::kill);
    let mut command = Command::new(BINARY);
    command.args(["serve", "--bootstrap", "--config"]).arg(cluster.data().join("hearth.toml"));
    command.env("FAILPOINTS", "bootstrap-timeout=return(1)");
    let mut process = Process::start(&mut command, cluster.data().join("served.log"));
    cluster.up().await;
    // A bootstrap would end it after that time.
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(!process.has_ended(), "{}", process.log());
    let health = cluster.readyz().await.unwrap();
    assert_eq!(health.0, StatusCode::SERVICE_UNAVAILABLE, "it knows no leader: {}", health.1);
    cluster.at(1).restart().await;
    cluster.ready().await;
    assert!(stored(&cluster).await.contains_key("kept"), "{}", process.log());
    process.kill();
}

#[tokio::test]
async fn absent_node_follows_a_member_added_meanwhile() {
    let cluster = options().nodes(3).start();
    let [leader, away] = cluster.leader_first().await;
    let ops = leader.ops();
    away.kill();
    let new = NewNode::beside(&cluster);
    let process = new.serve();
    let add = ["cluster", "--ops", ops, "add", "--id", "4", "--address", &new.address];
    // It fails until the new node listens.
    let added = async || cluster.run(&add).await;
    let (_, text) = eventually("the node is added", added, |(succeeded, _)| *succeeded).await;
    assert!(text.contains("Node 4 votes."), "{text}");
    let (succeeded, text) = cluster.run(&["cluster", "--ops", ops, "transfer", "--to", "4"]).await;
    assert!(succeeded, "{text} {}", process.log());
    away.restart().await;
    assert_fields(&away.status().await.unwrap(), json!({"leader": 4}));
}

#[tokio::test]
async fn wiped_disk_must_return_under_a_new_id() {
    let cluster = options().nodes(3).start();
    cluster.create(&json!({"label": "kept by the others"})).await;
    let [leader, wiped] = cluster.leader_first().await;
    let silence = async || {
        let status = leader.ops_request(Method::GET, "/cluster").send().await.ok();
        let member = array(&status["members"]).iter().find(|one| one["id"] == wiped.id());
        member.and_then(|member| member["last_contact_ms"].as_u64())
    };
    wiped.kill();
    // At once, it receives an append first; after a silence, a probe.
    for silence_ms in [0, 2_000] {
        wipe(wiped);
        eventually("it is silent", silence, |silence| *silence >= Some(silence_ms)).await;
        let log = wiped.failed_start(&[]).await;
        assert!(log.contains("with a new id"), "{log}");
    }
    leader.create(&json!({"label": "the others continue"})).await;
}

/// The others have nothing but their logs after a crash. They must know even then whose vote counts.
#[tokio::test]
async fn wiped_disk_has_no_vote_after_a_crash() {
    let cluster = options().nodes(3).start();
    cluster.create(&labelled("kept by the others")).await;
    converged(&cluster).await;
    cluster.nodes().for_each(Node::kill);
    let wiped = cluster.at(2);
    wipe(wiped);
    let mut process = wiped.serve_with(&[]);
    wiped.up().await;
    cluster.at(0).start_with(&[]);
    assert!(!process.ended().await, "{}", process.log());
    assert!(process.log().contains("with a new id"), "{}", process.log());
    assert!(!process.log().contains("this node has a leader"), "{}", process.log());
}

/// A node with damaged data is replaced by another one at its addresses.
#[tokio::test]
async fn damaged_node_is_replaced_by_one_command() {
    let cluster = options().nodes(3).start();
    cluster.store_each((0..20).map(labelled)).await;
    let [leader, other, damaged] = cluster.leader_first().await;
    damaged.kill();
    std::fs::write(damaged.data().join("log.mark"), b"damaged").unwrap();
    let log = damaged.failed_start(&[]).await;
    assert!(log.contains("hearth cluster replace"), "{log}");
    let new = NewNode::instead_of(damaged);
    let _process = new.serve();
    let old = damaged.id().to_string();
    let replace = ["cluster", "--ops", leader.ops(), "replace", &old, "--new-id", "4"];
    // It fails until the new node listens.
    let replaced = async || cluster.run(&replace).await;
    let (_, text) = eventually("it is replaced", replaced, |(succeeded, _)| *succeeded).await;
    assert!(text.contains(&format!("Node {old} is removed")), "{text}");
    // The new node has the memories, and its vote counts.
    let verified = verify(leader).await;
    assert_eq!((&verified["equal"], array(&verified["nodes"]).len()), (&json!(true), 3));
    other.kill();
    let created = async || leader.send(Method::POST, "/agent/nodes", &labelled("after")).await;
    eventually("writes continue", created, |response| response.status.is_success()).await;
}

/// Such a node is alone in its own membership, and would stand for election again and again.
#[tokio::test]
async fn half_a_bootstrap_is_not_added() {
    let cluster = options().nodes(1).start();
    let new = NewNode::beside(&cluster);
    let data = new.folder.path().join("data");
    std::fs::create_dir(&data).unwrap();
    std::fs::write(data.join("admin.key"), "no key").unwrap();
    let mut bootstrapping = new.bootstrap(4, &format!("4={}", new.address));
    assert!(!bootstrapping.ended().await, "{}", bootstrapping.log());
    assert!(bootstrapping.log().contains("admin key"), "{}", bootstrapping.log());
    let _process = new.serve();
    let body = json!({"id": 4, "address": new.address});
    let add = async || {
        cluster.at(0).ops_request(Method::POST, "/cluster/members").json(&body).send().await
    };
    let added =
        eventually("it listens", add, |added| added.body.to_string().contains("not completed it"));
    added.await;
    assert_eq!(
        array(&cluster.at(0).ops_request(Method::GET, "/cluster").send().await.ok()["members"])
            .len(),
        1
    );
}

#[tokio::test]
async fn node_joins_votes_leaves_and_retires_its_id() {
    let cluster = options().nodes(3).start();
    cluster.create(&json!({"label": "before"})).await;
    let new = NewNode::beside(&cluster);
    let _process = new.serve();
    let request = |method, path: &str| cluster.at(1).ops_request(method, path);
    let body = json!({"id": 4, "address": new.address});
    let add = async || request(Method::POST, "/cluster/members").json(&body).send().await;
    // It fails until the new node listens.
    eventually("the node is added", add, |added| added.status.is_success()).await;
    let role = async || {
        let status = request(Method::GET, "/cluster").send().await.ok();
        let member = array(&status["members"]).iter().find(|member| member["id"] == 4);
        member.map(|member| member["role"].clone())
    };
    eventually("it votes", role, |role| *role == Some(json!("voter"))).await;
    let verified = verify(cluster.at(1)).await;
    assert_eq!((&verified["equal"], array(&verified["nodes"]).len()), (&json!(true), 4));
    request(Method::DELETE, "/cluster/members/4").send().await.ok();
    assert_eq!(role().await, None);
    assert_conflict(&add().await, "id 4 was used before");
}

fn assert_conflict(response: &Response, reason: &str) {
    assert_eq!(response.status, StatusCode::CONFLICT, "{response:?}");
    assert!(response.body.to_string().contains(reason), "{response:?}");
}
