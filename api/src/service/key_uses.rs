//! Kinds of use of keys that may be new to the audit log, until they are reported to the leader.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::ops::Bound;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use storage::model::analytics::{REPORT_USES_MAX, TenantReport};
use storage::model::audit::KeyUse;
use storage::model::id::{KeyId, TenantId};

/// Most kinds of use that a node holds. At the limit it drops all: the state has them too.
const KNOWN_MAX: usize = 10_000;
/// Most kinds of use that wait for a report: of all tenants, of one tenant, and of one key. A key of
/// which none waits may exceed the limit of its tenant, and that of all twofold.
const PENDING_MAX: usize = 4_096;
const TENANT_PENDING_MAX: usize = 256;
const KEY_PENDING_MAX: usize = 64;
/// Interval at which it drops them anyway: a kind for which the state had no room is reported again.
const KNOWN_TIME: Duration = Duration::from_secs(86_400);

/// Kinds of use of keys since the last report, and those that were reported.
#[derive(Default)]
pub(crate) struct KeyUseBuffer(Mutex<Uses>);

type UseOfKey = (TenantId, KeyId, KeyUse);

#[derive(Default)]
struct Uses {
    known: HashSet<UseOfKey>,
    known_since: Option<Instant>,
    pending: BTreeMap<TenantId, VecDeque<(KeyId, KeyUse)>>,
    /// The tenant whose turn in a report was last.
    last: Option<TenantId>,
}

impl KeyUseBuffer {
    /// Adds a use. One that has no room is added when it happens again.
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
        let (tenant, key, kind) = of_key.clone();
        if uses.known.contains(&of_key) {
            return;
        }
        let of_tenant = uses.pending.get(&tenant);
        let of_tenant_count = of_tenant.map_or(0, VecDeque::len);
        let of_key_count =
            of_tenant.map_or(0, |pending| pending.iter().filter(|(of, _)| *of == key).count());
        let count: usize = uses.pending.values().map(VecDeque::len).sum();
        // The first kind of a key has room, whatever its other keys send, and is reported first.
        let is_first = of_key_count == 0 && count < 2 * PENDING_MAX;
        let is_full = of_key_count >= KEY_PENDING_MAX
            || of_tenant_count >= TENANT_PENDING_MAX
            || count >= PENDING_MAX;
        if is_full && !is_first {
            return;
        }
        if uses.known.len() >= KNOWN_MAX {
            uses.known.clear();
        }
        uses.known.insert(of_key);
        let of_tenant = uses.pending.entry(tenant).or_default();
        match is_first {
            true => of_tenant.push_front((key, kind)),
            false => of_tenant.push_back((key, kind)),
        }
    }

    /// Adds what is pending to the reports of tenants, as much as a report has room for. Tenants take
    /// turns.
    pub(crate) fn report(&self, reports: &mut Vec<TenantReport>) {
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
    }
}

impl Uses {
    /// Takes the next kind of use of the tenant whose turn it is.
    fn take_next(&mut self) -> Option<(TenantId, (KeyId, KeyUse))> {
        let after = self.last.map_or(Bound::Unbounded, Bound::Excluded);
        let next = self.pending.range((after, Bound::Unbounded)).next();
        let tenant = *next.or_else(|| self.pending.iter().next())?.0;
        self.last = Some(tenant);
        let of_tenant = self.pending.get_mut(&tenant)?;
        let first = of_tenant.pop_front()?;
        if of_tenant.is_empty() {
            self.pending.remove(&tenant);
        }
        Some((tenant, first))
    }
}

#[cfg(test)]
mod tests {
    use storage::model::tenant::Role;

    use super::*;

    #[test]
    fn kinds_of_use_are_reported_once() {
        let buffer = KeyUseBuffer::default();
        let kind = |client: usize| KeyUse {
            network: "192.0.2.7".parse().unwrap(),
            client: client.to_string(),
            role: Role::Reader,
        };
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

    #[test]
    fn floods_hide_no_use_of_other_keys() {
        let buffer = KeyUseBuffer::default();
        let add = |key: u8, client: usize| {
            let kind = KeyUse {
                network: "192.0.2.7".parse().unwrap(),
                client: client.to_string(),
                role: Role::Reader,
            };
            buffer.add(TenantId(1), KeyId([key; 8]), kind);
        };
        for client in 0..2 * KEY_PENDING_MAX {
            (1..=6).for_each(|key| add(key, client));
        }
        add(9, 0);
        (1..=6).for_each(|key| add(key, 10 * KEY_PENDING_MAX));
        let mut reports = Vec::new();
        buffer.report(&mut reports);
        let is_reported = reports[0].uses.iter().any(|(key, _)| *key == KeyId([9; 8]));
        assert!(is_reported && reports[0].uses.len() == REPORT_USES_MAX);
    }
}
