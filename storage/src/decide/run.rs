//! Runs the rule of a command: decides it, fires the triggers that wait for what happened, and records
//! it in the audit log.

use model::audit::AuditActor;
use model::id::TenantId;
use model::journal::EventKind;

use crate::decide::audit;
use crate::decide::audit::AuditedAct;
use crate::decide::context::{Context, Decided, reject_if};
use crate::decide::draft::Draft;
use crate::decide::fire::fire;
use crate::decide::rule::{Class, ClusterRule, Priority, TenantRule};
use crate::error::Result;
use crate::etag::Precondition;
use crate::reply::{Rejection, Reply, ReplyValue};
use crate::table::view::View;

/// Runs the rule of a command of a tenant.
pub(crate) fn run_for_tenant<R: TenantRule>(rule: &R, context: &mut Context<'_>) -> Decided<Reply> {
    if let Some(condition) = context.draft.command.condition.take() {
        let tag = rule.tag(context)?;
        let is_open = condition != Precondition::Absent || rule.may_require_absence();
        reject_if(!is_open || !condition.holds(tag), Rejection::ConditionFailed)?;
    }
    if let Some(examined) = context.draft.command.guard {
        let row = context.draft.tenant(context.tenant)?;
        let present = row.map_or(0, |row| row.guard.version);
        reject_if(examined != present, Rejection::GuardChanged)?;
    }
    let before = R::AUDIT.map(|audit| audit(rule, context, None)).transpose()?;
    let reply = rule.decide(context)?;
    fire(context.draft)?;
    if let (Some(audit), Some(before)) = (R::AUDIT, before) {
        let entry = audit(rule, context, Some(&reply))?;
        record_for_tenant(context, R::CLASS, before, entry)?;
    }
    record_skipped(context.draft);
    Ok(reply.into_reply())
}

/// Runs the rule of a command of the cluster.
pub(crate) fn run_for_cluster<R: ClusterRule>(rule: &R, draft: &mut Draft) -> Decided<Reply> {
    let before = R::AUDIT.map(|audit| audit(rule, draft, None)).transpose()?;
    let reply = rule.decide(draft)?;
    fire(draft)?;
    if let (Some(audit), Some(before)) = (R::AUDIT, before) {
        let entry = audit(rule, draft, Some(&reply))?;
        if let Some((before, entry)) = audit::differing(before.fields, entry) {
            let chains = [Some(TenantId::OPERATOR), entry.tenant].into_iter().flatten();
            audit::record(draft, without_key(R::CLASS), before, &entry, chains)?;
        }
    }
    record_skipped(draft);
    Ok(reply.into_reply())
}

/// Records what a command of a tenant did. What the operator does to a tenant is in the chains of both.
fn record_for_tenant(
    context: &mut Context<'_>,
    class: Class,
    before: AuditedAct,
    entry: AuditedAct,
) -> Result<()> {
    let Some((before, mut entry)) = audit::differing(before.fields, entry) else { return Ok(()) };
    let tenant = context.tenant;
    let actor = match context.actor {
        Some(key) => audit::actor(context.draft, tenant, key)?,
        None => without_key(class),
    };
    let mut chains = vec![tenant];
    if actor == AuditActor::Operator {
        entry.target = format!("{} of tenant {}", entry.target, tenant.0);
        chains.insert(0, TenantId::OPERATOR);
    }
    audit::record(context.draft, actor, before, &entry, chains)
}

/// Who sends a command without a key: a client is the operator.
fn without_key(class: Class) -> AuditActor {
    match class.priority() {
        Priority::Client => AuditActor::Operator,
        Priority::Background => AuditActor::Service,
    }
}

fn record_skipped(draft: &mut Draft) {
    for (tenant, count) in std::mem::take(&mut draft.command.skipped) {
        draft.append(tenant, None, None, EventKind::FiringsSkipped(count));
    }
}
