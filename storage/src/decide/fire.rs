//! Firing of triggers. What a command does to memories emits events; each event evaluates the
//! triggers that wait for it, in the order of their creation, each on top of what the one
//! before changed. All of it is part of the command's batch. Actions emit no events, so a
//! trigger cannot fire another one, or itself.

use index::triggers::CompiledTrigger;
use model::access::Access;
use model::id::{KeyId, MemoryId, TenantId, TriggerId};
use model::journal::{EventKind, FiredTrigger, FiringResult, MemoryField};
use model::memory::{DecayClass, LABEL_BYTES_MAX, Memory, MemoryRecord};
use model::tenant::Limit;
use model::trigger::TemplateContext;
use model::trigger::{Notification, TAG_BYTES_MAX, Trigger, TriggerAction, TriggerEvent};
use model::trigger_match::{HeatTransition, SkipReason, Subject};
use text::folding::fold_name;

use crate::change::Change;
use crate::decide::commit_memory::{MemoryUpdate, commit_update};
use crate::decide::context::Context;
use crate::decide::counted::Counted;
use crate::decide::draft::{Draft, MemoryEvent};
use crate::decide::edit::record_edit;
use crate::decide::outbox;
use crate::error::Result;
use crate::reader::Reader;
use crate::table::view::View;

/// Share of its heat that `deprecate` leaves.
const DEPRECATED_REST: f64 = 0.5;
/// Words of a label that a derived tag consists of.
const TAG_WORDS: usize = 3;
/// Characters of a label that the journal keeps beside a firing.
const FIRED_LABEL_CHARS: usize = 120;

/// Evaluates the triggers that wait for the emitted events, and does what those do that fire.
pub(super) fn fire(draft: &mut Draft) -> Result<()> {
    // An action may change a memory before the tick under way has evaluated it, which emits
    // its heat transition: once, since the change anchors the memory.
    while !draft.command.events.is_empty() {
        for event in std::mem::take(&mut draft.command.events) {
            for _ in 0..event.times {
                let count = fire_once(draft, &event)?;
                if count == 0 {
                    break;
                }
                draft.command.has_fired = true;
            }
        }
    }
    Ok(())
}

fn fire_once(draft: &mut Draft, event: &MemoryEvent) -> Result<u64> {
    let triggers = draft.triggers(event.tenant);
    let waiting = triggers.on(event.event).iter();
    let waiting: Vec<_> =
        waiting.filter(|compiled| event.owners.include(compiled.trigger.owner)).collect();
    if waiting.is_empty() {
        return Ok(0);
    }
    if draft.evaluates_no_more() {
        skip(draft, event, waiting.len());
        return Ok(0);
    }
    // A memory that the same command deleted fires nothing, nor does one that waits in quarantine.
    let present = draft.present(event.tenant, event.id)?;
    let present = present.filter(|present| !present.memory.guard.is_quarantined());
    let Some(present) = present else { return Ok(0) };
    let mut subject = Subject::new(present);
    let mut fired = 0;
    draft.command.fired.values_mut().for_each(|fired| fired.of_event = 0);
    for (at, compiled) in waiting.iter().enumerate() {
        if draft.evaluates_no_more() {
            skip(draft, event, waiting.len() - at);
            break;
        }
        if evaluate_one(draft, event, compiled, &subject)?.is_err() {
            continue;
        }
        if !draft.has_room(compiled.trigger.owner) {
            skip(draft, event, 1);
            continue;
        }
        let has_changed = perform(draft, event, compiled, &subject.record)?;
        if has_changed && !reload(&mut subject, draft, event)? {
            return Ok(fired);
        }
        fired += 1;
    }
    Ok(fired)
}

/// Counts triggers that the limits of the command prevent.
fn skip(draft: &mut Draft, event: &MemoryEvent, count: usize) {
    *draft.command.skipped.entry(event.tenant).or_default() += count as u64;
}

/// Reads the memory again after a change; false if it is gone.
fn reload(subject: &mut Subject, draft: &Draft, event: &MemoryEvent) -> Result<bool> {
    let after = draft.present(event.tenant, event.id)?;
    let is_present = after.is_some();
    after.into_iter().for_each(|record| subject.update(record));
    Ok(is_present)
}

fn evaluate_one(
    draft: &mut Draft,
    event: &MemoryEvent,
    compiled: &CompiledTrigger,
    subject: &Subject,
) -> Result<std::result::Result<(), SkipReason>> {
    let CompiledTrigger { id, trigger, pattern } = compiled;
    let memory = &subject.record.memory;
    let matched = trigger.matches(event.event, event.transition, subject, pattern.as_ref());
    draft.count_evaluation(subject.take_searched_bytes());
    if matched.is_err() {
        return Ok(matched);
    }
    let is_bounded = trigger.max_fires.is_some() || trigger.cooldown_seconds > 0;
    if is_bounded
        && let Err(reason) = trigger.may_fire(&draft.firings(event.tenant, *id)?, draft.now)
    {
        return Ok(Err(reason));
    }
    let Some(owner) = trigger.owner else { return Ok(Ok(())) };
    if !may_know(draft, event, owner, memory)? {
        return Ok(Err(SkipReason::Access));
    }
    // A tag is a part of the text.
    let rewrites = matches!(trigger.action, TriggerAction::Tag(_));
    let context = Context { draft, tenant: event.tenant, actor: None };
    let may = !rewrites || context.may_rewrite(memory, Some(owner))?;
    Ok(if may { Ok(()) } else { Err(SkipReason::Access) })
}

/// Whether a trigger's owner may know of an event: an edge tells of both its ends.
fn may_know(draft: &mut Draft, event: &MemoryEvent, owner: KeyId, memory: &Memory) -> Result<bool> {
    if !owner_has_access(draft, event.tenant, owner, &memory.namespace)? {
        return Ok(false);
    }
    let Some(other) = event.other else { return Ok(true) };
    let Some(other) = draft.present(event.tenant, other)? else { return Ok(true) };
    owner_has_access(draft, event.tenant, owner, &other.memory.namespace)
}

/// Whether a trigger's owner may access a namespace; not if its key was deleted.
fn owner_has_access(
    draft: &mut Draft,
    tenant: TenantId,
    owner: KeyId,
    namespace: &str,
) -> Result<bool> {
    if !draft.command.owners.contains_key(&owner) {
        let access = draft.access(tenant, owner, draft.now)?.unwrap_or_else(Access::none);
        draft.command.owners.insert(owner, access);
    }
    Ok(draft.command.owners[&owner].allows(namespace))
}

/// Performs a trigger's action, and counts the firing. Returns whether the memory changed.
fn perform(
    draft: &mut Draft,
    event: &MemoryEvent,
    compiled: &CompiledTrigger,
    present: &MemoryRecord,
) -> Result<bool> {
    let mark = draft.mark();
    let has_changed = execute(draft, event, compiled, present)?;
    draft.count_firing(compiled.trigger.owner, mark);
    Ok(has_changed)
}

/// Executes a trigger's action, and records the firing. Returns whether the memory changed.
fn execute(
    draft: &mut Draft,
    event: &MemoryEvent,
    compiled: &CompiledTrigger,
    present: &MemoryRecord,
) -> Result<bool> {
    let tenant = event.tenant;
    let CompiledTrigger { id, trigger, .. } = compiled;
    let mut firings = draft.firings(tenant, *id)?;
    (firings.count, firings.total) = (firings.count + 1, firings.total + 1);
    firings.last_at = Some(draft.now);
    let mut context = Context { draft, tenant, actor: None };
    let (update, result) = match &trigger.action {
        TriggerAction::Webhook { .. } => {
            (None, outbox::enqueue(&mut context, compiled, &mut firings, event.event, present)?)
        }
        TriggerAction::Notify(template) => {
            (None, notify(&mut context, event, compiled, template.as_deref(), present)?)
        }
        action => {
            let (update, result) = effect(action, present);
            let after = update.as_ref().map_or(0, |update| update.memory.text_bytes());
            let added = after.saturating_sub(present.memory.text_bytes());
            match added == 0 || context.fits(Limit::Bytes, Counted::Bytes, added)? {
                true => (update, result),
                false => (None, FiringResult::NoTagRoom),
            }
        }
    };
    context.push(Change::FiringsPut(tenant, *id, firings));
    let fired = FiredTrigger {
        trigger: *id,
        trigger_name: trigger.name.clone(),
        event: event.event,
        action: trigger.action.kind(),
        label: present.memory.label.chars().take(FIRED_LABEL_CHARS).collect(),
        result,
    };
    context.append(present.id, &present.memory, EventKind::TriggerFired(Box::new(fired)));
    let Some(mut update) = update else { return Ok(false) };
    if let (TriggerAction::Tag(_), Some(owner)) = (&trigger.action, trigger.owner) {
        update.memory.changed_by = context.editor(owner)?;
    }
    // Tags of others are many: they would push deletions out of the audit log.
    if present.memory.is_locked {
        record_edit(&mut context, trigger.owner, present.id, [&present.memory, &update.memory])?;
    }
    commit_update(&mut context, present, update)?;
    Ok(true)
}

fn notify(
    context: &mut Context<'_>,
    event: &MemoryEvent,
    compiled: &CompiledTrigger,
    template: Option<&str>,
    present: &MemoryRecord,
) -> Result<FiringResult> {
    let (memory, heat) = (&present.memory, present.heat);
    let values = TemplateContext { event: event.event, id: present.id, memory, heat };
    let message = values.render(template);
    // The caller did not cause what a tick finds.
    if event.transition.is_none() {
        let owner = match compiled.trigger.owner {
            Some(owner) => context.editor(owner)?,
            None => None,
        };
        context.draft.command.notifications.push(Notification {
            trigger: compiled.id,
            trigger_name: compiled.trigger.name.clone(),
            owner: owner.map(|owner| owner.agent),
            event: event.event,
            memory: present.id,
            message: message.clone(),
        });
    }
    Ok(FiringResult::Notified(message))
}

/// The update that an action makes to a memory, if any, and its result.
fn effect(action: &TriggerAction, present: &MemoryRecord) -> (Option<MemoryUpdate>, FiringResult) {
    let memory = present.memory.clone();
    let reheated = |memory, heat: f64, fields| {
        let update = MemoryUpdate { memory, heat: Some(heat as f32), fields };
        (Some(update), FiringResult::HeatChanged { from: present.heat, to: heat })
    };
    let changed = |memory, field, result| {
        (Some(MemoryUpdate { memory, heat: None, fields: vec![field] }), result)
    };
    match action {
        TriggerAction::Boost(strength) => {
            // Setting the heat restores a memory to the hot tier.
            let memory = Memory { archived_at: None, ..memory };
            let heat = (present.heat + strength).min(1.0);
            reheated(memory, heat, vec![MemoryField::CurrentHeat])
        }
        TriggerAction::Pin if memory.is_pinned => (None, FiringResult::AlreadyPinned),
        TriggerAction::Pin => {
            let memory = Memory { is_pinned: true, archived_at: None, ..memory };
            changed(memory, MemoryField::IsPinned, FiringResult::Pinned)
        }
        TriggerAction::Deprecate => {
            let memory = Memory { decay_class: DecayClass::Volatile, ..memory };
            let fields = vec![MemoryField::CurrentHeat, MemoryField::DecayClass];
            reheated(memory, present.heat * DEPRECATED_REST, fields)
        }
        TriggerAction::Tag(tag) => match tagged(&memory.label, tag.as_deref()) {
            Ok((label, tag)) => {
                let memory = Memory { label, ..memory };
                changed(memory, MemoryField::Label, FiringResult::Tagged(tag))
            }
            Err(result) => (None, result),
        },
        TriggerAction::Notify(_) | TriggerAction::Webhook { .. } => (None, FiringResult::Dropped),
    }
}

/// A label with its tag appended, and the tag; or why the label stays as it is.
fn tagged(label: &str, tag: Option<&str>) -> std::result::Result<(String, String), FiringResult> {
    let tag = tag.map_or_else(|| derived_tag(label), str::to_owned);
    if tag.is_empty() {
        return Err(FiringResult::NoTagWords);
    }
    let tag = format!("#{tag}");
    if label.split_whitespace().any(|word| word == tag) {
        return Err(FiringResult::AlreadyTagged);
    }
    if label.len() + 1 + tag.len() > LABEL_BYTES_MAX {
        return Err(FiringResult::NoTagRoom);
    }
    Ok((format!("{} {tag}", label.trim_end()), tag))
}

fn derived_tag(label: &str) -> String {
    let word = |word: &str| word.chars().filter(|c| c.is_alphanumeric()).collect::<String>();
    let folded = fold_name(label);
    let words = folded.split_whitespace().map(word).filter(|word| !word.is_empty());
    let mut tag = words.take(TAG_WORDS).collect::<Vec<_>>().join("-");
    tag.truncate(tag.floor_char_boundary(TAG_BYTES_MAX));
    tag
}

/// A trigger, and whether it would fire.
pub type TriggerEvaluation = (TriggerId, Trigger, std::result::Result<(), SkipReason>);

/// What each trigger of a tenant would do if `event` happened to a memory now, each on top of
/// what the one before would do. For `Decay` and `Threshold`: if a tick came now. `None` when
/// there is no such memory. Nothing fires.
///
/// # Errors
/// When the state cannot be read.
pub fn evaluate(
    reader: &Reader,
    tenant: TenantId,
    event: TriggerEvent,
    id: MemoryId,
) -> Result<Option<Vec<TriggerEvaluation>>> {
    let mut draft = Draft::new(reader, reader.position().clock);
    let Some(present) = draft.present(tenant, id)? else { return Ok(None) };
    let transition = next_transition(&draft, tenant, event, &present)?;
    let event = MemoryEvent { transition, ..MemoryEvent::new(tenant, event, id) };
    let (mut evaluations, mut subject) = (Vec::new(), Subject::new(present));
    for compiled in draft.triggers(tenant).all() {
        let evaluation = match draft.evaluates_no_more() {
            true => Err(SkipReason::NoRoom),
            false => evaluate_one(&mut draft, &event, &compiled, &subject)?,
        };
        let has_room = draft.has_room(compiled.trigger.owner);
        let evaluation = evaluation.and(if has_room { Ok(()) } else { Err(SkipReason::NoRoom) });
        // This draft is never applied.
        if evaluation.is_ok() && perform(&mut draft, &event, &compiled, &subject.record)? {
            reload(&mut subject, &draft, &event)?;
        }
        evaluations.push((compiled.id, compiled.trigger.clone(), evaluation));
    }
    Ok(Some(evaluations))
}

/// The heat transition that a tick would find now, for events of ticks.
fn next_transition(
    draft: &Draft,
    tenant: TenantId,
    event: TriggerEvent,
    present: &MemoryRecord,
) -> Result<Option<HeatTransition>> {
    if !event.is_of_ticks() || present.memory.archived_at.is_some() {
        return Ok(None);
    }
    let Some(tick) = draft.tick(tenant)? else { return Ok(None) };
    let next = tick.next(draft.now, &*draft.thermo(tenant)?);
    Ok(next.transition(&present.memory, &present.anchor))
}
