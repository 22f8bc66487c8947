//! Purges: memories are deleted for good with everything that the state tells of them, and the state
//! is read once more to prove it.

use std::collections::HashSet;

use storage::command::{PurgeMemories, RemoveTraces, TRACES_MAX, TraceRows};
use storage::model::api_key::ApiKey;
use storage::model::id::KeyId;
use storage::model::origin::Origin;
use storage::{Filter, TierFilter, TraceScope, Traces, View};

use crate::error::ApiResult;
use crate::service::Session;
use crate::service::bulk::BulkTargets;
use crate::service::freshness::Freshness;

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
        self.for_each(targets, PurgeMemories).await?;
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
        let most = rows.events.len().max(rows.deliveries.len()).max(rows.receipts.len());
        for at in 0..most.div_ceil(TRACES_MAX) {
            let rows = TraceRows {
                events: part(&rows.events, at),
                deliveries: part(&rows.deliveries, at),
                receipts: part(&rows.receipts, at),
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
