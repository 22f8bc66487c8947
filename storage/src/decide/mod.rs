//! The commands, and their rules: what each changes, given the state and the cluster clock.
//!
//! [`decide`] runs on the leader only. It reads the state through a [`Draft`], checks the
//! rules, and adds [`Change`](crate::Change)s to the draft. It writes nothing, and reads neither
//! clock nor randomness. A rejected command leaves the draft as it was.

mod audit;
pub(crate) mod bulk;
pub(crate) mod cluster;
mod commit_memory;
pub(crate) mod context;
mod counted;
pub(crate) mod create_memories;
pub(crate) mod draft;
mod draft_view;
mod duplicate;
pub(crate) mod edge;
mod edit;
pub(crate) mod expire;
mod fire;
pub(crate) mod fold;
mod idempotency;
pub(crate) mod import;
mod into_batch;
pub(crate) mod keys;
mod last_puts;
pub(crate) mod memory;
pub(crate) mod models;
pub(crate) mod outbox;
pub(crate) mod purge;
pub(crate) mod recall;
mod reinforce;
pub(crate) mod rule;
pub(crate) mod run;
pub(crate) mod tenant;
pub(crate) mod tenants;
pub(crate) mod tick;
pub(crate) mod tombstone;
pub(crate) mod trigger;

pub use context::DecideError;
pub use draft::{BATCH_BYTES, COMMAND_BYTES_MAX, Draft};
pub use fire::{TriggerEvaluation, evaluate};

use crate::command::{Action, Command, TenantAction};
use crate::reply::{Accepted, Rejection, Reply, Touched};
use context::{Context, Decided, reject_if};
use model::receipt::{ReceiptRequest, Retention};
use rule::Priority;

/// Decides `command` on top of what `draft` holds so far.
///
/// # Errors
/// See [`DecideError`]; the draft is as it was.
pub fn decide(draft: &mut Draft, command: &Command) -> Result<Accepted, DecideError> {
    let mark = draft.begin(command.source, command.condition.clone(), command.guard);
    let reply = decide_within_limits(draft, command).inspect_err(|_| draft.rewind(mark))?;
    let mut notifications = std::mem::take(&mut draft.command.notifications);
    if command.class().priority() == Priority::Background {
        // No client waits for them.
        notifications.clear();
    }
    Ok(Accepted { reply, notifications })
}

fn decide_within_limits(draft: &mut Draft, command: &Command) -> Decided<Reply> {
    let reply = match &command.action {
        Action::Cluster(action) => action.decide(draft)?,
        Action::Tenant(tenant, action) => {
            let mut context = Context { draft, tenant: *tenant, actor: command.actor };
            context.check_caller()?;
            match &command.receipt {
                None => decide_for_tenant(&mut context, action)?,
                Some(request) => decide_once(&mut context, action, request)?,
            }
        }
    };
    let is_too_large = draft.bytes_since(draft.command.mark) > COMMAND_BYTES_MAX;
    reject_if(is_too_large, Rejection::TooLarge(COMMAND_BYTES_MAX))?;
    Ok(reply)
}

/// Decides a command unless it repeats another one, and keeps its receipt.
fn decide_once(
    context: &mut Context<'_>,
    action: &TenantAction,
    request: &ReceiptRequest,
) -> Decided<Reply> {
    if let Some(reply) = idempotency::replay(context, request)? {
        return Ok(reply);
    }
    let mark = context.draft.mark();
    let reply = decide_for_tenant(context, action)?;
    let has_changed = context.draft.has_changed_since(mark);
    let retention = if has_changed { Retention::Day } else { Retention::Hour };
    idempotency::keep_receipt(context, request, retention, &reply);
    Ok(reply)
}

/// Decides a command. Its reply has the memories as the triggers leave them.
fn decide_for_tenant(context: &mut Context<'_>, action: &TenantAction) -> Decided<Reply> {
    let mut reply = action.decide(context)?;
    if let Reply::Memories(touched) = &mut reply
        && context.draft.command.has_fired
    {
        for touched in &mut touched.memories {
            if let Touched::Memory(record) = &mut touched.now
                && let Some(present) = context.present(touched.id)?
            {
                **record = present;
            }
        }
    }
    Ok(reply)
}
