//! Changes of the embedding model on this node. Each node loads the next model. The leader embeds all
//! memories by it, in the background, and submits the switch. Then each node brings it into use.
//!
//! # Algorithm
//! The leader passes over all memories, and embeds those that lack a vector of the next model. Memories
//! that clients store meanwhile are found by the next pass. When a pass finds few, or not clearly fewer
//! than the one before, further ones would gain nothing. If all members have the model, new texts are
//! then rejected (503) for a moment. A pass that finds none proves that all memories have a vector, so
//! the switch follows. Another leader continues with a pass of its own.
//!
//! # Start
//! The state of a node that was killed may be of the time before a switch, which the log has. A node
//! whose configured model is another one therefore stops only once its state was the newest.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use api::{EmbedError, EmbedScope, TextRole};
use futures::future::try_join_all;
use raft::Handle;
use storage::command::{
    BeginModelSwitch, ClusterAction, PostponeModelSwitch, RecordVectors, ReportModelReady,
    SwitchModel,
};
use storage::model::cluster::Model;
use storage::model::cluster::{EmbeddedMemory, NextModel};
use storage::model::id::{MemoryId, TenantId};
use storage::model::vector::{ModelId, Vector};
use storage::{Command, Reader, View};
use tokio::time::Instant;

use crate::config::Config;
use crate::embed::{Embedders, Pool};
use crate::engine::{Engine, model_mismatch};
use crate::error::text;

const INTERVAL: Duration = Duration::from_millis(100);
/// Pause after a pass that was given up, or an attempt to switch that some members are not ready for.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// Memories that are embedded together.
const PAGE: usize = 64;
/// Memories of a pass that are few. While new texts are rejected, another pass embeds those that were
/// stored meanwhile.
const NEAR_MAX: usize = 256;
/// Time for which new texts are rejected at most, before they are accepted again for a while.
const SWITCH_MAX: Duration = Duration::from_secs(60);
const SUBMIT_TIMEOUT: Duration = Duration::from_secs(30);

pub(crate) struct ModelChanges {
    raft: Handle,
    reader: Reader,
    embedders: Arc<Embedders>,
    node: u64,
    /// Most memories per second that this node embeds as the leader.
    rate: Option<NonZeroU32>,
    /// The model that this node could not load. That is logged once.
    refused: Option<ModelId>,
    /// What the last pass found.
    last_found: Option<usize>,
}

impl ModelChanges {
    pub(crate) fn new(engine: &Engine, embedders: Arc<Embedders>, config: &Config) -> Self {
        let (raft, reader) = (engine.raft.clone(), engine.reader.clone());
        let (node, rate) = (config.node.id, config.embedder.change_per_second);
        Self { raft, reader, embedders, node, rate, refused: None, last_found: None }
    }

    /// Runs until a fault of the node.
    pub(crate) async fn run(mut self) {
        loop {
            tokio::time::sleep(INTERVAL).await;
            if let Err(error) = self.step().await {
                self.raft.fault().report(&error);
                return;
            }
        }
    }

    async fn step(&mut self) -> Result<(), String> {
        // Before the state is read.
        let was_newest = self.raft.staleness().is_some();
        let Some(cluster) = self.reader.cluster().map_err(text)? else { return Ok(()) };
        let (next, current) = (self.reader.models().map_err(text)?.next, self.embedders.model());
        if cluster.model.id != current.id {
            // The configured model may be the next one: the switch is in the log.
            let is_next = next.is_some_and(|next| next.model.id == current.id);
            return if is_next { Ok(()) } else { self.switch_to(&cluster.model, was_newest) };
        }
        let Some(next) = next else {
            self.embedders.unload();
            self.refuse(None);
            self.last_found = None;
            return Ok(());
        };
        if self.embedders.next(next.model.id).is_none() && self.refused != Some(next.model.id) {
            self.load(&next).await;
        }
        if let Some(pool) = self.embedders.next(next.model.id) {
            let found = pool.find_canaries().await;
            match found.and_then(|()| pool.verify(&next.model)) {
                Ok(()) => {
                    self.refuse(None);
                    return self.advance(&next, &pool).await;
                }
                // Its endpoint may respond later, and run the right model.
                Err(error) if self.refused != Some(next.model.id) => {
                    tracing::error!(error, "the next model is not used before it embeds texts");
                    self.refuse(Some(next.model.id));
                }
                Err(_) => tokio::time::sleep(RETRY_INTERVAL).await,
            }
        }
        if next.ready.contains(&self.node) {
            self.submit(PostponeModelSwitch(Some(self.node))).await;
        }
        Ok(())
    }

    fn switch_to(&self, model: &Model, was_newest: bool) -> Result<(), String> {
        let has_switched = self.embedders.switch_to(model);
        if has_switched {
            tracing::info!(
                model = model.name,
                "the embedding model has changed: set embedder.model to its folder"
            );
        }
        if has_switched || !was_newest {
            return Ok(());
        }
        Err(model_mismatch(model, &self.embedders.model()))
    }

    async fn load(&mut self, next: &NextModel) {
        let (embedders, of) = (Arc::clone(&self.embedders), next.clone());
        let load = move || embedders.load(&of.model, &of.folder);
        let loaded = tokio::task::spawn_blocking(load).await.map_err(text).flatten();
        match loaded {
            Ok(()) => {
                tracing::info!(model = next.model.name, "the next model is loaded");
                self.refuse(None);
            }
            Err(error) => {
                tracing::error!(error, "the next model is not loaded: it is not used before it is");
                self.refuse(Some(next.model.id));
            }
        }
    }

    fn refuse(&mut self, model: Option<ModelId>) {
        self.refused = model;
        self.raft.set_lacks_model(model.is_some());
        self.embedders.counters.refused.store(model.is_some(), Ordering::Relaxed);
    }

    /// Reports that this node has the model, and as the leader embeds memories by it.
    async fn advance(&mut self, next: &NextModel, pool: &Pool) -> Result<(), String> {
        if !next.ready.contains(&self.node) {
            self.submit(ReportModelReady(self.node)).await;
        }
        if !self.raft.is_leader() {
            self.last_found = None;
            return Ok(());
        }
        let found = self.embed_all(pool, next.is_switching).await?;
        let before = std::mem::replace(&mut self.last_found, found);
        // While clients store as fast as memories are embedded, each pass finds as many.
        let is_near = |found| found <= NEAR_MAX || before.is_some_and(|before| found > before / 2);
        let is_done = match (found, next.is_switching) {
            (Some(0), true) => self.submit(SwitchModel(next.model.clone())).await,
            (Some(found), false) if is_near(found) => self.submit(BeginModelSwitch).await,
            // Another pass.
            (Some(_), _) => true,
            (None, true) if self.raft.is_leader() => {
                tracing::warn!("the switch to the next model is postponed: new texts are accepted");
                self.embedders.counters.postponed.fetch_add(1, Ordering::Relaxed);
                self.submit(PostponeModelSwitch(None)).await;
                false
            }
            (None, _) => false,
        };
        if !is_done {
            tokio::time::sleep(RETRY_INTERVAL).await;
        }
        Ok(())
    }

    /// One pass. Returns how many memories lacked a vector; `None` if it was given up. It embeds as many
    /// as there are at its start at most: clients may store faster, and would keep it from its end.
    /// While the cluster is switching, clients wait for it: it has no rate, and is given up in time.
    async fn embed_all(&self, pool: &Pool, is_switching: bool) -> Result<Option<usize>, String> {
        fail::fail_point!("switch-late", is_switching, |_| Ok(None));
        let (rate, began) = (self.rate.filter(|_| !is_switching), Instant::now());
        let counts = self.reader.tenants().into_iter().map(|it| self.reader.counts(it).memories);
        let (mut after, mut found, most) = (None, 0, counts.sum::<u64>() as usize);
        loop {
            let started = Instant::now();
            let reader = self.reader.clone();
            let page = tokio::task::spawn_blocking(move || reader.unembedded(after, PAGE)).await;
            let page = page.map_err(text)?.map_err(text)?;
            let count = page.memories.len();
            found += count;
            if !page.memories.is_empty() {
                let embed = page
                    .memories
                    .into_iter()
                    .map(|(tenant, id, label)| embedded(pool, tenant, id, label));
                // The embedder has logged an error. A later pass tries again.
                let Ok(embedded) = try_join_all(embed).await else { return Ok(None) };
                self.embedders.counters.changed.fetch_add(embedded.len() as u64, Ordering::Relaxed);
                if !self.submit(RecordVectors(embedded)).await {
                    return Ok(None);
                }
            }
            if let Some(rate) = rate {
                let time = Duration::from_secs_f64(count as f64 / f64::from(rate.get()));
                tokio::time::sleep_until(started + time).await;
            }
            after = page.next;
            if after.is_none() || found > most {
                return Ok(Some(found));
            }
            if is_switching && began.elapsed() > SWITCH_MAX {
                return Ok(None);
            }
        }
    }

    /// Submits a command of the service. Returns whether it was accepted.
    async fn submit(&self, action: impl Into<ClusterAction>) -> bool {
        let command = Command::of_cluster(action);
        let outcome = self.raft.submit(command, Instant::now() + SUBMIT_TIMEOUT).await;
        outcome.is_ok_and(|outcome| outcome.accepted.is_ok())
    }
}

/// Embeds the text of a memory.
async fn embedded(
    pool: &Pool,
    tenant: TenantId,
    id: MemoryId,
    label: String,
) -> Result<EmbeddedMemory, EmbedError> {
    let scope = EmbedScope { tenant, key: None };
    let (model, components) = pool.embed(scope, TextRole::Passage, label.clone()).await?;
    let vector = Vector::quantise(model, &components).map_err(|fault| {
        tracing::error!(%fault, "the next model returned an unusable vector");
        EmbedError::Failed
    })?;
    Ok(EmbeddedMemory { tenant, id, label, vector })
}
