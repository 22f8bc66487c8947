//! Bulk writes: the same action on many memories, each by itself. The receiving node submits
//! bounded commands until all are done or the time is over. A rejection of one memory does not
//! affect the others.
//!
//! A purge deletes memories for good with everything that the state tells of them, and reads the state once
//! more to prove it.

use std::collections::{HashMap, HashSet, VecDeque};

use storage::command::{
    BulkFilter, DeleteMemories, PurgeMemories, RemoveTraces, ReplayDeliveries, ReplayDelivery,
    RestoreMemories, TRACES_MAX, TenantAction, TraceRows, UpdateMemories,
};
use storage::model::api_key::ApiKey;
use storage::model::id::{KeyId, MemoryId};
use storage::model::memory::Origin;
use storage::model::trigger::DeliveryId;
use storage::model::trigger::Notification;
use storage::{
    BULK_MAX, CREATE_MAX, CREATE_TEXT_BYTES_MAX, Filter, MemoryPatch, Outcomes, QuarantineFilter,
    Reader, Rejection, ReplayedDeliveries, TenantRule, TierFilter, TraceScope, Traces, View,
};
use tokio::time::Instant;

use crate::error::{ApiError, ApiResult};
use crate::limits::{BULK_DEADLINE, BULK_ERRORS_MAX, NOTIFICATIONS_MAX};
use crate::service::Session;
use crate::service::freshness::Freshness;
use crate::service::node::TextRole;
use crate::service::writes::WriteResult;

/// The memories of a bulk write.
#[derive(Debug, Clone, Default)]
pub(crate) struct BulkTargets {
    /// Well-formed ids.
    pub(crate) ids: VecDeque<MemoryId>,
    /// Texts that are no id: no memory has them.
    pub(crate) unknown: Vec<String>,
}

#[derive(Default)]
pub(crate) struct BulkResult {
    pub(crate) freshness: Freshness,
    pub(crate) done: usize,
    /// Id and reason of the first rejections.
    pub(crate) errors: Vec<String>,
    pub(crate) rejected: usize,
    /// Memories that were not reached, or whose outcome is unknown.
    pub(crate) remaining: usize,
    /// The first notifications of the triggers that fired.
    pub(crate) notifications: Vec<Notification>,
}

/// How many of the first memories one command creates, by the bytes of their texts: at least one.
pub(crate) fn fitting<T>(memories: &[T], text_bytes: impl Fn(&T) -> usize) -> usize {
    let mut room = CREATE_TEXT_BYTES_MAX;
    let fits = |memory: &&T| {
        let rest = room.checked_sub(text_bytes(memory));
        room = rest.unwrap_or(0);
        rest.is_some()
    };
    memories.iter().take(CREATE_MAX).take_while(fits).count().max(1)
}

impl BulkResult {
    /// Adds the result of another write of the same request.
    pub(crate) fn add(&mut self, later: Self) {
        self.freshness = later.freshness;
        self.done += later.done;
        self.errors.extend(later.errors);
        self.errors.truncate(BULK_ERRORS_MAX);
        self.rejected += later.rejected;
        self.remaining += later.remaining;
        self.notifications.extend(later.notifications);
        self.notifications.truncate(NOTIFICATIONS_MAX);
    }
}

impl Session {
    /// Changes memories alike. Sets the vector of a new label.
    pub(crate) async fn update_memories(
        &self,
        targets: BulkTargets,
        patch: MemoryPatch,
    ) -> ApiResult<BulkResult> {
        let guard = self.guard();
        let is_guarded = |namespace: &String| guard.rules.iter().any(|it| it.covers(namespace));
        if patch.namespace.as_ref().is_some_and(is_guarded) {
            let message = "the guard has rules for this namespace: move memories one at a time";
            return Err(Rejection::WrongState(message.into()).into());
        }
        let sets_texts = patch.label.is_some() || !patch.details.is_empty();
        let mut patches = match sets_texts && !guard.rules.is_empty() {
            true => {
                // Each namespace may have rules of its own.
                let ids = targets.ids.iter().copied().collect();
                let present = self.existing_memories(ids).await?.into_iter();
                let namespaces = present.map(|record| record.memory.namespace).collect();
                let examine = || Self::examine_for(&guard, &patch, namespaces);
                tokio::task::block_in_place(examine)?
            }
            false => {
                let mut patch = patch;
                let examine = || Self::examine_texts(guard.detector(""), &mut patch);
                tokio::task::block_in_place(examine)?;
                vec![patch]
            }
        };
        for patch in &mut patches {
            if let Some((label, vector)) = &mut patch.label {
                *vector = self.service.embed(&self.caller, TextRole::Passage, label).await?;
            }
        }
        let update = |ids| UpdateMemories { ids, patches: patches.clone() };
        self.for_each(targets, Some(guard.version), update).await
    }

    /// Deletes memories: of these, or of all, those that match a filter. Without both, the
    /// request is rejected. `home` is the namespace of the request's header.
    pub(crate) async fn delete_memories(
        &self,
        targets: Option<BulkTargets>,
        mut filter: BulkFilter,
        home: Option<String>,
        rejects: bool,
    ) -> ApiResult<BulkResult> {
        let targets = match targets {
            Some(targets) => {
                filter.namespace = filter.namespace.filter(|name| name != "*");
                targets
            }
            None if filter == BulkFilter::default() => {
                let message = "is required, unless memory_type or namespace selects the memories";
                return Err(ApiError::invalid("ids", message));
            }
            None => {
                self.request.check_not_once()?;
                filter.namespace = self.read_namespace(filter.namespace, home)?;
                self.matching(filter.clone()).await?
            }
        };
        let values: HashMap<_, _> = match rejects {
            true => self.rejected_values(targets.ids.clone().into()).await?.into_iter().collect(),
            false => HashMap::new(),
        };
        let delete = |ids: Vec<MemoryId>| {
            let rejects = ids.iter().filter_map(|id| Some((*id, *values.get(id)?))).collect();
            DeleteMemories { ids, filter: filter.clone(), rejects }
        };
        self.for_each(targets, None, delete).await
    }

    pub(crate) async fn restore_memories(&self, targets: BulkTargets) -> ApiResult<BulkResult> {
        self.for_each(targets, None, RestoreMemories).await
    }

    /// The memories that match a filter, as of everything acknowledged so far.
    async fn matching(&self, filter: BulkFilter) -> ApiResult<BulkTargets> {
        self.service.await_linearizable().await?;
        let filter = Filter {
            memory_type: filter.memory_type,
            namespace: filter.namespace,
            access: self.caller.access.clone(),
            tier: TierFilter::All,
            ..Filter::default()
        };
        let (service, tenant) = (&self.service, self.caller.tenant);
        let ids = move |reader: &Reader| Ok(reader.ids(tenant, &filter));
        let ids = service.read_always(&service.reads, self.read_by(), ids).await?;
        Ok(BulkTargets { ids: ids.into(), unknown: Vec::new() })
    }

    /// Submits commands for all targets, as many as it takes.
    pub(super) async fn for_each<C>(
        &self,
        targets: BulkTargets,
        guard: Option<u64>,
        command: impl Fn(Vec<MemoryId>) -> C,
    ) -> ApiResult<BulkResult>
    where
        C: TenantRule<Reply = Outcomes> + Into<TenantAction>,
    {
        let deadline = Instant::now() + BULK_DEADLINE;
        let BulkTargets { ids: mut remaining, unknown } = targets;
        let mut result = BulkResult { freshness: self.service.present(), ..BulkResult::default() };
        unknown.iter().for_each(|text| result.reject(text, &Rejection::NotFound));
        while !remaining.is_empty() && Instant::now() < deadline {
            let chunk: Vec<MemoryId> = remaining.iter().take(BULK_MAX).copied().collect();
            let submit = async {
                let _turn = self.large_write_turn(chunk.len(), 0).await?;
                self.submit_examined(command(chunk), guard).await
            };
            let done = match submit.await {
                Ok(done) => done,
                // A repetition, and what this part did was too much to be kept.
                Err(error) if error.code == "already_done" => return Err(error),
                // What is done is reported; the caller repeats the request for the rest.
                Err(_) if result.done + result.rejected > unknown.len() => break,
                Err(error) => return Err(error),
            };
            let outcomes = done.value;
            if outcomes.is_empty() || outcomes.len() > remaining.len() {
                return Err(ApiError::internal());
            }
            result.freshness = done.freshness;
            let room = NOTIFICATIONS_MAX - result.notifications.len();
            result.notifications.extend(done.notifications.into_iter().take(room));
            for (id, outcome) in remaining.drain(..outcomes.len()).zip(outcomes) {
                match outcome {
                    Ok(()) => result.done += 1,
                    Err(rejection) => result.reject(&id.to_string(), &rejection),
                }
            }
        }
        result.remaining = remaining.len();
        Ok(result)
    }

    /// Makes dead letters pending again: one, or all. Returns their number, and whether more
    /// remain.
    pub(crate) async fn replay_deliveries(
        &self,
        id: Option<DeliveryId>,
    ) -> ApiResult<WriteResult<(usize, bool)>> {
        let deadline = Instant::now() + BULK_DEADLINE;
        let mut done = match id {
            Some(id) => self.submit(ReplayDelivery(id)).await?,
            None => self.submit(ReplayDeliveries(None)).await?,
        };
        while let Some(after) = done.value.next
            && Instant::now() < deadline
        {
            // What is done is reported; the caller repeats the request for the rest.
            let Ok(mut next) = self.submit(ReplayDeliveries(Some(after))).await else { break };
            next.value.count += done.value.count;
            next.value.is_limited |= done.value.is_limited;
            done = next;
        }
        let ReplayedDeliveries { count, next, is_limited } = done.value;
        let (freshness, notifications) = (done.freshness, done.notifications);
        Ok(WriteResult { freshness, value: (count, next.is_some() || is_limited), notifications })
    }
}

impl BulkResult {
    fn reject(&mut self, id: &str, rejection: &Rejection) {
        self.rejected += 1;
        if self.errors.len() < BULK_ERRORS_MAX {
            self.errors.push(format!("{id}: {rejection}"));
        }
    }
}

/// What a purge found, and what it left.
pub(crate) struct Purge {
    pub(crate) freshness: Freshness,
    pub(crate) found: Traces,
    /// `None` for a dry run.
    pub(crate) remaining: Option<Traces>,
}

impl Session {
    /// Deletes the memories of a namespace, of an origin, or of both, with all traces. Locked ones,
    /// too. Takes out what was written meanwhile with a second pass.
    pub(crate) async fn purge(
        &self,
        namespace: Option<String>,
        origin: Origin,
        is_dry_run: bool,
    ) -> ApiResult<Purge> {
        if !is_dry_run {
            self.request.check_not_once()?;
        }
        let namespace = self.read_namespace(namespace, None)?;
        let scope = self.trace_scope(namespace, origin).await?;
        let found = self.traces(&scope).await?;
        if is_dry_run {
            return Ok(Purge { freshness: self.service.present(), found, remaining: None });
        }
        self.remove_traces(found.rows.clone()).await?;
        let ids = scope.ids.iter().copied().collect();
        let targets = BulkTargets { ids, unknown: Vec::new() };
        self.for_each(targets, None, PurgeMemories).await?;
        self.remove_traces(self.traces(&scope).await?.rows).await?;
        let remaining = self.traces(&scope).await?;
        Ok(Purge { freshness: self.service.present(), found, remaining: Some(remaining) })
    }

    /// The memories of a namespace and an origin, and whose other traces are meant.
    async fn trace_scope(
        &self,
        namespace: Option<String>,
        origin: Origin,
    ) -> ApiResult<TraceScope> {
        self.service.await_linearizable().await?;
        let access = self.caller.access.clone();
        self.read(move |reader, caller| {
            let is_agents = origin != Origin::default();
            let mut keys = HashSet::new();
            if namespace.is_none() {
                let is_named = |(id, key): &(KeyId, ApiKey)| {
                    origin.key.is_none_or(|named| named == *id)
                        && origin.agent.as_ref().is_none_or(|name| *name == key.name)
                };
                let named = reader.api_keys(caller.tenant)?.into_iter().filter(is_named);
                keys.extend(
                    named.map(|(id, _)| id).chain(origin.key.filter(|_| origin.agent.is_none())),
                );
            }
            let filter = Filter {
                quarantine: QuarantineFilter::With,
                namespace: namespace.clone(),
                origin: origin.clone(),
                access,
                tier: TierFilter::All,
                ..Filter::default()
            };
            let ids = reader.ids(caller.tenant, &filter).into_iter().collect();
            Ok(TraceScope { ids, namespace: namespace.filter(|_| !is_agents), keys })
        })
        .await
    }

    /// The traces after all acknowledged writes.
    async fn traces(&self, scope: &TraceScope) -> ApiResult<Traces> {
        self.service.await_linearizable().await?;
        let scope = scope.clone();
        self.read(move |reader, caller| reader.traces(caller.tenant, &scope)).await
    }

    async fn remove_traces(&self, rows: TraceRows) -> ApiResult<()> {
        let TraceRows { events, deliveries, receipts, tombstones } = &rows;
        let numbers = [events.len(), deliveries.len(), receipts.len(), tombstones.len()];
        let most = numbers.into_iter().max().unwrap_or_default();
        for at in 0..most.div_ceil(TRACES_MAX) {
            let rows = TraceRows {
                events: part(&rows.events, at),
                deliveries: part(&rows.deliveries, at),
                receipts: part(&rows.receipts, at),
                tombstones: part(&rows.tombstones, at),
            };
            self.submit(RemoveTraces(rows)).await?;
        }
        Ok(())
    }
}

/// The rows of a kind for one of several commands.
fn part<T: Clone>(rows: &[T], at: usize) -> Vec<T> {
    rows.chunks(TRACES_MAX).nth(at).unwrap_or_default().to_vec()
}
