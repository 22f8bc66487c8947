//! The rules: what a command changes, given the state and the time. Runs on the
//! leader only, and writes nothing: it adds facts to a draft. No clock, no
//! randomness, no disk but the view it is handed.

mod cluster;
mod draft;
mod edge;
mod feedback;
mod fire;
mod memory;
mod outbox;
mod recall;
mod tenant;
mod tick;
mod trigger;
mod upkeep;

pub use draft::{BATCH_BYTES, COMMAND_BYTES_MAX, Draft, Room};
pub use fire::{Verdict, evaluate};

use crate::command::{Action, BULK_MAX, Class, Command, Decision, Refusal, Reply};
use crate::error::Result;
use crate::model::id::{MemoryId, TenantId, TriggerId};
use crate::model::receipt::{RECEIPT_IDS_MAX, RECEIPTS_MAX, Receipt, ReceiptRequest};
use crate::model::tenant::KeyId;
use crate::table::view::View;

/// Decides `command` on top of what `draft` holds so far. A refusal leaves the
/// draft as it was.
///
/// # Errors
/// Only when this machine cannot read its state.
pub fn decide(draft: &mut Draft<'_>, command: &Command) -> Result<Decision> {
    let mark = draft.begin();
    let decision = match (&command.receipt, command.tenant) {
        (Some(request), Some(tenant)) => once(draft, command, tenant, request)?,
        _ => act(draft, command)?,
    };
    let decision = match decision {
        Ok(_) if draft.bytes_since(mark) > COMMAND_BYTES_MAX => {
            Err(Refusal::TooLarge { max: COMMAND_BYTES_MAX })
        }
        decision => decision,
    };
    if decision.is_err() {
        draft.rewind(mark);
    }
    let notifications = std::mem::take(&mut draft.command.notifications);
    // Nobody reads what a duty is answered.
    let told = command.class() == Class::Client && !notifications.is_empty();
    Ok(decision.map(|reply| match told {
        true => Reply::Notified(Box::new(reply), notifications),
        false => reply,
    }))
}

/// Decides a command with an idempotency key: replays it if its receipt is
/// there, else decides it and keeps one. Refusals keep none, so that a refused
/// request may be sent again once its reason is gone.
fn once(
    draft: &mut Draft<'_>,
    command: &Command,
    tenant: TenantId,
    request: &ReceiptRequest,
) -> Result<Decision> {
    if let Some(receipt) = draft.receipt(tenant, request.key)? {
        return if receipt.body_hash == request.body_hash {
            replay(draft, tenant, command, receipt)
        } else {
            Ok(Err(Refusal::KeyReused))
        };
    }
    if draft.receipts(tenant) >= RECEIPTS_MAX {
        return Ok(Err(Refusal::ReceiptsFull));
    }
    let reply = match act(draft, command)? {
        Ok(reply) => reply,
        refusal => return Ok(refusal),
    };
    let ids = match &reply {
        Reply::Memories(memories) => memories.iter().map(|memory| memory.id).collect(),
        Reply::Deleted(id) => vec![*id],
        Reply::Feedback(feedback) => vec![feedback.id],
        Reply::Trigger(id, ..) => vec![MemoryId(id.0)],
        Reply::Replayed { .. }
        | Reply::Configured(_)
        | Reply::Each(_)
        | Reply::Related { .. }
        | Reply::ApiKey(..)
        | Reply::Rule(_)
        | Reply::Replaying { .. }
        | Reply::Notified(..)
        | Reply::Done
        | Reply::Unfinished
        | Reply::Marked(_) => Vec::new(),
    };
    const { assert!(crate::CREATE_MAX <= RECEIPT_IDS_MAX, "a receipt names all that one command makes") };
    let receipt = Receipt { body_hash: request.body_hash, status: request.status, ids };
    draft.keep_receipt(tenant, request.key, receipt);
    Ok(Ok(reply))
}

/// What became of the memories, or the trigger, of an earlier request, if they still are where
/// whoever asks may look.
fn replay(
    draft: &mut Draft<'_>,
    tenant: TenantId,
    command: &Command,
    receipt: Receipt,
) -> Result<Decision> {
    let actor = command.actor;
    if matches!(command.action, Action::TriggerCreate(..))
        && let Some(id) = receipt.ids.first().map(|id| TriggerId(id.0))
        && let Some(found) = trigger::shown(draft, tenant, actor, id)?
    {
        return Ok(found);
    }
    let mut memories = Vec::with_capacity(receipt.ids.len());
    for id in receipt.ids {
        let present = draft.present(tenant, id)?;
        if let Some(record) = &present
            && let Err(refusal) = tenant::may_touch(draft, tenant, actor, &record.memory.namespace)?
        {
            return Ok(Err(refusal));
        }
        memories.push((id, present));
    }
    Ok(Ok(Reply::Replayed { status: receipt.status, memories }))
}

/// Acts, and fires the triggers that waited for what happened.
fn act(draft: &mut Draft<'_>, command: &Command) -> Result<Decision> {
    let mut decision = act_plainly(draft, command)?;
    let Ok(reply) = &mut decision else { return Ok(decision) };
    if fire::fire(draft)? > 0
        && let (Reply::Memories(records), Some(tenant)) = (reply, command.tenant)
    {
        for record in records {
            if let Some(present) = draft.present(tenant, record.id)? {
                *record = present;
            }
        }
    }
    fire::say_what_was_skipped(draft);
    Ok(decision)
}

fn act_plainly(draft: &mut Draft<'_>, command: &Command) -> Result<Decision> {
    match (&command.action, command.tenant) {
        (Action::Form { cluster, tenant, key_id, key }, _) => {
            cluster::form(draft, cluster, tenant, *key_id, key)
        }
        (Action::Stamp, _) => {
            draft.want_stamp();
            Ok(Ok(Reply::Done))
        }
        (Action::Housekeep, _) => upkeep::housekeep(draft),
        (Action::Observed(report), _) => recall::observed(draft, report),
        (Action::Admit { node, incarnation }, _) => cluster::admit(draft, *node, *incarnation),
        (Action::Dismiss { node }, _) => cluster::dismiss(draft, *node),
        (Action::Verify, _) => Ok(Ok(upkeep::verify(draft))),
        (action, Some(tenant)) => act_for(draft, tenant, command.actor, action),
        (_, None) => Ok(Err(Refusal::WrongState("the command names no tenant".into()))),
    }
}

/// Acts on what belongs to a tenant.
fn act_for(
    draft: &mut Draft<'_>,
    tenant: TenantId,
    actor: Option<KeyId>,
    action: &Action,
) -> Result<Decision> {
    match action {
        Action::Create(memories) => memory::create(draft, tenant, actor, memories),
        Action::Update(id, patch) => memory::update(draft, tenant, actor, *id, patch),
        Action::Delete(id) => memory::delete(draft, tenant, actor, *id),
        Action::UpdateEach(ids, patch) => {
            each(draft, ids, |draft, id| memory::update(draft, tenant, actor, id, patch))
        }
        Action::DeleteEach(ids, of) => each(draft, ids, |draft, id| {
            match draft.memory(tenant, id)?.is_some_and(|memory| !of.holds_for(&memory)) {
                true => Ok(Err(Refusal::NotOfThese)),
                false => memory::delete(draft, tenant, actor, id),
            }
        }),
        Action::RestoreEach(ids) => {
            each(draft, ids, |draft, id| memory::restore(draft, tenant, actor, id))
        }
        Action::Feedback(id, signal) => feedback::feedback(draft, tenant, actor, *id, *signal),
        Action::Relate(source, target, relation) => {
            edge::relate(draft, tenant, actor, (*source, *target), relation)
        }
        Action::Unrelate(source, target, relation) => {
            edge::unrelate(draft, tenant, actor, (*source, *target), relation)
        }
        Action::Configure(changes) => tenant::configure(draft, tenant, changes),
        Action::KeyCreate(id, key) => tenant::create_key(draft, tenant, *id, key),
        Action::KeyDelete(id) => tenant::delete_key(draft, tenant, *id),
        Action::KeyNamespace(id, namespace) => {
            tenant::set_key_namespace(draft, tenant, *id, namespace.as_deref())
        }
        Action::RulePut { agent, namespace, policy } => {
            tenant::put_rule(draft, tenant, (agent, namespace), *policy)
        }
        Action::RuleDelete(number) => tenant::delete_rule(draft, tenant, *number),
        Action::Rename(name) => tenant::rename(draft, tenant, name),
        Action::Note(details) => Ok(tenant::note(draft, tenant, actor, details)),
        Action::Tick => tick::tick(draft, tenant),
        Action::TriggerCreate(id, new) => trigger::create(draft, tenant, actor, *id, new),
        Action::TriggerUpdate(id, patch) => trigger::update(draft, tenant, actor, *id, patch),
        Action::TriggerDelete(id) => trigger::delete(draft, tenant, actor, *id),
        Action::Attempted(attempts) => outbox::attempted(draft, tenant, attempts),
        Action::Replay(id) => outbox::replay(draft, tenant, actor, *id),
        Action::Form { .. }
        | Action::Stamp
        | Action::Housekeep
        | Action::Observed(_)
        | Action::Verify
        | Action::Admit { .. }
        | Action::Dismiss { .. } => {
            Ok(Err(Refusal::WrongState("the command belongs to no tenant".into())))
        }
    }
}

/// Does the same to several memories, as far as one command may go.
fn each(
    draft: &mut Draft<'_>,
    ids: &[MemoryId],
    mut act: impl FnMut(&mut Draft<'_>, MemoryId) -> Result<Decision>,
) -> Result<Decision> {
    let mark = draft.mark();
    let mut outcomes = Vec::new();
    for id in ids.iter().take(BULK_MAX) {
        outcomes.push(act(draft, *id)?.map(drop));
        fire::fire(draft)?;
        if draft.did_enough(mark) {
            break;
        }
    }
    Ok(Ok(Reply::Each(outcomes)))
}
