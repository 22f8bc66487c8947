//! The source networks of an address. One host can own a /64 of IPv6, and one customer a /56 or a /48.
//! What one sender may use is therefore limited for each of them: more for the larger ones.

use std::net::IpAddr;

use ipnet::IpNet;

/// Lengths of the prefixes of IPv6, from that of a host to that of a site.
const PREFIXES: [u8; LEVELS] = [64, 56, 48];
/// Sizes of networks.
pub(crate) const LEVELS: usize = 3;

/// The network of an address: an IPv4 address, or a /64 of IPv6.
pub fn network(address: IpAddr) -> IpAddr {
    of_length(address.to_canonical(), PREFIXES[0]).addr()
}

/// The networks of an address, from the smallest. An IPv4 address has one.
pub(crate) fn networks(address: IpAddr) -> impl Iterator<Item = IpNet> {
    let address = address.to_canonical();
    let levels = if address.is_ipv4() { 1 } else { LEVELS };
    PREFIXES[..levels].iter().map(move |length| of_length(address, *length))
}

fn of_length(address: IpAddr, length: u8) -> IpNet {
    match address {
        // Below the length of every address of IPv6.
        IpAddr::V6(_) => IpNet::new(address, length).unwrap_or(address.into()).trunc(),
        IpAddr::V4(_) => address.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_host_has_one_network() {
        for (address, expected) in [
            ("192.0.2.7", "192.0.2.7"),
            ("::ffff:192.0.2.7", "192.0.2.7"),
            ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
            ("2001:db8:1:2::", "2001:db8:1:2::"),
            ("2001:db8:1:3::1", "2001:db8:1:3::"),
            ("::1", "::"),
        ] {
            assert_eq!(network(address.parse().unwrap()).to_string(), expected, "{address}");
        }
    }

    #[test]
    fn addresses_of_ipv6_have_larger_networks() {
        let all = |address: &str| networks(address.parse().unwrap()).map(|it| it.to_string());
        let of_ipv6: Vec<_> = all("2001:db8:1:2345:3::1").collect();
        assert_eq!(of_ipv6, ["2001:db8:1:2345::/64", "2001:db8:1:2300::/56", "2001:db8:1::/48"]);
        assert_eq!(all("::ffff:192.0.2.7").collect::<Vec<_>>(), ["192.0.2.7/32"]);
    }
}
