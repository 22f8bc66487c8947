//! Fuzz targets of connections, responses of endpoints, webhook addresses, manifests of backups, and exports
//! of other products, behind the feature `fuzzing`.

use std::net::IpAddr;

use futures::FutureExt;
use storage::fuzz::Target;

use crate::backup::{Manifest, Unnamed};
use crate::frames::{FrameCounter, Frames};
use crate::proxy_protocol;
use crate::webhooks::address::Policy;

/// All targets of this crate.
pub const TARGETS: &[Target] = &[
    Target { name: "connection_starts", run: connection_starts, seeds: connection_seeds },
    Target { name: "endpoint_responses", run: endpoint_responses, seeds: response_seeds },
    Target { name: "webhook_addresses", run: webhook_addresses, seeds: url_seeds },
    Target { name: "manifests", run: manifests, seeds: manifest_seeds },
    Target { name: "imports", run: imports, seeds: import_seeds },
];

/// What a balancer and a client of HTTP/2 send first. Frames are the same, however they arrive.
pub fn connection_starts(bytes: &[u8]) {
    let mut rest = bytes;
    let read = proxy_protocol::read(&mut rest).now_or_never().expect("all bytes are there");
    assert!(read.is_err() || bytes.starts_with(b"\r\n\r\n\0\r\nQUIT\n"));
    assert!(bytes.len() - rest.len() <= proxy_protocol::HEADER_BYTES_MAX);
    let (mut counter, mut frames) = (FrameCounter::new(), Frames::default());
    for byte in bytes {
        let Frames { all, without_request } = counter.count(&[*byte]);
        frames.all += all;
        frames.without_request += without_request;
    }
    assert_eq!(FrameCounter::new().count(bytes), frames);
    assert!(frames.all as usize <= bytes.len() / 9);
}

fn connection_seeds() -> Vec<Vec<u8>> {
    let balancer =
        b"\r\n\r\n\0\r\nQUIT\n\x21\x11\x00\x0c\xcb\0\x71\x09\xc6\x33\x64\x01\x0f\xa0\x01\xbb";
    let client =
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0\0\0\x02\x01\x04\0\0\0\x01..";
    vec![balancer.to_vec(), client.to_vec()]
}

/// The response of an embedding endpoint, a reranker or an extractor, or the text in that of an extractor.
pub fn endpoint_responses(bytes: &[u8]) {
    crate::embed::fuzz(bytes);
    crate::extractor::fuzz(bytes);
}

fn response_seeds() -> Vec<Vec<u8>> {
    [
        r#"{"data": [{"embedding": [0.5, -1e38, 3]}], "model": "m"}"#,
        r#"{"results": [{"index": 1, "relevance_score": 0.5}, {"index": 0, "relevance_score": 1e300}]}"#,
        r#"{"choices": [{"message": {"content": "{\"facts\": []}"}}]}"#,
        "```json\n{\"facts\": [{\"text\": \"likes tea\", \"memory_type\": \"fact\", \"replaces\": \"2\"}]}\n```",
    ]
    .map(|text| text.as_bytes().to_vec())
    .into()
}

/// A URL. If it is accepted, it is HTTPS without credentials, and its host is neither this machine
/// nor an address of a private network.
pub fn webhook_addresses(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let Ok(url) = Policy::default().check(&text) else { return };
    assert_eq!(url.scheme(), "https", "{text:?}");
    assert!(url.username().is_empty() && url.password().is_none(), "{text:?}");
    let host = url.host_str().unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']').trim_end_matches('.');
    assert!(!host.is_empty() && host != "localhost" && !host.ends_with(".localhost"), "{text:?}");
    if let Ok(ip) = host.parse() {
        assert!(!is_internal(ip), "{text:?} leads to {ip}");
    }
}

/// Whether an address is internal, by the rules of the standard library and not by the networks
/// of `address.rs`.
fn is_internal(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => {
            ip.is_private()
                || ip.is_loopback()
                || ip.is_link_local()
                || ip.is_unspecified()
                || ip.is_multicast()
                || ip.is_broadcast()
                || ip.is_documentation()
        }
        IpAddr::V6(ip) => match ip.to_ipv4_mapped() {
            Some(ip) => is_internal(ip.into()),
            // Only 2000::/3 is global.
            None => ip.segments()[0] >> 13 != 1,
        },
    }
}

fn url_seeds() -> Vec<Vec<u8>> {
    [
        "https://hooks.example/1?a=b#c",
        "https://1.1.1.1:8443/",
        "https://127.0.0.1/",
        "https://0x7f.1/",
        "https://017700000001/",
        "https://2130706433/",
        "https://[::ffff:127.0.0.1]/",
        "https://[2606:4700::1111]/",
        "https://localhost./",
        "https://user:secret@hooks.example/",
        "http://10.0.0.1/",
        "https://１２７.０.０.１/",
    ]
    .map(|text| text.as_bytes().to_vec())
    .into()
}

/// A manifest, or the list of files without one. What is read is written with the same content.
pub fn manifests(bytes: &[u8]) {
    if let Ok(unnamed) = serde_json::from_slice::<Unnamed>(bytes) {
        let written = serde_json::to_vec(&unnamed).expect("the list is JSON");
        assert_eq!(serde_json::from_slice::<Unnamed>(&written).ok(), Some(unnamed));
    }
    let Ok(manifest) = Manifest::parse(bytes) else { return };
    let written = serde_json::to_vec(&manifest).expect("a manifest is JSON");
    assert_eq!(Manifest::parse(&written), Ok(manifest));
}

fn manifest_seeds() -> Vec<Vec<u8>> {
    let hash = "ab".repeat(32);
    let manifest = format!(
        r#"{{"format": 1, "id": "20261130T000000.000Z-00000000", "created_at": "2026-11-30T00:00:00Z",
            "version": "1.0.0", "level": 1, "cluster": "0a", "node": 1, "index": 300, "term": 2,
            "clock": "2026-11-30T00:00:00.5Z", "state_sha256": "{hash}", "model": {{"id": "", "name": "m"}},
            "cluster_key": null, "files": [{{"name": "1.sst", "sha256": "{hash}", "bytes": 9,
            "object": "{hash}-2"}}]}}"#
    );
    let unnamed = format!(r#"{{"{hash}-2": "2026-11-30T00:00:00Z"}}"#);
    vec![manifest.into_bytes(), unnamed.into_bytes()]
}

/// An export of another product.
pub fn imports(bytes: &[u8]) {
    crate::client::foreign::fuzz(bytes);
}

fn import_seeds() -> Vec<Vec<u8>> {
    [
        r#"0{"results": [{"id": "1", "memory": "likes tea", "metadata": {"a": 1}, "created_at":
            "2026-01-01T00:00:00Z"}]}"#,
        r#"1{"type": "entity", "name": "Ann", "entityType": "person", "observations": ["likes tea"]}
            {"type": "relation", "from": "Ann", "to": "Ben", "relationType": "knows"}"#,
        r#"2[{"title": "t", "create_time": 1.5, "mapping": {"a": {"id": "a", "message": {"id": "m",
            "author": {"role": "user"}, "create_time": 2, "content": {"content_type": "text",
            "parts": ["likes tea"]}}, "parent": null, "children": []}}}]"#,
        r#"3[{"uuid": "u", "name": "n", "chat_messages": [{"uuid": "m", "sender": "human", "text":
            "likes tea", "created_at": "2026-01-01T00:00:00Z", "attachments": []}]}]"#,
    ]
    .map(|text| text.as_bytes().to_vec())
    .into()
}
