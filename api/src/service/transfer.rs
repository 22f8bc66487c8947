//! Exports and imports: what a tenant holds, from one cluster to another.

use std::collections::BTreeSet;

use futures::{StreamExt, TryStreamExt, stream};
use storage::command::Import;
use storage::model::access::Caller;
use storage::model::edge::Edge;
use storage::model::id::TriggerId;
use storage::model::memory::Memory;
use storage::model::tenant::Role;
use storage::model::trigger::{Firings, Trigger, TriggerAction, TriggerActionKind};
use storage::{Exported, IMPORT_MAX, Imported, ImportedMemory, Reader, Rejection, View};

use crate::error::{ApiError, ApiResult};
use crate::guard::CompiledGuard;
use crate::limits::BATCH_EMBED_AHEAD;
use crate::service::Session;
use crate::service::bulk::fitting;
use crate::service::node::TextRole;
use crate::service::triggers::ActionSettings;

/// Items of one kind, each with the number of its line.
pub(crate) struct Numbered<T> {
    lines: Vec<usize>,
    items: Vec<T>,
}

impl<T> Default for Numbered<T> {
    fn default() -> Self {
        Self { lines: Vec::new(), items: Vec::new() }
    }
}

impl<T> Numbered<T> {
    pub(crate) fn push(&mut self, line: usize, item: T) {
        self.lines.push(line);
        self.items.push(item);
    }
}

/// What the lines of an import hold, and why the others are rejected.
#[derive(Default)]
pub(crate) struct ImportItems {
    pub(crate) memories: Numbered<ImportedMemory>,
    pub(crate) edges: Numbered<Edge>,
    pub(crate) triggers: Numbered<(TriggerId, Trigger, Firings)>,
    pub(crate) rejected: Vec<(usize, ApiError)>,
}

/// What an import did, or would do.
#[derive(Default)]
pub(crate) struct ImportOutcome {
    pub(crate) created: usize,
    /// Those that exist. They stay as they are.
    pub(crate) present: usize,
    /// Lines with their errors.
    pub(crate) rejected: Vec<(usize, ApiError)>,
}

impl ImportOutcome {
    fn count(&mut self, lines: &[usize], outcomes: Vec<Imported>) {
        for (line, outcome) in lines.iter().zip(outcomes) {
            match outcome {
                Imported::Created => self.created += 1,
                Imported::Present => self.present += 1,
                Imported::Rejected(rejection) => self.rejected.push((*line, rejection.into())),
            }
        }
    }
}

impl Session {
    /// Reads an export on a thread of its own, part by part, until `visit` returns false. Triggers are
    /// left out for keys that may not see all of them, or not all of their fields.
    pub(crate) fn export(
        &self,
        namespace: Option<String>,
        mut visit: impl FnMut(Exported) -> bool + Send + 'static,
    ) {
        let (reader, caller) = (self.service.reader.clone(), self.caller.clone());
        let fault = self.service.raft.fault().clone();
        tokio::task::spawn_blocking(move || {
            // A reader sees no paths of webhooks, so its triggers would not be whole.
            let sees_triggers = caller.access.is_unrestricted() && caller.role > Role::Reader;
            let is_admin = caller.role >= Role::Admin;
            let visit = |part: Exported| match part {
                Exported::Memory(one) if one.memory.guard.is_quarantined() && !is_admin => true,
                Exported::Trigger(..) if !sees_triggers => true,
                part => visit(part),
            };
            let (tenant, access) = (caller.tenant, &caller.access);
            if let Err(error) = reader.export(tenant, namespace.as_deref(), access, visit) {
                fault.report_storage(&error);
            }
        });
    }

    /// Creates what does not exist: an import that is repeated adds nothing. Values that a client has rejected
    /// are created only with `brings_back`. `is_dry_run` counts only.
    pub(crate) async fn import(
        &self,
        items: ImportItems,
        brings_back: bool,
        is_dry_run: bool,
    ) -> ApiResult<ImportOutcome> {
        let ImportItems { memories, edges, triggers, rejected } = items;
        let mut outcome = ImportOutcome { rejected, ..ImportOutcome::default() };
        // What exists is not embedded again.
        let ids = memories.items.iter().map(|memory| memory.id).collect();
        let found = self.existing_memories(ids).await?;
        let present: BTreeSet<_> = found.into_iter().map(|record| record.id).collect();
        let mut new = Numbered::default();
        let guard = self.guard();
        for (line, mut memory) in memories.lines.into_iter().zip(memories.items) {
            if present.contains(&memory.id) {
                outcome.present += 1;
                continue;
            }
            let examine = || Self::examine_imported(&guard, &mut memory);
            match tokio::task::block_in_place(examine) {
                Ok(()) => {
                    let Memory { namespace, label, .. } = &memory.memory;
                    let value = (!brings_back).then(|| self.value_hash(namespace, label));
                    memory.unless_rejected.extend(value);
                    new.push(line, memory);
                }
                Err(error) => outcome.rejected.push((line, error)),
            }
        }
        if is_dry_run {
            let all = edges.items.len() + triggers.items.len();
            let ids = triggers.items.iter().map(|(id, ..)| *id).collect();
            let present = self.present_parts(edges.items, ids).await?;
            let rejected = self.rejected_lines(&new).await?;
            outcome.created += new.items.len() - rejected.len() + all - present;
            outcome.rejected.extend(rejected);
            outcome.present += present;
            return Ok(outcome);
        }
        outcome.count(&new.lines, self.import_memories(new.items, &guard).await?);
        outcome.count(&edges.lines, self.import_parts(edges.items, Import::Edges).await?);
        outcome.count(&triggers.lines, self.import_parts(triggers.items, Import::Triggers).await?);
        Ok(outcome)
    }

    /// The lines of memories that a client has rejected.
    async fn rejected_lines(
        &self,
        new: &Numbered<ImportedMemory>,
    ) -> ApiResult<Vec<(usize, ApiError)>> {
        let values = new.items.iter().map(|memory| memory.unless_rejected.clone());
        let lines: Vec<_> = new.lines.iter().copied().zip(values).collect();
        let read = move |reader: &Reader, caller: &Caller| {
            let mut rejected = Vec::new();
            for (line, values) in lines {
                if reader.has_tombstone(caller.tenant, &values)? {
                    rejected.push((line, Rejection::ValueRejected.into()));
                }
            }
            Ok(rejected)
        };
        self.read(read).await
    }

    /// How many of these edges and triggers exist.
    async fn present_parts(&self, edges: Vec<Edge>, triggers: Vec<TriggerId>) -> ApiResult<usize> {
        let read = move |reader: &Reader, caller: &Caller| {
            let mut count = 0;
            // Exports have the edges of a memory one after the other.
            let mut of_source = (None, Vec::new());
            for Edge { source, target, relation, .. } in edges {
                if of_source.0 != Some(source) {
                    of_source = (Some(source), reader.edges(caller.tenant, source)?);
                }
                let is_same =
                    |it: &Edge| (it.source, it.target, &it.relation) == (source, target, &relation);
                count += usize::from(of_source.1.iter().any(is_same));
            }
            for id in triggers {
                count += usize::from(reader.trigger(caller.tenant, id)?.is_some());
            }
            Ok(count)
        };
        self.read(read).await
    }

    /// The model of the cluster.
    pub(crate) async fn model(&self) -> ApiResult<storage::model::cluster::Model> {
        let cluster = self.read(|reader: &Reader, _| reader.cluster()).await?;
        Ok(cluster.ok_or_else(ApiError::internal)?.model.clone())
    }

    /// Creates memories as they were. Those without a vector are embedded.
    async fn import_memories(
        &self,
        all: Vec<ImportedMemory>,
        guard: &CompiledGuard,
    ) -> ApiResult<Vec<Imported>> {
        let embedded = all.into_iter().map(async |mut one: ImportedMemory| {
            if one.vector.dimension() == 0 {
                one.vector =
                    self.service.embed(&self.caller, TextRole::Passage, &one.memory.label).await?;
            }
            Ok::<_, ApiError>(one)
        });
        let mut rest: Vec<_> =
            stream::iter(embedded).buffered(BATCH_EMBED_AHEAD).try_collect().await?;
        let mut outcomes = Vec::new();
        while !rest.is_empty() {
            let part = rest[..fitting(&rest, ImportedMemory::text_bytes)].to_vec();
            let bytes = part.iter().map(ImportedMemory::text_bytes).sum();
            let _turn = self.large_write_turn(part.len(), bytes).await?;
            let done: Vec<Imported> = self.import_part(Import::Memories(part), guard).await?;
            rest.drain(..done.len());
            outcomes.extend(done);
        }
        Ok(outcomes)
    }

    /// The action of a trigger that is imported.
    pub(crate) fn imported_action(
        &self,
        id: TriggerId,
        kind: TriggerActionKind,
        settings: ActionSettings,
    ) -> ApiResult<TriggerAction> {
        self.service.action(id, kind, settings)
    }

    async fn import_parts<T: Clone>(
        &self,
        mut rest: Vec<T>,
        part: impl Fn(Vec<T>) -> Import,
    ) -> ApiResult<Vec<Imported>> {
        let (mut outcomes, guard) = (Vec::new(), self.guard());
        while !rest.is_empty() {
            let first = rest[..rest.len().min(IMPORT_MAX)].to_vec();
            let done = self.import_part(part(first), &guard).await?;
            rest.drain(..done.len());
            outcomes.extend(done);
        }
        Ok(outcomes)
    }

    /// Submits one command. It covers at least one item.
    async fn import_part(&self, part: Import, guard: &CompiledGuard) -> ApiResult<Vec<Imported>> {
        let done = self.submit_examined(part, Some(guard.version)).await?.value;
        if done.is_empty() { Err(ApiError::internal()) } else { Ok(done) }
    }
}
