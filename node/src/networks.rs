//! Source networks that were seen lately.

use std::net::IpAddr;

use moka::policy::EvictionPolicy;
use moka::sync::Cache;

/// The networks that were used last, up to a number.
pub(crate) struct Networks(Cache<IpAddr, ()>);

impl Networks {
    pub(crate) fn new(max: usize) -> Self {
        let cache =
            Cache::builder().max_capacity(max as u64).eviction_policy(EvictionPolicy::lru());
        Self(cache.build())
    }

    /// Remembers a network, in the room of the one that was used least recently if there are many.
    pub(crate) fn insert(&self, network: IpAddr) {
        self.0.insert(network, ());
    }

    pub(crate) fn contains(&self, network: IpAddr) -> bool {
        self.0.get(&network).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn least_recent_network_makes_room() {
        let networks = Networks::new(64);
        let at = |at| IpAddr::from([10, 0, 0, at]);
        (0..64).for_each(|number| networks.insert(at(number)));
        networks.insert(at(0));
        networks.0.run_pending_tasks();
        networks.insert(at(100));
        networks.0.run_pending_tasks();
        assert!(networks.contains(at(0)) && networks.contains(at(100)));
        assert!(!networks.contains(at(1)));
    }
}
