//! The places of a listener: how many connections it serves, in all and for each source address,
//! and how many requests of each address are open.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

/// Most addresses that are exempt from the bound of all.
const RESERVED_MAX: usize = 64;

/// The bounds of a listener.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// Most connections.
    pub(crate) connections: usize,
    /// Most of them from one source address.
    pub(crate) address_connections: usize,
    /// Most open requests from one source address, over all of its connections.
    pub(crate) address_requests: usize,
}

pub(crate) struct Places {
    bounds: Bounds,
    taken: Mutex<Taken>,
}

#[derive(Default)]
struct Taken {
    all: usize,
    addresses: HashMap<IpAddr, Address>,
    reserved: HashSet<IpAddr>,
}

#[derive(Default)]
struct Address {
    connections: usize,
    requests: Arc<AtomicUsize>,
}

/// The place of one connection.
pub(crate) struct Place {
    places: Arc<Places>,
    pub(crate) address: IpAddr,
    requests: Arc<AtomicUsize>,
}

/// An open request: its response is not sent yet.
pub(crate) struct OpenRequest(Arc<AtomicUsize>);

impl Places {
    pub(crate) fn new(bounds: Bounds) -> Arc<Self> {
        Arc::new(Self { bounds, taken: Mutex::default() })
    }

    /// A place for a connection from `address`; `None` if there is none.
    pub(crate) fn take(self: &Arc<Self>, address: IpAddr) -> Option<Place> {
        let mut taken = self.taken.lock();
        let has_room = taken.all < self.bounds.connections || taken.reserved.contains(&address);
        let of_address = taken.addresses.get(&address).map_or(0, |address| address.connections);
        if !has_room || of_address >= self.bounds.address_connections {
            return None;
        }
        taken.all += 1;
        let entry = taken.addresses.entry(address).or_default();
        entry.connections += 1;
        let requests = Arc::clone(&entry.requests);
        drop(taken);
        Some(Place { places: Arc::clone(self), address, requests })
    }

    /// Reserves places for an address: the connections of all others do not take them.
    pub(crate) fn reserve(&self, address: IpAddr) {
        let reserved = &mut self.taken.lock().reserved;
        if reserved.len() < RESERVED_MAX {
            reserved.insert(address);
        }
    }
}

impl Place {
    /// Opens a request; `None` if the address has too many.
    pub(crate) fn open_request(&self) -> Option<OpenRequest> {
        let request = OpenRequest(Arc::clone(&self.requests));
        let others = self.requests.fetch_add(1, Ordering::Relaxed);
        (others < self.places.bounds.address_requests).then_some(request)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.taken.lock();
        taken.all -= 1;
        if let Some(of_address) = taken.addresses.get_mut(&self.address) {
            of_address.connections -= 1;
            if of_address.connections == 0 {
                taken.addresses.remove(&self.address);
            }
        }
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([127, 0, 0, last])
    }

    #[test]
    fn places_are_bounded_in_all_and_by_address() {
        let bounds = Bounds { connections: 3, address_connections: 2, address_requests: 1 };
        let places = Places::new(bounds);
        let first: Vec<_> = (0..3).map_while(|_| places.take(address(1))).collect();
        assert_eq!(first.len(), 2, "the bound of an address");
        let second: Vec<_> = (0..2).map_while(|_| places.take(address(2))).collect();
        assert_eq!(second.len(), 1, "the bound of all");
        places.reserve(address(3));
        assert!(places.take(address(3)).is_some(), "a reserved place");
        drop((first, second));
        assert!(places.taken.lock().addresses.is_empty(), "nothing is kept for ever");
        assert_eq!(places.taken.lock().all, 0);
    }

    #[test]
    fn requests_are_bounded_by_address() {
        let bounds = Bounds { connections: 3, address_connections: 2, address_requests: 1 };
        let places = Places::new(bounds);
        let connections = [places.take(address(1)).unwrap(), places.take(address(1)).unwrap()];
        let open = connections[0].open_request();
        assert!(open.is_some() && connections[1].open_request().is_none());
        drop(open);
        assert!(connections[1].open_request().is_some());
    }
}
