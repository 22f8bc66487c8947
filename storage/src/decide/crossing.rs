//! What a tick finds of one memory: whether its heat crossed a threshold since the last tick.

use crate::change::Change;
use crate::decide::draft::{Draft, MemoryEvent};
use crate::model::id::TenantId;
use crate::model::journal::{Event, EventKind};
use crate::model::memory::MemoryRecord;
use crate::model::tick::{ThresholdCrossing, Tick};
use crate::model::trigger::TriggerEvent;

/// Records the crossing of `cold_threshold` in the journal, and emits the heat transition for
/// triggers. Archived memories do not cool.
pub(super) fn evaluate(
    draft: &mut Draft<'_>,
    tenant: TenantId,
    tick: &Tick,
    present: &MemoryRecord,
) {
    if present.memory.archived_at.is_some() {
        return;
    }
    let Some(transition) = tick.transition(&present.memory, &present.anchor) else { return };
    for event in [TriggerEvent::Decay, TriggerEvent::Threshold] {
        let id = present.id;
        let transition = Some(transition);
        draft.command.events.push(MemoryEvent { tenant, event, id, times: 1, transition });
    }
    let kind = match tick.crossing(&present.memory, &present.anchor) {
        Some(ThresholdCrossing::Cooled) => EventKind::Cooled,
        Some(ThresholdCrossing::Warmed) => EventKind::Warmed,
        None => return,
    };
    let event = Event {
        at: draft.now(),
        actor: None,
        subject: Some(present.id),
        namespace: present.memory.namespace.clone(),
        kind,
    };
    draft.push(Change::EventAppended(tenant, event));
}
