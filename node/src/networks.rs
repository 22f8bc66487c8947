//! The source networks of members.

use std::collections::VecDeque;
use std::net::IpAddr;

use parking_lot::Mutex;

/// Most networks of members that a node remembers.
pub(crate) const MEMBERS_MAX: usize = 64;
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
