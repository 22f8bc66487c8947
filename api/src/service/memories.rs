//! Memories: creation, changes, deletion, reads by id, lists.

use futures::{StreamExt, TryStreamExt, stream};
use storage::model::id::MemoryId;
use storage::model::memory::MemoryRecord;
use storage::model::receipt::ReceiptRequest;
use storage::{Action, MemoryPatch, NewMemory};

use crate::limits::BATCH_EMBED_AHEAD;
use crate::service::error::ApiResult;
use crate::service::writes::{Done, TouchedMemories};
use crate::service::{Session, components};

impl Session {
    /// Creates memories, all or none, with their vectors and edges.
    pub(crate) async fn create_memories(
        &self,
        receipt: Option<ReceiptRequest>,
        new: Vec<NewMemory>,
    ) -> ApiResult<Done<TouchedMemories>> {
        let new = new.into_iter().map(|new| self.prepare(new));
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

    /// Sets the vector of a new memory and the edges to create with it.
    async fn prepare(&self, mut new: NewMemory) -> ApiResult<NewMemory> {
        new.vector = self.service.embed(&new.label).await?;
        let unit = components(&new.vector)?;
        self.read(move |reader, caller| {
            new.suggestions = reader.suggestions(caller.tenant, &new.label, &new.key_points, &unit);
            Ok(new)
        })
        .await
    }
}
