//! Export and import: what a tenant holds as lines of JSON, from one cluster to another.

use std::time::Instant;

use axum::body::{Body, Bytes};
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use futures::stream;
use sha2::{Digest, Sha256};
use storage::model::id::TriggerId;
use storage::model::trigger::{Firings, Trigger};
use storage::{Exported, Imported};
use tokio::sync::mpsc::{Sender, channel};

use crate::current;
use crate::limits::{BULK_ERRORS_MAX, EXPORT_CHUNK_BYTES, EXPORT_TIME_MAX, IMPORT_LINES_MAX};
use crate::prelude::*;
use crate::requests::JsonBody;
use crate::requests::import::{
    EdgeLine, ExportQuery, ImportLine, ImportQuery, MemoryLine, TriggerHistory,
};
use crate::requests::triggers::NewTrigger;
use crate::responses::export::{ExportEnd, ExportHeader, ExportLine};
use crate::responses::freshness_headers;
use crate::responses::trigger::TriggerView;
use crate::service::error::ErrorKind;
use crate::service::writes::check_not_once;

/// The form of the lines. A later one may have further fields.
const FORMAT: u32 = 1;
const LINES: &str = "application/x-ndjson";

/// Export memories, edges and triggers as of one log index: one line of JSON each, after a header. The
/// last line has their numbers and a checksum; without it the export is not complete.
#[utoipa::path(get, path = "/api/v1/export", tag = "transfer",
    params(ExportQuery, NamespaceHeader, ReadHeaders),
    responses((status = OK, body = ExportLine, content_type = "application/x-ndjson"), ReadErrors))]
pub(crate) async fn export_get(
    State(app): State<App>,
    ReaderRead(session, freshness): ReaderRead,
    home: NamespaceHeader,
    ValidQuery(query): ValidQuery<ExportQuery>,
) -> ApiResult<Response> {
    let namespace = home.filter(&session, query.namespace)?.namespace;
    let share = app.budgets.exports.take(current::caller(), 1);
    let share = share.map_err(|full| ApiError::full(full, "too_many_exports", "exports"))?;
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

impl ImportResult {
    fn reject(&mut self, line: usize, error: ApiError) {
        self.rejected += 1;
        if self.errors.len() < BULK_ERRORS_MAX {
            let field = error.field.map_or(String::new(), |field| format!("{field} "));
            let message = format!("{field}{}", error.message);
            self.errors.push(RejectedLine { line, error: error.code, message });
        }
    }

    fn count(&mut self, lines: &[usize], outcomes: Vec<Imported>) {
        for (line, outcome) in lines.iter().zip(outcomes) {
            match outcome {
                Imported::Created => self.created += 1,
                Imported::Present => self.present += 1,
                Imported::Rejected(rejection) => self.reject(*line, rejection.into()),
            }
        }
    }
}

/// Items of one kind, each with the number of its line.
struct Numbered<T> {
    lines: Vec<usize>,
    items: Vec<T>,
}

impl<T> Default for Numbered<T> {
    fn default() -> Self {
        Self { lines: Vec::new(), items: Vec::new() }
    }
}

impl<T> Numbered<T> {
    fn push(&mut self, line: usize, item: T) {
        self.lines.push(line);
        self.items.push(item);
    }
}

/// Import lines of an export: what exists stays as it is, so a repeated import adds nothing. No trigger
/// fires. A webhook that was signed is imported without its secret, and disabled.
#[utoipa::path(post, path = "/api/v1/import", tag = "transfer", params(ImportQuery),
    request_body(content = MemoryLine, content_type = "application/x-ndjson"),
    responses((status = OK, body = ImportResult), UnrepeatedErrors))]
pub(crate) async fn import_post(
    Admin(session): Admin,
    ValidQuery(query): ValidQuery<ImportQuery>,
    JsonBody(body): JsonBody,
) -> ApiResponse<ImportResult> {
    // It adds what is absent, which may be what was deleted since.
    check_not_once()?;
    let freshness = session.present_freshness();
    let (now, model) = (session.now(), session.model().await?.id);
    let home = session.store_namespace(None);
    let is_blank = |line: &&[u8]| line.trim_ascii().is_empty();
    if body.split(|byte| *byte == b'\n').filter(|line| !is_blank(line)).count() > IMPORT_LINES_MAX {
        let message = format!("a request has at most {IMPORT_LINES_MAX} lines");
        return Err(ApiError::new(ErrorKind::TooLarge, "too_large", message));
    }
    let mut result = ImportResult::default();
    let (mut memories, mut edges, mut triggers) =
        (Numbered::default(), Numbered::default(), Numbered::default());
    for (at, line) in body.split(|byte| *byte == b'\n').enumerate() {
        if is_blank(&line) {
            continue;
        }
        let number = at + 1;
        let parsed = match JsonBody(body.slice_ref(line)).parse::<ImportLine>() {
            Ok(ImportLine::HearthExport(_) | ImportLine::End(_)) => Ok(()),
            Ok(ImportLine::Memory(line)) => {
                line.into_memory(now, model, &home).map(|memory| memories.push(number, memory))
            }
            Ok(ImportLine::Edge(line)) => {
                edges.push(number, EdgeLine::into_edge(line, now));
                Ok(())
            }
            Ok(ImportLine::Trigger(line)) => {
                let body = JsonBody(Bytes::from(line.get().to_owned()));
                let parts = body
                    .parse::<NewTrigger>()
                    .and_then(|new| imported_trigger(&session, new, body.parse()?));
                parts.map(|trigger| triggers.push(number, trigger))
            }
            Err(error) => Err(error),
        };
        parsed.unwrap_or_else(|error| result.reject(number, error));
    }
    // What exists is not embedded again.
    let ids = memories.items.iter().map(|memory| memory.id).collect();
    let present = session.present_ids(ids).await?;
    let mut new = Numbered::default();
    for (line, memory) in memories.lines.into_iter().zip(memories.items) {
        match present.contains(&memory.id) {
            true => result.present += 1,
            false => new.push(line, memory),
        }
    }
    if query.dry_run.unwrap_or(false) {
        let all = edges.items.len() + triggers.items.len();
        let ids = triggers.items.iter().map(|(id, ..)| *id).collect();
        let present = session.present_parts(edges.items, ids).await?;
        result.created += new.items.len() + all - present;
        result.present += present;
        return Ok(Success::ok(freshness, result));
    }
    result.count(&new.lines, session.import_memories(new.items).await?);
    result.count(&edges.lines, session.import_edges(edges.items).await?);
    result.count(&triggers.lines, session.import_triggers(triggers.items).await?);
    Ok(Success::ok(session.present_freshness(), result))
}

/// The trigger of a line. A webhook that was signed has no secret here, so it is disabled.
fn imported_trigger(
    session: &Session,
    new: NewTrigger,
    history: TriggerHistory,
) -> ApiResult<(TriggerId, Trigger, Firings)> {
    let (id, was_signed) = (history.id.0, history.was_signed());
    let (created_at, updated_at, firings) = history.into_parts(session.now());
    let action = session.imported_action(id, new.action.0, new.action_settings()?)?;
    let new = new.into_trigger(action);
    let enabled = new.enabled && !was_signed;
    Ok((id, Trigger { enabled, created_at, updated_at, ..new }, firings))
}
