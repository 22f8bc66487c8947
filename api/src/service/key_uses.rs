//! Kinds of use of keys that the audit log may not know yet, until they are reported to the leader.

use std::collections::HashSet;

use parking_lot::Mutex;
use storage::model::analytics::{REPORT_USES_MAX, TenantReport};
use storage::model::audit::KeyUse;
use storage::model::id::{KeyId, TenantId};

/// Most kinds of use that a node remembers. At the limit it forgets all: the state knows them.
const KNOWN_MAX: usize = 10_000;

/// Kinds of use of keys since the last report, and those that were reported.
#[derive(Default)]
pub(crate) struct KeyUseBuffer(Mutex<Uses>);

type UseOfKey = (TenantId, KeyId, KeyUse);

#[derive(Default)]
struct Uses {
    known: HashSet<UseOfKey>,
    pending: Vec<UseOfKey>,
}

impl KeyUseBuffer {
    /// Notes a use. One that has no room is noted when it happens again.
    pub(crate) fn note(&self, tenant: TenantId, key: KeyId, kind: KeyUse) {
        let (of_key, mut uses) = ((tenant, key, kind), self.0.lock());
        if uses.known.contains(&of_key) || uses.pending.len() >= REPORT_USES_MAX {
            return;
        }
        if uses.known.len() >= KNOWN_MAX {
            uses.known.clear();
        }
        uses.known.insert(of_key.clone());
        uses.pending.push(of_key);
    }

    /// Adds what is pending to the reports of tenants.
    pub(crate) fn report(&self, reports: &mut Vec<TenantReport>) {
        for (tenant, key, kind) in std::mem::take(&mut self.0.lock().pending) {
            let at = reports.iter().position(|report| report.tenant == tenant);
            let at = at.unwrap_or_else(|| {
                reports.push(TenantReport::empty(tenant));
                reports.len() - 1
            });
            reports[at].uses.push((key, kind));
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
        let note = |tenant, client| buffer.note(TenantId(tenant), KeyId([1; 8]), kind(client));
        let uses = || {
            let mut reports = vec![TenantReport::empty(TenantId(1))];
            buffer.report(&mut reports);
            reports.iter().map(|report| report.uses.len()).collect::<Vec<_>>()
        };
        for (tenant, client) in [(1, 1), (1, 1), (1, 2), (2, 1)] {
            note(tenant, client);
        }
        assert_eq!(uses(), [2, 1]);
        note(1, 1);
        assert_eq!(uses(), [0]);
        (0..2 * REPORT_USES_MAX).for_each(|client| note(1, 10 + client));
        assert_eq!(uses(), [REPORT_USES_MAX]);
        note(1, 9 + 2 * REPORT_USES_MAX);
        assert_eq!(uses(), [1], "what had no room is noted again");
    }
}
