//! Kinds of use of keys that may be new to the audit log, until they are reported to the leader.
//!
//! At a limit, the longest queue loses its newest kind: that of the key with the most, of the tenant
//! with the most. So a key that sends ever new kinds loses its own.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::ops::Bound;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use storage::model::analytics::{REPORT_USES_MAX, TenantReport};
use storage::model::api_key::KEYS_MAX;
use storage::model::audit::KeyUse;
use storage::model::id::{KeyId, TenantId};

/// Most kinds of use that a node holds. At the limit it drops all: the state has them too.
const KNOWN_MAX: usize = 10_000;
/// Most kinds of use that wait for a report: of all tenants, of one tenant, and of one key.
const PENDING_MAX: usize = 4_096;
const TENANT_PENDING_MAX: usize = 1_024;
const KEY_PENDING_MAX: usize = 64;
/// Interval at which it drops them anyway: a kind for which the state had no room is reported again.
const KNOWN_TIME: Duration = Duration::from_secs(86_400);

// As many keys as a tenant may have leave room for one kind of each.
const _: () = assert!(TENANT_PENDING_MAX > KEYS_MAX);

/// Kinds of use of keys since the last report, and those that were reported.
#[derive(Default)]
pub(crate) struct KeyUseBuffer(Mutex<Uses>);

type UseOfKey = (TenantId, KeyId, KeyUse);

#[derive(Default)]
struct Uses {
    known: HashSet<UseOfKey>,
    known_since: Option<Instant>,
    pending: BTreeMap<TenantId, Pending>,
    count: usize,
    /// The tenant whose turn in a report was last.
    last: Option<TenantId>,
    dropped: u64,
}

/// Kinds of use of one tenant that wait for a report.
#[derive(Default)]
struct Pending {
    keys: BTreeMap<KeyId, VecDeque<KeyUse>>,
    count: usize,
    /// The key whose turn in a report was last.
    last: Option<KeyId>,
}

impl KeyUseBuffer {
    /// Adds a use. One that is dropped is added when it happens again.
    pub(crate) fn add(&self, tenant: TenantId, key: KeyId, kind: KeyUse) {
        self.add_at(Instant::now(), (tenant, key, kind));
    }

    fn add_at(&self, now: Instant, of_key: UseOfKey) {
        let mut uses = self.0.lock();
        let since = *uses.known_since.get_or_insert(now);
        if now.saturating_duration_since(since) >= KNOWN_TIME {
            uses.known.clear();
            uses.known_since = Some(now);
        }
        if uses.known.contains(&of_key) {
            return;
        }
        let (tenant, key, kind) = of_key.clone();
        if !uses.make_room(tenant, key) {
            uses.dropped += 1;
            return;
        }
        if uses.known.len() >= KNOWN_MAX {
            uses.known.clear();
        }
        uses.known.insert(of_key);
        uses.count += 1;
        let of_tenant = uses.pending.entry(tenant).or_default();
        of_tenant.count += 1;
        of_tenant.keys.entry(key).or_default().push_back(kind);
    }

    /// Uses that were dropped.
    pub(crate) fn dropped(&self) -> u64 {
        self.0.lock().dropped
    }

    /// Adds what is pending to the reports of tenants, as much as a report has room for. Tenants take
    /// turns, and so do the keys of a tenant. Returns whether some is left.
    pub(crate) fn report(&self, reports: &mut Vec<TenantReport>) -> bool {
        let mut uses = self.0.lock();
        for _ in 0..REPORT_USES_MAX {
            let Some((tenant, of_key)) = uses.take_next() else { break };
            let at = reports.iter().position(|report| report.tenant == tenant);
            let at = at.unwrap_or_else(|| {
                reports.push(TenantReport::empty(tenant));
                reports.len() - 1
            });
            reports[at].uses.push(of_key);
        }
        uses.count > 0
    }
}

impl Uses {
    /// Makes room for one kind of use more, if the key may have it.
    fn make_room(&mut self, tenant: TenantId, key: KeyId) -> bool {
        let of_tenant = self.pending.get(&tenant);
        let of_key = of_tenant.and_then(|it| it.keys.get(&key)).map_or(0, VecDeque::len);
        let count = of_tenant.map_or(0, |it| it.count);
        if of_key >= KEY_PENDING_MAX {
            return false;
        }
        if count < TENANT_PENDING_MAX && self.count < PENDING_MAX {
            return true;
        }
        // Its own keys divide what it has, unless another tenant has more.
        let fullest = self.pending.iter().max_by_key(|(_, it)| it.count);
        let loser = match fullest {
            Some((fullest, it)) if count < TENANT_PENDING_MAX && it.count > count + 1 => *fullest,
            _ => tenant,
        };
        let more_than = if loser == tenant { of_key + 1 } else { 0 };
        self.drop_newest(loser, more_than)
    }

    /// Drops the newest kind of the key with the most, if that has more than `more_than`.
    fn drop_newest(&mut self, tenant: TenantId, more_than: usize) -> bool {
        let Some(of_tenant) = self.pending.get_mut(&tenant) else { return false };
        let longest = of_tenant.keys.iter_mut().max_by_key(|(_, kinds)| kinds.len());
        let longest = longest.filter(|(_, kinds)| kinds.len() > more_than);
        let newest = longest.and_then(|(key, kinds)| Some((tenant, *key, kinds.pop_back()?)));
        let Some(newest) = newest else { return false };
        self.known.remove(&newest);
        self.dropped += 1;
        self.remove(tenant, newest.1);
        true
    }

    /// Counts a kind of use of a key that was taken out.
    fn remove(&mut self, tenant: TenantId, key: KeyId) {
        self.count -= 1;
        let Some(of_tenant) = self.pending.get_mut(&tenant) else { return };
        of_tenant.count -= 1;
        if of_tenant.keys.get(&key).is_some_and(VecDeque::is_empty) {
            of_tenant.keys.remove(&key);
        }
        if of_tenant.count == 0 {
            self.pending.remove(&tenant);
        }
    }

    /// Takes the next kind of use of the tenant and key whose turn it is.
    fn take_next(&mut self) -> Option<(TenantId, (KeyId, KeyUse))> {
        let tenant = next(&self.pending, self.last)?;
        self.last = Some(tenant);
        let of_tenant = self.pending.get_mut(&tenant)?;
        let key = next(&of_tenant.keys, of_tenant.last)?;
        of_tenant.last = Some(key);
        let kind = of_tenant.keys.get_mut(&key)?.pop_front()?;
        self.remove(tenant, key);
        Some((tenant, (key, kind)))
    }
}

/// The first key of `map` after `last`, or the first of all.
fn next<K: Ord + Copy, V>(map: &BTreeMap<K, V>, last: Option<K>) -> Option<K> {
    let after = last.map_or(Bound::Unbounded, Bound::Excluded);
    let next = map.range((after, Bound::Unbounded)).next();
    next.or_else(|| map.iter().next()).map(|(key, _)| *key)
}

#[cfg(test)]
mod tests {
    use storage::model::tenant::Role;

    use super::*;

    fn kind(client: usize) -> KeyUse {
        KeyUse {
            network: "192.0.2.7".parse().unwrap(),
            client: client.to_string(),
            role: Role::Reader,
        }
    }

    fn add(buffer: &KeyUseBuffer, tenant: u32, key: u8, client: usize) {
        buffer.add(TenantId(tenant), KeyId([key; 8]), kind(client));
    }

    #[test]
    fn kinds_of_use_are_reported_once() {
        let buffer = KeyUseBuffer::default();
        let start = Instant::now();
        let add_at = |tenant, client, after| {
            buffer.add_at(start + after, (TenantId(tenant), KeyId([1; 8]), kind(client)));
        };
        let add = |tenant, client| add_at(tenant, client, Duration::ZERO);
        let uses = || {
            let mut reports = vec![TenantReport::empty(TenantId(1))];
            buffer.report(&mut reports);
            reports.iter().map(|report| report.uses.len()).collect::<Vec<_>>()
        };
        for (tenant, client) in [(1, 1), (1, 1), (1, 2), (2, 1)] {
            add(tenant, client);
        }
        assert_eq!(uses(), [2, 1]);
        add(1, 1);
        assert_eq!(uses(), [0]);
        add_at(1, 1, KNOWN_TIME);
        assert_eq!(uses(), [1], "the state may have had no room");
        (0..2 * KEY_PENDING_MAX).for_each(|client| add(1, 10 + client));
        add(2, 1_000);
        assert_eq!(uses(), [REPORT_USES_MAX - 1, 1], "tenants take turns");
        assert_eq!(uses(), [1 + KEY_PENDING_MAX - REPORT_USES_MAX], "the rest comes next");
        add(1, 9 + 2 * KEY_PENDING_MAX);
        assert_eq!(uses(), [1], "what had no room is added again");
    }

    /// Kinds of use in the next report of a buffer: how many, and whether one is of `key`.
    fn next_report(buffer: &KeyUseBuffer, tenant: u32, key: u8) -> (usize, bool) {
        let mut reports = Vec::new();
        buffer.report(&mut reports);
        let uses = reports.iter().flat_map(|report| {
            report.uses.iter().map(|(key, _)| (report.tenant, *key)).collect::<Vec<_>>()
        });
        let uses: Vec<_> = uses.collect();
        (uses.len(), uses.contains(&(TenantId(tenant), KeyId([key; 8]))))
    }

    #[test]
    fn floods_hide_no_use_of_other_keys() {
        let buffer = KeyUseBuffer::default();
        for client in 0..2 * KEY_PENDING_MAX {
            (1..=40).for_each(|key| add(&buffer, 1, key, client));
        }
        assert_eq!(buffer.0.lock().count, TENANT_PENDING_MAX);
        // Each of its kinds is reported, as many as the others have.
        for client in 0..3 {
            add(&buffer, 1, 99, client);
            (1..=40).for_each(|key| add(&buffer, 1, key, 10 * KEY_PENDING_MAX + client));
        }
        assert_eq!(next_report(&buffer, 1, 99), (REPORT_USES_MAX, true));
        let waits = buffer.0.lock().pending[&TenantId(1)].keys[&KeyId([99; 8])].len();
        assert_eq!(waits, 2, "it took its turn");
        assert_eq!(buffer.0.lock().count, TENANT_PENDING_MAX - REPORT_USES_MAX);
    }

    #[test]
    fn floods_hide_no_use_of_other_tenants() {
        let buffer = KeyUseBuffer::default();
        for tenant in 1..=5 {
            for client in 0..KEY_PENDING_MAX {
                (1..=20).for_each(|key| add(&buffer, tenant, key, client));
            }
        }
        assert_eq!(buffer.0.lock().count, PENDING_MAX);
        add(&buffer, 9, 1, 0);
        assert_eq!(buffer.0.lock().count, PENDING_MAX);
        assert!(next_report(&buffer, 9, 1).1);
        while next_report(&buffer, 9, 1).0 > 0 {}
        let uses = buffer.0.lock();
        assert_eq!((uses.count, uses.pending.len()), (0, 0));
    }
}
