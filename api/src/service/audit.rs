//! The audit log for its readers, and operations that it records.

use storage::command::RecordOperation;
use storage::model::audit::{AuditAction, AuditChain};
use storage::model::id::TenantId;
use storage::{AuditPage, AuditRequest};

use crate::error::ApiResult;
use crate::service::{Operator, Session};

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
