//! The peer port deals with members of its own cluster only, in their known lives,
//! and with nothing that it cannot read. What is refused has no effect.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use reqwest::{Certificate, Client, Identity, Method, StatusCode};
use serde_json::json;
use tests::{Cluster, PATIENCE};

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
/// sender's cluster, id and life, receiver, its life, three clocks, call.
fn request(cluster: Option<[u8; 16]>, life: [u8; 16], to: u8) -> Vec<u8> {
    const READ_INDEX: u8 = 5;
    let mut bytes = vec![1];
    match cluster {
        Some(cluster) => bytes.extend([&[1][..], &cluster].concat()),
        None => bytes.push(0),
    }
    bytes.push(1);
    bytes.extend(life);
    bytes.extend([1, to, 0, 0, 0, 0, READ_INDEX]);
    bytes
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
    for shown in [None, Some(foreign.path())] {
        let sent = client(&cluster, shown).post(url(&cluster, "raft")).body("x").send().await;
        assert!(sent.is_err(), "a stranger was answered: {sent:?}");
    }
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
    let large = client.post(url(&cluster, "raft")).body(vec![0; 17 << 20]).send().await;
    assert!(large.is_err() || large.unwrap().status() == StatusCode::PAYLOAD_TOO_LARGE);
    cluster.at(1).create(&json!({"label": "all is well"})).await;
}

/// The reason of a refusal, by its place among the reasons.
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
    for (body, reason) in [
        (request(None, [7; 16], 3), NOT_ME),
        (request(Some([9; 16]), [7; 16], 2), OTHER_CLUSTER),
        (request(None, [7; 16], 2), NOT_A_MEMBER),
    ] {
        let answer = client.post(url(&cluster, "forward")).body(body).send().await.unwrap();
        assert_eq!(refused(answer).await, Some(reason));
    }
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
    let mut node = newcomer.serve(4);
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
    node.kill();
    let again = ask(Method::POST, "/cluster/members").json(&add).send().await;
    assert_eq!(again.status, StatusCode::CONFLICT, "{}", again.body);
}

/// A node that `hearth dev` did not make.
struct Newcomer {
    folder: tempfile::TempDir,
    config: String,
    address: String,
}

impl Newcomer {
    /// With the first node's certificate, and its configuration but for id, folder and ports.
    fn beside(cluster: &Cluster) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let free = || std::net::TcpListener::bind("127.0.0.1:0").unwrap();
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
        Self { address: addresses[2].clone(), folder, config }
    }

    fn serve(&self, id: u64) -> tests::Node {
        let config = self.folder.path().join(format!("node-{id}.toml"));
        std::fs::write(&config, &self.config).unwrap();
        tests::Node::start(
            Path::new(env!("CARGO_BIN_EXE_hearth-under-test")),
            &config,
            &self.folder.path().join("log"),
        )
    }
}
