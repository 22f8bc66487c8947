//! What happened to memories fires triggers: in the order of their creation, each on top of
//! what the one before did, all in the batch of what happened. What they do raises nothing
//! further, so no trigger sets off another, or itself.

use crate::change::Change;
use crate::decide::tenant::access_of;
use crate::decide::{Draft, memory, outbox};
use crate::engine::Reader;
use crate::error::Result;
use crate::index::triggers::CompiledTrigger;
use crate::model::access::Access;
use crate::model::id::{MemoryId, TenantId, TriggerId};
use crate::model::journal::{Event, EventKind};
use crate::model::memory::{DecayClass, LABEL_BYTES_MAX, Memory, MemoryRecord};
use crate::model::pattern::Folded;
use crate::model::score::rounded;
use crate::model::template::About;
use crate::model::tenant::KeyId;
use crate::model::trigger::{
    Firings, HeatTransition, Notification, SkipReason, Subject, TAG_BYTES_MAX, Trigger,
    TriggerAction, TriggerEvent,
};
use crate::table::key::Key;
use crate::table::view::View;

/// Share of its heat that `deprecate` leaves.
const DEPRECATED_REST: f64 = 0.5;
/// Words of a label that a tag is made of when nobody says.
const TAG_WORDS: usize = 3;
/// Characters of a label that the journal keeps beside a firing.
const FIRED_LABEL_CHARS: usize = 120;

/// Something that triggers may wait for.
pub(super) struct MemoryEvent {
    tenant: TenantId,
    event: TriggerEvent,
    id: MemoryId,
    /// How often it happened.
    times: u32,
    transition: Option<HeatTransition>,
}

pub(super) fn emit(draft: &mut Draft<'_>, tenant: TenantId, event: TriggerEvent, id: MemoryId) {
    emit_times(draft, tenant, event, id, 1);
}

pub(super) fn emit_times(
    draft: &mut Draft<'_>,
    tenant: TenantId,
    event: TriggerEvent,
    id: MemoryId,
    times: u32,
) {
    draft.command.events.push(MemoryEvent { tenant, event, id, times, transition: None });
}

/// Raises what a tick found.
pub(super) fn emit_transition(
    draft: &mut Draft<'_>,
    tenant: TenantId,
    event: TriggerEvent,
    id: MemoryId,
    transition: HeatTransition,
) {
    draft.command.events.push(MemoryEvent {
        tenant,
        event,
        id,
        times: 1,
        transition: Some(transition),
    });
}

/// Fires what waits for what was raised, and says how many triggers fired.
pub(super) fn fire(draft: &mut Draft<'_>) -> Result<u64> {
    let mut fired = 0;
    // What they change may have a tick judge a memory that it has not come to: once, since
    // that is anchored anew then.
    while !draft.command.events.is_empty() {
        for raised in std::mem::take(&mut draft.command.events) {
            for _ in 0..raised.times {
                let now = fire_once(draft, &raised)?;
                fired += now;
                if now == 0 {
                    break;
                }
            }
        }
    }
    Ok(fired)
}

/// Has the journal say what there was no room for.
pub(super) fn record_skipped(draft: &mut Draft<'_>) {
    for (tenant, skipped) in std::mem::take(&mut draft.command.skipped) {
        let (at, kind, details) =
            (draft.now(), EventKind::FiringsSkipped, vec![skipped.to_string()]);
        let (actor, subject, namespace) = (None, None, String::new());
        let event = Event { at, kind, actor, subject, namespace, details };
        draft.push(Change::EventAppended(tenant, event));
    }
}

fn fire_once(draft: &mut Draft<'_>, raised: &MemoryEvent) -> Result<u64> {
    let (tenant, event) = (raised.tenant, raised.event);
    let triggers = draft.triggers(tenant);
    let waiting = triggers.on(event);
    if waiting.is_empty() {
        return Ok(0);
    }
    // One that the same command deleted fires nothing.
    let Some(mut present) = draft.present(tenant, raised.id)? else { return Ok(0) };
    let mut label = Folded::new(&present.memory.label);
    let mut fired = 0;
    for compiled in waiting {
        let subject = (&present, &label, raised.transition);
        draft.command.asked += 1;
        if judge(draft, tenant, event, compiled, subject)?.is_err() {
            continue;
        }
        if draft.is_full() {
            *draft.command.skipped.entry(tenant).or_default() += 1;
            continue;
        }
        let began = draft.mark();
        let has_changed = act(draft, tenant, raised, compiled, &present)?;
        draft.command.fired_bytes += draft.bytes_since(began);
        if has_changed {
            let Some(after) = draft.present(tenant, raised.id)? else { return Ok(fired) };
            if after.memory.label != present.memory.label {
                label = Folded::new(&after.memory.label);
            }
            present = after;
        }
        fired += 1;
    }
    Ok(fired)
}

/// Whether a trigger fires.
fn judge(
    draft: &mut Draft<'_>,
    tenant: TenantId,
    event: TriggerEvent,
    compiled: &CompiledTrigger,
    (present, label, transition): (&MemoryRecord, &Folded, Option<HeatTransition>),
) -> Result<std::result::Result<(), SkipReason>> {
    let CompiledTrigger { id, trigger, pattern } = compiled;
    let subject = Subject { memory: &present.memory, label, heat: present.heat, transition };
    if let Err(why) = trigger.holds(event, &subject, pattern.as_ref()) {
        return Ok(Err(why));
    }
    let is_bounded = trigger.max_fires.is_some() || trigger.cooldown_seconds > 0;
    if is_bounded && let Err(why) = trigger.may_fire(&draft.firings(tenant, *id)?, draft.now()) {
        return Ok(Err(why));
    }
    match trigger.owner {
        Some(owner) if !may_know(draft, tenant, owner, &present.memory.namespace)? => {
            Ok(Err(SkipReason::Access))
        }
        _ => Ok(Ok(())),
    }
}

/// Whether the owner of a trigger may know of what lies in a namespace: not if its key is gone.
fn may_know(
    draft: &mut Draft<'_>,
    tenant: TenantId,
    owner: KeyId,
    namespace: &str,
) -> Result<bool> {
    if !draft.command.owners.contains_key(&owner) {
        let is_there = draft.bytes(&Key::ApiKey(tenant, owner))?.is_some();
        let access = if is_there { access_of(draft, tenant, owner)? } else { Access::nothing() };
        draft.command.owners.insert(owner, access);
    }
    Ok(draft.command.owners[&owner].allows(namespace))
}

/// Does what a trigger does, and says whether that changed the memory.
fn act(
    draft: &mut Draft<'_>,
    tenant: TenantId,
    raised: &MemoryEvent,
    compiled: &CompiledTrigger,
    present: &MemoryRecord,
) -> Result<bool> {
    let event = raised.event;
    let CompiledTrigger { id, trigger, .. } = compiled;
    let firings = draft.firings(tenant, *id)?;
    let (count, total) = (firings.count + 1, firings.total + 1);
    let firings = Firings { count, total, last_at: Some(draft.now()) };
    draft.push(Change::FiringsPut(tenant, *id, firings));
    let memory = &present.memory;
    let (change, result) = match &trigger.action {
        TriggerAction::Webhook { .. } => {
            (None, outbox::enqueue(draft, tenant, (*id, trigger), total, event, present)?)
        }
        TriggerAction::Notify { template } => {
            let heat = present.heat;
            let about = About { event, id: present.id, memory, heat };
            let message = about.message(template.as_deref());
            // What a tick found is nothing that the caller did.
            if raised.transition.is_none() {
                draft.command.notifications.push(Notification {
                    trigger: *id,
                    trigger_name: trigger.name.clone(),
                    event,
                    memory: present.id,
                    message: message.clone(),
                });
            }
            (None, message)
        }
        action => changed(action, present),
    };
    let label = memory.label.chars().take(FIRED_LABEL_CHARS).collect();
    let said = vec![
        id.to_string(),
        trigger.name.clone(),
        event.name().to_owned(),
        trigger.action.name().to_owned(),
        label,
        result,
    ];
    draft.append(tenant, None, EventKind::Fired, (present.id, memory), said);
    let Some(Changed { memory, heat, fields }) = change else { return Ok(false) };
    let fields = fields.iter().map(|field| (*field).to_owned()).collect();
    memory::settle(draft, tenant, None, present, memory, heat, fields)?;
    Ok(true)
}

/// What an action makes of a memory.
struct Changed {
    memory: Memory,
    heat: Option<f32>,
    fields: &'static [&'static str],
}

/// What an action changes, and what the journal says of it.
fn changed(action: &TriggerAction, present: &MemoryRecord) -> (Option<Changed>, String) {
    let memory = present.memory.clone();
    let transition = |after: f64| format!("heat {} to {}", rounded(present.heat), rounded(after));
    match action {
        TriggerAction::Boost { strength } => {
            let heat = (present.heat + strength).min(1.0);
            // Whoever sets its heat wants it at hand.
            let memory = Memory { archived_at: None, ..memory };
            let changed = Changed { memory, heat: Some(heat as f32), fields: &["current_heat"] };
            (Some(changed), transition(heat))
        }
        TriggerAction::Pin if memory.is_pinned => (None, "was pinned already".into()),
        TriggerAction::Pin => {
            let memory = Memory { is_pinned: true, archived_at: None, ..memory };
            (Some(Changed { memory, heat: None, fields: &["is_pinned"] }), "pinned".into())
        }
        TriggerAction::Deprecate => {
            let heat = present.heat * DEPRECATED_REST;
            let memory = Memory { decay_class: DecayClass::Volatile, ..memory };
            let fields = &["current_heat", "decay_class"];
            (Some(Changed { memory, heat: Some(heat as f32), fields }), transition(heat))
        }
        TriggerAction::Tag { tag } => match tagged(&memory.label, tag.as_deref()) {
            Ok((label, tag)) => {
                let memory = Memory { label, ..memory };
                (Some(Changed { memory, heat: None, fields: &["label"] }), tag)
            }
            Err(why) => (None, why.into()),
        },
        TriggerAction::Notify { .. } | TriggerAction::Webhook { .. } => (None, String::new()),
    }
}

/// A label with its tag appended, and the tag; or why it stays as it is.
fn tagged(label: &str, tag: Option<&str>) -> std::result::Result<(String, String), &'static str> {
    let tag = tag.map_or_else(|| tag_of(label), str::to_owned);
    if tag.is_empty() {
        return Err("the label has no words to make a tag of");
    }
    let tag = format!("#{tag}");
    if label.split_whitespace().any(|word| word == tag) {
        return Err("has the tag already");
    }
    if label.len() + 1 + tag.len() > LABEL_BYTES_MAX {
        return Err("the label has no room for a tag");
    }
    Ok((format!("{} {tag}", label.trim_end()), tag))
}

/// A tag made of the first words of a label.
fn tag_of(label: &str) -> String {
    let word = |word: &str| word.chars().filter(|c| c.is_alphanumeric()).collect::<String>();
    let words = label.split_whitespace().map(word).filter(|word| !word.is_empty());
    let mut tag = words.take(TAG_WORDS).collect::<Vec<_>>().join("-").to_lowercase();
    tag.truncate(tag.floor_char_boundary(TAG_BYTES_MAX));
    tag
}

/// A trigger, and whether it would fire.
pub type TriggerEvaluation = (TriggerId, Trigger, std::result::Result<(), SkipReason>);

/// What each trigger of a tenant would do if `event` happened to a memory now, each on top of
/// what the one before would do; for what ticks find, if one came now. `None` when there is no
/// such memory. Fires nothing.
///
/// # Errors
/// When the state cannot be read.
pub fn evaluate(
    reader: &Reader,
    tenant: TenantId,
    event: TriggerEvent,
    id: MemoryId,
) -> Result<Option<Vec<TriggerEvaluation>>> {
    let now = reader.position().clock;
    let mut draft = Draft::new(reader, now);
    let Some(mut present) = draft.present(tenant, id)? else { return Ok(None) };
    let transition = match draft.tick(tenant)? {
        Some(tick) => {
            let thermo = draft.thermo(tenant)?;
            let next = tick.next(now, &thermo);
            next.transition(&present.memory, &present.anchor)
        }
        None => None,
    };
    let by_tick = matches!(event, TriggerEvent::Decay | TriggerEvent::Threshold);
    let transition = transition.filter(|_| by_tick && present.memory.archived_at.is_none());
    let raised = MemoryEvent { tenant, event, id, times: 1, transition };
    let (mut evaluations, mut label) = (Vec::new(), Folded::new(&present.memory.label));
    for compiled in draft.triggers(tenant).all() {
        let evaluation =
            judge(&mut draft, tenant, event, &compiled, (&present, &label, transition))?;
        let evaluation = evaluation
            .and_then(|()| if draft.is_full() { Err(SkipReason::NoRoom) } else { Ok(()) });
        // Nobody ever applies this draft.
        if evaluation.is_ok()
            && act(&mut draft, tenant, &raised, &compiled, &present)?
            && let Some(after) = draft.present(tenant, id)?
        {
            label = Folded::new(&after.memory.label);
            present = after;
        }
        evaluations.push((compiled.id, compiled.trigger.clone(), evaluation));
    }
    Ok(Some(evaluations))
}
