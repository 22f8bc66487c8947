//! What the interface does, apart from HTTP: it embeds texts, builds commands, submits them,
//! reads the state as fresh as requested, and counts recalls. HTTP routes are adapters over it;
//! other interfaces can be too. No type of the HTTP library occurs here.

pub(crate) mod access;
pub(crate) mod bulk;
pub(crate) mod capture;
pub(crate) mod context;
pub(crate) mod extract;
pub(crate) mod freshness;
pub(crate) mod guard;
pub(crate) mod journal;
mod key_uses;
pub(crate) mod memories;
pub(crate) mod node;
pub(crate) mod recall_counts;
pub(crate) mod recalls;
mod returned;
pub(crate) mod status;
pub(crate) mod tenants;
mod tokens;
pub(crate) mod transfer;
pub(crate) mod triggers;
pub(crate) mod writes;

use std::sync::{Arc, OnceLock};

use raft::Handle;
use storage::model::access::{Access, Caller};
use storage::model::id::KeyId;
use storage::model::vector::Vector;
use storage::span::child;
use storage::{Reader, View};

use crate::admission::budget::KeyOfTenant;
use crate::admission::fair::{FairPermits, Permit};
use crate::admission::memory::{MemoryGuard, MemoryUse};
use crate::admission::rates::Rates;
use crate::admission::request::RequestContext;
use crate::error::{ApiError, ApiResult};
use crate::guard::Guards;
use crate::limits::{
    DEADLINE, EMBED_WAIT, EMBEDS_PER_THREAD, KEY_LARGE_WRITES_MAX, KEY_TURNS_MAX, LARGE_WRITE_WAIT,
    LARGE_WRITES_MAX, READ_WAIT, REPLAYS_MAX, REQUESTS_MAX, SMALL_WRITE_BYTES_MAX,
    SMALL_WRITE_MEMORIES_MAX, STREAM_READS_MAX, TENANT_TURNS_MAX, TURN_WAIT, key_reads_max,
    reads_max, tenant_reads_max,
};
use key_uses::KeyUseBuffer;
use node::{EmbedScope, Embedder, Extractions, Hooks, Reranker, TextRole};
use recalls::RecallBuffer;

/// The service of one node.
pub(crate) struct Service {
    /// For reads that block no thread: positions, caches.
    reader: Reader,
    raft: Handle,
    embedder: Arc<dyn Embedder>,
    pub(crate) reranker: OnceLock<Arc<dyn Reranker>>,
    pub(crate) extractions: OnceLock<Arc<Extractions>>,
    hooks: Arc<dyn Hooks>,
    guards: Guards,
    recalls: RecallBuffer,
    pub(crate) key_uses: KeyUseBuffer,
    reads: FairPermits,
    stream_reads: FairPermits,
    /// Streams that read events of the past, one of each key at a time.
    pub(crate) replays: FairPermits,
    embeds: FairPermits,
    large_writes: FairPermits,
    memory: MemoryGuard,
    pub(crate) rates: Rates,
    /// While several tenants use this node or the leader: writes from submission until their
    /// outcome.
    write_turns: FairPermits,
    /// While several tenants use this node.
    read_turns: FairPermits,
}

/// A request of a caller, and the service that it uses.
#[derive(Clone)]
pub(crate) struct Session {
    service: Arc<Service>,
    pub(crate) caller: Caller,
    pub(crate) request: Arc<RequestContext>,
}

/// A request of the operator, who has no tenant, and the service that it uses.
#[derive(Clone)]
pub(crate) struct Operator {
    pub(crate) service: Arc<Service>,
    pub(crate) request: Arc<RequestContext>,
}

/// Whose turn it is when a read waits, and of which request it is.
struct ReadBy<'a> {
    key: KeyOfTenant,
    request_id: Option<&'a str>,
}

/// A page of a list, and the cursor at which the next one begins.
pub(crate) struct PageOf<T, C> {
    pub(crate) items: Vec<T>,
    pub(crate) next: Option<C>,
}

impl<T, C> PageOf<T, C> {
    /// The first `limit` of `items`; one more of them shows that there is a next page. It begins
    /// after the `cursor` of the last.
    fn first(mut items: Vec<T>, limit: usize, cursor: impl FnOnce(&T) -> C) -> Self {
        let has_more = items.len() > limit;
        items.truncate(limit);
        let next = items.last().filter(|_| has_more).map(cursor);
        Self { items, next }
    }
}

impl Service {
    pub(crate) fn new(
        reader: Reader,
        raft: Handle,
        embedder: Arc<dyn Embedder>,
        hooks: Arc<dyn Hooks>,
    ) -> Self {
        let embeds = EMBEDS_PER_THREAD * embedder.threads();
        Self {
            reader,
            raft,
            embedder,
            reranker: OnceLock::new(),
            extractions: OnceLock::new(),
            hooks,
            guards: Guards::default(),
            recalls: RecallBuffer::default(),
            key_uses: KeyUseBuffer::default(),
            reads: FairPermits::new(reads_max(), READ_WAIT),
            stream_reads: FairPermits::new(STREAM_READS_MAX, DEADLINE),
            replays: FairPermits::with_parts(REPLAYS_MAX, REPLAYS_MAX / 2, 1, DEADLINE),
            embeds: FairPermits::new(embeds, EMBED_WAIT),
            large_writes: FairPermits::with_parts(
                LARGE_WRITES_MAX,
                LARGE_WRITES_MAX / 2,
                KEY_LARGE_WRITES_MAX,
                LARGE_WRITE_WAIT,
            ),
            memory: MemoryGuard::default(),
            rates: Rates::default(),
            write_turns: FairPermits::with_parts(
                REQUESTS_MAX,
                TENANT_TURNS_MAX,
                KEY_TURNS_MAX,
                TURN_WAIT,
            ),
            read_turns: FairPermits::with_parts(
                REQUESTS_MAX,
                tenant_reads_max(),
                key_reads_max(),
                TURN_WAIT,
            ),
        }
    }

    /// The name of a key.
    pub(crate) fn key_name(&self, key: KeyId) -> Option<String> {
        self.reader.key_name(key)
    }

    /// Runs a read of a key on a thread that may block, when one of `permits` is free. Event
    /// streams have permits of their own, so they delay no other read. A storage fault stops the
    /// node; the caller gets an internal error.
    async fn read<T: Send + 'static>(
        &self,
        permits: &FairPermits,
        by: ReadBy<'_>,
        read: impl FnOnce(&Reader) -> storage::Result<T> + Send + 'static,
    ) -> ApiResult<T> {
        self.memory.check_read()?;
        self.read_always(permits, by, read).await
    }

    /// [`Self::read`], also above the memory limit: for reads that a deletion needs.
    async fn read_always<T: Send + 'static>(
        &self,
        permits: &FairPermits,
        by: ReadBy<'_>,
        read: impl FnOnce(&Reader) -> storage::Result<T> + Send + 'static,
    ) -> ApiResult<T> {
        let span = child("read");
        let permit = permits.acquire(by.key).await.ok_or_else(reads_busy)?;
        let reader = self.reader.clone();
        let read = move || (span.in_scope(|| reader.while_indexed(read)), permit);
        // The permit stays with the result until it is picked up, so that results of large reads
        // cannot pile up.
        match tokio::task::spawn_blocking(read).await {
            Ok((Some(Ok(value)), _permit)) => Ok(value),
            Ok((None, _permit)) => Err(ApiError::unavailable(
                "stale",
                "this node indexes the memories that it has received from the leader",
            )),
            Ok((Some(Err(error)), _permit)) => {
                self.raft.fault().report_storage(&error);
                Err(ApiError::internal())
            }
            Err(panic) => {
                let (tenant, request_id) = (by.key.0.0, by.request_id);
                tracing::error!(tenant, request_id, %panic, "a read panicked");
                Err(ApiError::internal())
            }
        }
    }

    /// Records the resident memory of the process and its limit, in bytes. The leader also checks
    /// them for commands that other nodes forward.
    pub(crate) fn set_memory(&self, resident: u64, limit: u64) {
        self.memory.set(resident, limit);
        self.raft.set_memory(resident, limit);
    }

    pub(crate) fn memory_use(&self) -> MemoryUse {
        let usage = self.memory.usage();
        MemoryUse { rejected: usage.rejected + self.raft.totals().memory_full, ..usage }
    }

    /// Reads, texts and writes that waited too long for their turn, since the start of the
    /// process.
    pub(crate) fn overdue(&self) -> [u64; 3] {
        let all = |permits: &[&FairPermits]| permits.iter().map(|it| it.overdue()).sum();
        let reads = all(&[&self.reads, &self.read_turns, &self.stream_reads, &self.replays]);
        [reads, self.embeds.overdue(), all(&[&self.large_writes, &self.write_turns])]
    }

    /// The embedding of `text` for a caller, as it is stored.
    async fn embed(&self, caller: &Caller, role: TextRole, text: &str) -> ApiResult<Vector> {
        let _span = child("embed");
        let _permit = self.embeds.acquire((caller.tenant, caller.key)).await.ok_or_else(|| {
            ApiError::unavailable("embedder_busy", "too many texts wait to be embedded")
        })?;
        let embedded = self.embedder.embed(EmbedScope::of(caller), role, text.to_owned()).await?;
        Vector::quantise(embedded.0, &embedded.1).map_err(|fault| unusable(&fault))
    }
}

impl Session {
    /// Waits for the turn of a large write, which lasts as long as the permit; `None` for a small
    /// one.
    async fn large_write_turn(&self, memories: usize, bytes: usize) -> ApiResult<Option<Permit>> {
        if memories <= SMALL_WRITE_MEMORIES_MAX && bytes <= SMALL_WRITE_BYTES_MAX {
            return Ok(None);
        }
        let busy = || {
            ApiError::unavailable("writes_busy", "too many large writes of this key or tenant wait")
        };
        let permits = &self.service.large_writes;
        permits.acquire(self.key_of_tenant()).await.ok_or_else(busy).map(Some)
    }

    /// Waits for the turn of a write, if several tenants use this node or the leader.
    async fn write_turn(&self) -> ApiResult<Option<Permit>> {
        let raft = &self.service.raft;
        if !raft.is_shared() && !raft.is_leader_shared() {
            return Ok(None);
        }
        let busy =
            || ApiError::unavailable("writes_busy", "too many writes of this key or tenant wait");
        let turn = self.service.write_turns.acquire(self.key_of_tenant());
        turn.await.ok_or_else(busy).map(Some)
    }

    /// Waits for the turn of a read, if several tenants use this node.
    async fn read_turn(&self) -> ApiResult<Option<Permit>> {
        if !self.service.raft.is_shared() {
            return Ok(None);
        }
        let turn = self.service.read_turns.acquire(self.key_of_tenant());
        turn.await.ok_or_else(reads_busy).map(Some)
    }

    /// [`Service::read`] with the caller.
    async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Reader, &Caller) -> storage::Result<T> + Send + 'static,
    ) -> ApiResult<T> {
        let turn = self.read_turn().await?;
        let caller = self.caller.clone();
        let service = &self.service;
        let read = move |reader: &Reader| {
            let _turn = turn;
            read(reader, &caller)
        };
        service.read(&service.reads, self.read_by(), read).await
    }

    fn read_by(&self) -> ReadBy<'_> {
        ReadBy { key: self.key_of_tenant(), request_id: Some(&self.request.id) }
    }

    /// Whose turn it is when the caller's work waits.
    pub(crate) fn key_of_tenant(&self) -> KeyOfTenant {
        (self.caller.tenant, self.caller.key)
    }

    /// Reads what may exist, and the access of the caller. What this node does not have yet is
    /// read linearizably, so that "not found" holds for the whole cluster.
    async fn find<T: Send + 'static>(
        &self,
        find: impl Fn(&Reader, &Caller) -> storage::Result<Option<T>> + Clone + Send + 'static,
    ) -> ApiResult<Option<(T, Access)>> {
        if let Some(found) = self.read(find.clone()).await? {
            return Ok(Some((found, self.caller.access.clone())));
        }
        self.service.await_linearizable().await?;
        self.read(move |reader, caller| {
            // Rules may have changed during the wait.
            let access = reader.access(caller.tenant, caller.key, reader.clock())?;
            let access = access.unwrap_or_else(Access::none);
            let found = find(reader, &Caller { access: access.clone(), ..caller.clone() })?;
            Ok(found.map(|found| (found, access)))
        })
        .await
    }
}

/// The components of a stored vector: memories are compared with the same rounding.
fn components(vector: &Vector) -> ApiResult<Vec<f32>> {
    vector.components().map_err(|fault| unusable(&fault))
}

fn reads_busy() -> ApiError {
    ApiError::unavailable("reads_busy", "too many reads wait for their turn")
}

fn unusable(fault: &dyn std::fmt::Display) -> ApiError {
    tracing::error!(%fault, "the embedding model returned an unusable vector");
    ApiError::internal()
}
