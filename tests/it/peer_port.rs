//! The peer port serves only members of its own cluster, with their recorded incarnation.
//! Rejected requests have no effect.

use std::path::Path;
use std::time::Duration;

use reqwest::{Certificate, Client, Identity, Response};

use super::*;

fn read(folder: &Path, name: &str) -> Vec<u8> {
    std::fs::read(folder.join(name)).unwrap()
}

/// A client that trusts the cluster's authority and presents the certificate in a folder.
pub(crate) fn client(cluster: &Cluster, certificate: Option<&Path>) -> Client {
    let authority = Certificate::from_pem(&read(cluster.folder(), "ca.pem")).unwrap();
    let builder = Client::builder().tls_certs_only([authority]).no_proxy();
    let mut builder = builder.timeout(Duration::from_secs(10));
    if let Some(folder) = certificate {
        let pem = [read(folder, "node-1.pem"), read(folder, "node-1.key")].concat();
        builder = builder.identity(Identity::from_pem(&pem).unwrap());
    }
    builder.build().unwrap()
}

/// URL of a channel of the second node's peer listener.
pub(crate) fn url(cluster: &Cluster, channel: &str) -> String {
    format!("https://{}/peer/{channel}", cluster.at(1).peer_address())
}

/// A request as a peer sends it (see `raft/src/network/message.rs`): format, group, cluster, id
/// and incarnation of the sender, id and incarnation of the receiver, three clocks, call. The
/// call is a vote of a term that would make the receiver follow the sender.
fn vote(cluster: Option<[u8; 16]>, incarnation: [u8; 16], to: u8) -> Vec<u8> {
    const VOTE: u8 = 2;
    const TERM: u8 = 200;
    const FORMAT: u8 = 1;
    const GROUP: u8 = 0;
    let cluster = cluster.map_or(vec![0], |cluster| [&[1][..], &cluster].concat());
    // The term, for itself, not granted yet; an empty log; no transfer.
    let call = [VOTE, TERM, 1, 0, 0, 0];
    [&[FORMAT, GROUP][..], &cluster, &[1], &incarnation, &[1, to, 0, 0, 0, 0], &call].concat()
}

/// How often the second node has logged `text`.
fn logged(cluster: &Cluster, text: &str) -> usize {
    let log = std::fs::read_to_string(cluster.at(1).data().join("node.log")).unwrap();
    log.matches(text).count()
}

/// The number of the reason in a rejection.
async fn rejection(response: Response) -> Option<u8> {
    assert_eq!(response.status(), StatusCode::OK);
    let bytes = response.bytes().await.unwrap();
    let [.., result, reason] = bytes[..] else { panic!("a short response") };
    (result == 1).then_some(reason)
}

#[tokio::test]
async fn handshake_rejects_foreign_certificates() {
    let cluster = options().nodes(3).start();
    let foreign = tempfile::tempdir().unwrap();
    let folder = foreign.path().to_str().unwrap();
    let arguments = ["certs", "--node", "1", "--host", "127.0.0.1", "--folder", folder];
    let (succeeded, text) = cluster.run(&arguments).await;
    assert!(succeeded, "{text}");
    for certificate in [None, Some(foreign.path()), None, Some(foreign.path())] {
        let sent = client(&cluster, certificate).post(url(&cluster, "raft")).body("x").send().await;
        assert!(sent.is_err(), "a foreign client got a response: {sent:?}");
    }
    let failures = logged(&cluster, "handshake with another node failed");
    assert_eq!(failures, 2, "each reason is logged once");
    let own = client(&cluster, Some(cluster.folder())).post(url(&cluster, "raft")).body("x");
    assert_eq!(own.send().await.unwrap().status(), StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn malformed_messages_are_rejected_without_effect() {
    let cluster = options().nodes(3).start();
    let client = client(&cluster, Some(cluster.folder()));
    let whole = vote(None, [7; 16], 2);
    let mut other_format = whole.clone();
    other_format[0] = 9;
    let (short, long) = (whole[..whole.len() - 1].to_vec(), [&whole[..], b"x"].concat());
    for (channel, body) in [
        ("raft", Vec::new()),
        ("raft", b"not a message".to_vec()),
        ("forward", other_format.clone()),
        ("forward", short),
        ("forward", long),
        ("snapshot", vec![0xff; 64]),
        ("snapshot", [&[0, 0, 0, whole.len() as u8][..], &whole].concat()),
    ] {
        let sent = client.post(url(&cluster, channel)).body(body.clone()).send().await.unwrap();
        let rejected = sent.status().is_client_error() || rejection(sent).await.is_some();
        assert!(rejected, "{channel} {body:?}");
    }
    let sent = client.post(url(&cluster, "raft")).body(other_format).send().await.unwrap();
    assert!(sent.text().await.unwrap().contains("format 9"), "the sender learns the format");
    for _ in 0..2 {
        let large = client.post(url(&cluster, "raft")).body(vec![0; 17 << 20]).send().await;
        assert!(large.is_err() || large.unwrap().status() == StatusCode::PAYLOAD_TOO_LARGE);
    }
    assert_eq!(logged(&cluster, "length limit exceeded"), 1, "logged once");
    cluster.at(1).create(&json!({"label": "the cluster works"})).await;
}

#[tokio::test]
async fn envelopes_with_a_wrong_identity_are_rejected() {
    const NOT_THE_RECEIVER: u8 = 0;
    const OTHER_CLUSTER: u8 = 1;
    const NOT_A_MEMBER: u8 = 2;
    const OTHER_GROUP: u8 = 4;
    let cluster = options().nodes(3).start();
    let client = client(&cluster, Some(cluster.folder()));
    converged(&cluster).await;
    let before = cluster.at(1).term().await;
    let mut other_group = vote(None, [7; 16], 2);
    other_group[1] = 1;
    for (body, reason, text) in [
        (other_group, OTHER_GROUP, "the node has no such Raft group"),
        (vote(None, [7; 16], 3), NOT_THE_RECEIVER, "the node at this address has another id"),
        (vote(Some([9; 16]), [7; 16], 2), OTHER_CLUSTER, "the node belongs to another cluster"),
        (vote(None, [7; 16], 2), NOT_A_MEMBER, "this node is not a member"),
    ] {
        for channel in ["forward", "raft", "raft"] {
            let sent = client.post(url(&cluster, channel)).body(body.clone()).send().await;
            assert_eq!(rejection(sent.unwrap()).await, Some(reason));
        }
        // Calls of the true node 1 in between reset the throttle of the log.
        assert!((1..=3).contains(&logged(&cluster, text)), "{text}");
    }
    assert_eq!(cluster.at(1).term().await, before, "no vote was counted");
    cluster.at(1).create(&json!({"label": "the cluster works"})).await;
}
