//! Address restrictions of webhooks: the public internet, and networks that the operator allows.
//!
//! A URL is checked twice. When a trigger is created, its text is checked. At each connection,
//! the resolved addresses are checked, so a host name that later resolves to an internal
//! address is not connected to (DNS rebinding).

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::LazyLock;

use ipnet::IpNet;
use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

/// Which addresses webhooks may reach.
#[derive(Debug, Clone, Default)]
pub(crate) struct Policy {
    /// Networks besides the public internet. Plain HTTP is possible to these only.
    pub(crate) allowed: Vec<IpNet>,
}

/// Networks that are not part of the public internet, or lead out of it.
static SPECIAL: LazyLock<Vec<IpNet>> = LazyLock::new(|| {
    // IANA's registry for IPv4, and 224.0.0.0/3: multicast, reserved, broadcast.
    let v4 = "0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 \
              192.0.0.0/24 192.0.2.0/24 192.31.196.0/24 192.52.193.0/24 192.88.99.0/24 \
              192.168.0.0/16 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/3";
    // All but 2000::/3, the global unicast part of IPv6: other addresses are local, mapped or
    // translated (64:ff9b::/96 of NAT64 leads to any IPv4 address). Then IANA's registry for it.
    let v6 = "::/3 4000::/2 8000::/1 2001::/23 2001:db8::/32 2002::/16 3fff::/20";
    let networks = v4.split(' ').chain(v6.split(' '));
    networks.map(|network| network.parse().expect("the networks are valid")).collect()
});

impl Policy {
    /// Parses the URL of a webhook, and checks its text.
    pub(crate) fn check(&self, url: &str) -> Result<Url, String> {
        let parsed = Url::parse(url).map_err(|_| "must be a URL, with https".to_owned())?;
        if !parsed.username().is_empty() || parsed.password().is_some() {
            return Err("must contain no user name and no password".into());
        }
        let Some(host) = parsed.host_str() else { return Err("must name a host".into()) };
        let name = host.trim_end_matches('.').to_ascii_lowercase();
        if name.is_empty() {
            return Err("must name a host".into());
        }
        let literal = literal(&name);
        match parsed.scheme() {
            "https" => {}
            // Plain HTTP: only to networks that the operator allows.
            "http" if literal.map_or(!self.allowed.is_empty(), |ip| self.is_allowed(ip)) => {}
            _ => return Err("must be a URL with https".into()),
        }
        let is_local = name == "localhost" || name.ends_with(".localhost");
        let local = is_local.then_some(IpAddr::V4(Ipv4Addr::LOCALHOST));
        match literal.or(local) {
            Some(ip) if !self.may_reach(ip) => {
                Err("must not lead to an internal network of this service".into())
            }
            _ => Ok(parsed),
        }
    }

    /// Whether webhooks may connect to `ip`.
    pub(crate) fn may_reach(&self, ip: IpAddr) -> bool {
        is_public(ip) || self.is_allowed(ip)
    }

    fn is_allowed(&self, ip: IpAddr) -> bool {
        let ip = unmapped(ip);
        self.allowed.iter().any(|network| network.contains(&ip))
    }
}

/// The IP address in the host part of a URL; `None` for a name.
fn literal(host: &str) -> Option<IpAddr> {
    host.trim_start_matches('[').trim_end_matches(']').parse().ok()
}

/// The IPv4 address of an IPv4-mapped IPv6 address; any other address unchanged.
fn unmapped(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V6(ip) => ip.to_ipv4_mapped().map_or(IpAddr::V6(ip), IpAddr::V4),
        ip => ip,
    }
}

fn is_public(ip: IpAddr) -> bool {
    let ip = unmapped(ip);
    !SPECIAL.iter().any(|network| network.contains(&ip))
}

/// Resolves host names by the system, and removes the addresses that webhooks must not reach.
pub(crate) struct Resolver {
    pub(super) policy: Policy,
    /// Public addresses are removed as well: for plain HTTP.
    pub(super) only_allowed: bool,
}

/// No address of a host name may be reached.
#[derive(Debug, thiserror::Error)]
#[error("the host name resolves to no address that webhooks may reach")]
pub(crate) struct NotAllowed;

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let (policy, only_allowed) = (self.policy.clone(), self.only_allowed);
        Box::pin(async move {
            // The same for a name that does not exist: an agent must not learn inner names.
            let resolved = tokio::net::lookup_host((name.as_str(), 0)).await;
            let resolved = resolved.map_err(|_| NotAllowed)?;
            let may_reach = |address: &SocketAddr| match only_allowed {
                true => policy.is_allowed(address.ip()),
                false => policy.may_reach(address.ip()),
            };
            let reachable: Vec<SocketAddr> = resolved.filter(may_reach).collect();
            if reachable.is_empty() {
                return Err(NotAllowed.into());
            }
            let addresses: Addrs = Box::new(reachable.into_iter());
            Ok(addresses)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loopback() -> Policy {
        Policy { allowed: vec!["127.0.0.0/8".parse().unwrap(), "::1/128".parse().unwrap()] }
    }

    #[test]
    fn special_networks_have_no_host_bits() {
        assert!(SPECIAL.iter().all(|network| *network == network.trunc()));
    }

    #[test]
    fn only_public_addresses_are_reachable() {
        let may = |ip: &str| Policy::default().may_reach(ip.parse().unwrap());
        let public =
            "1.1.1.1 8.8.8.8 192.0.1.1 172.32.0.1 2606:4700::1111 ::ffff:1.1.1.1".split(' ');
        public.for_each(|ip| assert!(may(ip), "{ip}"));
        let internal = "0.0.0.0 10.1.2.3 100.64.0.1 127.0.0.1 169.254.169.254 172.31.255.1 \
                        192.168.0.1 198.19.0.1 224.0.0.1 255.255.255.255 :: ::1 fe80::1 fc00::1 \
                        fd12::1 ff02::1 ::ffff:127.0.0.1 ::ffff:10.0.0.1 ::127.0.0.1 \
                        64:ff9b::7f00:1 64:ff9b:1::1 2001:db8::1 2001::1 2002:7f00:1:: 5f00::1";
        internal.split(' ').for_each(|ip| assert!(!may(ip), "{ip}"));
    }

    #[test]
    fn invalid_urls_are_rejected() {
        let may = |url: &str| Policy::default().check(url).is_ok();
        assert!(may("https://hooks.example/1") && may("https://1.1.1.1:8443/a?b=c"));
        let invalid = "hooks.example ftp://hooks.example/ http://hooks.example/ \
                       file:///etc/passwd gopher://127.0.0.1:70/ data:text/plain,x javascript:1 \
                       wss://hooks.example/ https://user:secret@hooks.example/ \
                       https://user@hooks.example/ https:/// https://./ https://../ https://:443/ \
                       https://[fe80::1%25eth0]/ https://[fe80::1%eth0]/ https://256.1.1.1/ \
                       https://1.1.1.1.1/ https://0x100000000/ https://[::1/ https://[127.0.0.1]/";
        for url in invalid.split_ascii_whitespace().chain([""]) {
            assert!(!may(url), "{url}");
        }
    }

    /// Spellings of internal hosts. A name is checked again when it is resolved.
    #[test]
    fn internal_hosts_are_rejected_in_every_spelling() {
        let hosts = "127.0.0.1 127.0.0.1. 127.0.0.1.. 127.255.255.254 2130706433 017700000001 \
            0x7f000001 0x7F.1 0x7f.0x0.0x0.0x1 0177.0.0.1 0177.1 127.1 127.0.1 127.0x1 127.000.0.01 \
            0 00 0x0 0.0.0.0 1 0.1 0.255.255.255 10.0.0.1 167772161 012.1 172.16.0.1 \
            172.31.255.255 0xac.0x10.1 192.168.0.1 3232235521 0300.0250.0.1 192.168.257 100.64.0.1 \
            100.127.255.255 100.100.100.200 169.254.0.1 169.254.169.254 169.254.170.2 2852039166 \
            0xa9fea9fe 0251.0376.0251.0376 169.254.43518 192.0.0.192 192.0.2.1 192.88.99.1 \
            198.18.0.1 198.19.255.255 198.51.100.1 203.0.113.1 224.0.0.1 239.255.255.255 240.0.0.1 \
            255.255.255.255 4294967295 [::] [::1] [0:0:0:0:0:0:0:1] [0000::0001] [::127.0.0.1] \
            [::a9fe:a9fe] [::ffff:127.0.0.1] [::ffff:7f00:1] [::FFFF:a9fe:a9fe] \
            [0:0:0:0:0:ffff:10.0.0.1] [::ffff:0:127.0.0.1] [64:ff9b::127.0.0.1] \
            [64:ff9b::a9fe:a9fe] [64:ff9b:1::1] [100::1] [2001::1] [2001:0:7f00:1::] [2001:2::1] \
            [2001:10::1] [2001:20::1] [2001:db8::1] [2002:7f00:1::] [2002:a9fe:a9fe::1] [3fff::1] \
            [4000::1] [5f00::1] [fc00::1] [fd00:ec2::254] [fd12::1] [fe80::1] [febf::1] [fec0::1] \
            [ff02::1] [ff0e::1] localhost LOCALHOST localhost. localhost.. a.localhost a.b.Localhost. \
            loc%61lhost %6c%6f%63alhost %31%32%37.0.0.1 127%2e0%2e0%2e1 127.0.0.1%2e %30 \
            ｌｏｃａｌｈｏｓｔ ⓛocalhost １２７.０.０.１ 127。0。0。1 127．0．0．1 ①②⑦.0.0.1 \
            ⑯⑨.②⑤④.⑯⑨.②⑤④ ０ｘ７ｆ.1 127.0.0\u{ad}.1 local\u{200b}host";
        let hosts: Vec<&str> = hosts.split_ascii_whitespace().collect();
        let message = Err("must not lead to an internal network of this service".to_owned());
        let checked = |url: &str| Policy::default().check(url).map(drop);
        for host in &hosts {
            for url in [format!("https://{host}/"), format!("HTTPS:\\\\{host}:8443\\a?b#c")] {
                assert_eq!(checked(&url), message, "{url}");
            }
            let url = format!("https://hooks.example:443@{host}/");
            assert!(checked(&url).is_err(), "{url}");
        }
        for url in ["https:127.0.0.1", " https://127.0.0.1 ", "ht\ntps://127.\t0.0.1/", "https:/0/"]
        {
            assert_eq!(checked(url), message, "{url}");
        }
        assert!(hosts.len() >= 80, "{}", hosts.len());
    }

    /// The checked host is the host of the request, whatever follows it.
    #[test]
    fn rest_of_the_url_names_no_host() {
        for rest in ["\\@127.0.0.1/", "/@127.0.0.1", "?@127.0.0.1", "#@127.0.0.1", "/..//127.0.0.1"]
        {
            let url = Policy::default().check(&format!("https://hooks.example{rest}")).unwrap();
            assert_eq!(url.host_str(), Some("hooks.example"), "{rest}");
        }
    }

    #[test]
    fn allowed_networks_are_reachable_without_tls() {
        let may = |url: &str| loopback().check(url).is_ok();
        assert!(
            may("http://127.0.0.1:8080/") && may("http://localhost:8080/") && may("https://[::1]/")
        );
        assert!(!may("http://1.1.1.1/") && !may("https://10.0.0.1/"));
    }

    #[tokio::test]
    async fn names_of_internal_addresses_do_not_resolve() {
        let resolve = |policy: Policy| async move {
            Resolver { policy, only_allowed: true }
                .resolve("localhost".parse().unwrap())
                .await
                .map(Iterator::count)
        };
        assert!(resolve(Policy::default()).await.is_err_and(|error| error.is::<NotAllowed>()));
        assert!(resolve(loopback()).await.is_ok_and(|count| count > 0));
    }
}
