//! Exports and imports: what a tenant holds, from one cluster to another.

use std::collections::BTreeSet;

use futures::{StreamExt, TryStreamExt, stream};
use storage::command::Import;
use storage::model::access::Caller;
use storage::model::edge::Edge;
use storage::model::id::{MemoryId, TriggerId};
use storage::model::memory::MemoryRecord;
use storage::model::tenant::Role;
use storage::model::trigger::{Firings, Trigger, TriggerAction, TriggerActionKind};
use storage::{Exported, IMPORT_MAX, Imported, ImportedMemory, Reader, View};

use crate::limits::BATCH_EMBED_AHEAD;
use crate::service::Session;
use crate::service::bulk::fitting;
use crate::service::error::{ApiError, ApiResult};
use crate::service::triggers::ActionSettings;

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
            let visit = |part: Exported| match part {
                Exported::Trigger(..) if !sees_triggers => true,
                part => visit(part),
            };
            let (tenant, access) = (caller.tenant, &caller.access);
            if let Err(error) = reader.export(tenant, namespace.as_deref(), access, visit) {
                fault.report_storage(&error);
            }
        });
    }

    /// The ids of memories that exist.
    pub(crate) async fn present_ids(&self, ids: Vec<MemoryId>) -> ApiResult<BTreeSet<MemoryId>> {
        let found = self.existing_memories(ids).await?;
        Ok(found.into_iter().map(|record: MemoryRecord| record.id).collect())
    }

    /// How many of these edges and triggers exist.
    pub(crate) async fn present_parts(
        &self,
        edges: Vec<Edge>,
        triggers: Vec<TriggerId>,
    ) -> ApiResult<usize> {
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
    pub(crate) async fn import_memories(
        &self,
        all: Vec<ImportedMemory>,
    ) -> ApiResult<Vec<Imported>> {
        let embedded = all.into_iter().map(async |mut one: ImportedMemory| {
            if one.vector.dimension() == 0 {
                one.vector = self.service.embed(&self.caller, &one.memory.label).await?;
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
            let done: Vec<Imported> = self.import(Import::Memories(part)).await?;
            rest.drain(..done.len());
            outcomes.extend(done);
        }
        Ok(outcomes)
    }

    pub(crate) async fn import_edges(&self, all: Vec<Edge>) -> ApiResult<Vec<Imported>> {
        self.import_parts(all, Import::Edges).await
    }

    pub(crate) async fn import_triggers(
        &self,
        all: Vec<(TriggerId, Trigger, Firings)>,
    ) -> ApiResult<Vec<Imported>> {
        self.import_parts(all, Import::Triggers).await
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
        let mut outcomes = Vec::new();
        while !rest.is_empty() {
            let first = rest[..rest.len().min(IMPORT_MAX)].to_vec();
            let done = self.import(part(first)).await?;
            rest.drain(..done.len());
            outcomes.extend(done);
        }
        Ok(outcomes)
    }

    /// Submits one command. It covers at least one item.
    async fn import(&self, part: Import) -> ApiResult<Vec<Imported>> {
        let done = self.submit(part).await?.value;
        if done.is_empty() { Err(ApiError::internal()) } else { Ok(done) }
    }
}
