//! What spoils a tenant's memories: duplicates, echoes, memories that feedback contradicts, and those
//! that no one needs. A request examines some memories in the order of ids; the numbers of several
//! requests add up.

use index::data::TenantIndex;
use model::duplicate::{has_same_words, is_near_text};
use model::id::{MemoryId, TenantId, Timestamp};
use model::memory::Defect;
use model::memory::MemoryRecord;
use model::thermo::Thermo;

use crate::error::{Error, Result};
use crate::reader::Reader;
use crate::search::candidates::memories_after;
use crate::table::view::View;

/// Most memories that one request examines.
const EXAMINED_MAX: usize = 5_000;
/// Characters of an example's text.
const EXAMPLE_CHARS: usize = 120;
/// Age from which a memory without recalls counts as unused.
const UNUSED_DAYS: i64 = 30;

/// Number and examples of a defect.
#[derive(Debug, Clone, Default)]
pub struct DefectCount {
    /// Memories with this defect.
    pub count: usize,
    /// The first of them, with the beginnings of their texts.
    pub examples: Vec<(MemoryId, String)>,
}

/// Defects among the examined memories.
#[derive(Debug, Clone, Default)]
pub struct Hygiene {
    /// Examined memories.
    pub examined: usize,
    /// Per defect, in the order of [`Defect::ALL`].
    pub defects: [DefectCount; Defect::ALL.len()],
    /// The last examined memory, if there are more: continue after it.
    pub next: Option<MemoryId>,
}

impl Reader {
    /// Examines the memories after `after`, and names at most `examples_max` of each defect.
    ///
    /// # Errors
    /// When the state cannot be read.
    pub fn hygiene(
        &self,
        tenant: TenantId,
        after: Option<MemoryId>,
        examples_max: usize,
    ) -> Result<Hygiene> {
        let engine = self.engine();
        let (now, thermo) = (engine.clock(), engine.thermo(tenant));
        let (snapshot, index) = (engine.state.snapshot(), engine.registry.tenant(tenant));
        let mut hygiene = Hygiene::default();
        for id in memories_after(&engine, tenant, after) {
            let id = id?;
            // It may have been created after the snapshot.
            let Some(record) = snapshot.memory_record(tenant, id, &thermo, now)? else { continue };
            let is_duplicate = is_duplicate(&snapshot, tenant, &record, index.as_deref())?;
            for defect in defects(&snapshot, tenant, &record, is_duplicate, &thermo, now)? {
                let of_defect = &mut hygiene.defects[defect as usize];
                of_defect.count += 1;
                if of_defect.examples.len() < examples_max {
                    let label = record.memory.label.chars().take(EXAMPLE_CHARS);
                    of_defect.examples.push((id, label.collect()));
                }
            }
            hygiene.examined += 1;
            if hygiene.examined == EXAMINED_MAX {
                hygiene.next = Some(id);
                break;
            }
        }
        Ok(hygiene)
    }
}

/// Whether an older memory of its namespace and type has the same words.
fn is_duplicate(
    view: &impl View,
    tenant: TenantId,
    record: &MemoryRecord,
    index: Option<&TenantIndex>,
) -> Result<bool> {
    let MemoryRecord { id, memory, .. } = record;
    let index = index.filter(|_| memory.superseded_by.is_none());
    let oldest = index.and_then(|index| {
        let data = index.read();
        let same = data.with_same_words(&memory.namespace, &memory.label).into_iter();
        let same = same.filter(|row| row.attributes().memory_type() == memory.memory_type);
        same.map(|row| row.id()).min()
    });
    let Some(oldest) = oldest.filter(|oldest| oldest < id) else { return Ok(false) };
    let oldest = view.memory(tenant, oldest)?;
    Ok(oldest.is_some_and(|oldest| has_same_words(&oldest.label, &memory.label)))
}

fn defects(
    view: &impl View,
    tenant: TenantId,
    record: &MemoryRecord,
    is_duplicate: bool,
    thermo: &Thermo,
    now: Timestamp,
) -> Result<Vec<Defect>> {
    let MemoryRecord { memory, anchor, .. } = record;
    // Another one replaces it: nothing is wrong with it.
    if memory.superseded_by.is_some() {
        return Ok(Vec::new());
    }
    let edges = view.edges(tenant, record.id)?;
    let mut found: Vec<_> = is_duplicate.then_some(Defect::ExactDuplicate).into_iter().collect();
    for edge in edges.iter().filter(|_| !is_duplicate) {
        let is_near = thermo.duplicates.are_similar(&edge.relation, edge.weight);
        // Of two memories, the younger one is the duplicate.
        if !is_near || edge.other(record.id) > record.id {
            continue;
        }
        let other = edge.other(record.id);
        let older = view.memory(tenant, other)?;
        let older = older.ok_or_else(|| Error::missing("end of an edge", tenant, other))?;
        let is_alike = older.namespace == memory.namespace
            && older.memory_type == memory.memory_type
            && older.superseded_by.is_none();
        let (left, right) = (&older.label, &memory.label);
        if is_alike && is_near_text(left, right, thermo.duplicates.overlap_min) {
            found = vec![Defect::NearDuplicate];
        }
    }
    let unused = Timestamp(now.0 - UNUSED_DAYS * Timestamp::DAY_MICROS);
    let is_old = memory.created_at < unused;
    let is_unused = is_old && anchor.last_recall.is_none_or(|last| last < unused);
    for (holds, defect) in [
        (memory.echo_of.is_some(), Defect::Echo),
        (memory.is_flagged, Defect::Contradicted),
        (is_old && anchor.recall_count == 0, Defect::NeverRecalled),
        (is_unused && edges.is_empty(), Defect::Orphan),
    ] {
        found.extend(holds.then_some(defect));
    }
    Ok(found)
}
