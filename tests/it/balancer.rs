//! Behind a balancer, a node sees the addresses of its clients: the balancer sends them by the PROXY
//! protocol.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use super::*;

/// The header of a connection from a client at 203.0.113.9.
fn header() -> Vec<u8> {
    let addresses = [203, 0, 113, 9, 198, 51, 100, 1, 0x10, 0, 0x01, 0xbb];
    [&b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c"[..], &addresses].concat()
}

/// The response to a request whose connection begins with `start`; empty if there is none.
fn respond(cluster: &Cluster, start: &[u8]) -> String {
    let address: SocketAddr = cluster.url().split('/').nth(2).unwrap().parse().unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    let request = format!(
        "GET /api/v1/auth/verify HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\
         Authorization: Bearer {}\r\n\r\n",
        cluster.key
    );
    stream.write_all(&[start, request.as_bytes()].concat()).unwrap();
    let mut response = String::new();
    drop(stream.read_to_string(&mut response));
    response
}

#[tokio::test(flavor = "multi_thread")]
async fn listed_balancer_names_its_clients() {
    let cluster = options().start();
    cluster.kill();
    let plain = ("HEARTH__PUBLIC__PLAIN_HTTP", "true");
    cluster.restart_with(&[plain, ("HEARTH__PUBLIC__PROXIES", "127.0.0.0/8")]).await;
    let found = tokio::task::block_in_place(|| respond(&cluster, &header()));
    assert!(found.starts_with("HTTP/1.1 200"), "{found}");
    let none = tokio::task::block_in_place(|| respond(&cluster, b""));
    assert_eq!(none, "", "a connection of a balancer without a header");
    // The use of the key is recorded with its next report.
    cluster.shut_down().await;
    cluster.restart().await;
    let log = async || cluster.get("/admin/audit?chain=data").await.to_string();
    let is_named = |log: &String| log.contains("203.0.113.9");
    eventually("the audit log names the client", log, is_named).await;
}
