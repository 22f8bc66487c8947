//! Where webhooks may go: to the public internet, and where the operator allows it. Looked at
//! when a trigger is made as far as its text tells, and at each connection by the address that
//! is connected to, so that no name leads inside by changing what it stands for.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use ipnet::IpNet;
use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

/// What may be connected to besides public addresses.
#[derive(Debug, Clone, Default)]
pub(crate) struct Policy {
    /// Networks of the operator's that webhooks may reach, without TLS too.
    pub(crate) allowed: Vec<IpNet>,
}

/// Networks that are not the public internet, or lead out of it: IANA's special-purpose
/// registries of IPv4 and of what lies in 2000::/3, the global unicast part of IPv6.
const SPECIAL: [&str; 20] = [
    "0.0.0.0/8",
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.0.0.0/24",
    "192.0.2.0/24",
    "192.31.196.0/24",
    "192.52.193.0/24",
    "192.88.99.0/24",
    "192.168.0.0/16",
    "198.18.0.0/15",
    "198.51.100.0/24",
    "203.0.113.0/24",
    "224.0.0.0/3",
    "2001::/23",
    "2001:db8::/32",
    "2002::/16",
    "3fff::/20",
];

impl Policy {
    /// A URL that a webhook may have, as far as its text tells.
    pub(crate) fn check(&self, url: &str) -> Result<Url, String> {
        let parsed = Url::parse(url).map_err(|_| "must be a URL, with https".to_owned())?;
        if !parsed.username().is_empty() || parsed.password().is_some() {
            return Err("must hold no name and no password".into());
        }
        let Some(host) = parsed.host_str() else { return Err("must name a host".into()) };
        let literal = literal(host);
        match parsed.scheme() {
            "https" => {}
            // Without TLS, only where the operator vouches for the network.
            "http" if literal.map_or(!self.allowed.is_empty(), |ip| self.is_allowed(ip)) => {}
            _ => return Err("must be a URL with https".into()),
        }
        let name = host.trim_end_matches('.').to_ascii_lowercase();
        let is_local = name == "localhost" || name.ends_with(".localhost");
        let local = is_local.then_some(IpAddr::V4(Ipv4Addr::LOCALHOST));
        match literal.or(local) {
            Some(ip) if !self.may_reach(ip) => {
                Err("must not lead inside this service's own network".into())
            }
            _ => Ok(parsed),
        }
    }

    /// Whether a connection to `ip` may be made.
    pub(crate) fn may_reach(&self, ip: IpAddr) -> bool {
        is_public(ip) || self.is_allowed(ip)
    }

    fn is_allowed(&self, ip: IpAddr) -> bool {
        let ip = unmapped(ip);
        self.allowed.iter().any(|network| network.contains(&ip))
    }
}

/// The address that a host of a URL is, if it is none of a name.
fn literal(host: &str) -> Option<IpAddr> {
    host.trim_start_matches('[').trim_end_matches(']').parse().ok()
}

/// An IPv4 address in the dress of IPv6 is what it is.
fn unmapped(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V6(ip) => ip.to_ipv4_mapped().map_or(IpAddr::V6(ip), IpAddr::V4),
        ip => ip,
    }
}

fn is_public(ip: IpAddr) -> bool {
    let ip = unmapped(ip);
    let special = || {
        let networks = SPECIAL.iter().filter_map(|network| network.parse::<IpNet>().ok());
        networks.into_iter().any(|network| network.contains(&ip))
    };
    let is_global = match ip {
        IpAddr::V4(_) => true,
        IpAddr::V6(ip) => is_global_unicast(ip),
    };
    is_global && !special()
}

/// Whether it is of 2000::/3. What lies outside is local, mapped or translated (64:ff9b::/96
/// of NAT64 leads to any IPv4 address).
fn is_global_unicast(ip: Ipv6Addr) -> bool {
    ip.segments()[0] >> 13 == 1
}

/// Names looked up by the system, of which only what may be reached is handed on.
pub(crate) struct Resolver {
    policy: Policy,
    /// What the operator allows, and no public address: for requests without TLS.
    only_allowed: bool,
}

/// WithNotifications when a name leads nowhere that may be reached.
#[derive(Debug, thiserror::Error)]
#[error("the name leads to no address that webhooks may reach")]
pub(crate) struct NotAllowed;

impl Resolver {
    pub(crate) fn new(policy: Policy, only_allowed: bool) -> Self {
        Self { policy, only_allowed }
    }
}

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let (policy, only_allowed) = (self.policy.clone(), self.only_allowed);
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let may = |address: &SocketAddr| match only_allowed {
                true => policy.is_allowed(address.ip()),
                false => policy.may_reach(address.ip()),
            };
            let reachable: Vec<SocketAddr> = found.filter(may).collect();
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

    fn strict() -> Policy {
        Policy::default()
    }

    fn loopback() -> Policy {
        Policy { allowed: vec!["127.0.0.0/8".parse().unwrap(), "::1/128".parse().unwrap()] }
    }

    #[test]
    fn the_networks_are_written_right() {
        assert!(SPECIAL.iter().all(|network| network.parse::<IpNet>().is_ok()));
    }

    #[test]
    fn public_addresses_may_be_reached_and_no_other() {
        let may = |ip: &str| strict().may_reach(ip.parse().unwrap());
        for ip in
            ["1.1.1.1", "8.8.8.8", "192.0.1.1", "172.32.0.1", "2606:4700::1111", "::ffff:1.1.1.1"]
        {
            assert!(may(ip), "{ip}");
        }
        for ip in [
            "0.0.0.0",
            "10.1.2.3",
            "100.64.0.1",
            "127.0.0.1",
            "169.254.169.254",
            "172.31.255.1",
            "192.168.0.1",
            "198.19.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "fe80::1",
            "fc00::1",
            "fd12::1",
            "ff02::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::127.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b:1::1",
            "2001:db8::1",
            "2001::1",
            "2002:7f00:1::",
            "5f00::1",
        ] {
            assert!(!may(ip), "{ip}");
        }
    }

    #[test]
    fn what_is_plainly_inside_is_refused_by_its_text() {
        let may = |url: &str| strict().check(url).is_ok();
        assert!(may("https://hooks.example/1") && may("https://1.1.1.1:8443/a?b=c"));
        for url in [
            "",
            "hooks.example",
            "ftp://hooks.example/",
            "http://hooks.example/",
            "file:///etc/passwd",
            "https://127.0.0.1/",
            "https://localhost/",
            "https://a.localhost./",
            "https://[::1]/",
            "https://2130706433/",
            "https://0x7f.1/",
            "https://017700000001/",
            "https://127.1/",
            "https://[::ffff:127.0.0.1]/",
            "https://[::ffff:a9fe:a9fe]/",
            "https://169.254.169.254/latest",
            "https://user:secret@hooks.example/",
            "https://10.0.0.1/",
            "https:///",
        ] {
            assert!(!may(url), "{url}");
        }
    }

    #[test]
    fn the_operator_may_allow_networks_and_there_plain_http() {
        let may = |url: &str| loopback().check(url).is_ok();
        assert!(
            may("http://127.0.0.1:8080/") && may("http://localhost:8080/") && may("https://[::1]/")
        );
        assert!(!may("http://1.1.1.1/") && !may("https://10.0.0.1/"));
    }

    #[tokio::test]
    async fn a_name_that_leads_inside_is_not_connected_to() {
        let resolve = |policy: Policy| async move {
            Resolver::new(policy, true)
                .resolve("localhost".parse().unwrap())
                .await
                .map(Iterator::count)
        };
        assert!(resolve(strict()).await.is_err_and(|error| error.is::<NotAllowed>()));
        assert!(resolve(loopback()).await.is_ok_and(|count| count > 0));
    }
}
