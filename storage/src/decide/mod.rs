//! The rules: what a command changes, given the state and the time. Runs on the
//! leader only, and writes nothing: it adds facts to a draft. No clock, no
//! randomness, no disk but the view it is handed.

mod cluster;
mod draft;
mod memory;
mod settings;
mod upkeep;

pub use draft::{BATCH_BYTES, COMMAND_BYTES_MAX, Draft, Room};

use crate::command::{Action, Command, Decision, Refusal, Reply};
use crate::error::Result;
use crate::model::id::TenantId;
use crate::model::receipt::{RECEIPT_IDS_MAX, RECEIPTS_MAX, Receipt, ReceiptRequest};

/// Decides `command` on top of what `draft` holds so far. A refusal leaves the
/// draft as it was.
///
/// # Errors
/// Only when this machine cannot read its state.
pub fn decide(draft: &mut Draft<'_>, command: &Command) -> Result<Decision> {
    let mark = draft.mark();
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
    Ok(decision)
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
            replay(draft, tenant, receipt)
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
        Reply::Replayed { .. }
        | Reply::Configured(_)
        | Reply::Done
        | Reply::Unfinished
        | Reply::Marked(_) => Vec::new(),
    };
    const { assert!(crate::CREATE_MAX <= RECEIPT_IDS_MAX, "a receipt names all that one command makes") };
    let receipt = Receipt { body_hash: request.body_hash, status: request.status, ids };
    draft.keep_receipt(tenant, request.key, receipt);
    Ok(Ok(reply))
}

fn replay(draft: &Draft<'_>, tenant: TenantId, receipt: Receipt) -> Result<Decision> {
    let memories = receipt
        .ids
        .into_iter()
        .map(|id| Ok((id, draft.present(tenant, id)?)))
        .collect::<Result<_>>()?;
    Ok(Ok(Reply::Replayed { status: receipt.status, memories }))
}

fn act(draft: &mut Draft<'_>, command: &Command) -> Result<Decision> {
    match (&command.action, command.tenant) {
        (Action::Create(memories), Some(tenant)) => {
            memory::create(draft, tenant, command.actor, memories)
        }
        (Action::Update(id, patch), Some(tenant)) => {
            memory::update(draft, tenant, command.actor, *id, patch)
        }
        (Action::Delete(id), Some(tenant)) => memory::delete(draft, tenant, command.actor, *id),
        (Action::Configure(changes), Some(tenant)) => settings::configure(draft, tenant, changes),
        (Action::Form { cluster, tenant, key_id, key }, _) => {
            cluster::form(draft, cluster, tenant, *key_id, key)
        }
        (Action::Stamp, _) => {
            draft.want_stamp();
            Ok(Ok(Reply::Done))
        }
        (Action::Housekeep, _) => upkeep::housekeep(draft),
        (Action::Admit { node, incarnation }, _) => cluster::admit(draft, *node, *incarnation),
        (Action::Dismiss { node }, _) => cluster::dismiss(draft, *node),
        (Action::Verify, _) => Ok(Ok(upkeep::verify(draft))),
        (
            Action::Create(_) | Action::Update(..) | Action::Delete(_) | Action::Configure(_),
            None,
        ) => Ok(Err(Refusal::WrongState("the command names no tenant".into()))),
    }
}
