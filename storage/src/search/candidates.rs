//! What can be folded: groups of memories that say the same, and groups of cold memories that are
//! related. Each group is a connected component over edges that new memories get automatically,
//! walked breadth first from its first memory, in the order of ids.

use std::collections::{BTreeSet, VecDeque};

use index::data::TenantIndex;
use model::edge::{Edge, SHARES_KEY_POINT, SIMILAR_TO, SUPERSEDED_MAX};
use model::id::{MemoryId, TenantId, Timestamp};
use model::memory::FoldReason;
use model::memory::MemoryRecord;
use model::thermo::Thermo;

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::reader::Reader;
use crate::search::filter::{Filter, TextRoom};
use crate::table::key::{Key, Kind, prefix, prefix_end};
use crate::table::view::View;

/// Most memories that one request examines.
const EXAMINED_MAX: usize = 1_000;

/// Memories that can be folded into one.
#[derive(Debug, Clone)]
pub struct FoldGroup {
    /// Why.
    pub reason: FoldReason,
    /// Two to [`SUPERSEDED_MAX`] memories of one namespace and type; the first in the order of ids
    /// first, then by distance from it.
    pub memories: Vec<MemoryRecord>,
}

/// Groups of memories, as far as one request examines them.
#[derive(Debug, Clone, Default)]
pub struct FoldCandidates {
    /// The groups. No memory is in two of them.
    pub groups: Vec<FoldGroup>,
    /// The last examined memory, if there are more: continue after it.
    pub next: Option<MemoryId>,
}

impl Reader {
    /// Groups of the memories after `after` that match a filter, at most `limit`.
    ///
    /// # Errors
    /// When the state cannot be read.
    pub fn fold_candidates(
        &self,
        tenant: TenantId,
        filter: &Filter,
        after: Option<MemoryId>,
        limit: usize,
    ) -> Result<FoldCandidates> {
        let engine = self.engine();
        let (thermo, snapshot) = (engine.thermo(tenant), engine.state.snapshot());
        let index = engine.registry.tenant(tenant);
        let (index, now) = (index.as_deref(), engine.clock());
        let walk = Walk { tenant, filter, thermo: &thermo, now, view: &snapshot, index };
        let (mut found, mut seen) = (FoldCandidates::default(), BTreeSet::new());
        let (mut room, mut last) = (TextRoom::default(), after);
        for (examined, id) in self.examined(&engine, tenant, filter, after).enumerate() {
            let id = id?;
            if seen.contains(&id) {
                continue;
            }
            for reason in FoldReason::ALL {
                let group = walk.group(id, reason, &seen)?;
                if group.len() < 2 {
                    continue;
                }
                if !group.iter().all(|record| room.take(&record.memory)) {
                    // The next page begins with it.
                    found.next = last;
                    return Ok(found);
                }
                seen.extend(group.iter().map(|record| record.id));
                found.groups.push(FoldGroup { reason, memories: group });
                break;
            }
            last = Some(id);
            if examined >= EXAMINED_MAX || found.groups.len() >= limit {
                found.next = last;
                break;
            }
        }
        Ok(found)
    }

    /// The memories after `after`, in order: for a restricted key those that match, since the
    /// number and the ids of the others are closed to it.
    fn examined<'a>(
        &self,
        engine: &'a Engine,
        tenant: TenantId,
        filter: &Filter,
        after: Option<MemoryId>,
    ) -> Box<dyn Iterator<Item = Result<MemoryId>> + 'a> {
        if filter.access.is_unrestricted() {
            return Box::new(memories_after(engine, tenant, after));
        }
        let open = self.ids_after(tenant, filter, after, EXAMINED_MAX + 1);
        Box::new(open.into_iter().map(Ok))
    }
}

/// The ids of a tenant's memories after `after`, in order.
pub(super) fn memories_after(
    engine: &Engine,
    tenant: TenantId,
    after: Option<MemoryId>,
) -> impl Iterator<Item = Result<MemoryId>> {
    let memories = prefix(Kind::Memory, tenant);
    let start = after.map_or(memories.clone(), |id| Key::Memory(tenant, id).bytes());
    let rows = engine.state.range(&start, &prefix_end(&memories));
    let ids = rows.map(move |row| {
        let (key, _) = row?;
        let id = key.get(memories.len()..).and_then(|id| id.try_into().ok());
        let corrupt = || Error::Corrupt { what: "key of a memory", detail: hex::encode(&key) };
        id.map(MemoryId).ok_or_else(corrupt)
    });
    ids.filter(move |id| !id.as_ref().is_ok_and(|id| Some(*id) == after))
}

/// Where groups are looked for.
struct Walk<'a, V> {
    tenant: TenantId,
    filter: &'a Filter,
    thermo: &'a Thermo,
    now: Timestamp,
    view: &'a V,
    index: Option<&'a TenantIndex>,
}

impl<V: View> Walk<'_, V> {
    /// The memories that can be folded with `id` for a reason, itself first. None if one of them has a
    /// smaller id: the group is that one's, so each is found once.
    fn group(
        &self,
        id: MemoryId,
        reason: FoldReason,
        taken: &BTreeSet<MemoryId>,
    ) -> Result<Vec<MemoryRecord>> {
        let Some(first) = self.record(id)?.filter(|record| self.may_fold(record, reason)) else {
            return Ok(Vec::new());
        };
        let (mut group, mut known) = (vec![first.clone()], BTreeSet::from([id]));
        let mut queue = VecDeque::from([first]);
        while let Some(from) = queue.pop_front() {
            let edges = self.view.edges(self.tenant, from.id)?.into_iter();
            let edges = edges.filter(|edge| self.may_join(edge, reason));
            let same = self.same(&from, reason);
            for other in edges.map(|edge| edge.other(from.id)).chain(same) {
                if taken.contains(&other) || !known.insert(other) {
                    continue;
                }
                let Some(other) = self.record(other)?.filter(|it| self.joins(&from, it, reason))
                else {
                    continue;
                };
                // This group belongs to an earlier memory.
                if other.id < id {
                    return Ok(Vec::new());
                }
                if group.len() < SUPERSEDED_MAX {
                    group.push(other.clone());
                    queue.push_back(other);
                }
            }
        }
        Ok(group)
    }

    /// Memories with the same words, if that is the reason. Many of them are several groups, the same for every page:
    /// in the order of ids, each [`SUPERSEDED_MAX`] are one.
    fn same(&self, record: &MemoryRecord, reason: FoldReason) -> Vec<MemoryId> {
        let index = self.index.filter(|_| reason == FoldReason::Duplicates);
        let Some(index) = index else { return Vec::new() };
        let (memory, data) = (&record.memory, index.read());
        let same = data.with_same_words(&memory.namespace, &memory.label).into_iter();
        let same = same.filter(|row| row.attributes().memory_type() == memory.memory_type);
        let mut ids: Vec<_> = same.map(|row| row.id()).collect();
        ids.sort_unstable();
        let group = ids.binary_search(&record.id).unwrap_or_else(|at| at) / SUPERSEDED_MAX;
        ids.into_iter().skip(group * SUPERSEDED_MAX).take(SUPERSEDED_MAX).collect()
    }

    fn record(&self, id: MemoryId) -> Result<Option<MemoryRecord>> {
        self.view.memory_record(self.tenant, id, self.thermo, self.now)
    }

    /// Whether an edge may join memories of a group.
    fn may_join(&self, edge: &Edge, reason: FoldReason) -> bool {
        match reason {
            FoldReason::Duplicates => {
                self.thermo.duplicates.are_similar(&edge.relation, edge.weight)
            }
            FoldReason::Cold => [SIMILAR_TO, SHARES_KEY_POINT].contains(&&*edge.relation),
        }
    }

    fn may_fold(&self, record: &MemoryRecord, reason: FoldReason) -> bool {
        let memory = &record.memory;
        let is_cold = !memory.is_pinned && self.thermo.is_cold(record.heat);
        memory.superseded_by.is_none()
            && self.filter.matches(memory)
            && (reason == FoldReason::Duplicates || is_cold)
    }

    fn joins(&self, from: &MemoryRecord, other: &MemoryRecord, reason: FoldReason) -> bool {
        let (left, right) = (&from.memory, &other.memory);
        let is_alike = left.namespace == right.namespace && left.memory_type == right.memory_type;
        let are_near = || self.thermo.duplicates.are_near(&left.label, &right.label);
        is_alike && self.may_fold(other, reason) && (reason == FoldReason::Cold || are_near())
    }
}
