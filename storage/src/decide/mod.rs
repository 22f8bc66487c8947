//! The rules: what a command changes, given the state and the cluster clock.
//!
//! [`decide`] runs on the leader only. It reads the state through a [`Draft`], checks the
//! rules, and adds [`Change`](crate::Change)s to the draft. It writes nothing, and reads neither
//! clock nor randomness. A rejected command leaves the draft as it was.

mod audit;
mod audit_fields;
mod cluster;
mod context;
mod counted;
mod draft;
mod draft_view;
mod duplicate;
mod edge;
mod fire;
mod fold;
mod idempotency;
mod import;
mod into_batch;
mod keys;
mod last_puts;
mod memory;
mod models;
mod outbox;
mod purge;
mod recall;
mod reinforce;
mod tenant;
mod tenants;
mod tick;
mod trigger;
mod unfold;

pub use context::DecideError;
pub use draft::{BATCH_BYTES, COMMAND_BYTES_MAX, Draft};
pub use fire::{TriggerEvaluation, evaluate};

use crate::command::{Action, BULK_MAX, BulkFilter, Command, Priority};
use crate::model::id::MemoryId;
use crate::model::journal::EventKind;
use crate::model::receipt::Retention;
use crate::reply::{Rejection, Reply};
use context::{Context, Decided, reject_if};

/// Decides `command` on top of what `draft` holds so far.
///
/// # Errors
/// See [`DecideError`]; the draft is as it was.
pub fn decide(draft: &mut Draft, command: &Command) -> Result<Reply, DecideError> {
    let mark = draft.begin();
    let reply = decide_within_limits(draft, command).inspect_err(|_| draft.rewind(mark))?;
    let notifications = std::mem::take(&mut draft.command.notifications);
    // Background commands have no reader of notifications.
    let is_read = command.priority() == Priority::Client && !notifications.is_empty();
    Ok(if is_read { Reply::WithNotifications(Box::new(reply), notifications) } else { reply })
}

fn decide_within_limits(draft: &mut Draft, command: &Command) -> Decided<Reply> {
    if let Some(tenant) = command.tenant {
        Context { draft, tenant, actor: command.actor }.check_caller()?;
    }
    let reply = match (&command.receipt, command.tenant) {
        (Some(request), Some(tenant)) => {
            let mut context = Context { draft, tenant, actor: command.actor };
            if let Some(reply) = idempotency::replay(&mut context, request)? {
                return Ok(reply);
            }
            let mark = draft.mark();
            let reply = act_and_fire(draft, command)?;
            let has_changed = draft.has_changed_since(mark);
            let retention = if has_changed { Retention::Day } else { Retention::Hour };
            let mut context = Context { draft, tenant, actor: command.actor };
            idempotency::keep_receipt(&mut context, request, retention, &reply);
            reply
        }
        _ => act_and_fire(draft, command)?,
    };
    let is_too_large = draft.bytes_since(draft.command.mark) > COMMAND_BYTES_MAX;
    reject_if(is_too_large, Rejection::TooLarge(COMMAND_BYTES_MAX))?;
    Ok(reply)
}

/// Acts, then fires the triggers that wait for what happened.
fn act_and_fire(draft: &mut Draft, command: &Command) -> Decided<Reply> {
    let audited = audit::begin(draft, command)?;
    let mut reply = act(draft, command)?;
    if fire::fire(draft)? > 0
        && let (Reply::Memories(records), Some(tenant)) = (&mut reply, command.tenant)
    {
        for record in records {
            if let Some(present) = draft.present(tenant, record.id)? {
                *record = present;
            }
        }
    }
    if let Some(audited) = audited {
        audit::record(draft, command, audited, &reply)?;
    }
    for (tenant, count) in std::mem::take(&mut draft.command.skipped) {
        draft.append(tenant, None, None, EventKind::FiringsSkipped(count));
    }
    Ok(reply)
}

fn act(draft: &mut Draft, command: &Command) -> Decided<Reply> {
    match (&command.action, command.tenant) {
        (Action::Bootstrap { cluster, tenant, key_id, key }, _) => {
            cluster::bootstrap(draft, cluster, tenant, *key_id, key)
        }
        (Action::AdvanceClock, _) => {
            draft.stamp_requested = true;
            Ok(Reply::Done)
        }
        (Action::Expire(first), _) => cluster::expire(draft, *first),
        (Action::RecordReport(report), _) => recall::record_report(draft, report),
        (Action::AddMember { node, incarnation }, _) => {
            cluster::add_member(draft, *node, *incarnation)
        }
        (Action::RemoveMember(node), _) => cluster::remove_member(draft, *node),
        (Action::ReleaseWebhooks, _) => cluster::release_webhooks(draft),
        (Action::RaiseLevel(release), _) => cluster::raise_level(draft, *release),
        (Action::StartModelChange(model, folder), _) => models::start(draft, model, folder),
        (Action::CancelModelChange, _) => models::cancel(draft),
        (Action::ReportModelReady(node), _) => models::report_ready(draft, *node),
        (Action::RecordVectors(embedded), _) => models::record(draft, embedded),
        (Action::ForceModelSwitch, _) => models::force_switch(draft),
        (Action::BeginModelSwitch, _) => models::begin_switch(draft),
        (Action::SwitchModel(model), _) => models::switch(draft, model),
        (Action::PostponeModelSwitch(node), _) => models::postpone_switch(draft, *node),
        (Action::Verify, _) => Ok(cluster::mark_verification(draft)),
        (Action::CreateTenant { tenant, key_id, key }, _) => {
            tenants::create(draft, tenant, (*key_id, key))
        }
        (Action::UpdateTenant(id, patch), _) => tenants::update(draft, *id, patch),
        (Action::DeleteTenant(id, name), _) => tenants::delete(draft, *id, name),
        (Action::RecordOperation(..), _) => Ok(Reply::Done),
        (Action::PutTier { name, limits, becomes_default }, _) => {
            tenants::put_tier(draft, name, limits.as_ref(), *becomes_default)
        }
        (action, Some(tenant)) => {
            let mut context = Context { draft, tenant, actor: command.actor };
            act_for_tenant(&mut context, action)
        }
        (_, None) => Err(Rejection::WrongState("the command names no tenant".into()).into()),
    }
}

fn act_for_tenant(context: &mut Context<'_>, action: &Action) -> Decided<Reply> {
    match action {
        Action::CreateMemories(memories) => memory::create(context, memories),
        Action::UpdateMemory(id, patch) => memory::update(context, *id, patch),
        Action::DeleteMemory(id) => memory::delete(context, *id, &BulkFilter::default()),
        Action::UpdateMemories(ids, patch) => {
            for_each(context, ids, |context, id| memory::update(context, id, patch))
        }
        Action::DeleteMemories(ids, filter) => {
            for_each(context, ids, |context, id| memory::delete(context, id, filter))
        }
        Action::RestoreMemories(ids) => for_each(context, ids, memory::restore),
        Action::Import(all) => import::import(context, all),
        Action::GiveFeedback(id, signal) => recall::give_feedback(context, *id, *signal),
        Action::CreateEdge(edge) => edge::create(context, edge),
        Action::Supersede { old, by } => edge::supersede(context, *old, *by),
        Action::PurgeMemories(ids) => for_each(context, ids, purge::purge),
        Action::RemoveTraces(rows) => purge::remove_traces(context, rows),
        Action::Unfold(id) => unfold::unfold(context, *id),
        Action::DeleteEdge(edge) => edge::delete(context, edge),
        Action::UpdateSettings(changes) => tenant::update_settings(context, changes),
        Action::UpdateRetention(rules) => tenant::update_retention(context, rules),
        Action::ChangeTenant(patch) => tenant::change(context, patch),
        Action::RecordActivity(activity) => Ok(tenant::record_activity(context, activity)),
        Action::CreateKey(id, key) => keys::create(context, *id, key),
        Action::RotateKey { id, hash, overlap_seconds } => {
            keys::rotate(context, *id, *hash, *overlap_seconds)
        }
        Action::DeleteKey(id) => keys::delete(context, *id),
        Action::SetKeyNamespace(id, namespace) => {
            keys::set_namespace(context, *id, namespace.as_deref())
        }
        Action::PutRule { agent, namespace, policy } => {
            tenant::put_rule(context, agent, namespace, *policy)
        }
        Action::DeleteRule(number) => tenant::delete_rule(context, |rule| rule.number == *number),
        Action::AdvanceTick(step) => tick::advance(context, step.as_deref()),
        Action::CreateTrigger(id, new) => trigger::create(context, *id, new),
        Action::UpdateTrigger(id, patch) => trigger::update(context, *id, patch),
        Action::DeleteTrigger(id) => trigger::delete(context, *id),
        Action::RecordAttempts(attempts) => outbox::record_attempts(context, attempts),
        Action::ReplayDelivery(id) => outbox::replay(context, *id),
        Action::ReplayDeliveries(after) => outbox::replay_all(context, *after),
        Action::Bootstrap { .. }
        | Action::AdvanceClock
        | Action::Expire(_)
        | Action::RecordReport(_)
        | Action::Verify
        | Action::AddMember { .. }
        | Action::RemoveMember(_)
        | Action::ReleaseWebhooks
        | Action::RaiseLevel(_)
        | Action::StartModelChange(..)
        | Action::CancelModelChange
        | Action::ReportModelReady(_)
        | Action::RecordVectors(_)
        | Action::ForceModelSwitch
        | Action::BeginModelSwitch
        | Action::SwitchModel(_)
        | Action::PostponeModelSwitch(_)
        | Action::CreateTenant { .. }
        | Action::UpdateTenant(..)
        | Action::DeleteTenant(..)
        | Action::PutTier { .. }
        | Action::RecordOperation(..) => {
            Err(Rejection::WrongState("the command belongs to no tenant".into()).into())
        }
    }
}

/// Applies one rule to several memories, each by itself, as far as one command may go.
fn for_each(
    context: &mut Context<'_>,
    ids: &[MemoryId],
    mut act: impl FnMut(&mut Context<'_>, MemoryId) -> Decided<Reply>,
) -> Decided<Reply> {
    let mark = context.draft.mark();
    let mut outcomes = Vec::new();
    for id in ids.iter().take(BULK_MAX) {
        outcomes.push(match act(context, *id) {
            Ok(_) => Ok(()),
            Err(DecideError::Rejected(rejection)) => Err(rejection),
            Err(fault) => return Err(fault),
        });
        fire::fire(context.draft)?;
        if context.draft.is_past_soft_limit(mark) {
            break;
        }
    }
    Ok(Reply::Bulk(outcomes))
}
