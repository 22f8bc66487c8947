//! Fuzz targets of request bodies, queries, headers, cursors, filters, lines of imports, and messages of
//! MCP with the arguments of tools, behind the feature `fuzzing`.

use std::fmt::Display;
use std::hint::black_box;
use std::str::FromStr;

use axum::body::Bytes;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use jiff::tz::{Offset, TimeZone};
use serde_json::Value;
use storage::fuzz::Target;
use storage::model::id::{MemoryId, Timestamp, TriggerId};
use storage::model::memory::Origin;
use storage::model::memory::{KEY_POINTS_MAX, LABEL_BYTES_MAX, NAMESPACE_BYTES_MAX};
use storage::model::thermo::Thermo;
use storage::model::trigger::DeliveryId;
use storage::model::trigger::{STRENGTH_DEFAULT, TriggerAction};
use storage::model::vector::ModelId;
use storage::{BULK_MAX, CREATE_MAX};

use crate::mcp::messages::Message;
use crate::mcp::tools;
use crate::requests::conditions::{FilterJson, condition};
use crate::requests::context::ContextRequest;
use crate::requests::headers;
use crate::requests::import::{ExportQuery, ImportQuery, LineContext, import_items};
use crate::requests::lists::{ListQuery, MemoryQuery};
use crate::requests::memories::{
    BulkChanges, BulkDeletion, BulkIds, DeletionQuery, Feedback, FeedbackSignal, MemoryChanges,
    NewMemories, NewMemory, Relation, Supersession,
};
use crate::requests::triggers::{
    DeliveryQuery, Evaluate, HistoryQuery, NewTrigger, Replay, TriggerChanges, TriggerQuery,
};
use crate::requests::values::{EventId, MemoryCursor, PageCursor};
use crate::requests::{JsonBody, QueryText};
use crate::routes::activity::{ActivityQuery, NamespaceQuery, NewActivity, StreamQuery};
use crate::routes::audit::AuditQuery;
use crate::routes::backups::NewBackup;
use crate::routes::cluster::{NewMember, NewModel, Transfer};
use crate::routes::consolidation::{CandidateQuery, Fold, HygieneQuery, Unfold};
use crate::routes::graph::{GraphQuery, NeighbourQuery};
use crate::routes::guard::{GuardRules, GuardTrial};
use crate::routes::hooks::{HookInput, HookQuery};
use crate::routes::keys::{KeyQuery, KeyRotation, NewKey};
use crate::routes::org::{NewRule, OrgChanges, OwnNamespace};
use crate::routes::published::{Boost, BoostBatch, Deprecation, EmbedText};
use crate::routes::purge::PurgeRequest;
use crate::routes::retention::RetentionRules;
use crate::routes::search::{HotContext, HotQuery, Search};
use crate::routes::settings::Settings;
use crate::routes::tenants::{Confirmation, TenantChanges, TenantRequest, TierLimits};
use crate::routes::{operator_openapi, public_openapi};
use crate::spans::Spans;

/// All targets of this crate.
pub const TARGETS: &[Target] = &[
    Target { name: "request_bodies", run: request_bodies, seeds: body_seeds },
    Target { name: "request_queries", run: request_queries, seeds: query_seeds },
    Target { name: "request_headers", run: request_headers, seeds: header_seeds },
    Target { name: "cursors", run: cursors, seeds: cursor_seeds },
    Target { name: "filters", run: filters, seeds: filter_seeds },
    Target { name: "mcp_messages", run: mcp_messages, seeds: mcp_seeds },
    Target { name: "mcp_arguments", run: mcp_arguments, seeds: argument_seeds },
    Target { name: "import_lines", run: import_lines, seeds: line_seeds },
];

/// Parses `$text` as each of the types that nothing else is asserted of.
macro_rules! parse {
    ($text:expr => $($type:ident),* $(,)?) => {
        $(drop($text.parse::<$type>());)*
    };
}

/// A body, as each type. What is accepted is within its bounds.
pub fn request_bodies(bytes: &[u8]) {
    let body = JsonBody(Bytes::copy_from_slice(bytes));
    parse!(body =>
        Boost, BoostBatch, BulkIds, ContextRequest, Deprecation, EmbedText, Evaluate, Feedback,
        FeedbackSignal, Fold, GuardRules, GuardTrial, HookInput, HotContext, KeyRotation,
        NewActivity, NewBackup, NewKey, NewMember, NewModel, NewRule, OrgChanges, OwnNamespace,
        PurgeRequest, Replay, RetentionRules, Search, Supersession, TenantChanges, TenantRequest,
        TierLimits, Transfer, Unfold,
    );
    body.parse().into_iter().for_each(check_memory);
    if let Ok(NewMemories { nodes }) = body.parse() {
        assert!((1..=CREATE_MAX).contains(&nodes.0.len()));
        nodes.0.into_iter().for_each(|memory| check_memory(memory.0));
    }
    drop(body.parse().map(MemoryChanges::into_patch));
    if let Ok(changes) = BulkChanges::parse(&body) {
        let targets = &changes.ids.ids.0;
        assert!((1..=BULK_MAX).contains(&(targets.ids.len() + targets.unknown.len())));
    }
    drop(body.parse().map(|deletion: BulkDeletion| deletion.filter()));
    if let Ok(trigger) = body.parse::<NewTrigger>() {
        drop(trigger.action_settings());
        let present = trigger.into_trigger(TriggerAction::Boost(STRENGTH_DEFAULT));
        drop(body.parse().map(|changes: TriggerChanges| changes.check_unchanged(&present)));
    }
    if let Ok(changes) = body.parse::<TriggerChanges>() {
        drop(changes.action_settings());
        changes.into_patch();
    }
    if let Ok(Ok(sent)) = body.parse().map(Settings::into_changes) {
        drop(Thermo::default().with(&sent.changes));
    }
    drop(body.parse().map(Relation::into_edge));
}

fn check_memory(memory: NewMemory) {
    let Ok(memory) = memory.into_memory("default", Origin::default()) else { return };
    assert!((1..=LABEL_BYTES_MAX).contains(&memory.label.len()));
    assert!((1..=NAMESPACE_BYTES_MAX).contains(&memory.namespace.len()));
    assert!(memory.key_points.len() <= KEY_POINTS_MAX);
    for heat in [memory.min_heat, memory.initial_heat] {
        assert!((0.0..=1.0).contains(&heat), "{heat}");
    }
}

/// The examples of the interface's documents.
fn examples() -> Vec<Vec<u8>> {
    let documents = [public_openapi(), operator_openapi()];
    let documents = documents.iter().filter_map(|text| serde_json::from_str::<Value>(text).ok());
    let of = |document: Value| -> Vec<Vec<u8>> {
        let schemas = document["components"]["schemas"].as_object().into_iter().flatten();
        let examples = schemas.filter_map(|(_, schema)| schema.get("example"));
        examples.map(|example| example.to_string().into_bytes()).collect()
    };
    documents.flat_map(of).collect()
}

fn body_seeds() -> Vec<Vec<u8>> {
    let id = "00000000-0000-7000-8000-000000000001";
    let other = id.replace('1', "2");
    let own = [
        r#"{"label": "Prefers tea", "memory_type": "fact", "namespace": "n", "is_pinned": true,
            "decay_class": "normal", "min_heat": 0.1, "heat": 1e-1, "key_points": ["tea"]}"#
            .to_owned(),
        r#"{"nodes": [{"label": "a"}, {"pointer_summary": "b", "content": "\ud83d\ude00"}]}"#.into(),
        format!(r#"{{"ids": ["{id}", "x"], "label": "c", "flagged_for_review": null}}"#),
        format!(r#"{{"ids": ["{id}"], "memory_type": "fact", "namespace": "*"}}"#),
        r##"{"event": "on_store", "action": "webhook", "action_config": {"url": "https://a.example/",
            "secret": "12345678", "message": "{label}", "strength": 0.5, "tag": "#a b"},
            "filter_heat_below": 0.5, "max_fires": 3, "cooldown_seconds": 60, "filter_namespace": ""}"##
            .into(),
        r#"{"namespace": null, "max_fires": null, "filter_memory_type": "", "reset_count": true}"#
            .into(),
        r#"{"recall": {"heat_weight": 0.4}, "recall.keyword_weight": 0.2, "resonance": null,
            "half_lives": {"fact": 1000}, "decay_profiles": {"fact": {"floor": null}}}"#
            .into(),
        format!(r#"{{"source_id": "{id}", "target_id": "{other}", "relation": "r"}}"#),
    ]
    .map(String::into_bytes);
    own.into_iter().chain(examples()).collect()
}

/// A query string, as each type.
pub fn request_queries(bytes: &[u8]) {
    let query = QueryText(String::from_utf8_lossy(bytes).into_owned());
    if let Ok(list) = query.parse::<ListQuery>() {
        let (page, size, before) = list.paging();
        assert!(page >= 1 && (1..=100).contains(&size), "{page} {size} {before}");
        black_box((list.words(), list.sort(), list.order()));
    }
    if let Ok(history) = query.parse::<HistoryQuery>() {
        black_box((history.before(), history.kind()));
    }
    parse!(query =>
        ActivityQuery, AuditQuery, CandidateQuery, Confirmation, DeletionQuery, DeliveryQuery,
        ExportQuery, HookQuery, HotQuery, HygieneQuery, ImportQuery, KeyQuery, MemoryQuery,
        NamespaceQuery, StreamQuery, TriggerQuery,
    );
    drop(query.parse().map(Relation::into_edge));
    drop(query.parse().map(|query: GraphQuery| query.limit.get()));
    drop(query.parse().map(|query: NeighbourQuery| query.depth.get()));
}

fn query_seeds() -> Vec<Vec<u8>> {
    [
        "page=2&page_size=50&memory_type=fact&pinned=true&search=red+fox%21&sort=heat&order=asc",
        "limit=18446744073709551615&offset=1e300&namespace=%2A",
        "before=300.2&kind=firing&limit=5&cursor=1.0",
        "limit=3&depth=2&namespace=n",
    ]
    .map(|text| text.as_bytes().to_vec())
    .into()
}

/// The headers of a request: a line for each, with a name that hyper has parsed.
pub fn request_headers(bytes: &[u8]) {
    let mut headers = HeaderMap::new();
    for line in bytes.split(|byte| *byte == b'\n').take(64) {
        let Some(at) = line.iter().position(|byte| *byte == b':') else { continue };
        let (name, value) =
            (HeaderName::from_bytes(&line[..at]), HeaderValue::from_bytes(&line[at + 1..]));
        if let (Ok(name), Ok(value)) = (name, value) {
            headers.append(name, value);
        }
    }
    headers::fuzz(&headers);
    drop(Spans::new(1, Some(1)).start("r", &headers, "GET", "/api/v1/status"));
}

fn header_seeds() -> Vec<Vec<u8>> {
    [
        "X-Hearth-Consistency:linearizable\nX-Hearth-Min-Index:300\nX-Hearth-Max-Staleness-Ms:50",
        "X-Namespace:team/a\nX-Timezone:Europe/Berlin\nLast-Event-ID:300.2\nX-Hearth-Tool:store",
        "Idempotency-Key: k \nUser-Agent:agent/1.0 (x)\nIf-None-Match:*",
        "If-Match:\"300.2\", W/\"1.0\", *\nIf-Match:\"x\"",
        "traceparent:00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\ntracestate:a=b",
    ]
    .map(|text| text.as_bytes().to_vec())
    .into()
}

/// A cursor or an id. What is parsed is written as an equivalent text.
pub fn cursors(bytes: &[u8]) {
    fn check<T: FromStr + Display>(text: &str) {
        let Ok(parsed) = text.parse::<T>() else { return };
        let written = parsed.to_string();
        let again = written.parse::<T>().ok().map(|again| again.to_string());
        assert_eq!(again, Some(written), "{text:?}");
    }
    let text = String::from_utf8_lossy(bytes);
    check::<PageCursor>(&text);
    check::<MemoryCursor>(&text);
    check::<EventId>(&text);
    check::<DeliveryId>(&text);
    check::<MemoryId>(&text);
    check::<TriggerId>(&text);
}

fn cursor_seeds() -> Vec<Vec<u8>> {
    [
        "300.2".to_owned(),
        "18446744073709551615.4294967295".into(),
        format!("{}.0.300.2", "0a".repeat(16)),
        format!("msg_{}_12", "ab".repeat(16)),
        "00000000-0000-7000-8000-000000000001".into(),
    ]
    .map(String::into_bytes)
    .into()
}

/// A filter, as an object or as a text. One that is accepted has a condition in each time zone.
pub fn filters(bytes: &[u8]) {
    let Ok(filter) = serde_json::from_slice::<FilterJson>(bytes) else { return };
    let zone = TimeZone::fixed(Offset::constant(14));
    assert!(condition(Some(&filter), &zone).is_ok(), "{filter:?}");
}

fn filter_seeds() -> Vec<Vec<u8>> {
    [
        r#"{"tags": "a", "is_pinned": true, "not": {"namespace": "team/a"}}"#,
        r#"{"or": [{"metadata.n": {"gte": 1, "lt": 2.5}}, {"memory_type": {"in": ["fact", "task"]}}]}"#,
        r#"{"and": [{"heat": {"gt": 0.5}}, {"occurred_at": {"gte": "2024-02-29", "lt": "2025"}}]}"#,
        r#""{\"created_at\": \"2026-11\", \"trust\": \"user\"}""#,
    ]
    .map(|text| text.as_bytes().to_vec())
    .into()
}

/// A message of JSON-RPC.
pub fn mcp_messages(bytes: &[u8]) {
    let mut id = Value::Null;
    if let Ok(message) = Message::parse(bytes, &mut id) {
        assert!(id.is_null() || id.is_string() || id.is_i64(), "{id}");
        black_box(message.repeated());
    }
}

fn mcp_seeds() -> Vec<Vec<u8>> {
    [
        r#"{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "search",
            "arguments": {"query": "tea", "limit": 3}}}"#,
        r#"{"jsonrpc": "2.0", "method": "notifications/initialized"}"#,
        r#"{"jsonrpc": "2.0", "id": "x", "method": "initialize", "params": {"protocolVersion":
            "2025-06-18", "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}}}"#,
    ]
    .map(|text| text.as_bytes().to_vec())
    .into()
}

/// The arguments of a tool.
pub fn mcp_arguments(bytes: &[u8]) {
    if let Ok(arguments) = serde_json::from_slice(bytes) {
        black_box(tools::accepting(&arguments));
    }
}

fn argument_seeds() -> Vec<Vec<u8>> {
    [
        r#"{"content": "likes tea", "heat": 80, "tags": ["a"], "metadata": {"b": 1}, "ttl_seconds": 60}"#,
        r#"{"query": "tea", "limit": 3, "filter": {"tags": "a"}, "as_of": "2026-11-01"}"#,
        r#"{"entities": [{"name": "a", "entityType": "b", "observations": ["c"]}]}"#,
        r#"{"memory_id": "019a3c5e-7d40-7b21-9c0e-5f1d2a3b4c01", "signal": "outdated"}"#,
    ]
    .map(|text| text.as_bytes().to_vec())
    .into()
}

/// The lines of an import. Each is an item, rejected, or the start or end of an export.
pub fn import_lines(bytes: &[u8]) {
    let (now, model, home) = (Timestamp(1), ModelId([0; 8]), "default".to_owned());
    let body = JsonBody(Bytes::copy_from_slice(bytes));
    let action = |_, _, _| Ok(TriggerAction::Boost(STRENGTH_DEFAULT));
    let Ok(items) = import_items(&body, &LineContext { now, model, home }, action) else { return };
    let lines = 1 + bytes.iter().filter(|byte| **byte == b'\n').count();
    assert!(items.rejected.len() <= lines);
}

fn line_seeds() -> Vec<Vec<u8>> {
    let id = "019a3c5e-7d40-7b21-9c0e-5f1d2a3b4c01";
    let vector = r#"{"model": "0000000000000000", "f16": "ADwAAA=="}"#;
    [
        format!(r#"{{"memory": {{"id": "{id}", "label": "likes tea", "vector": {vector}}}}}"#),
        format!(
            r#"{{"edge": {{"source_id": "{id}", "target_id": "{id}", "relation": "a", "weight": 1}}}}"#
        ),
        format!(
            r#"{{"trigger": {{"id": "{id}", "event": "on_store", "action": "pin", "fire_count": 2}}}}"#
        ),
        "{\"hearth_export\": {}}\n\n{\"end\": {}}\n".to_owned(),
    ]
    .map(String::into_bytes)
    .into()
}
