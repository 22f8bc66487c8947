//! Attacks with requests that no client sends: framings with two readings, floods of HTTP/2,
//! oversized headers, odd bodies.

use std::io::Write;

use futures::future::join_all;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::attacker::{
    Attack, address, assert_served, connect, frame, latency, memory_mb, over_tls, preface, tls,
};
use super::*;

/// Memory that an attack may take, in MB.
const GROWTH_MAX: u64 = 64;

/// What a node returns for these bytes over HTTP/1, until it ends the connection.
async fn exchange(cluster: &Cluster, bytes: &[u8]) -> String {
    let stream = connect(address(cluster.url())).await;
    let mut stream = over_tls(&tls(cluster, false), stream).await.unwrap();
    // The node may end the connection first, with or without a close_notify.
    stream.write_all(bytes).await.ok();
    let mut received = Vec::new();
    let read = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut received));
    read.await.expect("the connection ends").ok();
    String::from_utf8(received).unwrap()
}

/// A reader that takes the end of the first request elsewhere finds a second one in it. The node
/// never responds to that one.
#[tokio::test]
async fn no_request_hides_another() {
    let cluster = options().start();
    let hidden = "GET /livez HTTP/1.1\r\nHost: h\r\n\r\n";
    let length = hidden.len();
    let last = "GET /last HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
    let chunked = "Transfer-Encoding: chunked\r\n";
    let cases = [
        (format!("Content-Length: {length}\r\n{chunked}"), "0\r\n\r\n"),
        (format!("{chunked}Content-Length: {length}\r\n"), "0\r\n\r\n"),
        (format!("Content-Length: 0\r\nContent-Length: {length}\r\n"), ""),
        (format!("Content-Length: {length}\r\nContent-Length: 0\r\n"), ""),
        ("Content-Length: 0, 7\r\n".into(), ""),
        ("Content-Length: +0\r\n".into(), ""),
        ("Content-Length: -0\r\n".into(), ""),
        ("Content-Length: 0x0\r\n".into(), ""),
        ("Content-Length: \r\n".into(), ""),
        ("Content-Length: 99999999999999999999\r\n".into(), ""),
        ("Content-Length : 0\r\n".into(), ""),
        ("Content-Length\r\n: 0\r\n".into(), ""),
        ("X: a\r\n Content-Length: 0\r\n".into(), ""),
        ("X: a\rContent-Length: 0\r\n".into(), ""),
        ("X\0: a\r\n".into(), ""),
        ("X: \0\r\n".into(), ""),
        (" Host: h\r\n".into(), ""),
        ("Transfer-Encoding: identity\r\n".into(), "0\r\n\r\n"),
        ("Transfer-Encoding: chunked, identity\r\n".into(), "0\r\n\r\n"),
        ("Transfer-Encoding: xchunked\r\n".into(), "0\r\n\r\n"),
        ("Transfer-Encoding: chunked\x0b\r\n".into(), "0\r\n\r\n"),
        ("Transfer-Encoding: \"chunked\"\r\n".into(), "0\r\n\r\n"),
        ("Transfer-Encoding : chunked\r\n".into(), "0\r\n\r\n"),
        ("Transfer-Encoding:\r\n chunked\r\n".into(), "0\r\n\r\n"),
        (format!("{chunked}Transfer-Encoding: identity\r\n"), "0\r\n\r\n"),
        ("Transfer-Encoding: chunked, chunked\r\n".into(), "0\r\n\r\n"),
        ("Transfer-Encoding: gzip, chunked\r\n".into(), "0\r\n\r\n"),
        (format!("Transfer-Encoding: x\r\n{chunked}"), "0\r\n\r\n"),
        (chunked.into(), "0x0\r\n\r\n"),
        (chunked.into(), "-1\r\n\r\n"),
        (chunked.into(), "\r\n\r\n"),
        (chunked.into(), "1\r\naX\r\n0\r\n\r\n"),
        (chunked.into(), "1\r\na0\r\n\r\n"),
        (chunked.into(), "1;a\nb\r\na\r\n0\r\n\r\n"),
        (chunked.into(), "10000000000000000\r\n\r\n"),
        (chunked.into(), "0\r\nX\r\n\r\n"),
    ];
    let exchanges = cases.iter().map(async |(headers, start)| {
        let head = format!("POST /api/v1/agent/search HTTP/1.1\r\nHost: h\r\n{headers}\r\n");
        let received =
            exchange(&cluster, [head.as_str(), start, hidden, last].concat().as_bytes()).await;
        (headers, start, received)
    });
    for (headers, start, received) in join_all(exchanges).await {
        let responses = received.matches("HTTP/1.1 ").count();
        assert!(
            responses <= 1 && !received.contains("HTTP/1.1 2"),
            "{headers:?} {start:?}: {received}"
        );
        assert_eq!(received.matches("\"request_id\":").count(), responses, "{received}");
    }
    // Framings that have one reading are one request each.
    for (headers, body) in [
        ("Content-Length: 2\r\nContent-Length: 2\r\n", "{}"),
        ("Transfer-Encoding: Chunked\r\n", "2;name=value\r\n{}\r\n0\r\nTrailer: t\r\n\r\n"),
        ("Transfer-Encoding: chunked\r\n", "1\r\n{\r\n001\r\n}\r\n0\r\n\r\n"),
    ] {
        let head = format!("POST /api/v1/agent/search HTTP/1.1\r\nHost: h\r\n{headers}\r\n");
        let received = exchange(&cluster, [head.as_str(), body, last].concat().as_bytes()).await;
        let statuses: Vec<_> = received.split("HTTP/1.1 ").skip(1).map(|text| &text[..3]).collect();
        assert_eq!(statuses, ["401", "404"], "{headers:?} {body:?}: {received}");
    }
}

#[tokio::test]
async fn large_headers_are_rejected() {
    let cluster = options().start();
    let get = |count: usize, bytes: usize| {
        let request = cluster.request(Method::GET, "/agent/nodes");
        (0..count).fold(request, |request, at| {
            request.header(&format!("x-{at}"), &"x".repeat(bytes / count))
        })
    };
    for (count, bytes, status) in [
        (90, 10 << 10, 200),
        (1, 14 << 10, 200),
        (1_200, 1_200, 431),
        (101, 101, 431),
        (1, 17 << 10, 431),
        (20, 60 << 10, 431),
    ] {
        // The node may end the connection before all headers are sent.
        let sent = get(count, bytes).try_send().await.map(|response| response.status.as_u16());
        let is_expected = sent.as_ref().map_or(status == 431, |found| *found == status);
        assert!(is_expected, "{count} headers, {bytes} B: {sent:?}");
        let headers: String =
            (0..count).map(|at| format!("x-{at}: {}\r\n", "x".repeat(bytes / count))).collect();
        let head = format!("GET /livez HTTP/1.1\r\nHost: h\r\nConnection: close\r\n{headers}\r\n");
        let received = exchange(&cluster, head.as_bytes()).await;
        let is_expected = received.starts_with(&format!("HTTP/1.1 {status} "));
        assert!(is_expected || status == 431 && received.is_empty(), "{count} {bytes}: {received}");
        let has_body = received.contains("\"error\":\"too_many_headers\"");
        assert_eq!(has_body, status == 431 && is_expected, "{count} {bytes}: {received}");
    }
    let search = format!("/agent/nodes?search={}", "%C3%A4".repeat(2 << 10));
    assert_eq!(cluster.request(Method::GET, &search).send().await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn floods_of_streams_do_not_delay_others() {
    const GET_HTTPS_ROOT: [u8; 3] = [0x82, 0x87, 0x84];
    const POST_HTTPS_ROOT: [u8; 3] = [0x83, 0x87, 0x84];
    const END_STREAM: u8 = 1;
    const END_HEADERS: u8 = 4;
    let cluster = options().start();
    let get = || cluster.request(Method::GET, "/agent/nodes?page_size=5");
    let quiet = latency(get).await;
    let before = memory_mb(&cluster, "VmRSS");
    let reset = |at: u32| {
        let headers = frame(1, END_STREAM | END_HEADERS, 2 * at + 1, &GET_HTTPS_ROOT);
        [headers, frame(3, 0, 2 * at + 1, &[0, 0, 0, 8])].concat()
    };
    // Headers of 14 KB that decode to three fields.
    let resized = |at: u32| {
        let fields = [&[0x20; 14_000][..], &GET_HTTPS_ROOT].concat();
        frame(1, END_STREAM | END_HEADERS, 2 * at + 1, &fields)
    };
    let indexed = [0x40, 1, b'x', 1, b'x'];
    let byte = frame(0, 0, 1, b"x");
    for (source, (name, start, frames)) in (2..).zip([
        ("handshakes", preface(), Vec::new()),
        ("resets", preface(), (0..1_000).flat_map(reset).collect()),
        ("CONTINUATION", frame(1, 0, 1, &GET_HTTPS_ROOT), frame(9, 0, 1, &indexed).repeat(1_000)),
        ("empty CONTINUATION", frame(1, 0, 1, &GET_HTTPS_ROOT), frame(9, 0, 1, &[]).repeat(1_000)),
        ("a body of single bytes", frame(1, END_HEADERS, 1, &POST_HTTPS_ROOT), byte.repeat(10_000)),
        ("resizes of the table", preface(), (0..100).flat_map(resized).collect()),
        ("a bomb", preface(), frame(1, END_HEADERS, 1, &[&indexed[..], &[0xbe; 16_000]].concat())),
    ]) {
        let start = if start == preface() { start } else { [preface(), start].concat() };
        let attack = Attack::frames(&cluster, &cluster, source, (start, frames));
        latency(get).await;
        let attacked = latency(get).await;
        drop(attack);
        println!("{name}: {quiet:?} without, {attacked:?} with the attack");
        assert_served(quiet, attacked);
    }
    let growth = memory_mb(&cluster, "VmHWM").saturating_sub(before);
    assert!(growth < GROWTH_MAX, "{growth} MB");
}

/// Each chunk of a body keeps a buffer of its connection until it is joined with others.
#[tokio::test]
async fn chunks_of_single_bytes_take_little_memory() {
    let cluster = options().start();
    let key = cluster.post("/keys", &json!({"name": "hostile", "role": "agent"})).await;
    let key = string(&key["key"]);
    let before = memory_mb(&cluster, "VmRSS");
    let head = format!(
        "POST /api/v1/agent/search HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {key}\r\n\
         Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    );
    let request = head + &"1\r\n \r\n".repeat(1_000_000) + "0\r\n\r\n";
    let received = join_all((0..8).map(|_| exchange(&cluster, request.as_bytes()))).await;
    let growth = memory_mb(&cluster, "VmHWM").saturating_sub(before);
    assert!(received.iter().all(|text| text.starts_with("HTTP/1.1 4")), "{received:?}");
    assert!(growth < GROWTH_MAX, "{growth} MB");
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut gzip = std::process::Command::new("gzip")
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    gzip.stdin.take().unwrap().write_all(bytes).unwrap();
    gzip.wait_with_output().unwrap().stdout
}

/// Bodies that are no memory.
const ODD: &[&str] = &[
    "",
    " ",
    "null",
    "true",
    "0",
    "\"x\"",
    "[]",
    "[{}]",
    "{",
    "}",
    "{}",
    "{}{}",
    "[",
    "\0",
    r#"{"label"}"#,
    r#"{"label":}"#,
    r#"{"label":"x""#,
    r#"{"label":"x"}}"#,
    r#"{"label":"x"} {}"#,
    r#"{label:"x"}"#,
    r#"{'label':'x'}"#,
    r#"{"label":"x",}"#,
    r#"{/**/"label":"x"}"#,
    r#"{"label":"x","heat":NaN}"#,
    r#"{"label":"x","heat":Infinity}"#,
    r#"{"label":"x","heat":-Infinity}"#,
    r#"{"label":"x","heat":1e999}"#,
    r#"{"label":"x","heat":01}"#,
    r#"{"label":"x","heat":+1}"#,
    r#"{"label":"x","heat":0x1}"#,
    r#"{"label":"a","label":"b"}"#,
    r#"{"label":"\ud800"}"#,
    r#"{"label":"\x"}"#,
    "{\"label\":\"a\nb\"}",
    "{\"label\":\"a\0b\"}",
    r#"{"label":1}"#,
    r#"{"label":null}"#,
    r#"{"label":{}}"#,
    r#"{"label":["x"]}"#,
    r#"{"label":" "}"#,
    r#"{"":""}"#,
    "\u{feff}{\"label\":\"x\"}",
    "label=x",
    "<label>x</label>",
    "label: x",
    "--b\r\nContent-Disposition: form-data; name=\"label\"\r\n\r\nx\r\n--b--\r\n",
];

#[tokio::test]
async fn odd_bodies_have_stable_codes() {
    let cluster = options().start();
    let valid = br#"{"label":"x"}"#;
    let utf16: Vec<u8> = valid.iter().flat_map(|byte| [*byte, 0]).collect();
    let number = "9".repeat(400_000);
    let others = [
        [&b"{\"label\":\"\xff\"}"[..]].concat(),
        b"{\"label\":\"\xc3".to_vec(),
        utf16,
        gzip(valid),
        b"\x81\xa5label\xa1x".to_vec(),
        format!("{{\"label\":{}", "[".repeat(1_000_000)).into_bytes(),
        format!("{{\"label\":{}", "{\"\":".repeat(400_000)).into_bytes(),
        format!("{{\"label\":\"x\",\"heat\":{number}}}").into_bytes(),
        format!("{{\"label\":\"{}\"}}", "x".repeat((64 << 10) + 1)).into_bytes(),
        vec![b'['; 2 << 20],
        vec![b' '; 3 << 20],
    ];
    for body in ODD.iter().map(|text| text.as_bytes().to_vec()).chain(others) {
        for (name, value) in [
            ("Content-Type", "application/json"),
            ("Content-Type", "text/plain; charset=utf-16"),
            ("Content-Encoding", "gzip"),
        ] {
            let create = cluster.request(Method::POST, "/agent/nodes").header(name, value);
            let response = create.raw(body.clone()).send().await;
            let excerpt = String::from_utf8_lossy(&body[..body.len().min(60)]);
            assert!(response.status.is_client_error(), "{excerpt:?} {value}: {}", response.body);
            let codes = ["bad_json", "bad_body", "invalid_field", "too_large"];
            assert!(codes.contains(&string(&response.body["error"])), "{excerpt:?} {value}");
        }
    }
    assert_eq!(cluster.metric("hearth_memories").await, 0.0, "nothing was stored");
    cluster.create(&json!({"label": "the node works"})).await;
}
