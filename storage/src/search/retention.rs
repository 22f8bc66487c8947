//! The memories on which rules of retention are due: found by a scan of the columns, for ticks and for
//! previews.

use std::collections::{BTreeSet, HashMap};

use model::id::{MemoryId, TenantId, Timestamp};
use model::memory::Tier;
use model::retention::{RetentionRule, RetentionSubject, deciding};
use model::thermo::Thermo;

use crate::reader::Reader;
use crate::search::filter::{Filter, TierFilter};
use crate::search::scan::visit_matching_chunks;
use crate::search::top_k::SmallestIds;

/// Which memories, with which rules, and how many at once.
pub struct DueRequest<'a> {
    /// The rules.
    pub rules: &'a [RetentionRule],
    /// The settings that decide on heat.
    pub thermo: &'a Thermo,
    /// When they would be due.
    pub now: Timestamp,
    /// Memories with ids after this one.
    pub reached: Option<MemoryId>,
    /// Most memories.
    pub limit: usize,
}

impl Reader {
    /// The due memories and those that have expired, the first ones in the order of their ids.
    pub(super) fn with_expired(
        &self,
        tenant: TenantId,
        due: Vec<MemoryId>,
        request: &DueRequest<'_>,
    ) -> Vec<MemoryId> {
        let Some(index) = self.index(tenant) else { return due };
        let is_ahead = |id: &MemoryId| request.reached.is_none_or(|reached| *id > reached);
        let mut first = SmallestIds::new(request.limit);
        let data = index.read();
        let expired = data.expired(request.now).filter(is_ahead);
        let all: BTreeSet<_> = due.into_iter().chain(expired).collect();
        all.into_iter().for_each(|id| first.push(id));
        first.into_sorted()
    }

    /// The first memories on which a rule is due, in the order of their ids; and the number of all due
    /// memories for each rule. Locked ones count too.
    pub fn retention_due(
        &self,
        tenant: TenantId,
        request: &DueRequest<'_>,
    ) -> (Vec<MemoryId>, Vec<u64>) {
        let DueRequest { rules, thermo, now, reached, limit } = *request;
        let mut counts = vec![0; rules.len()];
        let Some(index) = self.index(tenant).filter(|_| !rules.is_empty()) else {
            return (Vec::new(), counts);
        };
        let mut due = SmallestIds::new(limit);
        let filter = Filter { tier: TierFilter::All, ..Filter::default() };
        let mut rules_of = HashMap::new();
        visit_matching_chunks(&index, &filter, |data, chunk, rows| {
            for row in rows.iter().map(|row| chunk.row((*row).into())) {
                let attributes = row.attributes();
                let memory_type = attributes.memory_type();
                let number = attributes.namespace();
                let deciding = *rules_of.entry((number, memory_type)).or_insert_with(|| {
                    let name = data.namespaces.name(number);
                    name.map_or([None; 2], |name| deciding(rules, name, memory_type))
                });
                let subject = RetentionSubject {
                    is_pinned: attributes.is_pinned(),
                    is_archived: attributes.tier() == Tier::Cold,
                    used_at: row.used_at(),
                    heat_at: |at| row.heat_under(thermo, at),
                };
                if let Some(at) = subject.due(rules, deciding, thermo, now) {
                    counts[at] += 1;
                    if reached.is_none_or(|reached| row.id() > reached) {
                        due.push(row.id());
                    }
                }
            }
            true
        });
        (due.into_sorted(), counts)
    }
}
