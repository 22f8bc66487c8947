//! The recall buffer: results of searches, requests and key uses of this node, until a background
//! task reports them to the leader. The first results of a search are recalls; all results are
//! returned, for the triggers that wait for it.
//!
//! The first recall of a memory is reported at once. Further recalls within the tenant's
//! `recall_min_interval` are counted and reported together at its end. So a search in a loop
//! neither writes without bound nor keeps a memory hot for ever.
//!
//! A report has room for some recalls, and for some [results](Returned) that fire triggers. Tenants
//! have equal parts of it, and the keys of a tenant take turns, so that none waits for what another
//! one has searched.

use std::borrow::Borrow;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};
use storage::model::analytics::{REPORT_TENANTS_MAX, TenantReport, Usage};
use storage::model::id::{KeyId, MemoryId, TenantId, Timestamp};
use storage::{EqualParts, OwnerCounts};

use crate::admission::budget::KeyOfTenant;
use crate::service::recall_counts::{Needs, PARTS, ReportPart, Room, TenantContents};
use crate::service::returned::Turn;

/// Most memories with recalls in the buffer: over all tenants, and of one tenant. A tenant with few
/// may exceed the limit of all. At a limit the reported ones of the tenant are removed, and after a
/// report those of the tenants with the most, if the buffer is nearly full: their next recall is
/// reported before the interval ends, and is then counted only. If none is reported yet, further
/// memories are dropped and counted.
const MEMORIES_MAX: usize = 50_000;
const TENANT_MEMORIES_MAX: usize = MEMORIES_MAX / 4 * 3;
const TENANT_MEMORIES_FEW: usize = 64;

/// Returned memories, requests and key uses since the last report. Each tenant has a lock of its
/// own: no request waits for a lock that the work of another tenant holds.
#[derive(Default)]
pub(crate) struct RecallBuffer {
    tenants: RwLock<Tenants>,
    /// Memories with recalls, of all tenants.
    memories: AtomicUsize,
    recorded: AtomicU64,
    dropped: AtomicU64,
}

/// The lock of each tenant.
type Tenants = BTreeMap<TenantId, Arc<Mutex<TenantContents>>>;

/// What is due for a report, per tenant.
pub struct DueReport {
    /// Counts per tenant. It is empty if nothing is due.
    pub tenants: Vec<TenantReport>,
    /// Whether some of its room is used up, so more may be due already.
    pub is_full: bool,
}

/// What a tenant needs of a report.
struct Due {
    tenant: TenantId,
    needs: Needs,
    /// See [`TenantContents::reported_at`].
    reported_at: Turn,
    served: [Turn; PARTS],
}

impl RecallBuffer {
    /// Counts a search of a key, which found something or not, and what it `recalled`.
    pub(crate) fn count(
        &self,
        (tenant, key): KeyOfTenant,
        has_results: bool,
        recalled: &[MemoryId],
    ) {
        let dropped = self.change(&self.of(tenant), |of_tenant, others| {
            of_tenant.searches += 1;
            of_tenant.searches_with_results += u64::from(has_results);
            let mut dropped = 0;
            for id in recalled {
                let has_room = room(of_tenant, others) > 0;
                if of_tenant.count(key, *id, has_room) {
                    continue;
                }
                of_tenant.make_room();
                let has_room = room(of_tenant, others) > 0;
                dropped += u64::from(!of_tenant.count(key, *id, has_room));
            }
            dropped
        });
        self.recorded.fetch_add(recalled.len() as u64 - dropped, Ordering::Relaxed);
        self.dropped.fetch_add(dropped, Ordering::Relaxed);
    }

    /// Keeps the results of a search of a key for the triggers that wait for each.
    pub(crate) fn add_results<W: Borrow<OwnerCounts>>(
        &self,
        (tenant, key): KeyOfTenant,
        results: impl ExactSizeIterator<Item = (MemoryId, W)>,
    ) {
        let dropped = self.of(tenant).lock().returned.push(key, results);
        self.dropped.fetch_add(dropped, Ordering::Relaxed);
    }

    /// Counts a request of a key, the time that it took, and the memories that it created.
    pub(crate) fn count_request(&self, tenant: TenantId, key: KeyId, took: Duration, added: u64) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let usage = Usage {
            requests: 1,
            nodes_added: added,
            latency_micros: micros,
            latency_max_micros: micros,
        };
        self.of(tenant).lock().count_request(key, &usage);
    }

    /// Recalls that were recorded.
    pub(crate) fn recorded(&self) -> u64 {
        self.recorded.load(Ordering::Relaxed)
    }

    /// Recalls and results that were dropped.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Takes what is due for a report at `now`, as much as it has `room` for. `interval` returns a
    /// tenant's `recall_min_interval`.
    pub(crate) fn take(
        &self,
        now: Instant,
        clock: Timestamp,
        room: &Room,
        interval: impl Fn(TenantId) -> Duration,
    ) -> DueReport {
        let tenants = self.tenants.read().clone();
        let due = due(&tenants, now, &interval);
        let mut reports: BTreeMap<_, _> =
            due.iter().map(|due| (due.tenant, TenantReport::empty(due.tenant))).collect();
        let mut is_full = due.len() >= REPORT_TENANTS_MAX;
        is_full |= divide(&tenants, now, &due, ReportPart::Recalls, room, |of_tenant, id, room| {
            let recalls = of_tenant.take_recalls(now, interval(id), room);
            let count = recalls.len();
            reports.entry(id).and_modify(|report| report.recalls = recalls);
            count
        });
        is_full |= divide(&tenants, now, &due, ReportPart::Firings, room, |of_tenant, id, room| {
            let (returned, firings) = of_tenant.returned.take(now, room);
            reports.entry(id).and_modify(|report| report.returned = returned);
            firings
        });
        is_full |= divide(&tenants, now, &due, ReportPart::Keys, room, |of_tenant, id, room| {
            let keys = of_tenant.take_keys(now, clock, room);
            let count = keys.len();
            reports.entry(id).and_modify(|report| report.keys = keys);
            count
        });
        for (place, Due { tenant, .. }) in due.iter().enumerate() {
            if let (Some(of_tenant), Some(report)) = (tenants.get(tenant), reports.get_mut(tenant))
            {
                of_tenant.lock().take_counts((now, place), report);
            }
        }
        for (id, of_tenant) in tenants {
            self.change(&of_tenant, |of_tenant, _| of_tenant.remove_idle(now, interval(id)));
        }
        self.remove_idle();
        self.make_room();
        let is_empty = |report: &TenantReport| *report == TenantReport::empty(report.tenant);
        let tenants = reports.into_values().filter(|report| !is_empty(report)).collect();
        DueReport { tenants, is_full }
    }

    /// The contents of a tenant, new ones if it has none.
    fn of(&self, tenant: TenantId) -> Arc<Mutex<TenantContents>> {
        let known = self.tenants.read().get(&tenant).cloned();
        known.unwrap_or_else(|| Arc::clone(self.tenants.write().entry(tenant).or_default()))
    }

    /// Changes the contents of a tenant, with the number of memories of the others at hand.
    fn change<T>(
        &self,
        of_tenant: &Mutex<TenantContents>,
        change: impl FnOnce(&mut TenantContents, usize) -> T,
    ) -> T {
        let mut of_tenant = of_tenant.lock();
        let before = of_tenant.memories;
        let others = self.memories.load(Ordering::Relaxed).saturating_sub(before);
        let changed = change(&mut of_tenant, others);
        // Wraps around if there are fewer now.
        self.memories.fetch_add(of_tenant.memories.wrapping_sub(before), Ordering::Relaxed);
        changed
    }

    /// If the buffer is nearly full, removes the reported memories of the tenants with the most.
    fn make_room(&self) {
        let is_nearly_full = || self.memories.load(Ordering::Relaxed) > TENANT_MEMORIES_MAX;
        if !is_nearly_full() {
            return;
        }
        let tenants = self.tenants.read().clone();
        let mut tenants: Vec<_> =
            tenants.values().map(|of_tenant| (of_tenant.lock().memories, of_tenant)).collect();
        tenants.sort_by_key(|(memories, _)| Reverse(*memories));
        for (_, of_tenant) in tenants {
            if !is_nearly_full() {
                break;
            }
            self.change(of_tenant, |of_tenant, _| of_tenant.remove_reported());
        }
    }

    /// Removes the tenants that no further report needs, so that idle ones cost nothing. A request
    /// may be about to count for one: it holds the contents then.
    fn remove_idle(&self) {
        let is_idle = |of_tenant: &Arc<Mutex<TenantContents>>| {
            Arc::strong_count(of_tenant) == 1 && of_tenant.lock().is_idle()
        };
        self.tenants.write().retain(|_, of_tenant| !is_idle(of_tenant));
    }
}

/// How many more memories with recalls a tenant may have; the `others` have that many.
fn room(of_tenant: &TenantContents, others: usize) -> usize {
    let of_all = MEMORIES_MAX.saturating_sub(others).min(TENANT_MEMORIES_MAX);
    of_all.max(TENANT_MEMORIES_FEW).saturating_sub(of_tenant.memories)
}

/// The tenants that a report may include, with what each needs of it. If there are too many, those
/// that were reported longest ago.
fn due(tenants: &Tenants, now: Instant, interval: &impl Fn(TenantId) -> Duration) -> Vec<Due> {
    let due = tenants.iter().filter_map(|(id, of_tenant)| {
        let of_tenant = of_tenant.lock();
        let needs = of_tenant.needs(now, interval(*id));
        let TenantContents { reported_at, served, .. } = *of_tenant;
        (needs != [0; PARTS] || of_tenant.has_counts()).then_some(Due {
            tenant: *id,
            needs,
            reported_at,
            served,
        })
    });
    let mut due: Vec<_> = due.collect();
    if due.len() > REPORT_TENANTS_MAX {
        due.sort_by_key(|due| due.reported_at);
        due.truncate(REPORT_TENANTS_MAX);
    }
    due
}

/// Divides a part of a report among the tenants that need some of it. Those that need no more
/// than an equal part come first, then those that had some longest ago: what cannot be divided
/// may take the room of others, so they take turns. `take` returns how much it took. Returns whether
/// the room is used up.
fn divide(
    tenants: &Tenants,
    now: Instant,
    due: &[Due],
    part_of: ReportPart,
    room: &Room,
    mut take: impl FnMut(&mut TenantContents, TenantId, usize) -> usize,
) -> bool {
    let at = part_of as usize;
    let room = room[at];
    let mut due: Vec<_> = due.iter().filter(|due| due.needs[at] > 0).collect();
    let equal = room / due.len().max(1);
    due.sort_by_key(|due| match due.needs[at] > equal {
        true => (Some(due.served[at]), 0),
        false => (None, due.needs[at]),
    });
    let mut parts = EqualParts::new(room, due.len());
    for (place, Due { tenant, .. }) in due.into_iter().enumerate() {
        let part = parts.part().max(1).min(parts.left());
        let Some(of_tenant) = tenants.get(tenant).filter(|_| part > 0) else { break };
        let mut of_tenant = of_tenant.lock();
        let taken = take(&mut of_tenant, *tenant, part);
        if taken > 0 {
            of_tenant.served[at] = (now, place);
        }
        parts.spend(taken);
    }
    parts.left() == 0
}

#[cfg(test)]
mod tests;
