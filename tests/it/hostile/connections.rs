//! Attacks with connections.

use std::time::Duration;

use futures::future::join_all;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::attacker::{
    Attack, address, assert_served, connect_from, connect_tls, frame, latency, open_for, over_tls,
    preface, tls,
};
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

/// Opens `count` connections from 127.0.0.`source` that send nothing. Returns those that are not
/// closed at once.
async fn silent(
    source: u8,
    address: std::net::SocketAddr,
    count: usize,
) -> Vec<tokio::net::TcpStream> {
    let mut open = Vec::new();
    for _ in 0..count {
        let Ok(mut stream) = connect_from(source, address).await else { continue };
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
    let open = silent(2, address(cluster.ops()), 100).await;
    assert_eq!(open.len(), 32, "connections of one address");
    let (status, _) = cluster.readyz().await.expect("a response");
    assert!(status.is_success());
}

/// Takes the handshakes of all source addresses: opens a connection for each that ends.
async fn take_handshakes(address: std::net::SocketAddr) {
    join_all((0..96).map(async |at| {
        loop {
            match connect_from(2 + at % 6, address).await {
                Ok(mut stream) => drop(stream.read(&mut [0]).await),
                Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        }
    }))
    .await;
}

/// The median time in which a new client is served: 20 from addresses of their own, beginning with
/// 127.0.0.`first`.
async fn new_clients(cluster: &Cluster, first: u8) -> Duration {
    let mut times = Vec::new();
    for source in first..first + 20 {
        let started = std::time::Instant::now();
        let stream = connect_from(source, address(cluster.url())).await;
        let mut stream = over_tls(&tls(cluster, false), stream).await.unwrap();
        let head = "GET /api/v1/agent/nodes HTTP/1.1\r\nHost: x\r\nConnection: close\r\n";
        let request = format!("{head}Authorization: Bearer {}\r\n\r\n", cluster.key);
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut response = String::new();
        drop(stream.read_to_string(&mut response).await);
        assert!(response.starts_with("HTTP/1.1 200"), "{source}: {response}");
        times.push(started.elapsed());
    }
    times.sort_unstable();
    times[times.len() / 2]
}

/// More than half of the places, from six addresses, and again as each connection ends.
#[tokio::test]
async fn keyless_connections_leave_room_for_clients() {
    const CONNECTIONS: u64 = 450;
    let cluster = options().start();
    let at = address(cluster.url());
    new_clients(&cluster, 90).await;
    let quiet = new_clients(&cluster, 110).await;
    let files = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: files.maximum, ..files }).unwrap();
    let (mut open, count) = (Vec::new(), 6 * setting("HEARTH_CONNECTIONS", CONNECTIONS));
    for source in (2..8).cycle().take(count as usize / 50) {
        // The kernel keeps so many that are not accepted yet.
        open.extend(join_all((0..50).map(|_| connect_from(source, at))).await);
    }
    assert!(open.iter().all(Result::is_ok), "the limit of open files is too low");
    let evicted = cluster.metric("hearth_connections_evicted_total").await;
    assert!(evicted > 500.0, "{evicted}");
    // Others come as these make room.
    let _attack = Attack::silence(at);
    let attacked = new_clients(&cluster, 130).await;
    println!("{quiet:?} without, {attacked:?} with the attack, {evicted} evicted");
    assert_served(quiet, attacked);
    assert_eq!(cluster.metric("hearth_connections_rejected_total").await, 0.0);
}

/// An idle connection that has shown a key stays when others make room.
#[tokio::test]
async fn connection_with_a_key_stays_beside_keyless_ones() {
    let cluster = options().start();
    let stream = connect_from(99, address(cluster.url())).await;
    let mut stream = over_tls(&tls(&cluster, false), stream).await.unwrap();
    let request = format!(
        "GET /api/v1/auth/verify HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\n\r\n",
        cluster.key
    );
    let responds = async |stream: &mut tokio_rustls::client::TlsStream<tokio::net::TcpStream>| {
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut buffer = vec![0; 16 << 10];
        let read = stream.read(&mut buffer).await.unwrap();
        assert!(buffer[..read].starts_with(b"HTTP/1.1 200"));
    };
    responds(&mut stream).await;
    let (at, mut keyless) = (address(cluster.url()), Vec::new());
    // The kernel keeps so many that are not accepted yet.
    for source in (2..6).cycle().take(40) {
        keyless.extend(join_all((0..50).map(|_| connect_from(source, at))).await);
    }
    // Longer than a keyless connection may be idle.
    tokio::time::sleep(Duration::from_secs(16)).await;
    responds(&mut stream).await;
    let ended = keyless.into_iter().flatten().map(async |mut stream| {
        tokio::time::timeout(PATIENCE, stream.read(&mut [0])).await.expect("it ends")
    });
    join_all(ended).await;
}

#[tokio::test]
async fn configured_members_have_permits_before_they_connect() {
    let cluster = options().start();
    let address = cluster.peer_address().parse().unwrap();
    let check = async {
        let other = async || silent(9, address, 1).await.len();
        eventually("the handshakes are taken", other, |open| *open == 0).await;
        assert_eq!(silent(1, address, 1).await.len(), 1, "the address of the only member");
    };
    tokio::select! {
        () = take_handshakes(address) => unreachable!(),
        () = check => {}
    }
}

/// Connections without a certificate take no permit of members: a node that restarts meanwhile
/// joins again.
#[tokio::test]
async fn silent_connections_leave_room_for_members() {
    let cluster = options().nodes(3).start();
    let attack = join_all(
        cluster
            .nodes()
            .map(async |node| silent(2, node.peer_address().parse().unwrap(), 300).await),
    );
    for open in attack.await {
        assert!(open.len() <= 16, "{} without a certificate", open.len());
    }
    let [leader, follower, _] = cluster.leader_first().await;
    let attack =
        join_all(cluster.nodes().map(|node| take_handshakes(node.peer_address().parse().unwrap())));
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

#[tokio::test(flavor = "multi_thread")]
async fn frames_without_requests_do_not_delay_others() {
    let cluster = options().start();
    let get = || cluster.request(Method::GET, "/agent/nodes?page_size=5");
    let quiet = latency(get).await;
    const POST_HTTPS_ROOT: [u8; 3] = [0x83, 0x87, 0x84];
    // A request without the end of its body.
    let start = [preface(), frame(1, 4, 1, &POST_HTTPS_ROOT)].concat();
    let attacks = [
        ("SETTINGS", frame(4, 0, 0, &[])),
        ("PING", frame(6, 0, 0, &[0; 8])),
        ("WINDOW_UPDATE", frame(8, 0, 0, &[0, 0, 0, 1])),
        ("PRIORITY", frame(2, 0, 1, &[0; 5])),
        ("an unknown type", frame(0xbb, 0, 0, &[])),
        ("empty DATA", frame(0, 0, 1, &[])),
        ("small DATA", frame(0, 0, 1, &[0])),
        ("RST_STREAM", frame(3, 0, 1, &[0; 4])),
    ];
    for ((name, frame), source) in attacks.into_iter().zip(2..) {
        let attack = (start.clone(), frame.repeat(16_384 / frame.len()));
        // From an address of its own: connections that end count for their address for a while.
        let attack = Attack::frames(&cluster, &cluster, source, attack);
        latency(get).await;
        let attacked = latency(get).await;
        drop(attack);
        let ended = cluster.metric("hearth_connections_ended_total").await;
        println!("{name}: {quiet:?} without, {attacked:?} with the attack, {ended} ended");
        assert_served(quiet, attacked);
    }
    assert!(cluster.metric("hearth_connections_ended_total").await > 0.0);
}

/// Small windows make a client send thousands of updates.
#[tokio::test]
async fn downloads_and_pings_keep_their_connection() {
    let cluster = options().start();
    let mut client = h2::client::Builder::new();
    client.initial_window_size(16 << 10);
    let stream = connect_tls(&cluster, &cluster).await;
    let (mut sender, mut connection) = client.handshake::<_, &[u8]>(stream).await.unwrap();
    let mut pings = connection.ping_pong().unwrap();
    let connection = tokio::spawn(connection);
    for _ in 0..50 {
        let request = http::Request::get(format!("{}/openapi.json", cluster.url()));
        sender = sender.ready().await.unwrap();
        let sent = sender.send_request(request.body(()).unwrap(), true).unwrap().0;
        let mut body = sent.await.unwrap().into_body();
        while let Some(data) = body.data().await {
            let length = data.unwrap().len();
            body.flow_control().release_capacity(length).unwrap();
        }
        pings.ping(h2::Ping::opaque()).await.unwrap();
    }
    assert!(!connection.is_finished());
    assert_eq!(cluster.metric("hearth_connections_ended_total").await, 0.0);
}
