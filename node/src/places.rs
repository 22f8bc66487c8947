//! Places for the connections of a listener. They are limited in all, and for each source network.
//!
//! # Problem
//! Who has no key can open connections too, and leave them idle. When all places are taken, no client
//! is served.
//!
//! # Solution
//! A connection is *keyless* until a request on it has shown a valid API key. Keyless connections have
//! half of the places, and make room: the oldest one ends when a new connection finds no place.
//! Networks from which valid keys came lately have a part of that half to themselves. Of the other half,
//! a key has a quarter at most, and a tenant half: what they hold beyond counts as keyless. A connection
//! whose key is no longer valid, or no longer shown, ends.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use api::{Connection, KeyBudget, KeyOfTenant, KeyShare, NetworkBudget, NetworkShare, network};
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::networks::Networks;

/// Networks of valid keys that are remembered.
const KNOWN_MAX: usize = 4_096;
/// Time without any request after which a connection of a client ends. Longer than clients keep
/// unused connections (Go and reqwest 90 s), so that no request meets the end of its connection.
pub(crate) const IDLE_TIMEOUT: Duration = Duration::from_secs(120);
/// That of a keyless connection.
const KEYLESS_IDLE_TIMEOUT: Duration = Duration::from_secs(15);

/// The bounds of a listener.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// Most connections.
    pub(crate) connections: usize,
    /// Most of them from one source network.
    pub(crate) network_connections: usize,
    /// Most open requests from one source network, over all of its connections.
    pub(crate) network_requests: usize,
}

/// The places of a listener.
pub(crate) struct Places {
    connections: NetworkBudget,
    requests: NetworkBudget,
    idle_timeout: Duration,
    keyless: Option<KeylessPlaces>,
}

/// What a listener whose clients have API keys adds.
struct KeylessPlaces {
    pools: Mutex<[Pool; 2]>,
    /// Where valid keys came from.
    known: Networks,
    of_keys: Arc<KeyBudget>,
    counters: Arc<Counters>,
}

/// A pool of keyless connections, and a number in it.
type PlaceInPool = (usize, u64);

/// Keyless connections: of unknown networks, and of known ones.
#[derive(Default)]
struct Pool {
    max: usize,
    next: u64,
    /// In the order in which they began.
    open: BTreeMap<u64, Arc<Taken>>,
}

/// Counts of all listeners.
#[derive(Default)]
pub(crate) struct Counters {
    /// Connections that ended for too many frames without a request.
    pub(crate) ended: AtomicU64,
    /// Keyless connections that made room for others.
    pub(crate) evicted: AtomicU64,
    /// Connections that found no place.
    pub(crate) rejected: AtomicU64,
}

impl Places {
    /// Places for connections that may be idle for `idle_timeout`.
    pub(crate) fn new(bounds: Bounds, idle_timeout: Duration) -> Self {
        Self {
            connections: NetworkBudget::new(bounds.connections, bounds.network_connections),
            requests: NetworkBudget::new(usize::MAX, bounds.network_requests),
            idle_timeout,
            keyless: None,
        }
    }

    /// Places for connections whose requests show API keys.
    pub(crate) fn of_keys(bounds: Bounds, counters: &Arc<Counters>) -> Self {
        let of_unknown = bounds.connections * 3 / 8;
        let of_known = bounds.connections / 8;
        let pools = [of_unknown, of_known].map(|max| Pool { max: max.max(1), ..Pool::default() });
        let keyless = KeylessPlaces {
            pools: Mutex::new(pools),
            known: Networks::new(KNOWN_MAX),
            of_keys: KeyBudget::new(bounds.connections / 2),
            counters: Arc::clone(counters),
        };
        Self { keyless: Some(keyless), ..Self::new(bounds, IDLE_TIMEOUT) }
    }

    /// A place for a connection from `source`; `None` if there is none.
    pub(crate) fn take(self: &Arc<Self>, source: SocketAddr) -> Option<Arc<Place>> {
        let address = source.ip().to_canonical();
        let keyless = match &self.keyless {
            Some(keyless) => keyless.take(&self.connections, address),
            None => {
                self.connections.take(address).ok().map(|share| (Taken::new(address, share), None))
            }
        };
        let (taken, number) = keyless?;
        let (places, key, shown_at) = (Arc::clone(self), OnceLock::new(), Mutex::default());
        Some(Arc::new(Place { places, source, taken, number, key, shown_at }))
    }
}

impl KeylessPlaces {
    fn take(
        &self,
        connections: &NetworkBudget,
        address: IpAddr,
    ) -> Option<(Arc<Taken>, Option<PlaceInPool>)> {
        let at = usize::from(self.known.contains(network(address)));
        let mut pools = self.pools.lock();
        if pools[at].open.len() >= pools[at].max {
            self.evict(pools[at].open.pop_first());
        }
        let share = loop {
            let full = match connections.take(address) {
                Ok(share) => break share,
                Err(full) => full,
            };
            let is_candidate =
                |taken: &Taken| full.is_none_or(|network| network.contains(&taken.address));
            let oldest = pools.iter_mut().find_map(|pool| {
                let number = *pool.open.iter().find(|(_, taken)| is_candidate(taken))?.0;
                pool.open.remove_entry(&number)
            });
            if !self.evict(oldest) {
                self.counters.rejected.fetch_add(1, Ordering::Relaxed);
                return None;
            }
        };
        let (taken, pool) = (Taken::new(address, share), &mut pools[at]);
        pool.next += 1;
        pool.open.insert(pool.next, Arc::clone(&taken));
        Some((taken, Some((at, pool.next))))
    }

    /// Ends a connection, and frees its place at once. Returns whether there was one.
    fn evict(&self, oldest: Option<(u64, Arc<Taken>)>) -> bool {
        let Some((_, taken)) = oldest else { return false };
        drop(taken.share.lock().take());
        taken.evicted.cancel();
        self.counters.evicted.fetch_add(1, Ordering::Relaxed);
        true
    }
}

/// What a connection has taken.
struct Taken {
    address: IpAddr,
    /// `None` once the connection was evicted.
    share: Mutex<Option<NetworkShare>>,
    evicted: CancellationToken,
}

impl Taken {
    fn new(address: IpAddr, share: NetworkShare) -> Arc<Self> {
        let evicted = CancellationToken::new();
        Arc::new(Self { address, share: Mutex::new(Some(share)), evicted })
    }
}

/// The place of a connection, returned when it is dropped.
pub(crate) struct Place {
    places: Arc<Places>,
    /// Where the connection comes from.
    pub(crate) source: SocketAddr,
    taken: Arc<Taken>,
    /// Where it is while it is keyless.
    number: Option<PlaceInPool>,
    key: OnceLock<KeyShare>,
    /// When a request showed a valid key last.
    shown_at: Mutex<Option<Instant>>,
}

impl Place {
    /// Completes when the connection has to make room.
    pub(crate) fn evicted(&self) -> &CancellationToken {
        &self.taken.evicted
    }

    /// Until when the connection may be without another request: a request that shows no key does not
    /// prolong what a key has.
    pub(crate) fn idle_until(&self) -> Instant {
        let since = match (self.number, *self.shown_at.lock()) {
            (None, _) => Instant::now(),
            (Some(_), Some(shown_at)) if self.key.get().is_some() => shown_at,
            (Some(_), _) => return Instant::now() + KEYLESS_IDLE_TIMEOUT,
        };
        since + self.places.idle_timeout
    }

    /// Counts an open request of its network; `None` if that has too many.
    pub(crate) fn take_request(&self) -> Option<NetworkShare> {
        self.places.requests.take(self.taken.address).ok()
    }

    /// Leaves the keyless connections.
    fn leave(&self) {
        if let (Some(keyless), Some((at, number))) = (&self.places.keyless, self.number) {
            keyless.pools.lock()[at].open.remove(&number);
        }
    }
}

impl Connection for Place {
    fn show_key(&self, key: KeyOfTenant) {
        *self.shown_at.lock() = Some(Instant::now());
        let Some(keyless) = self.places.keyless.as_ref().filter(|_| self.key.get().is_none())
        else {
            return;
        };
        keyless.known.insert(network(self.taken.address));
        let Ok(share) = keyless.of_keys.take(Some(key), 1) else { return };
        if self.key.set(share).is_ok() {
            self.leave();
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.leave();
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use storage::model::id::{KeyId, TenantId};

    use super::*;

    const KEY: KeyOfTenant = (TenantId(1), KeyId([1; 8]));

    fn address(host: u8) -> SocketAddr {
        (Ipv4Addr::new(192, 0, 2, host), 1).into()
    }

    /// 16 places, 6 of them for keyless connections of unknown networks, 2 for those of known ones.
    fn places() -> Arc<Places> {
        let bounds = Bounds { connections: 16, network_connections: 4, network_requests: 1 };
        Arc::new(Places::of_keys(bounds, &Arc::default()))
    }

    fn is_open(place: &Place) -> bool {
        !place.evicted().is_cancelled()
    }

    #[test]
    fn keyless_connections_make_room_for_others() {
        let places = places();
        let attack: Vec<_> = (0..100).filter_map(|at| places.take(address(at))).collect();
        assert_eq!(attack.len(), 100);
        let open = attack.iter().filter(|place| is_open(place)).count();
        assert_eq!(open, 6, "the newest keyless ones");
        let honest = places.take(address(200)).unwrap();
        honest.show_key(KEY);
        let more: Vec<_> = (0..100).filter_map(|at| places.take(address(at))).collect();
        assert!(is_open(&honest) && more.len() == 100, "a key keeps its place");
        let left = |place: &Place| place.idle_until().duration_since(Instant::now()).as_secs() + 1;
        assert_eq!((left(&honest), left(&more[99])), (IDLE_TIMEOUT.as_secs(), 15));
    }

    #[test]
    fn networks_of_keys_have_places_of_their_own() {
        let places = places();
        places.take(address(1)).unwrap().show_key(KEY);
        let known = places.take(address(1)).unwrap();
        let _attack: Vec<_> = (2..100).filter_map(|at| places.take(address(at))).collect();
        assert!(is_open(&known));
        let _neighbours = [0; 2].map(|_| places.take(address(1)).unwrap());
        assert!(!is_open(&known), "they make room for each other");
    }

    #[test]
    fn one_network_makes_room_for_itself() {
        let places = places();
        let first: Vec<_> = [1, 1, 1, 1].map(|at| places.take(address(at)).unwrap()).into();
        let other = places.take(address(2)).unwrap();
        let next = places.take(address(1)).unwrap();
        let open: Vec<_> = first.iter().map(|place| is_open(place)).collect();
        assert_eq!(open, [false, true, true, true]);
        assert!(is_open(&other) && is_open(&next));
    }

    #[test]
    fn connections_beyond_a_keys_part_are_keyless() {
        let places = places();
        let take = |at| {
            let place = places.take(address(at)).unwrap();
            place.show_key(KEY);
            place
        };
        let all: Vec<_> = (0..4).map(take).collect();
        let _attack: Vec<_> = (100..150).filter_map(|at| places.take(address(at))).collect();
        assert_eq!(all.iter().filter(|place| is_open(place)).count(), 2, "a quarter of half");
        let share = all[0].take_request();
        assert!(
            share.is_some() && all[0].take_request().is_none(),
            "one open request of a network"
        );
    }
}
