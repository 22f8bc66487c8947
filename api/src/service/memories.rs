//! Memories: creation, changes, deletion, reads by id, lists.

use futures::{StreamExt, TryStreamExt, stream};
use storage::model::caller::Caller;
use storage::model::id::{MemoryId, TenantId};
use storage::model::memory::{DecayClass, MemoryRecord, MemoryType};
use storage::model::receipt::ReceiptRequest;
use storage::{Action, ListRequest, MemoryPatch, NewMemory, Page};
use uuid::Uuid;

use crate::limits::BATCH_EMBED_AHEAD;
use crate::service::error::{ApiError, ApiResult};
use crate::service::writes::{Done, TouchedMemories};
use crate::service::{Service, check_access, components};

/// A memory to create, validated.
#[derive(Debug, Clone)]
pub(crate) struct MemoryInput {
    pub(crate) label: String,
    pub(crate) memory_type: MemoryType,
    pub(crate) namespace: String,
    pub(crate) decay_class: DecayClass,
    pub(crate) is_pinned: bool,
    /// 0 to 1.
    pub(crate) min_heat: f32,
    /// 0 to 1.
    pub(crate) initial_heat: f32,
    pub(crate) key_points: Vec<String>,
}

/// Changes to a memory, validated. The label has no vector yet.
#[derive(Debug, Clone)]
pub(crate) struct MemoryEdit {
    pub(crate) label: Option<String>,
    /// All other changes.
    pub(crate) patch: MemoryPatch,
}

impl Service {
    /// Creates memories, all or none.
    pub(crate) async fn create_memories(
        &self,
        caller: &Caller,
        receipt: Option<ReceiptRequest>,
        inputs: Vec<MemoryInput>,
    ) -> ApiResult<Done<TouchedMemories>> {
        let tenant = caller.tenant;
        let new = inputs.into_iter().map(|input| self.prepare(tenant, input));
        let new = stream::iter(new).buffered(BATCH_EMBED_AHEAD).try_collect().await?;
        self.submit_memories(caller, receipt, Action::CreateMemories(new)).await
    }

    pub(crate) async fn update_memory(
        &self,
        caller: &Caller,
        receipt: Option<ReceiptRequest>,
        id: MemoryId,
        edit: MemoryEdit,
    ) -> ApiResult<Done<TouchedMemories>> {
        let patch = self.patch(edit).await?;
        self.submit_memories(caller, receipt, Action::UpdateMemory(id, patch)).await
    }

    /// Reads a memory. One that this node does not have yet is read linearizably, so that
    /// "not found" holds for the whole cluster.
    pub(crate) async fn memory(&self, caller: &Caller, id: MemoryId) -> ApiResult<MemoryRecord> {
        let tenant = caller.tenant;
        let read = async || self.read(move |reader| reader.get(tenant, id)).await;
        let mut record = read().await?;
        if record.is_none() {
            self.await_linearizable().await?;
            record = read().await?;
        }
        let record = record.ok_or(storage::Rejection::NotFound)?;
        check_access(caller, &record.memory.namespace)?;
        Ok(record)
    }

    pub(crate) async fn list(&self, tenant: TenantId, request: ListRequest) -> ApiResult<Page> {
        self.read(move |reader| reader.list(tenant, &request)).await
    }

    /// The patch of an edit: a new label is embedded.
    pub(crate) async fn patch(&self, edit: MemoryEdit) -> ApiResult<MemoryPatch> {
        let MemoryEdit { label, patch } = edit;
        let Some(label) = label else { return Ok(patch) };
        let vector = self.embed(&label).await?;
        Ok(MemoryPatch { label: Some((label, vector)), ..patch })
    }

    /// Embeds a new memory and finds the edges to suggest.
    async fn prepare(&self, tenant: TenantId, input: MemoryInput) -> ApiResult<NewMemory> {
        let vector = self.embed(&input.label).await?;
        let unit = components(&vector)?;
        let (label, key_points) = (input.label.clone(), input.key_points.clone());
        let suggestions = self
            .read(move |reader| Ok(reader.suggestions(tenant, &label, &key_points, &unit)))
            .await?;
        Ok(NewMemory {
            id: MemoryId(Uuid::now_v7().into_bytes()),
            label: input.label,
            memory_type: input.memory_type,
            namespace: input.namespace,
            decay_class: input.decay_class,
            is_pinned: input.is_pinned,
            min_heat: input.min_heat,
            initial_heat: input.initial_heat,
            key_points: input.key_points,
            vector,
            suggestions,
        })
    }
}

/// The one memory of a write.
pub(crate) fn single<T>(items: Vec<T>) -> ApiResult<T> {
    items.into_iter().next().ok_or_else(ApiError::internal)
}
