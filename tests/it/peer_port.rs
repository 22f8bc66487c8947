//! The peer port serves only members of its own cluster, with their recorded incarnation.
//! Rejected requests have no effect.

use std::path::Path;
use std::time::Duration;

use reqwest::{Certificate, Client, Identity, Response, Upgraded};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;

fn read(folder: &Path, name: &str) -> Vec<u8> {
    std::fs::read(folder.join(name)).unwrap()
}

/// A client that trusts the cluster's authority and presents the certificate in a folder.
pub(crate) fn client(cluster: &Cluster, certificate: Option<&Path>) -> Client {
    let authority = Certificate::from_pem(&read(cluster.folder(), "ca.pem")).unwrap();
    let builder = Client::builder().tls_certs_only([authority]).http1_only().no_proxy();
    let mut builder = builder.timeout(Duration::from_secs(10));
    if let Some(folder) = certificate {
        let pem = [read(folder, "node-1/node.pem"), read(folder, "node-1/node.key")].concat();
        builder = builder.identity(Identity::from_pem(&pem).unwrap());
    }
    builder.build().unwrap()
}

/// URL of a channel of the second node's peer listener.
pub(crate) fn url(cluster: &Cluster, channel: &str) -> String {
    format!("https://{}/peer/{channel}", cluster.at(1).peer_address())
}

/// A request to open a connection for calls.
pub(crate) async fn upgrade(client: &Client, url: &str) -> reqwest::Result<Response> {
    client.get(url).header("Connection", "upgrade").header("Upgrade", "hearth-calls-1").send().await
}

/// A connection for calls (see `raft/src/network/connection.rs`).
async fn open(client: &Client, cluster: &Cluster, channel: &str) -> Upgraded {
    let response = upgrade(client, &url(cluster, channel)).await.unwrap();
    assert_eq!(response.status(), StatusCode::SWITCHING_PROTOCOLS);
    response.upgrade().await.unwrap()
}

const MESSAGE: u8 = 0;
const NOT_READ: u8 = 1;

/// Sends a call as the only one of its connection. Returns kind and bytes of the answer.
async fn call(connection: &mut Upgraded, body: &[u8]) -> (u8, Vec<u8>) {
    const NUMBER: [u8; 8] = [7; 8];
    let frame = [&NUMBER[..], &[MESSAGE], body].concat();
    connection.write_u32(frame.len() as u32).await.unwrap();
    connection.write_all(&frame).await.unwrap();
    connection.flush().await.unwrap();
    let length = connection.read_u32().await.unwrap();
    let mut answer = vec![0; length as usize];
    connection.read_exact(&mut answer).await.unwrap();
    assert_eq!(answer[..8], NUMBER);
    (answer[8], answer[9..].to_vec())
}

/// A request as a peer sends it (see `raft/src/network/message.rs`): format, group, cluster, id
/// and incarnation of the sender, id and incarnation of the receiver, three clocks, full disk, feature level
/// and version, timeout, call.
/// The call is a vote of a term that would make the receiver follow the sender.
fn vote(cluster: Option<[u8; 16]>, incarnation: [u8; 16], to: u8) -> Vec<u8> {
    const VOTE: u8 = 2;
    const TERM: u8 = 200;
    const FORMAT: u8 = 1;
    const GROUP: u8 = 0;
    let cluster = cluster.map_or(vec![0], |cluster| [&[1][..], &cluster].concat());
    // The term, for itself, not granted yet; an empty log; no transfer.
    let call = [VOTE, TERM, 1, 0, 0, 0];
    let receiver_condition_timeout = [1, to, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 250];
    [&[FORMAT, GROUP][..], &cluster, &[1], &incarnation, &receiver_condition_timeout, &call]
        .concat()
}

/// How often the second node has logged `text`.
fn logged(cluster: &Cluster, text: &str) -> usize {
    let log = std::fs::read_to_string(cluster.at(1).data().join("node.log")).unwrap();
    log.matches(text).count()
}

/// The number of the reason in a rejection.
fn rejection((kind, bytes): (u8, Vec<u8>)) -> Option<u8> {
    let [.., result, reason] = bytes[..] else { panic!("a short response") };
    (kind == MESSAGE && result == 1).then_some(reason)
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
        let sent = upgrade(&client(&cluster, certificate), &url(&cluster, "raft")).await;
        assert!(sent.is_err(), "a foreign client got a response: {sent:?}");
    }
    let failures = logged(&cluster, "handshake with another node failed");
    assert_eq!(failures, 2, "each reason is logged once");
    let own = client(&cluster, Some(cluster.folder()));
    drop(open(&own, &cluster, "raft").await);
    let other = own.get(url(&cluster, "raft")).header("Connection", "upgrade");
    let other = other.header("Upgrade", "other").send().await.unwrap();
    assert_eq!(other.status(), StatusCode::UPGRADE_REQUIRED);
    assert!(other.text().await.unwrap().contains("hearth-calls-1"), "the text names the protocol");
}

#[tokio::test]
async fn malformed_messages_are_rejected_without_effect() {
    let cluster = options().nodes(3).start();
    let client = client(&cluster, Some(cluster.folder()));
    let whole = vote(None, [7; 16], 2);
    let mut other_format = whole.clone();
    other_format[0] = 9;
    let (short, long) = (whole[..whole.len() - 1].to_vec(), [&whole[..], b"x"].concat());
    let [mut raft, mut forward] =
        [open(&client, &cluster, "raft").await, open(&client, &cluster, "forward").await];
    for body in [b"", &b"not a message"[..], &other_format, &short, &long] {
        for connection in [&mut raft, &mut forward] {
            let (kind, text) = call(connection, body).await;
            assert_eq!(kind, NOT_READ, "{body:?}");
            let text = String::from_utf8(text).unwrap();
            assert_eq!(body.first() == Some(&9), text.contains("format 9"), "{text}");
        }
    }
    for body in [vec![0xff; 64], [&[0, 0, 0, whole.len() as u8][..], &whole].concat()] {
        let sent = client.post(url(&cluster, "snapshot")).body(body.clone()).send().await.unwrap();
        let rejected = sent.status().is_client_error()
            || rejection((MESSAGE, sent.bytes().await.unwrap().to_vec())).is_some();
        assert!(rejected, "{body:?}");
    }
    for _ in 0..2 {
        let mut connection = open(&client, &cluster, "raft").await;
        connection.write_u32(17 << 20).await.unwrap();
        connection.flush().await.unwrap();
        assert!(connection.read_u8().await.is_err(), "a frame that is too long ends it");
    }
    assert_eq!(logged(&cluster, "frame size too big"), 1, "logged once");
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
            let mut connection = open(&client, &cluster, channel).await;
            assert_eq!(rejection(call(&mut connection, &body).await), Some(reason));
        }
        // Calls of the true node 1 in between reset the throttle of the log.
        assert!((1..=3).contains(&logged(&cluster, text)), "{text}");
    }
    assert_eq!(cluster.at(1).term().await, before, "no vote was counted");
    cluster.at(1).create(&json!({"label": "the cluster works"})).await;
}
