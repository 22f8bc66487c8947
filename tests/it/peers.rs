//! The peer port deals with members of its own cluster only, in their known lives,
//! and with nothing that it cannot read. What is refused has no effect.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use reqwest::{Certificate, Client, Identity, Method, StatusCode};
use serde_json::json;
use tests::{Cluster, PATIENCE};

use crate::cluster::{command, settled};
use crate::options;

fn read(folder: &Path, name: &str) -> Vec<u8> {
    std::fs::read(folder.join(name)).unwrap()
}

/// A client that believes the cluster's authority and shows the certificate in
/// `shown`, if any.
fn client(cluster: &Cluster, shown: Option<&Path>) -> Client {
    let authority = Certificate::from_pem(&read(cluster.folder(), "ca.pem")).unwrap();
    let builder = Client::builder().tls_certs_only([authority]).no_proxy();
    let builder = match shown {
        Some(folder) => {
            let pem = [read(folder, "node-1.pem"), read(folder, "node-1.key")].concat();
            builder.identity(Identity::from_pem(&pem).unwrap())
        }
        None => builder,
    };
    builder.timeout(Duration::from_secs(10)).build().unwrap()
}

/// URL of the peer listener of the second node.
fn url(cluster: &Cluster, lane: &str) -> String {
    let toml = std::fs::read_to_string(cluster.at(1).data().join("hearth.toml")).unwrap();
    let peer = toml.split("[peer]").nth(1).unwrap();
    let address = peer.split('"').nth(1).unwrap();
    format!("https://{address}/peer/{lane}")
}

/// A request as a peer would send it (see `raft/src/network/message.rs`): format,
/// sender's cluster, id and life, receiver, its life, three clocks, call. The call is a
/// vote: of a term that would make the receiver follow the sender.
fn request(cluster: Option<[u8; 16]>, life: [u8; 16], to: u8) -> Vec<u8> {
    const VOTE: u8 = 2;
    const TERM: u8 = 200;
    let mut bytes = vec![1];
    match cluster {
        Some(cluster) => bytes.extend([&[1][..], &cluster].concat()),
        None => bytes.push(0),
    }
    bytes.push(1);
    bytes.extend(life);
    bytes.extend([1, to, 0, 0, 0, 0, VOTE]);
    // The term, for itself, not granted yet; a log that ends nowhere; by nobody's wish.
    bytes.extend([TERM, 1, 0, 0, 0]);
    bytes
}

/// How often the second node has logged `text`.
fn told(cluster: &Cluster, text: &str) -> usize {
    let log = std::fs::read_to_string(cluster.at(1).data().join("node.log")).unwrap();
    log.matches(text).count()
}

async fn term(cluster: &Cluster) -> u64 {
    cluster.at(1).status().await.unwrap()["term"].as_u64().unwrap()
}

#[tokio::test]
async fn strangers_do_not_get_past_the_handshake() {
    let cluster = options().nodes(3).start();
    let foreign = tempfile::tempdir().unwrap();
    let made = Command::new(env!("CARGO_BIN_EXE_hearth-under-test"))
        .args(["certs", "--node", "1", "--host", "127.0.0.1", "--folder"])
        .arg(foreign.path())
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    for shown in [None, Some(foreign.path()), None, Some(foreign.path())] {
        let sent = client(&cluster, shown).post(url(&cluster, "raft")).body("x").send().await;
        assert!(sent.is_err(), "a stranger was answered: {sent:?}");
    }
    assert_eq!(told(&cluster, "came to nothing"), 2, "each reason is logged once");
    let own = client(&cluster, Some(cluster.folder())).post(url(&cluster, "raft")).body("x");
    assert_eq!(own.send().await.unwrap().status(), StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn what_cannot_be_read_is_refused_and_changes_nothing() {
    let cluster = options().nodes(3).start();
    let client = client(&cluster, Some(cluster.folder()));
    let whole = request(None, [7; 16], 2);
    let mut other_format = whole.clone();
    other_format[0] = 9;
    let (cut, long) = (whole[..whole.len() - 1].to_vec(), [&whole[..], b"x"].concat());
    for (lane, body) in [
        ("raft", Vec::new()),
        ("raft", b"not a message".to_vec()),
        ("forward", other_format),
        ("forward", cut),
        ("forward", long),
        ("snapshot", vec![0xff; 64]),
        ("snapshot", [&[0, 0, 0, whole.len() as u8][..], &whole].concat()),
    ] {
        let sent = client.post(url(&cluster, lane)).body(body.clone()).send().await.unwrap();
        assert!(
            sent.status().is_client_error() || refused(sent).await.is_some(),
            "{lane} {body:?}"
        );
    }
    for _ in 0..2 {
        let large = client.post(url(&cluster, "raft")).body(vec![0; 17 << 20]).send().await;
        assert!(large.is_err() || large.unwrap().status() == StatusCode::PAYLOAD_TOO_LARGE);
    }
    assert_eq!(told(&cluster, "length limit exceeded"), 1, "logged once");
    cluster.at(1).create(&json!({"label": "all is well"})).await;
}

/// The reason of a rejection, by its place among the reasons.
async fn refused(answer: reqwest::Response) -> Option<u8> {
    assert_eq!(answer.status(), StatusCode::OK);
    let bytes = answer.bytes().await.unwrap();
    let [.., result, reason] = bytes[..] else { panic!("a short answer") };
    (result == 1).then_some(reason)
}

#[tokio::test]
async fn a_lying_envelope_is_seen_through() {
    const NOT_ME: u8 = 0;
    const OTHER_CLUSTER: u8 = 1;
    const NOT_A_MEMBER: u8 = 2;
    let cluster = options().nodes(3).start();
    let client = client(&cluster, Some(cluster.folder()));
    settled(&cluster).await;
    let before = term(&cluster).await;
    for (body, reason, text) in [
        (request(None, [7; 16], 3), NOT_ME, "it is another node than the one called"),
        (request(Some([9; 16]), [7; 16], 2), OTHER_CLUSTER, "it belongs to another cluster"),
        (request(None, [7; 16], 2), NOT_A_MEMBER, "this node is no member"),
    ] {
        for lane in ["forward", "raft", "raft"] {
            let answer = client.post(url(&cluster, lane)).body(body.clone()).send().await.unwrap();
            assert_eq!(refused(answer).await, Some(reason));
        }
        // The true node 1 calls in between: then it is news again.
        assert!((1..=3).contains(&told(&cluster, text)), "{text}");
    }
    assert_eq!(term(&cluster).await, before, "nobody was believed");
    cluster.at(1).create(&json!({"label": "all is well"})).await;
}

#[tokio::test]
async fn who_belongs_to_a_cluster_is_neither_founded_again_nor_let_into_another() {
    let cluster = options().nodes(3).start();
    let newcomer = Newcomer::beside(&cluster);
    let second = url(&cluster, "");
    let second = second.trim_start_matches("https://").trim_end_matches("/peer/");
    for (id, members, why) in [
        (1, format!("1={}, 2={second}", newcomer.address), "nothing was founded"),
        (4, format!("2={second}, 4={}", newcomer.address), "its member with the lowest id"),
    ] {
        let mut founder = newcomer.found(id, &members);
        assert!(!founder.ended() && founder.log().contains(why), "{}", founder.log());
        newcomer.empty();
    }
    // Alone it founds a cluster of its own, and then has no place in this one.
    let _node = newcomer.found(4, &format!("4={}", newcomer.address));
    let ready = async || {
        let answer = cluster.client().get(format!("http://{}/readyz", newcomer.ops)).send().await;
        answer.is_ok_and(|answer| answer.status().is_success())
    };
    let started = Instant::now();
    while !ready().await {
        assert!(started.elapsed() < PATIENCE, "it does not found its own cluster");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let add = json!({"id": 4, "address": newcomer.address});
    let asked = cluster.at(1).operate(Method::POST, "/cluster/members").json(&add).send().await;
    assert_eq!(asked.status, StatusCode::CONFLICT);
    assert!(asked.body.to_string().contains("belongs to another cluster"), "{}", asked.body);
}

#[tokio::test]
async fn a_node_that_was_away_while_another_came_follows_it_when_it_leads() {
    let cluster = options().nodes(3).start();
    let leader = cluster.leader().await;
    let away = (leader + 1) % 3;
    cluster.at(away).kill();
    let newcomer = Newcomer::beside(&cluster);
    let node = newcomer.serve(4);
    let started = Instant::now();
    let add = ["add", "--id", "4", "--address", &newcomer.address];
    loop {
        let (done, text) = command(cluster.at(leader).ops(), &add).await;
        if done {
            assert!(text.contains("Node 4 votes."), "{text}");
            break;
        }
        // It takes a moment until it listens.
        assert!(started.elapsed() < PATIENCE, "{text} {}", node.log());
    }
    let (done, text) = command(cluster.at(leader).ops(), &["transfer", "--to", "4"]).await;
    assert!(done, "{text} {}", node.log());
    let _back = cluster.at(away).serve();
    cluster.at(away).ready().await;
    let status = cluster.at(away).status().await.unwrap();
    assert_eq!(status["leader"], 4, "{status}");
}

#[tokio::test]
async fn a_wiped_disk_under_an_old_id_is_told_to_be_replaced() {
    let cluster = options().nodes(3).start();
    cluster.create(&json!({"label": "kept by the others"})).await;
    let wiped = cluster.at((cluster.leader().await + 1) % 3);
    wiped.kill();
    for entry in std::fs::read_dir(wiped.data()).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            std::fs::remove_dir_all(path).unwrap();
        } else if path.extension().is_none_or(|extension| extension != "toml")
            || path.ends_with("identity.toml")
        {
            std::fs::remove_file(path).unwrap();
        }
    }
    let mut node = wiped.serve();
    assert!(!node.ended(), "it must not go on under its id");
    assert!(node.log().contains("with a new id"), "{}", node.log());
    let others = cluster.at(cluster.leader().await);
    others.create(&json!({"label": "and they go on"})).await;
}

#[tokio::test]
async fn a_node_joins_votes_and_leaves_and_its_id_is_not_given_again() {
    let cluster = options().nodes(3).start();
    cluster.create(&json!({"label": "before it came"})).await;
    let newcomer = Newcomer::beside(&cluster);
    let node = newcomer.serve(4);
    let ask = |method, path: &str| cluster.at(1).operate(method, path);
    let add = json!({"id": 4, "address": newcomer.address});
    let started = Instant::now();
    // It takes a moment until it listens.
    while !ask(Method::POST, "/cluster/members").json(&add).send().await.status.is_success() {
        assert!(started.elapsed() < PATIENCE, "it is not let in: {}", node.log());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let role = async || {
        let status = ask(Method::GET, "/cluster").send().await.ok();
        let members = status["members"].as_array().unwrap().clone();
        members.iter().find(|member| member["id"] == 4).map(|member| member["role"].clone())
    };
    while role().await != Some(json!("voter")) {
        assert!(started.elapsed() < PATIENCE, "it does not become a voter: {}", node.log());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let verified = ask(Method::POST, "/cluster/verify").json(&json!({})).send().await.ok();
    assert_eq!(
        (&verified["equal"], verified["nodes"].as_array().unwrap().len()),
        (&json!(true), 4)
    );
    ask(Method::DELETE, "/cluster/members/4").send().await.ok();
    assert_eq!(role().await, None);
    let again = ask(Method::POST, "/cluster/members").json(&add).send().await;
    assert_eq!(again.status, StatusCode::CONFLICT, "{}", again.body);
    assert!(again.body.to_string().contains("id 4 was used before"), "{}", again.body);
}

/// A node that `hearth dev` did not make.
struct Newcomer {
    folder: tempfile::TempDir,
    config: String,
    address: String,
    ops: String,
}

impl Newcomer {
    /// With the first node's certificate, and its configuration but for id, folder and ports.
    fn beside(cluster: &Cluster) -> Self {
        let folder = tempfile::tempdir().unwrap();
        // Below those that outgoing connections get, which may take one in between.
        let free = || loop {
            let port = 10_240 + RandomState::new().build_hasher().finish() % 20_000;
            if let Ok(held) = std::net::TcpListener::bind(("127.0.0.1", port as u16)) {
                return held;
            }
        };
        let listeners = [free(), free(), free()];
        let addresses = listeners.map(|held| held.local_addr().unwrap().to_string());
        let text = std::fs::read_to_string(cluster.data().join("hearth.toml")).unwrap();
        let mut addresses_left = addresses.iter();
        let line = |line: &str| match line.split(' ').next() {
            Some("listen") => format!("listen = \"{}\"", addresses_left.next().unwrap()),
            Some("id") => "id = 4".into(),
            Some("data") => format!("data = \"{}\"", folder.path().join("data").display()),
            _ => line.to_owned(),
        };
        let config = text.lines().map(line).collect::<Vec<_>>().join("\n");
        Self { address: addresses[2].clone(), ops: addresses[1].clone(), folder, config }
    }

    fn serve(&self, id: u64) -> tests::Node {
        self.start(id, &self.config, &[])
    }

    /// Starts it as the founder of a cluster of these members.
    fn found(&self, id: u64, members: &str) -> tests::Node {
        let line = |line: &str| match line.split(' ').next() {
            Some("id") => format!("id = {id}"),
            Some("members") => format!("members = \"{members}\""),
            _ => line.to_owned(),
        };
        let config = self.config.lines().map(line).collect::<Vec<_>>().join("\n");
        self.start(id, &config, &["--bootstrap"])
    }

    fn start(&self, id: u64, toml: &str, arguments: &[&str]) -> tests::Node {
        let config = self.folder.path().join(format!("node-{id}.toml"));
        std::fs::write(&config, toml).unwrap();
        let binary = Path::new(env!("CARGO_BIN_EXE_hearth-under-test"));
        tests::Node::start(binary, &config, &self.folder.path().join("log"), arguments)
    }

    /// Takes its data away.
    fn empty(&self) {
        std::fs::remove_dir_all(self.folder.path().join("data")).unwrap();
    }
}
