//! How golden scripts print what came of a command. Not how they read one.

use storage::model::cluster::Member;
use storage::model::delivery::{DeliveryId, DeliveryStage};
use storage::model::id::{MemoryId, Timestamp, TriggerId};
use storage::model::memory::MemoryRecord;
use storage::model::score::rounded;
use storage::model::tick::{Stage, Tick};
use storage::model::trigger::{Notification, SealedSecret, TriggerAction};
use storage::{Change, Decision, Reply};

pub fn name(id: MemoryId) -> char {
    char::from(id.0[0])
}

/// The letter of an id, that and a number for a delivery, anything else as it stands.
pub fn short(text: &str) -> String {
    if let Ok(id) = text.parse() {
        return delivery(id);
    }
    text.parse().map_or_else(|_| text.to_owned(), |id| name(id).to_string())
}

fn trigger(id: TriggerId) -> char {
    char::from(id.0[0])
}

/// By which secrets its requests are signed.
fn signed(action: &TriggerAction) -> String {
    let text = |secret: &SealedSecret| String::from_utf8(secret.0.clone()).unwrap();
    match action {
        TriggerAction::Webhook { url, secret: Some(secret), retiring } => {
            let retiring = retiring.as_ref().map(|(secret, until)| (text(secret), time(*until)));
            let also = retiring.map(|(secret, until)| format!(" and {secret} until {until}"));
            format!(" {url} signed by {}{}", text(secret), also.unwrap_or_default())
        }
        TriggerAction::Webhook { url, .. } => format!(" {url}"),
        _ => String::new(),
    }
}

fn delivery(id: DeliveryId) -> String {
    format!("{}/{}", trigger(id.trigger), id.number)
}

pub fn time(at: Timestamp) -> String {
    let hour = 3_600 * Timestamp::SECOND_MICROS;
    format!("{}h+{}", at.0 / hour, at.0 % hour)
}

pub fn shown(record: &MemoryRecord) -> String {
    let memory = &record.memory;
    let mut text = format!(
        "{} {:?} {} in {} heat={} anchor={}@{}",
        name(record.id),
        memory.label,
        memory.memory_type.name(),
        memory.namespace,
        rounded(record.heat),
        record.anchor.heat,
        time(record.anchor.at),
    );
    for (flag, set) in [
        ("pinned", memory.is_pinned),
        ("locked", memory.is_locked),
        ("flagged", memory.is_flagged),
        ("cold", memory.archived_at.is_some()),
    ] {
        if set {
            text += &format!(" {flag}");
        }
    }
    text
}

pub fn told(decision: &Decision) -> String {
    match decision {
        Ok(Reply::Memories(memories)) => {
            format!("done: {}", memories.iter().map(shown).collect::<Vec<_>>().join(", "))
        }
        Ok(Reply::Deleted(id)) => format!("deleted {}", name(*id)),
        Ok(Reply::Settings(_)) => "configured".into(),
        Ok(Reply::Bulk(outcomes)) => {
            let one = |outcome: &Result<(), _>| match outcome {
                Ok(()) => "done".to_owned(),
                Err(rejection) => format!("refused: {rejection}"),
            };
            outcomes.iter().map(one).collect::<Vec<_>>().join(", ")
        }
        Ok(Reply::Feedback(feedback)) => format!(
            "heat {:.4} to {:.4}, stability {} to {}",
            feedback.heat_before,
            feedback.heat_after,
            feedback.stability_before,
            feedback.stability_after
        ),
        Ok(Reply::ApiKey(_, key)) => format!("key {} may {}", key.name, key.role.name()),
        Ok(Reply::Rule(rule)) => format!("rule {} for {}", rule.number, rule.namespace),
        Ok(Reply::Edge { edge, is_new }) => format!(
            "{} -{}- {}{}",
            name(edge.source),
            edge.relation,
            name(edge.target),
            if *is_new { " is new" } else { "" }
        ),
        Ok(Reply::Replayed { status, memories }) => {
            let one = |(id, record): &(MemoryId, Option<MemoryRecord>)| match record {
                Some(record) => shown(record),
                None => format!("{} is gone", name(*id)),
            };
            format!(
                "replayed {status}: {}",
                memories.iter().map(one).collect::<Vec<_>>().join(", ")
            )
        }
        Ok(Reply::Trigger(id, row, firings)) => {
            let off = if row.enabled { "" } else { ", disabled" };
            format!("trigger {} has fired {} times{off}", trigger(*id), firings.count)
        }
        Ok(Reply::ReplayedDeliveries { count, .. }) => format!("{count} replayed"),
        Ok(Reply::WithNotifications(reply, notifications)) => {
            let said =
                |said: &Notification| format!("; {} says {:?}", said.trigger_name, said.message);
            told(&Ok((**reply).clone())) + &notifications.iter().map(said).collect::<String>()
        }
        Ok(Reply::Done) => "done".into(),
        Ok(Reply::VerifyMark(number)) => format!("marked {number}"),
        Ok(Reply::Partial) => "done in part".into(),
        Err(rejection) => format!("refused: {rejection}"),
    }
}

pub fn fact(change: &Change) -> String {
    match change {
        Change::ClusterPut(cluster) => {
            let member = |member: &Member| {
                let removed = if member.removed { " (removed)" } else { "" };
                format!("{}{removed}", member.node)
            };
            let members: Vec<_> = cluster.members.iter().map(member).collect();
            format!("cluster of model {} and nodes {}", cluster.model.name, members.join(", "))
        }
        Change::TenantPut(tenant, row) => format!("tenant {} is {}", tenant.0, row.name),
        Change::ApiKeyPut(tenant, _, key) => format!("key {} of tenant {}", key.name, tenant.0),
        Change::MemoryPut(_, id, memory) => format!(
            "memory {} reads {:?} updated {}",
            name(*id),
            memory.label,
            time(memory.updated_at)
        ),
        Change::AnchorPut(_, id, anchor) => {
            format!("heat of {} is {} as of {}", name(*id), anchor.heat, time(anchor.at))
        }
        Change::VectorPut(_, id, _) => format!("vector of {}", name(*id)),
        Change::MemoryRemoved(_, id) => format!("memory {} is gone", name(*id)),
        Change::ReceiptPut(_, day, key, receipt) => {
            let ids: String = receipt.ids.iter().map(|id| name(*id)).collect();
            format!("receipt {} of day {day}: {} {ids}", char::from(key[0]), receipt.status)
        }
        Change::ReceiptsDropped(_, day) => format!("receipts before day {day} are gone"),
        Change::EventAppended(_, event) => {
            let details = event.details.iter().map(|detail| short(detail));
            let details = details.collect::<Vec<_>>().join(" ");
            let subject = event.subject.map_or('-', name);
            format!("event {:?} {subject} {details}", event.kind).trim_end().into()
        }
        Change::EventsTrimmed(_, before) => {
            format!("events before {}.{} are gone", before.index, before.ordinal)
        }
        Change::ApiKeyRemoved(tenant, _) => format!("a key of tenant {} is gone", tenant.0),
        Change::RulesPut(_, rules) => format!("{} access rules", rules.rules.len()),
        Change::TriggerPut(..)
        | Change::TriggerRemoved(..)
        | Change::FiringsPut(..)
        | Change::OutboxPut(..)
        | Change::DeliveryPut(..)
        | Change::DeliveryRemoved(..) => fact_of_triggers(change),
        Change::VerifyMark(number) => format!("verify mark {number}"),
        Change::TickPut(_, tick) => told_of_tick(tick),
        Change::RecallStatsPut(_, stats) => {
            let recalls: u64 = stats.types.iter().map(|of_type| of_type.recalls).sum();
            format!("statistics: {recalls} recalls, {} searches", stats.searches)
        }
        Change::UsagePut(_, month, usage) => {
            format!("{} requests in month {month}", usage.requests)
        }
        Change::LastReportPut(node, last) => format!("report {} of node {node} is in", last.number),
        Change::EdgePut(_, edge) => format!(
            "edge {} -{}- {} of weight {}",
            name(edge.source),
            edge.relation,
            name(edge.target),
            edge.weight
        ),
        Change::EdgeRemoved(_, source, target, _) => {
            format!("an edge of {} and {} is gone", name(*source), name(*target))
        }
    }
}

fn told_of_tick(tick: &Tick) -> String {
    let stage = match tick.stage {
        Stage::Judging(_) => "judging",
        Stage::Archiving(_) => "archiving",
        Stage::Done => "done",
    };
    format!("tick {} from {} until {}: {stage}", tick.number, time(tick.from), time(tick.until))
}

fn fact_of_triggers(change: &Change) -> String {
    match change {
        Change::TriggerPut(_, id, row) => {
            let off = if row.enabled { "" } else { ", disabled" };
            let (event, action) = (row.event.name(), row.action.name());
            let signed = signed(&row.action);
            format!(
                "trigger {} is number {}, {event} {action}{signed}{off}",
                trigger(*id),
                row.number
            )
        }
        Change::TriggerRemoved(_, id) => format!("trigger {} is gone", trigger(*id)),
        Change::FiringsPut(_, id, firings) => {
            let (count, total) = (firings.count, firings.total);
            format!("trigger {} has fired {count} times, {total} in all", trigger(*id))
        }
        Change::OutboxPut(_, outbox) => format!(
            "{} deliveries pending, {} dead letters, {} dropped",
            outbox.pending, outbox.dead_letters, outbox.dropped
        ),
        Change::DeliveryPut(_, id, row, _) => {
            let stage = match row.stage {
                DeliveryStage::Pending(due_at) => format!("due {}", time(due_at)),
                DeliveryStage::DeadLettered(at) => format!("dead-lettered {}", time(at)),
            };
            format!(
                "delivery {} of {:?} after {} attempts: {stage}",
                delivery(*id),
                row.label,
                row.attempts
            )
        }
        Change::DeliveryRemoved(_, id, _) => format!("delivery {} is gone", delivery(*id)),
        _ => String::new(),
    }
}
