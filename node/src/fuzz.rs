//! The fuzz target of webhook addresses, behind the feature `fuzzing`.

use std::net::IpAddr;

use storage::fuzz::Target;

use crate::webhooks::address::Policy;

/// All targets of this crate.
pub const TARGETS: &[Target] =
    &[Target { name: "webhook_addresses", run: webhook_addresses, seeds: url_seeds }];

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
