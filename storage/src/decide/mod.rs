//! The rules: what a command changes, given the state and the time. Runs on the
//! leader only, and writes nothing: it adds facts to a draft. No clock, no
//! randomness, no disk but the view it is handed.

mod cluster;
mod draft;
mod edge;
mod expire;
mod feedback;
mod fire;
mod memory;
mod outbox;
mod recall;
mod tenant;
mod tick;
mod trigger;

pub use draft::{BATCH_BYTES, COMMAND_BYTES_MAX, Draft, Room};
pub use fire::{TriggerEvaluation, evaluate};

use crate::command::{Action, BULK_MAX, Command, Decision, Priority, Rejection, Reply};
use crate::error::Result;
use crate::model::id::{MemoryId, TenantId, TriggerId};
use crate::model::receipt::{RECEIPT_IDS_MAX, RECEIPTS_MAX, Receipt, ReceiptRequest};
use crate::model::tenant::KeyId;
use crate::table::view::View;

/// Decides `command` on top of what `draft` holds so far. A rejection leaves the
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
            Err(Rejection::TooLarge { max: COMMAND_BYTES_MAX })
        }
        decision => decision,
    };
    if decision.is_err() {
        draft.rewind(mark);
    }
    let notifications = std::mem::take(&mut draft.command.notifications);
    // Nobody reads what a duty is answered.
    let told = command.priority() == Priority::Client && !notifications.is_empty();
    Ok(decision.map(|reply| match told {
        true => Reply::WithNotifications(Box::new(reply), notifications),
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
            Ok(Err(Rejection::KeyReused))
        };
    }
    if draft.receipts(tenant) >= RECEIPTS_MAX {
        return Ok(Err(Rejection::ReceiptsFull));
    }
    let reply = match act(draft, command)? {
        Ok(reply) => reply,
        rejection => return Ok(rejection),
    };
    let ids = match &reply {
        Reply::Memories(memories) => memories.iter().map(|memory| memory.id).collect(),
        Reply::Deleted(id) => vec![*id],
        Reply::Feedback(feedback) => vec![feedback.id],
        Reply::Trigger(id, ..) => vec![MemoryId(id.0)],
        Reply::Replayed { .. }
        | Reply::Settings(_)
        | Reply::Bulk(_)
        | Reply::Edge { .. }
        | Reply::ApiKey(..)
        | Reply::Rule(_)
        | Reply::ReplayedDeliveries { .. }
        | Reply::WithNotifications(..)
        | Reply::Done
        | Reply::Partial
        | Reply::VerifyMark(_) => Vec::new(),
    };
    const { assert!(crate::CREATE_MAX <= RECEIPT_IDS_MAX, "a receipt names all that one command makes") };
    let receipt = Receipt { body_hash: request.body_hash, status: request.status, ids };
    draft.put_receipt(tenant, request.key, receipt);
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
    if matches!(command.action, Action::CreateTrigger(..))
        && let Some(id) = receipt.ids.first().map(|id| TriggerId(id.0))
        && let Some(found) = trigger::shown(draft, tenant, actor, id)?
    {
        return Ok(found);
    }
    let mut memories = Vec::with_capacity(receipt.ids.len());
    for id in receipt.ids {
        let present = draft.present(tenant, id)?;
        if let Some(record) = &present
            && let Err(rejection) =
                tenant::check_access(draft, tenant, actor, &record.memory.namespace)?
        {
            return Ok(Err(rejection));
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
    fire::record_skipped(draft);
    Ok(decision)
}

fn act_plainly(draft: &mut Draft<'_>, command: &Command) -> Result<Decision> {
    match (&command.action, command.tenant) {
        (Action::Bootstrap { cluster, tenant, key_id, key }, _) => {
            cluster::bootstrap(draft, cluster, tenant, *key_id, key)
        }
        (Action::AdvanceClock, _) => {
            draft.request_stamp();
            Ok(Ok(Reply::Done))
        }
        (Action::Expire, _) => expire::expire(draft),
        (Action::RecordReport(report), _) => recall::observed(draft, report),
        (Action::AddMember { node, incarnation }, _) => {
            cluster::add_member(draft, *node, *incarnation)
        }
        (Action::RemoveMember { node }, _) => cluster::remove_member(draft, *node),
        (Action::Verify, _) => Ok(Ok(expire::verify(draft))),
        (action, Some(tenant)) => act_for(draft, tenant, command.actor, action),
        (_, None) => Ok(Err(Rejection::WrongState("the command names no tenant".into()))),
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
        Action::CreateMemories(memories) => memory::create(draft, tenant, actor, memories),
        Action::UpdateMemory(id, patch) => memory::update(draft, tenant, actor, *id, patch),
        Action::DeleteMemory(id) => memory::delete(draft, tenant, actor, *id),
        Action::UpdateMemories(ids, patch) => {
            each(draft, ids, |draft, id| memory::update(draft, tenant, actor, id, patch))
        }
        Action::DeleteMemories(ids, of) => each(draft, ids, |draft, id| {
            match draft.memory(tenant, id)?.is_some_and(|memory| !of.matches(&memory)) {
                true => Ok(Err(Rejection::FilterMismatch)),
                false => memory::delete(draft, tenant, actor, id),
            }
        }),
        Action::RestoreMemories(ids) => {
            each(draft, ids, |draft, id| memory::restore(draft, tenant, actor, id))
        }
        Action::GiveFeedback(id, signal) => feedback::feedback(draft, tenant, actor, *id, *signal),
        Action::CreateEdge(source, target, relation) => {
            edge::relate(draft, tenant, actor, (*source, *target), relation)
        }
        Action::DeleteEdge(source, target, relation) => {
            edge::unrelate(draft, tenant, actor, (*source, *target), relation)
        }
        Action::UpdateSettings(changes) => tenant::configure(draft, tenant, changes),
        Action::CreateKey(id, key) => tenant::create_key(draft, tenant, *id, key),
        Action::DeleteKey(id) => tenant::delete_key(draft, tenant, *id),
        Action::SetKeyNamespace(id, namespace) => {
            tenant::set_key_namespace(draft, tenant, *id, namespace.as_deref())
        }
        Action::PutRule { agent, namespace, policy } => {
            tenant::put_rule(draft, tenant, (agent, namespace), *policy)
        }
        Action::DeleteRule(number) => tenant::delete_rule(draft, tenant, *number),
        Action::RenameTenant(name) => tenant::rename(draft, tenant, name),
        Action::RecordActivity(details) => Ok(tenant::note(draft, tenant, actor, details)),
        Action::AdvanceTick => tick::tick(draft, tenant),
        Action::CreateTrigger(id, new) => trigger::create(draft, tenant, actor, *id, new),
        Action::UpdateTrigger(id, patch) => trigger::update(draft, tenant, actor, *id, patch),
        Action::DeleteTrigger(id) => trigger::delete(draft, tenant, actor, *id),
        Action::RecordAttempts(attempts) => outbox::attempted(draft, tenant, attempts),
        Action::ReplayDeliveries(id) => outbox::replay(draft, tenant, actor, *id),
        Action::Bootstrap { .. }
        | Action::AdvanceClock
        | Action::Expire
        | Action::RecordReport(_)
        | Action::Verify
        | Action::AddMember { .. }
        | Action::RemoveMember { .. } => {
            Ok(Err(Rejection::WrongState("the command belongs to no tenant".into())))
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
        if draft.is_past_soft_limit(mark) {
            break;
        }
    }
    Ok(Ok(Reply::Bulk(outcomes)))
}
