//! Memories: creation, changes, reads by id, search and hot context. A search counts recalls. Also their
//! neighbours, the graph view, and the check of edges.

use std::collections::{BTreeSet, HashSet};

use futures::{StreamExt, TryStreamExt, stream};
use storage::command::{CreateMemories, DeleteMemory, UpdateMemory};
use storage::model::access::{Access, Caller};
use storage::model::edge::Suggestion;
use storage::model::id::{MemoryId, Timestamp};
use storage::model::memory::{Memory, MemoryRecord};
use storage::model::tenant::Role;
use storage::model::vector::Vector;
use storage::model::versions::Versions;
use storage::span::child;
use storage::{
    CREATE_TEXT_BYTES_MAX, Filter, FoldCandidates, GraphView, Hit, HotRequest, Hygiene,
    ListRequest, MemoryPatch, Neighbour, NewMemory, Order, Page, Reader, Rejection, SearchRequest,
    SearchResults, Sort, TEXT_BYTES_MAX, TouchedMemories, View,
};

use crate::error::{ApiError, ApiResult, ErrorKind};
use crate::limits::{
    ALL_MAX, ALL_PAGE, BATCH_EMBED_AHEAD, RERANKED, RERANKED_BYTES_MAX, SMALL_WRITE_BYTES_MAX,
};
use crate::service::node::{Reranker, TextRole};
use crate::service::writes::WriteResult;
use crate::service::{Session, components};

impl Session {
    /// Creates memories, all or none, with their vectors and edges. A duplicate is not created.
    pub(crate) async fn create_memories(
        &self,
        new: Vec<NewMemory>,
    ) -> ApiResult<WriteResult<TouchedMemories>> {
        let bytes = new.iter().map(NewMemory::text_bytes).sum::<usize>();
        if bytes > CREATE_TEXT_BYTES_MAX {
            let message =
                format!("the memories have more than {CREATE_TEXT_BYTES_MAX} bytes of text");
            return Err(ApiError::new(ErrorKind::TooLarge, "too_large", message));
        }
        let _turn = self.large_write_turn(new.len(), bytes).await?;
        let (guard, many) = (self.guard(), new.len() > 1);
        let examine = |(at, mut new): (usize, NewMemory)| {
            let examined = Self::examine_new(&guard, &mut new);
            examined.map(|()| new).map_err(|error| match many {
                true => ApiError { message: format!("nodes[{at}]: {}", error.message), ..error },
                false => error,
            })
        };
        let examine_all =
            || new.into_iter().enumerate().map(examine).collect::<ApiResult<Vec<_>>>();
        // A short text takes microseconds: less than to leave the worker.
        let new = match bytes > SMALL_WRITE_BYTES_MAX {
            true => tokio::task::block_in_place(examine_all)?,
            false => examine_all()?,
        };
        let new = new.into_iter().map(|new| self.prepare(new));
        let new = stream::iter(new).buffered(BATCH_EMBED_AHEAD).try_collect().await?;
        self.submit_examined(CreateMemories(new), Some(guard.version)).await
    }

    /// Changes a memory. Sets the vector of a new label, and the memories that are similar to it.
    pub(crate) async fn update_memory(
        &self,
        id: MemoryId,
        mut patch: MemoryPatch,
    ) -> ApiResult<WriteResult<TouchedMemories>> {
        let guard = self.guard();
        if patch.label.is_some() || patch.namespace.is_some() || !patch.details.is_empty() {
            let find = move |reader: &Reader, caller: &Caller| {
                let found = reader.with_vector(caller.tenant, id)?;
                // What is closed to the caller must not show in the time of a rejection.
                Ok(found.filter(|(memory, _)| is_open(memory, caller)))
            };
            if patch.namespace.is_some() && !guard.rules.is_empty() {
                // The leader rejects the move of another state.
                self.service.await_linearizable().await?;
            }
            let present = self.find(find).await?.map(|(found, _)| found);
            match &present {
                Some((memory, _)) => {
                    let examine = || Self::examine_patch(&guard, &mut patch, memory);
                    tokio::task::block_in_place(examine)?;
                }
                // If it is created meanwhile, nothing has examined the patch for it.
                None => patch.examined_in = vec![String::new()],
            }
            if let Some((label, vector)) = &mut patch.label {
                match present {
                    // Programs send the whole memory when they change a part of it.
                    Some((present, known)) if present.label == *label => *vector = known,
                    present => {
                        *vector =
                            self.service.embed(&self.caller, TextRole::Passage, label).await?;
                        if let Some((present, _)) = present {
                            let namespace = patch.namespace.as_ref().unwrap_or(&present.namespace);
                            patch.similar = self.suggestions(namespace, label, &[], vector)?;
                            patch.similar.retain(|suggestion| suggestion.other != id);
                        }
                    }
                }
            }
        }
        self.submit_examined(UpdateMemory { id, patch: patch.into() }, Some(guard.version)).await
    }

    /// Deletes a memory. If its value is rejected, captures and imports do not bring it back.
    pub(crate) async fn delete_memory(
        &self,
        id: MemoryId,
        rejects: bool,
    ) -> ApiResult<WriteResult<TouchedMemories>> {
        let values = if rejects { self.rejected_values(vec![id]).await? } else { Vec::new() };
        let rejects = values.first().map(|(_, value)| *value);
        self.submit(DeleteMemory { id, rejects }).await
    }

    /// The vector of a text, of length 1, and the name of the model.
    pub(crate) async fn embedding(&self, text: &str) -> ApiResult<(Vec<f32>, String)> {
        let vector = self.service.embed(&self.caller, TextRole::Passage, text).await?;
        let cluster = self.read(|reader, _| reader.cluster()).await?;
        let cluster = cluster.ok_or_else(ApiError::internal)?;
        Ok((components(&vector)?, cluster.model.name.clone()))
    }

    /// Reads a memory.
    pub(crate) async fn memory(&self, id: MemoryId) -> ApiResult<MemoryRecord> {
        Ok(self.find_memory(id, |_, _, record| Ok(Some(record))).await?.0)
    }

    /// Reads a memory that may not exist.
    pub(crate) async fn existing(&self, id: MemoryId) -> ApiResult<Option<MemoryRecord>> {
        match self.memory(id).await {
            Ok(record) => Ok(Some(record)),
            Err(error) if error.code == "not_found" => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// A memory with the texts that it had before.
    pub(crate) async fn versions(&self, id: MemoryId) -> ApiResult<(MemoryRecord, Versions)> {
        let read = move |reader: &Reader, caller: &Caller, record| {
            Ok(Some((record, reader.versions(caller.tenant, id)?)))
        };
        Ok(self.find_memory(id, read).await?.0)
    }

    /// The text of a memory at a time.
    pub(crate) async fn label_at(&self, record: &MemoryRecord, at: Timestamp) -> ApiResult<String> {
        let (_, versions) = self.versions(record.id).await?;
        let since = versions.since.unwrap_or(record.memory.created_at);
        if at >= since {
            return Ok(record.memory.label.clone());
        }
        let version = versions.at(at).map(|version| version.label.clone());
        version.ok_or_else(|| {
            let message =
                "the memory did not exist at that time, or its text of then is kept no more";
            ApiError::new(ErrorKind::NotFound, "no_such_version", message)
        })
    }

    /// Reads memories after all acknowledged writes. All must exist.
    pub(crate) async fn present_memories(
        &self,
        ids: Vec<MemoryId>,
    ) -> ApiResult<Vec<MemoryRecord>> {
        self.service.await_linearizable().await?;
        let reads = ids.into_iter().map(|id| self.memory(id));
        stream::iter(reads).buffered(1).try_collect().await
    }

    /// Which of these ids are taken, after all acknowledged writes: also by what waits in quarantine.
    pub(crate) async fn taken(&self, ids: Vec<MemoryId>) -> ApiResult<BTreeSet<MemoryId>> {
        self.service.await_linearizable().await?;
        let read = move |reader: &Reader, caller: &Caller| {
            let mut taken = BTreeSet::new();
            for id in ids {
                if reader.memory(caller.tenant, id)?.is_some() {
                    taken.insert(id);
                }
            }
            Ok(taken)
        };
        self.read(read).await
    }

    /// Reads memories after all acknowledged writes: those that exist, and are open to the caller.
    pub(crate) async fn existing_memories(
        &self,
        ids: Vec<MemoryId>,
    ) -> ApiResult<Vec<MemoryRecord>> {
        self.service.await_linearizable().await?;
        let read = move |reader: &Reader, caller: &Caller| {
            let found = ids.iter().filter_map(|id| reader.get(caller.tenant, *id).transpose());
            let is_open = |record: &storage::Result<MemoryRecord>| {
                record.as_ref().map_or(true, |it| is_open(&it.memory, caller))
            };
            found.filter(is_open).collect()
        };
        self.read(read).await
    }

    /// Reads all memories that match after all acknowledged writes, the oldest first. Rejects more
    /// than one response has room for.
    pub(crate) async fn all_memories(&self, filter: Filter) -> ApiResult<Vec<MemoryRecord>> {
        self.service.await_linearizable().await?;
        let mut request = ListRequest {
            filter,
            sort: Sort::CreatedAt,
            order: Order::Ascending,
            limit: ALL_PAGE,
            ..ListRequest::default()
        };
        let (mut all, mut bytes) = (Vec::new(), 0);
        loop {
            let page = self.list(request.clone()).await?;
            bytes +=
                page.memories.iter().map(|it| it.memory.stored_bytes() as usize).sum::<usize>();
            if page.total > ALL_MAX || bytes > TEXT_BYTES_MAX {
                let message = "there are too many memories for one response: name or search some";
                return Err(ApiError::new(ErrorKind::TooLarge, "too_large", message));
            }
            all.extend(page.memories);
            request.after = page.next;
            if request.after.is_none() {
                return Ok(all);
            }
        }
    }

    /// Groups of memories that can be folded.
    pub(crate) async fn fold_candidates(
        &self,
        filter: Filter,
        after: Option<MemoryId>,
        limit: usize,
    ) -> ApiResult<FoldCandidates> {
        let read = move |reader: &Reader, caller: &Caller| {
            reader.fold_candidates(caller.tenant, &filter, after, limit)
        };
        self.read(read).await
    }

    /// Defects among the memories after one.
    pub(crate) async fn hygiene(
        &self,
        after: Option<MemoryId>,
        examples: usize,
    ) -> ApiResult<Hygiene> {
        self.read(move |reader, caller| reader.hygiene(caller.tenant, after, examples)).await
    }

    /// Reads what belongs to a memory. One that the caller may not access is not found.
    pub(super) async fn find_memory<T: Send + 'static>(
        &self,
        id: MemoryId,
        find: impl Fn(&Reader, &Caller, MemoryRecord) -> storage::Result<Option<T>>
        + Clone
        + Send
        + 'static,
    ) -> ApiResult<(T, Access)> {
        let found = self.find(move |reader, caller| match reader.get(caller.tenant, id)? {
            Some(record) if is_open(&record.memory, caller) => find(reader, caller, record),
            _ => Ok(None),
        });
        Ok(found.await?.ok_or(Rejection::NotFound)?)
    }

    /// Searches, and counts the first results as recalls. A query without words returns the hottest
    /// memories, and recalls none: they would stay hot by being hot. Sets the vector of the request.
    pub(crate) async fn search(&self, request: SearchRequest) -> ApiResult<SearchResults> {
        let has_words = !request.query.trim().is_empty();
        let results = self.find_hits(request).await?;
        self.service.count_search(&self.caller, &results.hits, has_words);
        Ok(results)
    }

    /// The results of a search, which counts as none.
    pub(super) async fn find_hits(&self, mut request: SearchRequest) -> ApiResult<SearchResults> {
        let text = request.query.trim();
        if !text.is_empty() {
            let vector = self.service.embed(&self.caller, TextRole::Query, text).await?;
            (request.vector, request.model) = (Some(components(&vector)?), Some(vector.model));
        }
        request.reading = self.service.embedder.reading(&request.query);
        let has_words = request.vector.is_some();
        let (query, limit) = (request.query.clone(), request.limit);
        let reranker = self.service.reranker.get().filter(|_| has_words);
        request.candidates = if reranker.is_some() { RERANKED } else { 0 };
        let mut results =
            self.read(move |reader, caller| reader.search(caller.tenant, &request)).await?;
        // If the time comes before the score, the query has nothing to compare texts with.
        if let Some(reranker) = reranker.filter(|_| !results.window_first) {
            rerank(&**reranker, query, &mut results.hits).await;
        }
        results.hits.truncate(limit);
        Ok(results)
    }

    /// The context of an agent's turn: pinned first, then the hottest, within the tenant's
    /// limits of memories and characters.
    pub(crate) async fn hot_context(&self, request: HotRequest) -> ApiResult<Vec<MemoryRecord>> {
        let active = self.service.reader.thermo(self.caller.tenant).active_index;
        let budget = request.budget_chars.unwrap_or(active.context_budget_chars as usize);
        let limit = request.limit.min(active.max_nodes as usize);
        let budget_chars = Some(budget);
        self.hottest(HotRequest { pinned_first: true, limit, budget_chars, ..request }).await
    }

    pub(crate) async fn list(&self, request: ListRequest) -> ApiResult<Page> {
        self.read(move |reader, caller| reader.list(caller.tenant, &request)).await
    }

    pub(crate) async fn hottest(&self, request: HotRequest) -> ApiResult<Vec<MemoryRecord>> {
        self.read(move |reader, caller| reader.hottest(caller.tenant, &request)).await
    }

    /// Sets the vector of a new memory and the edges to create with it.
    async fn prepare(&self, mut new: NewMemory) -> ApiResult<NewMemory> {
        new.vector = self.service.embed(&self.caller, TextRole::Passage, &new.label).await?;
        let NewMemory { namespace, label, key_points, vector, .. } = &new;
        new.suggestions = self.suggestions(namespace, label, key_points, vector)?;
        Ok(new)
    }

    /// The edges that a memory with these texts should get.
    fn suggestions(
        &self,
        namespace: &str,
        label: &str,
        key_points: &[String],
        vector: &Vector,
    ) -> ApiResult<Vec<Suggestion>> {
        let (reader, tenant, unit) =
            (&self.service.reader, self.caller.tenant, components(vector)?);
        // It reads the indexes only, for a bounded time, but may wait for a writer.
        let suggest = || reader.suggestions(tenant, namespace, label, key_points, &unit);
        Ok(tokio::task::block_in_place(suggest))
    }
}

/// Whether all edges of a memory lead to existing memories.
pub(crate) struct EdgeCheck {
    pub(crate) edges: usize,
    pub(crate) neighbours: usize,
    pub(crate) verified: bool,
}

impl Session {
    /// The neighbours of a memory over at most `depth` edges, the nearest first.
    pub(crate) async fn neighbours(
        &self,
        id: MemoryId,
        depth: u32,
        limit: usize,
    ) -> ApiResult<Vec<Neighbour>> {
        let found = self.find_memory(id, move |reader, caller, _| {
            reader.neighbours(caller.tenant, id, &caller.access, depth, limit)
        });
        Ok(found.await?.0)
    }

    /// The hottest memories and the edges between them.
    pub(crate) async fn graph_view(&self, request: HotRequest) -> ApiResult<GraphView> {
        self.read(move |reader, caller| reader.graph_view(caller.tenant, &request)).await
    }

    /// Checks that all edges of a memory lead to existing memories. Edges to inaccessible
    /// memories do not exist for the caller.
    pub(crate) async fn check_edges(&self, id: MemoryId) -> ApiResult<EdgeCheck> {
        let check = self.find_memory(id, move |reader, caller, _| {
            let (mut edges, mut verified, mut others) = (0, true, HashSet::new());
            for edge in reader.edges(caller.tenant, id)? {
                let other = edge.other(id);
                match reader.get(caller.tenant, other)? {
                    None => verified = false,
                    Some(found) if !is_open(&found.memory, caller) => continue,
                    Some(_) => drop(others.insert(other)),
                }
                edges += 1;
            }
            Ok(Some(EdgeCheck { edges, neighbours: others.len(), verified }))
        });
        Ok(check.await?.0)
    }
}

/// Whether a caller may read a memory: in quarantine, only admins do.
fn is_open(memory: &Memory, caller: &Caller) -> bool {
    caller.access.allows_memory(memory)
        || caller.role >= Role::Admin && caller.access.allows(&memory.namespace)
}

/// Orders the first results by their relevance, if the reranker responds.
async fn rerank(reranker: &dyn Reranker, query: String, hits: &mut [Hit]) {
    let _span = child("rerank");
    let first = hits.len().min(RERANKED);
    let first = &mut hits[..first];
    if first.len() < 2 {
        return;
    }
    let text = |hit: &Hit| {
        let label = &hit.record.memory.label;
        label[..label.floor_char_boundary(RERANKED_BYTES_MAX)].to_owned()
    };
    let texts = first.iter().map(text).collect();
    let Some(relevances) = reranker.relevances(query, texts).await else { return };
    for (hit, relevance) in first.iter_mut().zip(relevances) {
        hit.relevance = Some(relevance);
    }
    // What another memory replaces is no better for saying it well.
    let key = |hit: &Hit| (hit.record.memory.superseded_by.is_some(), hit.relevance.unwrap_or(0.0));
    first.sort_by(|left, right| {
        let (left, right) = (key(left), key(right));
        left.0.cmp(&right.0).then(right.1.total_cmp(&left.1))
    });
}
