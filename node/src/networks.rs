//! The source networks of connections: an IPv4 address, or a /64 of IPv6, which one host can own.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv6Addr};

use parking_lot::Mutex;

/// Most networks of members that a node remembers.
pub(crate) const MEMBERS_MAX: usize = 64;
/// Bits of an IPv6 address that name its host.
const HOST_BITS: u128 = u64::MAX as u128;

/// The network of an address.
pub(crate) fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & !HOST_BITS).into(),
        address @ IpAddr::V4(_) => address,
    }
}

/// The networks from which members connected last.
#[derive(Default)]
pub(crate) struct MemberNetworks(Mutex<VecDeque<IpAddr>>);

impl MemberNetworks {
    /// Remembers a network, in the room of the one that was used least recently if there are many.
    pub(crate) fn insert(&self, network: IpAddr) {
        let mut networks = self.0.lock();
        networks.retain(|other| *other != network);
        networks.push_back(network);
        if networks.len() > MEMBERS_MAX {
            networks.pop_front();
        }
    }

    pub(crate) fn contains(&self, network: IpAddr) -> bool {
        self.0.lock().contains(&network)
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
    fn least_recent_network_makes_room() {
        let networks = MemberNetworks::default();
        let at = |at| IpAddr::from([10, 0, 0, at]);
        (0..MEMBERS_MAX as u8).for_each(|number| networks.insert(at(number)));
        networks.insert(at(0));
        networks.insert(at(100));
        assert!(networks.contains(at(0)) && networks.contains(at(100)));
        assert!(!networks.contains(at(1)));
    }
}
