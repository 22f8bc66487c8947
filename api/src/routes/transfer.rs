//! Export and import: what a tenant holds as lines of JSON, from one cluster to another. A line has all
//! that a memory, an edge or a trigger is, so that an import creates it as it was. Numbers are exact, not
//! rounded.

use std::collections::BTreeMap;
use std::time::Instant;

use axum::body::{Body, Bytes};
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures::stream;
use serde::Serialize;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};
use storage::model::edge::Edge;
use storage::{Exported, ImportedMemory};
use tokio::sync::mpsc::{Sender, channel};
use utoipa::ToSchema;

use crate::limits::{BULK_ERRORS_MAX, EXPORT_CHUNK_BYTES, EXPORT_TIME_MAX};
use crate::prelude::*;
use crate::requests::JsonBody;
use crate::requests::import::{
    ExportQuery, ImportQuery, ImportedMemoryLine, LineContext, import_items,
};
use crate::requests::triggers::TriggerView;
use crate::requests::values::{Id, OneOf};
use crate::responses::memory::{OriginView, metadata};
use crate::responses::{Time, freshness_headers};
use crate::service::transfer::ImportOutcome;

/// The form of the lines. A later one may have further fields.
const FORMAT: u32 = 1;
const LINES: &str = "application/x-ndjson";

/// Export memories, edges and triggers as of one log index: one line of JSON each, after a header. The
/// last line has their numbers and a checksum; without it the export is not complete.
#[utoipa::path(get, path = "/api/v1/export", tag = "transfer",
    params(ExportQuery, NamespaceHeader, ReadHeaders),
    responses((status = OK, body = ExportLine, content_type = "application/x-ndjson"), ReadErrors))]
pub(crate) async fn export_memories(
    State(app): State<App>,
    ReaderRead(session, freshness): ReaderRead,
    home: NamespaceHeader,
    ValidQuery(query): ValidQuery<ExportQuery>,
) -> ApiResult<Response> {
    let namespace = home.filter(&session, query.namespace)?.namespace;
    let share = app.budgets.exports.take(Some(session.key_of_tenant()), 1);
    let share = share.map_err(|full| full.error("too_many_exports", "exports"))?;
    let (sender, receiver) = channel(1);
    let mut lines = Lines {
        header: (namespace.clone(), session.model().await?.name.clone()),
        app,
        began: Instant::now(),
        caller: session.caller.clone(),
        has_vectors: query.vectors.unwrap_or(false),
        sender,
        chunk: Vec::new(),
        hash: Sha256::new(),
        counts: [0; 3],
    };
    session.export(namespace, move |part| {
        let _share = &share;
        lines.add(part)
    });
    let chunks = stream::unfold(receiver, async |mut receiver| {
        receiver.recv().await.map(|chunk: Bytes| (Ok::<_, std::io::Error>(chunk), receiver))
    });
    let headers = [(CONTENT_TYPE, LINES)];
    Ok((freshness_headers(&freshness), headers, Body::from_stream(chunks)).into_response())
}

/// The lines of an export that is being read.
struct Lines {
    /// Namespace, and name of the model.
    header: (Option<String>, String),
    app: App,
    began: Instant,
    caller: storage::model::access::Caller,
    has_vectors: bool,
    sender: Sender<Bytes>,
    chunk: Vec<u8>,
    hash: Sha256,
    /// Memories, edges, triggers.
    counts: [u64; 3],
}

impl Lines {
    /// Adds a part. Returns false once no one reads.
    fn add(&mut self, part: Exported) -> bool {
        let line = match part {
            Exported::Begin(index, at) => {
                let (namespace, model) = self.header.clone();
                let exported_at = Time(at);
                let header = ExportHeader { format: FORMAT, index, exported_at, namespace, model };
                return self.write(&ExportLine::HearthExport(header), false);
            }
            Exported::Memory(memory) => {
                self.counts[0] += 1;
                ExportLine::Memory(Box::new((&*memory, self.has_vectors).into()))
            }
            Exported::Edge(edge) => {
                self.counts[1] += 1;
                ExportLine::Edge((&edge).into())
            }
            Exported::Trigger(id, trigger, firings) => {
                self.counts[2] += 1;
                let view = TriggerView::new(&self.caller, id, &trigger, &firings);
                ExportLine::Trigger(Box::new(view))
            }
            Exported::End => {
                let [memories, edges, triggers] = self.counts;
                let sha256 = hex::encode(self.hash.finalize_reset());
                let end = ExportEnd { memories, edges, triggers, sha256 };
                return self.write(&ExportLine::End(end), false) && self.send();
            }
        };
        self.write(&line, true)
    }

    fn write(&mut self, line: &ExportLine, counts: bool) -> bool {
        let begin = self.chunk.len();
        // Writing lines into memory cannot fail.
        let _ = serde_json::to_writer(&mut self.chunk, line);
        self.chunk.push(b'\n');
        if counts {
            self.hash.update(&self.chunk[begin..]);
        }
        self.chunk.len() < EXPORT_CHUNK_BYTES || self.send()
    }

    /// Hands a chunk over, once the one before is read. Returns false if the export has to end: its key
    /// is deleted, the node shuts down, or the client is so slow that its snapshot holds too much disk.
    fn send(&mut self) -> bool {
        let is_usable = self.app.service.is_usable(self.caller.key, &self.caller.key_hash);
        if !is_usable || self.app.is_draining() || self.began.elapsed() > EXPORT_TIME_MAX {
            return false;
        }
        let chunk = Bytes::from(std::mem::take(&mut self.chunk));
        self.sender.blocking_send(chunk).is_ok()
    }
}

/// A line that was not imported.
#[derive(Serialize, ToSchema)]
struct RejectedLine {
    /// Number of the line in the request, from 1.
    line: usize,
    error: &'static str,
    message: String,
}

/// The outcomes of the lines of an import.
#[derive(Default, Serialize, ToSchema)]
pub(crate) struct ImportResult {
    /// Memories, edges and triggers that were created, or would be.
    created: usize,
    /// Those that exist. They stay as they are.
    present: usize,
    rejected: usize,
    /// The first 500 lines that were rejected.
    errors: Vec<RejectedLine>,
}

impl From<ImportOutcome> for ImportResult {
    fn from(outcome: ImportOutcome) -> Self {
        let ImportOutcome { created, present, rejected } = outcome;
        let line = |(line, error): (usize, ApiError)| {
            let field = error.field.map_or(String::new(), |field| format!("{field} "));
            let message = format!("{field}{}", error.message);
            RejectedLine { line, error: error.code, message }
        };
        let number = rejected.len();
        let errors = rejected.into_iter().take(BULK_ERRORS_MAX).map(line).collect();
        Self { created, present, rejected: number, errors }
    }
}

/// Import lines of an export: what exists stays as it is, so a repeated import adds nothing. No trigger
/// fires. A webhook that was signed is imported without its secret, and disabled.
#[utoipa::path(post, path = "/api/v1/import", tag = "transfer", params(ImportQuery),
    request_body(content = ImportedMemoryLine, content_type = "application/x-ndjson"),
    responses((status = OK, body = ImportResult), UnrepeatedErrors))]
pub(crate) async fn import_memories(
    Admin(session): Admin,
    ValidQuery(query): ValidQuery<ImportQuery>,
    body: JsonBody,
) -> ApiResponse<ImportResult> {
    // It adds what is absent, which may be what was deleted since.
    session.request.check_not_once()?;
    let freshness = session.present_freshness();
    let (now, model) = (session.now(), session.model().await?.id);
    let context = LineContext { now, model, home: session.store_namespace(None) };
    let action = |id, kind, settings| session.imported_action(id, kind, settings);
    let items = import_items(&body, &context, action)?;
    let is_dry_run = query.dry_run.unwrap_or(false);
    let brings_back = query.include_rejected.unwrap_or(false);
    let outcome = session.import(items, brings_back, is_dry_run).await?;
    let freshness = if is_dry_run { freshness } else { session.present_freshness() };
    Ok(Success::ok(freshness, outcome.into()))
}

/// A line of an export.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ExportLine {
    /// The first line.
    HearthExport(ExportHeader),
    Memory(Box<MemoryLine>),
    Edge(EdgeLine),
    Trigger(Box<TriggerView>),
    /// The last line. An export without it is not complete.
    End(ExportEnd),
}

/// What an export holds.
#[derive(Serialize, ToSchema)]
pub(crate) struct ExportHeader {
    /// The form of all lines.
    pub(crate) format: u32,
    /// The log index as of which everything is.
    pub(crate) index: u64,
    pub(crate) exported_at: Time,
    /// The namespace; null is all that the key may read.
    #[schema(required)]
    pub(crate) namespace: Option<String>,
    /// The model of the vectors.
    pub(crate) model: String,
}

/// How many lines there are, and the SHA-256 of their bytes, without the first and the last line.
#[derive(Serialize, ToSchema)]
pub(crate) struct ExportEnd {
    pub(crate) memories: u64,
    pub(crate) edges: u64,
    pub(crate) triggers: u64,
    pub(crate) sha256: String,
}

/// A memory.
#[derive(Serialize, ToSchema)]
pub(crate) struct MemoryLine {
    id: MemoryIdText,
    label: String,
    memory_type: MemoryTypeWord,
    namespace: String,
    decay_class: DecayClassWord,
    is_pinned: bool,
    is_locked: bool,
    flagged_for_review: bool,
    min_heat: f64,
    key_points: Vec<String>,
    tags: Vec<String>,
    #[schema(value_type = Object)]
    metadata: BTreeMap<String, Box<RawValue>>,
    /// The heat at `heat_at`. It cools from then on.
    heat: f64,
    heat_at: Time,
    stability: f64,
    recall_count: u32,
    #[schema(required)]
    last_recalled_at: Option<Time>,
    #[schema(required)]
    returned_at: Option<Time>,
    created_at: Time,
    updated_at: Time,
    #[schema(required)]
    archived_at: Option<Time>,
    #[schema(required)]
    superseded_by: Option<MemoryIdText>,
    #[schema(required)]
    echo_of: Option<MemoryIdText>,
    folded_from: Vec<MemoryIdText>,
    #[schema(required)]
    occurred_at: Option<Time>,
    #[schema(required)]
    valid_from: Option<Time>,
    #[schema(required)]
    valid_until: Option<Time>,
    #[schema(required)]
    superseded_at: Option<Time>,
    #[schema(required)]
    expires_at: Option<Time>,
    ttl_seconds: Nullable<u64>,
    refresh_on_read: bool,
    external_id: Nullable<String>,
    detections: Vec<DetectionWord>,
    quarantined: bool,
    reviewed: bool,
    origin: OriginView,
    /// Its vector, if the export has vectors.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    vector: Option<VectorLine>,
}

/// The vector of a memory.
#[derive(Serialize, ToSchema)]
pub(crate) struct VectorLine {
    /// Id of the model, as hexadecimal digits.
    model: String,
    /// The components as little-endian f16, in base64.
    f16: String,
}

/// An edge.
#[derive(Serialize, ToSchema)]
pub(crate) struct EdgeLine {
    source_id: MemoryIdText,
    target_id: MemoryIdText,
    relation: String,
    weight: f64,
    created_at: Time,
}

impl From<(&ImportedMemory, bool)> for MemoryLine {
    /// A memory, with its vector or without.
    fn from((of, has_vector): (&ImportedMemory, bool)) -> Self {
        let ImportedMemory { id, memory, anchor, vector, .. } = of;
        let details = &memory.details;
        let times = memory.times.as_deref().copied().unwrap_or_default();
        Self {
            id: Id(*id),
            label: memory.label.clone(),
            memory_type: OneOf(memory.memory_type),
            namespace: memory.namespace.clone(),
            decay_class: OneOf(memory.decay_class),
            is_pinned: memory.is_pinned,
            is_locked: memory.is_locked,
            flagged_for_review: memory.is_flagged,
            min_heat: memory.min_heat.into(),
            key_points: memory.key_points.clone(),
            tags: details.as_ref().map(|it| it.tags.clone()).unwrap_or_default(),
            metadata: details.as_deref().map(metadata).unwrap_or_default(),
            heat: anchor.heat.into(),
            heat_at: Time(anchor.at),
            stability: anchor.stability.into(),
            recall_count: anchor.recall_count,
            last_recalled_at: anchor.last_recall.map(Time),
            returned_at: anchor.returned_at.map(Time),
            created_at: Time(memory.created_at),
            updated_at: Time(memory.updated_at),
            archived_at: memory.archived_at.map(Time),
            superseded_by: memory.superseded_by.map(Id),
            echo_of: memory.echo_of.map(Id),
            folded_from: memory.folded_from.iter().copied().map(Id).collect(),
            occurred_at: times.occurred_at.map(Time),
            valid_from: times.valid_from.map(Time),
            valid_until: times.valid_until.map(Time),
            superseded_at: times.superseded_at.map(Time),
            expires_at: times.expires_at.map(Time),
            ttl_seconds: times.ttl_seconds,
            refresh_on_read: times.refresh_on_read,
            external_id: memory.external_id.clone(),
            detections: memory.guard.detections().map(OneOf).collect(),
            quarantined: memory.guard.is_quarantined(),
            reviewed: memory.guard.is_reviewed(),
            origin: (&memory.origin).into(),
            vector: has_vector.then(|| VectorLine {
                model: hex::encode(vector.model.0),
                f16: STANDARD.encode(vector.half_bytes()),
            }),
        }
    }
}

impl From<&Edge> for EdgeLine {
    fn from(edge: &Edge) -> Self {
        Self {
            source_id: Id(edge.source),
            target_id: Id(edge.target),
            relation: edge.relation.clone(),
            weight: edge.weight.into(),
            created_at: Time(edge.created_at),
        }
    }
}
