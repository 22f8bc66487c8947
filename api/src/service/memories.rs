//! Memories: creation, changes, deletion, reads by id, lists.

use futures::{StreamExt, TryStreamExt, stream};
use storage::model::id::MemoryId;
use storage::model::memory::{DecayClass, MemoryRecord, MemoryType};
use storage::model::receipt::ReceiptRequest;
use storage::{Action, MemoryPatch, NewMemory};
use uuid::Uuid;

use crate::limits::BATCH_EMBED_AHEAD;
use crate::service::error::ApiResult;
use crate::service::writes::{Done, TouchedMemories};
use crate::service::{Session, components};

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

impl Session {
    /// Creates memories, all or none.
    pub(crate) async fn create_memories(
        &self,
        receipt: Option<ReceiptRequest>,
        inputs: Vec<MemoryInput>,
    ) -> ApiResult<Done<TouchedMemories>> {
        let new = inputs.into_iter().map(|input| self.prepare(input));
        let new = stream::iter(new).buffered(BATCH_EMBED_AHEAD).try_collect().await?;
        self.submit_once(receipt, Action::CreateMemories(new)).await
    }

    /// Reads a memory. One that this node does not have yet is read linearizably, so that
    /// "not found" holds for the whole cluster.
    pub(crate) async fn memory(&self, id: MemoryId) -> ApiResult<MemoryRecord> {
        let read = async || self.read(move |reader, caller| reader.get(caller.tenant, id)).await;
        let mut record = read().await?;
        if record.is_none() {
            self.service.await_linearizable().await?;
            record = read().await?;
        }
        self.readable(record)
    }

    /// Rejects a memory that does not exist, or that the caller may not access.
    pub(crate) fn readable(&self, record: Option<MemoryRecord>) -> ApiResult<MemoryRecord> {
        let record = record.ok_or(storage::Rejection::NotFound)?;
        self.check_access(&record.memory.namespace)?;
        Ok(record)
    }

    /// Adds a new label to a patch, with its embedding.
    pub(crate) async fn with_label(
        &self,
        patch: MemoryPatch,
        label: Option<String>,
    ) -> ApiResult<MemoryPatch> {
        let Some(label) = label else { return Ok(patch) };
        let vector = self.service.embed(&label).await?;
        Ok(MemoryPatch { label: Some((label, vector)), ..patch })
    }

    /// Embeds a new memory and finds the edges to suggest.
    async fn prepare(&self, input: MemoryInput) -> ApiResult<NewMemory> {
        let vector = self.service.embed(&input.label).await?;
        let unit = components(&vector)?;
        self.read(move |reader, caller| {
            let MemoryInput { label, key_points, .. } = &input;
            let suggestions = reader.suggestions(caller.tenant, label, key_points, &unit);
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
        })
        .await
    }
}
