//! What is due in the background, by tenant: the next ticks, and deliveries. So the tasks of the
//! leader cost what is due, not what exists.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::model::delivery::Outbox;
use crate::model::id::{TenantId, Timestamp};

#[derive(Default)]
pub(crate) struct Schedule {
    /// Tenants in the order in which their ticks are due.
    ticks: BTreeSet<(Timestamp, TenantId)>,
    tick_of: HashMap<TenantId, Timestamp>,
    /// Outboxes that are not empty.
    outboxes: BTreeMap<TenantId, Outbox>,
}

impl Schedule {
    /// Sets when the tick of a tenant is due; `None` is never.
    pub(crate) fn set_tick(&mut self, tenant: TenantId, due_at: Option<Timestamp>) {
        let before = match due_at {
            Some(due_at) => self.tick_of.insert(tenant, due_at),
            None => self.tick_of.remove(&tenant),
        };
        if let Some(before) = before {
            self.ticks.remove(&(before, tenant));
        }
        self.ticks.extend(due_at.map(|due_at| (due_at, tenant)));
    }

    pub(crate) fn has_tick(&self, tenant: TenantId) -> bool {
        self.tick_of.contains_key(&tenant)
    }

    /// Tenants whose tick is due at `now`.
    pub(crate) fn due_ticks(&self, now: Timestamp) -> Vec<TenantId> {
        let due = self.ticks.iter().take_while(|(due_at, _)| *due_at <= now);
        due.map(|(_, tenant)| *tenant).collect()
    }

    pub(crate) fn set_outbox(&mut self, tenant: TenantId, outbox: Outbox) {
        match outbox == Outbox::default() {
            true => self.outboxes.remove(&tenant),
            false => self.outboxes.insert(tenant, outbox),
        };
    }

    /// Outboxes that are not empty, by tenant.
    pub(crate) fn outboxes(&self) -> &BTreeMap<TenantId, Outbox> {
        &self.outboxes
    }

    pub(crate) fn remove(&mut self, tenant: TenantId) {
        self.set_tick(tenant, None);
        self.outboxes.remove(&tenant);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn due_ticks_come_in_order() {
        let mut schedule = Schedule::default();
        for (tenant, at) in [(1, 30), (2, 10), (3, 20)] {
            schedule.set_tick(TenantId(tenant), Some(Timestamp(at)));
        }
        assert_eq!(schedule.due_ticks(Timestamp(20)), [TenantId(2), TenantId(3)]);
        schedule.set_tick(TenantId(2), Some(Timestamp(40)));
        schedule.remove(TenantId(3));
        assert_eq!(schedule.due_ticks(Timestamp(39)), [TenantId(1)]);
        assert_eq!(schedule.due_ticks(Timestamp(40)), [TenantId(1), TenantId(2)]);
        assert!(!schedule.has_tick(TenantId(3)));
    }
}
