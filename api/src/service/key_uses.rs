//! Kinds of use of keys that may be new to the audit log, until they are reported to the leader.

use std::collections::{BTreeMap, HashSet};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use storage::model::analytics::{REPORT_USES_MAX, TenantReport};
use storage::model::audit::KeyUse;
use storage::model::id::{KeyId, TenantId};

/// Most kinds of use that a node holds. At the limit it drops all: the state has them too.
const KNOWN_MAX: usize = 10_000;
/// Most kinds of use that wait for a report, of all keys and of one key. One tenant has
/// [`REPORT_USES_MAX`].
const PENDING_MAX: usize = 16 * REPORT_USES_MAX;
const KEY_PENDING_MAX: usize = REPORT_USES_MAX / 4;
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
    pending: BTreeMap<TenantId, Vec<(KeyId, KeyUse)>>,
    /// Of all tenants.
    pending_count: usize,
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
        let of_tenant = uses.pending.get(&tenant).map_or(&[][..], Vec::as_slice);
        let pending = of_tenant.iter().filter(|(of, _)| *of == key).count();
        let is_full = pending >= KEY_PENDING_MAX
            || of_tenant.len() >= REPORT_USES_MAX
            || uses.pending_count >= PENDING_MAX;
        if is_full || uses.known.contains(&of_key) {
            return;
        }
        if uses.known.len() >= KNOWN_MAX {
            uses.known.clear();
        }
        uses.known.insert(of_key);
        uses.pending.entry(tenant).or_default().push((key, kind));
        uses.pending_count += 1;
    }

    /// Adds what is pending to the reports of tenants.
    pub(crate) fn report(&self, reports: &mut Vec<TenantReport>) {
        let mut buffer = self.0.lock();
        buffer.pending_count = 0;
        for (tenant, uses) in std::mem::take(&mut buffer.pending) {
            let at = reports.iter().position(|report| report.tenant == tenant);
            let at = at.unwrap_or_else(|| {
                reports.push(TenantReport::empty(tenant));
                reports.len() - 1
            });
            reports[at].uses = uses;
        }
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
        (0..2 * REPORT_USES_MAX).for_each(|client| add(1, 10 + client));
        add(2, 1_000);
        assert_eq!(uses(), [KEY_PENDING_MAX, 1], "one key leaves room for others");
        add(1, 9 + 2 * REPORT_USES_MAX);
        assert_eq!(uses(), [1], "what had no room is added again");
    }
}
