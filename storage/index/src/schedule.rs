//! What is due in the background, by tenant: the next ticks, deliveries, and old entries of audit
//! logs. So the tasks of the leader cost what is due, not what exists.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::Hash;

use model::audit::AuditChain;
use model::id::{TenantId, Timestamp};
use model::trigger::Outbox;

#[derive(Default)]
pub struct Schedule {
    ticks: Due<TenantId>,
    /// Chains of audit logs, by the time of their first entry.
    audits: Due<(TenantId, AuditChain)>,
    /// Outboxes that are not empty.
    outboxes: BTreeMap<TenantId, Outbox>,
}

impl Schedule {
    /// Sets when the tick of a tenant is due; `None` is never.
    pub fn set_tick(&mut self, tenant: TenantId, due_at: Option<Timestamp>) {
        self.ticks.set(tenant, due_at);
    }

    /// When the tick of a tenant is due.
    pub fn tick_due_at(&self, tenant: TenantId) -> Option<Timestamp> {
        self.ticks.time_of.get(&tenant).copied()
    }

    /// Tenants whose tick is due at `now`.
    pub fn due_ticks(&self, now: Timestamp) -> Vec<TenantId> {
        self.ticks.until(now).collect()
    }

    /// Sets the time of the first entry of a chain.
    pub fn set_audit(&mut self, tenant: TenantId, chain: AuditChain, first_at: Timestamp) {
        self.audits.set((tenant, chain), Some(first_at));
    }

    /// Chains of audit logs whose first entry is older than `time`, at most `limit`.
    pub fn audits_before(&self, time: Timestamp, limit: usize) -> Vec<(TenantId, AuditChain)> {
        self.audits.until(Timestamp(time.0 - 1)).take(limit).collect()
    }

    pub fn set_outbox(&mut self, tenant: TenantId, outbox: Outbox) {
        match outbox == Outbox::default() {
            true => self.outboxes.remove(&tenant),
            false => self.outboxes.insert(tenant, outbox),
        };
    }

    /// Outboxes that are not empty, by tenant.
    pub fn outboxes(&self) -> &BTreeMap<TenantId, Outbox> {
        &self.outboxes
    }

    pub fn remove(&mut self, tenant: TenantId) {
        self.set_tick(tenant, None);
        self.outboxes.remove(&tenant);
        AuditChain::ALL.into_iter().for_each(|chain| self.audits.set((tenant, chain), None));
    }
}

/// Things in the order of a time of each.
struct Due<T> {
    in_order: BTreeSet<(Timestamp, T)>,
    time_of: HashMap<T, Timestamp>,
}

impl<T> Default for Due<T> {
    fn default() -> Self {
        Self { in_order: BTreeSet::new(), time_of: HashMap::new() }
    }
}

impl<T: Copy + Ord + Hash> Due<T> {
    /// Sets the time of a thing; `None` is never.
    fn set(&mut self, thing: T, time: Option<Timestamp>) {
        let before = match time {
            Some(time) => self.time_of.insert(thing, time),
            None => self.time_of.remove(&thing),
        };
        if let Some(before) = before {
            self.in_order.remove(&(before, thing));
        }
        self.in_order.extend(time.map(|time| (time, thing)));
    }

    /// Things whose time is at or before `now`.
    fn until(&self, now: Timestamp) -> impl Iterator<Item = T> {
        let due = self.in_order.iter().take_while(move |(time, _)| *time <= now);
        due.map(|(_, thing)| *thing)
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
        assert_eq!(schedule.tick_due_at(TenantId(3)), None);
    }
}
