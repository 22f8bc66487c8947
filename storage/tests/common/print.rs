//! Prints the reply and the changes of a command for the golden scripts.

use storage::model::cluster::Member;
use storage::model::edge::Edge;
use storage::model::receipt::{Receipt, WriteEffect};
use storage::model::score::{Factors, rounded};
use storage::model::tenant::Tenancy;
use storage::model::tick::Tick;
use storage::{
    EdgeReply, KeyReply, Touched, TouchedMemories, TouchedMemory, TriggerReply, VerifyMark,
};

use crate::common::*;

pub fn name(id: MemoryId) -> char {
    char::from(id.0[0])
}

fn trigger(id: TriggerId) -> char {
    char::from(id.0[0])
}

/// The URL of a webhook, and the secrets that sign its requests.
fn webhook(action: &TriggerAction) -> String {
    let text = |secret: &SealedSecret| String::from_utf8(secret.0.clone()).unwrap();
    match action {
        TriggerAction::Webhook { url, secret: Some(secret), retiring } => {
            let retiring = retiring.as_ref().map(|(secret, until)| (text(secret), time(*until)));
            let second = retiring.map(|(secret, until)| format!(" and {secret} until {until}"));
            format!(" {url} signed by {}{}", text(secret), second.unwrap_or_default())
        }
        TriggerAction::Webhook { url, .. } => format!(" {url}"),
        _ => String::new(),
    }
}

fn delivery(id: DeliveryId) -> String {
    format!("{}/{}", trigger(id.trigger), id.number)
}

fn list<T>(all: &[T], text: impl Fn(&T) -> String) -> String {
    all.iter().map(text).collect::<Vec<_>>().join(", ")
}

/// The name of an enum's variant, without its fields.
fn variant(value: &impl std::fmt::Debug) -> String {
    format!("{value:?}").split([' ', '(']).next().unwrap_or_default().to_owned()
}

fn edge_text(edge: &Edge) -> String {
    format!("{} -{}- {}", name(edge.source), edge.relation, name(edge.target))
}

pub fn factors_text(factors: &Factors) -> String {
    let superseded = match factors.superseded_factor {
        1.0 => String::new(),
        factor => format!(" superseded={factor}"),
    };
    format!(
        "similarity={:.4} heat={:.4} own={:.4} neighbours={:.4} time={:.4} namespace={}{superseded}",
        factors.similarity,
        factors.heat,
        factors.own,
        factors.neighbours,
        factors.temporal_boost,
        factors.namespace_boost,
    )
}

pub fn time(at: Timestamp) -> String {
    let hour = 3_600 * Timestamp::SECOND_MICROS;
    format!("{}h+{}", at.0 / hour, at.0 % hour)
}

pub fn memory_text(record: &MemoryRecord) -> String {
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
    let is_cold = memory.archived_at.is_some();
    let flags = [memory.is_pinned, memory.is_locked, memory.is_flagged, is_cold];
    for (flag, name) in flags.into_iter().zip([" pinned", " locked", " flagged", " cold"]) {
        text += if flag { name } else { "" };
    }
    text += &memory.echo_of.map_or(String::new(), |of| format!(" echo of {}", name(of)));
    text +=
        &memory.superseded_by.map_or(String::new(), |by| format!(" superseded by {}", name(by)));
    text
}

pub fn outcome(decision: &Result<Accepted, Rejection>) -> String {
    let one = |notification: &Notification| {
        format!("; {} notifies {:?}", notification.trigger_name, notification.message)
    };
    match decision {
        Ok(accepted) => {
            reply_text(&accepted.reply)
                + &accepted.notifications.iter().map(one).collect::<String>()
        }
        Err(rejection) => rejection_text(rejection),
    }
}

fn rejection_text(rejection: &Rejection) -> String {
    format!("rejected: {rejection}")
}

fn touched_text(touched: &TouchedMemory) -> String {
    let id = name(touched.id);
    let text = match &touched.now {
        Touched::Memory(record) => memory_text(record),
        Touched::Deleted => format!("{id} is removed"),
        Touched::TooLong => format!("{id} is too long"),
    };
    if touched.is_duplicate { format!("{text} (a duplicate)") } else { text }
}

fn reply_text(reply: &Reply) -> String {
    match reply {
        Reply::Memories(TouchedMemories { replay_of, memories }) => {
            let texts = list(memories, touched_text);
            match (replay_of, &memories[..]) {
                (Some(_), _) => format!("replayed: {texts}"),
                (None, [TouchedMemory { id, now: Touched::Deleted, .. }]) => {
                    format!("deleted {}", name(*id))
                }
                (None, _) => format!("done: {texts}"),
            }
        }
        Reply::Settings(_) => "configured".into(),
        Reply::Bulk(results) => list(results, |result| match result {
            Ok(()) => "done".into(),
            Err(rejection) => rejection_text(rejection),
        }),
        Reply::Feedback(feedback) => format!(
            "heat {:.4} to {:.4}, stability {} to {}",
            feedback.heat_before,
            feedback.heat_after,
            feedback.stability_before,
            feedback.stability_after
        ),
        Reply::ApiKey(KeyReply { key, .. }) => {
            format!("key {} has role {}", key.name, key.role.name())
        }
        Reply::Edge(EdgeReply { edge, is_new }) => {
            edge_text(edge) + if *is_new { " is new" } else { "" }
        }
        Reply::Trigger(TriggerReply { id, now: Some((row, firings)) }) => {
            let off = if row.enabled { "" } else { ", disabled" };
            format!("trigger {} has fired {} times{off}", trigger(*id), firings.count)
        }
        Reply::Trigger(TriggerReply { id, now: None }) => {
            format!("trigger {} is removed", trigger(*id))
        }
        Reply::ReplayedDeliveries(replayed) => format!("{} replayed", replayed.count),
        Reply::VerifyMark(VerifyMark(number)) => format!("marked {number}"),
        Reply::Progress(progress) => variant(progress).to_lowercase(),
        other => variant(other).to_lowercase(),
    }
}

/// The target of an audit entry, with the short name of a memory or trigger.
fn named(target: &str) -> String {
    let mut words: Vec<_> = target.split(' ').map(str::to_owned).collect();
    match words[0].as_str() {
        "memory" => words[1] = name(words[1].parse().unwrap()).to_string(),
        "trigger" => words[1] = trigger(words[1].parse().unwrap()).to_string(),
        _ => {}
    }
    words.join(" ")
}

fn tiers(tenancy: &Tenancy) -> String {
    list(&tenancy.tiers, |tier| tier.name.clone())
}

fn audit_text(change: &Change) -> String {
    match change {
        Change::AuditAppended(_, chain, entry, _) => {
            let (act, chain) = (&entry.act, chain.name());
            let (action, target) = (act.action.name(), named(&act.target));
            format!("audit {chain} {}: {action} {target} {:?}", entry.number, act.after)
        }
        Change::AuditTrimmed(_, chain, ends) => {
            format!("audit {} begins with {}", chain.name(), ends.first)
        }
        other => variant(other),
    }
}

pub fn change_text(change: &Change) -> String {
    match change {
        Change::ClusterPut(cluster) => {
            let member = |member: &Member| {
                let removed = if member.removed { " (removed)" } else { "" };
                format!("{}{removed}", member.node)
            };
            let members = list(&cluster.members, member);
            format!("cluster of model {} and nodes {members}", cluster.model.name)
        }
        Change::TenantPut(tenant, row) => format!("tenant {} is {}", tenant.0, row.name),
        Change::TenancyPut(row) => format!("last tenant {}, tiers {}", row.last.0, tiers(row)),
        Change::ApiKeyPut(tenant, _, key) => format!("key {} of tenant {}", key.name, tenant.0),
        Change::AuditAppended(..) | Change::AuditTrimmed(..) => audit_text(change),
        Change::MemoryPut(..) | Change::MemoryStatePut(..) => memory_change_text(change),
        Change::AnchorPut(_, id, anchor) => {
            format!("heat of {} is {} as of {}", name(*id), anchor.heat, time(anchor.at))
        }
        Change::VectorPut(_, id, _) => format!("vector of {}", name(*id)),
        Change::VersionsPut(_, id, versions) => {
            format!("{} past texts of {}", versions.past.len(), name(*id))
        }
        Change::TombstonesPut(_, bucket, all) => {
            format!("{} tombstones of bucket {bucket}", all.0.len())
        }
        Change::MemoryRemoved(_, id) => format!("memory {} is removed", name(*id)),
        Change::ReceiptPut(_, _, key, receipt) => receipt_text(key[0], receipt),
        Change::ReceiptsRemoved(_, _, retention, removed) => {
            let keys: String = removed.iter().map(|(_, key)| char::from(key[0])).collect();
            format!("receipts {keys} for one {} are removed", variant(retention).to_lowercase())
        }
        Change::EventAppended(_, event) => {
            let subject = event.subject.map_or('-', name);
            let (kind, details) = (variant(&event.kind), event_details(&event.kind));
            format!("event {kind} {subject} {details}").trim_end().into()
        }
        Change::EventsTrimmed(_, part, before) => {
            let part = if *part == JournalPart::Triggers { "events of triggers" } else { "events" };
            format!("{part} before {}.{} are removed", before.index, before.ordinal)
        }
        Change::ApiKeyRemoved(tenant, _) => format!("a key of tenant {} is removed", tenant.0),
        Change::RulesPut(_, rules) => format!("{} access rules", rules.rules.len()),
        Change::VerifyMark(number) => format!("verify mark {number}"),
        Change::TickPut(_, Tick { number, from, until, stage, .. }) => {
            let (from, until, stage) = (time(*from), time(*until), variant(stage).to_lowercase());
            format!("tick {number} from {from} until {until}: {stage}")
        }
        Change::RecallStatsPut(_, stats) => {
            let recalls: u64 = stats.types.iter().map(|of_type| of_type.recalls).sum();
            let echoes: u64 = stats.types.iter().map(|of_type| of_type.echoes).sum();
            let echoes = if echoes > 0 { format!(", {echoes} echoes") } else { String::new() };
            format!("statistics: {recalls} recalls, {} searches{echoes}", stats.searches)
        }
        Change::UsagePut(_, month, usage) => {
            format!("{} requests in month {month}", usage.requests)
        }
        Change::LastReportPut(node, last) => {
            let number = last.0.last().map_or(0, |(_, number)| *number);
            format!("report {number} of node {node} is recorded")
        }
        Change::EdgePut(_, edge) => format!("edge {} of weight {}", edge_text(edge), edge.weight),
        Change::EdgeRemoved(_, source, target, _) => {
            format!("an edge of {} and {} is removed", name(*source), name(*target))
        }
        other => trigger_change_text(other),
    }
}

fn memory_change_text(change: &Change) -> String {
    match change {
        Change::MemoryPut(_, id, memory) => {
            let (label, at) = (&memory.label, time(memory.updated_at));
            format!("memory {} label {label:?} updated {at}", name(*id))
        }
        Change::MemoryStatePut(_, id, state) => {
            format!("state of {}{} updated {}", name(*id), flags(state), time(state.updated_at))
        }
        other => variant(other),
    }
}

fn flags(state: &MemoryState) -> String {
    let flags = [
        (state.is_pinned, " pinned"),
        (state.is_locked, " locked"),
        (state.is_flagged, " flagged"),
        (state.archived_at.is_some(), " archived"),
        (state.superseded_by.is_some(), " superseded"),
        (state.echo_of.is_some(), " echo"),
    ];
    flags.into_iter().filter_map(|(is_set, flag)| is_set.then_some(flag)).collect()
}

fn event_details(kind: &EventKind) -> String {
    match kind {
        EventKind::Created
        | EventKind::Archived
        | EventKind::Restored
        | EventKind::Cooled
        | EventKind::Warmed => String::new(),
        EventKind::Updated(fields) => {
            fields.iter().map(|field| field.name()).collect::<Vec<_>>().join(" ")
        }
        EventKind::Deleted(label) => label.clone(),
        EventKind::Feedback(signal) => signal.name().into(),
        EventKind::EdgeCreated { other, relation } | EventKind::EdgeDeleted { other, relation } => {
            format!("{} {relation}", name(*other))
        }
        EventKind::Activity(activity) => activity.action.clone(),
        EventKind::TriggerFired(fired) => {
            let (id, event, action) =
                (trigger(fired.trigger), fired.event.name(), fired.action.name());
            let (name, label, result) = (&fired.trigger_name, &fired.label, result(&fired.result));
            format!("{id} {name} {event} {action} {label} {result}")
        }
        EventKind::Delivered { delivery: id, attempt, status } => {
            format!("{} {attempt} {status}", delivery(*id))
        }
        EventKind::DeliveryFailed { delivery: id, attempt, reason, next } => {
            let next = match next {
                DeliveryNext::Retry(after_micros) => {
                    format!("retry in {} s", after_micros / Timestamp::SECOND_MICROS)
                }
                DeliveryNext::DeadLettered => "dead-lettered".into(),
                DeliveryNext::TriggerDisabled => "dead-lettered, trigger disabled".into(),
            };
            format!("{} {attempt} {reason} {next}", delivery(*id))
        }
        EventKind::FiringsSkipped(count) => count.to_string(),
    }
}

fn result(result: &FiringResult) -> String {
    match result {
        FiringResult::HeatChanged { from, to } => {
            format!("heat {} to {}", rounded(*from), rounded(*to))
        }
        FiringResult::Tagged(tag) => tag.clone(),
        FiringResult::Notified(message) => message.clone(),
        FiringResult::Enqueued(id) => delivery(*id),
        other => format!("{other:?}"),
    }
}

fn trigger_change_text(change: &Change) -> String {
    match change {
        Change::TriggerPut(_, id, row) => {
            let off = if row.enabled { "" } else { ", disabled" };
            let (event, action) = (row.event.name(), row.action.kind().name());
            let (number, webhook) = (row.number, webhook(&row.action));
            format!("trigger {} is number {number}, {event} {action}{webhook}{off}", trigger(*id))
        }
        Change::TriggerRemoved(_, id) => format!("trigger {} is removed", trigger(*id)),
        Change::FiringsPut(_, id, firings) => {
            let (count, total, pending) = (firings.count, firings.total, firings.pending);
            let pending = if pending > 0 { format!(", {pending} pending") } else { String::new() };
            format!("trigger {} has fired {count} times, {total} in all{pending}", trigger(*id))
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
            let (id, label, attempts) = (delivery(*id), &row.label, row.attempts);
            format!("delivery {id} of {label:?} after {attempts} attempts: {stage}")
        }
        Change::DeliveryRemoved(_, id, _) => format!("delivery {} is removed", delivery(*id)),
        other => variant(other),
    }
}

fn receipt_text(key: u8, receipt: &Receipt) -> String {
    let effect = match &receipt.effect {
        WriteEffect::Memories(all) => list(all, |touched| {
            let duplicate = if touched.is_duplicate { " (a duplicate)" } else { "" };
            format!("{}{duplicate}", name(touched.id))
        }),
        WriteEffect::Trigger(id) => format!("trigger {}", trigger(*id)),
        WriteEffect::Reply(..) => "a reply".to_owned(),
    };
    let retention = variant(&receipt.retention).to_lowercase();
    format!("receipt {} for one {retention}: {effect}", char::from(key))
}
