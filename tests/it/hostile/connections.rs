//! Attacks with connections.

use std::time::Duration;

use futures::future::join_all;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::attacker::{address, connect, connect_tls, open_for};
use super::*;

#[tokio::test]
async fn connection_without_a_complete_request_ends() {
    let cluster = options().start();
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    let open = join_all([&preface[..0], &preface[..1], &preface[..]].map(async |bytes| {
        let mut stream = connect_tls(&cluster, &cluster).await;
        stream.write_all(bytes).await.unwrap();
        open_for(stream).await
    }));
    for open in open.await {
        assert!(open > Duration::from_secs(8) && open < Duration::from_secs(15), "{open:?}");
    }
}

#[tokio::test]
async fn pings_do_not_keep_a_connection() {
    let cluster = options().start();
    let (_requests, mut connection) =
        h2::client::handshake(connect_tls(&cluster, &cluster).await).await.unwrap();
    let mut pings = connection.ping_pong().unwrap();
    let ping = tokio::spawn(async move {
        while pings.ping(h2::Ping::opaque()).await.is_ok() {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    });
    let ended = tokio::time::timeout(Duration::from_secs(15), connection).await;
    assert!(ended.is_ok(), "a connection with pings only is still open");
    ping.await.unwrap();
}

/// Opens `count` connections that send nothing. Returns those that are not closed at once.
async fn silent(address: std::net::SocketAddr, count: usize) -> Vec<tokio::net::TcpStream> {
    let mut open = Vec::new();
    for _ in 0..count {
        let Ok(mut stream) = connect(address).await else { continue };
        let mut byte = [0];
        let closed = tokio::time::timeout(Duration::from_millis(20), stream.read(&mut byte));
        if closed.await.is_err() {
            open.push(stream);
        }
    }
    open
}

#[tokio::test]
async fn silent_connections_leave_room_for_operators() {
    let cluster = options().start();
    let open = silent(address(cluster.ops()), 100).await;
    assert_eq!(open.len(), 32, "places of one address");
    let (status, _) = cluster.readyz().await.expect("a response");
    assert!(status.is_success());
}

/// Strangers take no place of members: a node that restarts meanwhile joins again.
#[tokio::test]
async fn silent_strangers_leave_room_for_members() {
    let cluster = options().nodes(3).start();
    let attack = join_all(
        cluster.nodes().map(async |node| silent(node.peer_address().parse().unwrap(), 300).await),
    );
    for open in attack.await {
        assert!(open.len() <= 16, "{} strangers", open.len());
    }
    let [leader, follower, _] = cluster.leader_first().await;
    let attack = cluster.nodes().map(|node| async {
        let address = node.peer_address().parse().unwrap();
        loop {
            silent(address, 50).await;
        }
    });
    let attack = join_all(attack);
    let restart = async {
        follower.kill();
        follower.start();
        leader.create(&json!({"label": "meanwhile"})).await;
        follower.ready().await;
    };
    tokio::select! {
        _ = attack => unreachable!(),
        () = restart => {}
    }
}
