//! The caller of a request.

use crate::model::access::Access;
use crate::model::id::TenantId;
use crate::model::tenant::{KeyId, Role};

/// The caller of a request, from its key. The tenant comes from no other part of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// The tenant.
    pub tenant: TenantId,
    /// The key.
    pub key: KeyId,
    /// Its role.
    pub role: Role,
    /// Name of the key.
    pub name: String,
    /// Namespace of the key, if it has one.
    pub namespace: Option<String>,
    /// The namespaces that it may use.
    pub access: Access,
}
