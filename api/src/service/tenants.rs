//! For the operator: the tenants of the cluster and their tiers, the audit log, and the embedding model.
//! Every change goes through the log, so it holds on all nodes.

use std::sync::Arc;

use storage::command::{
    ClusterAction, CreateKey, CreateTenant, DeleteTenant, NewTenant, PutTier, RecordOperation,
    StartModelChange, UpdateTenant,
};
use storage::model::api_key::{KeyText, NewApiKey};
use storage::model::audit::{AuditAction, AuditChain};
use storage::model::cluster::Cluster;
use storage::model::cluster::Models;
use storage::model::id::{KeyId, TenantId};
use storage::model::tenant::{Limit, Limits, Role, Tenancy, Tenant, Tier};
use storage::{
    AuditPage, AuditRequest, ClusterRule, Command, Counts, Reply, ReplyValue, TenantDeleted,
    TenantPatch, TenantReply, View,
};
use tokio::time::Instant;

use crate::admission::budget::KeyOfTenant;
use crate::error::{ApiError, ApiResult, ErrorKind};
use crate::limits::{APPLY_WAIT, DEADLINE};
use crate::service::access::random_bytes;
use crate::service::{Operator, ReadBy, Session};

/// Name of the first key of a tenant.
const FIRST_KEY: &str = "admin";

/// A tenant, with its limits and what it uses of them.
pub(crate) struct TenantSummary {
    pub(crate) id: TenantId,
    pub(crate) row: Tenant,
    /// Each limit, and what is used of it; `None` where it is not counted.
    pub(crate) limits: Vec<(Limit, Option<u64>, Option<u64>)>,
}

/// What was deleted with a tenant.
pub(crate) struct DeletedTenant {
    pub(crate) counts: Counts,
    /// Rows of the tenant that are left on this node.
    pub(crate) remaining: u64,
}

impl TenantSummary {
    fn new(
        id: TenantId,
        row: Tenant,
        tenancy: &Tenancy,
        used: impl Fn(Limit) -> Option<u64>,
    ) -> Self {
        let limits = Limit::ALL.map(|limit| (limit, row.limit(tenancy, limit), used(limit)));
        Self { id, row, limits: limits.into() }
    }
}

impl Operator {
    /// All tenants in order of their ids.
    pub(crate) async fn tenants(&self) -> ApiResult<Vec<TenantSummary>> {
        self.read_for_operator(|reader| {
            let tenancy = reader.tenancy()?;
            let all = reader.tenants().into_iter();
            let summary = |id| summary_of(reader, &tenancy, id).transpose();
            all.filter_map(summary).collect()
        })
        .await
    }

    /// A tenant.
    pub(crate) async fn tenant(&self, id: TenantId) -> ApiResult<TenantSummary> {
        let read = move |reader: &storage::Reader| summary_of(reader, &reader.tenancy()?, id);
        let none = || ApiError::new(ErrorKind::NotFound, "not_found", "this tenant does not exist");
        self.read_for_operator(read).await?.ok_or_else(none)
    }

    /// Creates a tenant. Returns it, and the text of its first key, that of an admin. Nothing that
    /// may fail comes after the write: the text would be lost.
    pub(crate) async fn create_tenant(
        &self,
        tenant: NewTenant,
    ) -> ApiResult<(TenantSummary, KeyText)> {
        let (key_id, text) = KeyText::from_random(random_bytes());
        let key = NewApiKey::new(FIRST_KEY, Role::Admin, &text);
        let create = CreateTenant { tenant, key_id, key };
        let TenantReply { id, tenant } = self.submit_for_operator(create).await?;
        let used = |limit| match limit {
            Limit::RequestsPerMinute | Limit::Streams => None,
            other => Some(u64::from(other == Limit::Keys)),
        };
        let tenancy = self.service.reader.present_tenancy();
        Ok((TenantSummary::new(id, *tenant, &tenancy, used), text))
    }

    /// Creates an admin key of a tenant, whose own may be lost. Returns its id and its text.
    pub(crate) async fn create_admin_key(&self, id: TenantId) -> ApiResult<(KeyId, KeyText)> {
        let (key_id, text) = KeyText::from_random(random_bytes());
        let key = NewApiKey::new(FIRST_KEY, Role::Admin, &text);
        self.submit_command(Command::of_tenant(id, CreateKey { id: key_id, key })).await?;
        Ok((key_id, text))
    }

    pub(crate) async fn update_tenant(&self, id: TenantId, patch: TenantPatch) -> ApiResult<()> {
        self.submit_for_operator(UpdateTenant { id, patch }).await.map(drop)
    }

    /// Deletes a suspended tenant with this name, and counts what is left of it.
    pub(crate) async fn delete_tenant(
        &self,
        id: TenantId,
        name: String,
    ) -> ApiResult<DeletedTenant> {
        let TenantDeleted(counts) = self.submit_for_operator(DeleteTenant { id, name }).await?;
        let read = move |reader: &storage::Reader| reader.tenant_rows(id);
        Ok(DeletedTenant { counts, remaining: self.read_for_operator(read).await? })
    }

    pub(crate) async fn tiers(&self) -> ApiResult<Vec<Tier>> {
        self.read_for_operator(|reader| Ok(reader.tenancy()?.tiers)).await
    }

    /// Creates or replaces a tier; without limits, deletes it.
    pub(crate) async fn put_tier(
        &self,
        name: String,
        limits: Option<Limits>,
        becomes_default: bool,
    ) -> ApiResult<Tier> {
        self.submit_for_operator(PutTier { name, limits, becomes_default }).await
    }

    /// Submits a command of the operator, and waits for a while until this node reflects it.
    pub(crate) async fn submit_for_operator<C>(&self, command: C) -> ApiResult<C::Reply>
    where
        C: ClusterRule + Into<ClusterAction>,
    {
        let reply = self.submit_command(Command::of_cluster(command)).await?;
        C::Reply::from_reply(reply).ok_or_else(ApiError::internal)
    }

    async fn submit_command(&self, command: Command) -> ApiResult<Reply> {
        let command = Command { source: self.request.address(), ..command };
        let raft = &self.service.raft;
        let outcome = raft.submit(command, Instant::now() + DEADLINE).await?;
        let accepted = outcome.accepted?;
        // The write is done, also if this node reflects it later.
        let _: Result<(), _> = raft.wait_applied(outcome.index, Instant::now() + APPLY_WAIT).await;
        Ok(accepted.reply)
    }

    /// A read of the operator, which waits for no key of a tenant: of the newest state.
    pub(super) async fn read_for_operator<T: Send + 'static>(
        &self,
        read: impl FnOnce(&storage::Reader) -> storage::Result<T> + Send + 'static,
    ) -> ApiResult<T> {
        self.service.await_linearizable().await?;
        let by = ReadBy { key: OPERATOR, request_id: Some(&self.request.id) };
        self.service.read_always(&self.service.reads, by, read).await
    }
}

/// The operator, where keys take turns. Tenants begin with 1.
const OPERATOR: KeyOfTenant = (TenantId::OPERATOR, KeyId([0; 8]));

fn summary_of(
    reader: &storage::Reader,
    tenancy: &Tenancy,
    id: TenantId,
) -> storage::Result<Option<TenantSummary>> {
    let Some(row) = reader.tenant(id)? else { return Ok(None) };
    let (counts, keys) = (reader.counts(id), reader.key_count(id)?);
    let used = |limit| match limit {
        Limit::Memories => Some(counts.memories),
        Limit::Bytes => Some(counts.bytes),
        Limit::Edges => Some(counts.edges),
        Limit::Keys => Some(keys),
        Limit::Triggers => Some(reader.triggers(id).len() as u64),
        Limit::RequestsPerMinute | Limit::Streams => None,
    };
    Ok(Some(TenantSummary::new(id, row, tenancy, used)))
}

impl Session {
    /// A page of a chain of the tenant.
    pub(crate) async fn audit(
        &self,
        chain: AuditChain,
        request: AuditRequest,
    ) -> ApiResult<AuditPage> {
        self.read(move |reader, caller| reader.audit(caller.tenant, chain, &request)).await
    }
}

impl Operator {
    /// A page of a chain of the operator.
    pub(crate) async fn audit(
        &self,
        chain: AuditChain,
        request: AuditRequest,
    ) -> ApiResult<AuditPage> {
        let read =
            move |reader: &storage::Reader| reader.audit(TenantId::OPERATOR, chain, &request);
        self.read_for_operator(read).await
    }

    /// Records an operation on the cluster.
    pub(crate) async fn record_operation(
        &self,
        action: AuditAction,
        target: String,
        fields: Vec<(String, String)>,
    ) -> ApiResult<()> {
        self.submit_for_operator(RecordOperation { action, target, fields }).await.map(drop)
    }
}

fn rejected(why: String) -> ApiError {
    ApiError::new(ErrorKind::Conflict, "rejected", why)
}

impl Operator {
    /// Begins to change the model to that in a folder, which is the same on every node.
    pub(crate) async fn set_model(&self, folder: String) -> ApiResult<()> {
        let (embedder, path) = (Arc::clone(&self.service.embedder), folder.clone());
        // It reads the whole files of the model.
        let read = tokio::task::spawn_blocking(move || embedder.model_in(&path)).await;
        let model = read.map_err(|_| ApiError::internal())?;
        let model = model.map_err(rejected)?;
        self.submit_for_operator(StartModelChange { model, folder }).await.map(drop)
    }

    /// The cluster, its models, how many memories have a vector of the next one, and all memories.
    pub(crate) async fn models(&self) -> ApiResult<(Arc<Cluster>, Models, u64, u64)> {
        let reader = self.service.reader.clone();
        let read = move || {
            let (cluster, models) = (reader.cluster()?, reader.models()?);
            let memories = reader.tenants().into_iter().map(|it| reader.counts(it).memories).sum();
            let embedded = if models.next.is_some() { reader.next_vectors()? } else { 0 };
            Ok::<_, storage::Error>((cluster, models, embedded, memories))
        };
        let read = tokio::task::spawn_blocking(read).await.map_err(|_| ApiError::internal())?;
        let (cluster, models, embedded, memories) = read.map_err(|error| {
            tracing::error!(%error, "the models cannot be read");
            ApiError::internal()
        })?;
        Ok((cluster.ok_or_else(ApiError::internal)?, models, embedded, memories))
    }
}
