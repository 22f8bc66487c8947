//! Tenants: their rows, and the roles of their API keys.

use serde::{Deserialize, Serialize};

use crate::id::Timestamp;
use crate::limits::{DEFAULT_TIER, Limit, OwnLimits, Tenancy};
use crate::retention::RetentionRule;
use crate::thermo::Thermo;

named_enum! {
    /// Whether a tenant can be used.
    pub enum TenantState {
        /// Its keys are valid.
        Active = "active",
        /// Requests with its keys are rejected. Its ticks and deliveries wait.
        Suspended = "suspended",
    }
}

/// A tenant's row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Tenant {
    /// Its name.
    pub name: String,
    /// Creation time.
    pub created_at: Timestamp,
    /// Whether it can be used.
    pub state: TenantState,
    /// Name of its tier.
    pub tier: String,
    /// Limits of its own.
    pub limits: OwnLimits,
    /// Its settings.
    pub thermo: Box<Thermo>,
    /// Its rules of retention, in order.
    pub retention: Vec<RetentionRule>,
    /// Hosts to which agents may direct webhooks through the Model Context Protocol.
    pub webhook_hosts: Vec<String>,
    /// Whether only the key that has locked a memory, or an admin, rewrites or unlocks it.
    pub guards_locked: bool,
}

/// Longest of `webhook_hosts`, in bytes.
pub const HOST_BYTES_MAX: usize = 253;
/// Most `webhook_hosts`.
pub const WEBHOOK_HOSTS_MAX: usize = 100;

impl Tenant {
    /// A limit of the tenant: its own, or that of its tier. `None` is unlimited.
    pub fn limit(&self, tenancy: &Tenancy, limit: Limit) -> Option<u64> {
        let of_tier = || tenancy.tier(&self.tier)?.limits.get(&limit).copied();
        self.limits.get(&limit).copied().unwrap_or_else(of_tier)
    }
}

impl Default for Tenant {
    /// An active tenant without limits.
    fn default() -> Self {
        Self {
            name: String::new(),
            created_at: Timestamp::default(),
            state: TenantState::Active,
            tier: DEFAULT_TIER.to_owned(),
            limits: OwnLimits::new(),
            thermo: Box::default(),
            retention: Vec::new(),
            webhook_hosts: Vec::new(),
            guards_locked: false,
        }
    }
}

/// Longest name of a tenant, in bytes.
pub const TENANT_NAME_BYTES_MAX: usize = 128;

named_enum! {
    /// The rights of a key. Each role includes those before it.
    #[derive(PartialOrd, Ord, Hash)]
    pub enum Role {
        /// Reads and searches.
        Reader = "reader",
        /// Writes memories.
        Agent = "agent",
        /// Administers its tenant.
        Admin = "admin",
        /// Administers the cluster.
        Operator = "operator",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_limit_replaces_that_of_the_tier() {
        let tenancy = Tenancy::default();
        let mut tenant = Tenant { tier: "free".into(), ..Tenant::default() };
        assert_eq!(tenant.limit(&tenancy, Limit::Memories), Some(1_000));
        assert_eq!(tenant.limit(&tenancy, Limit::Edges), None);
        tenant.limits = [(Limit::Memories, Some(5)), (Limit::RequestsPerMinute, None)].into();
        assert_eq!(tenant.limit(&tenancy, Limit::Memories), Some(5));
        assert_eq!(tenant.limit(&tenancy, Limit::RequestsPerMinute), None);
        let unlimited = Tenant::default();
        assert!(Limit::ALL.iter().all(|limit| unlimited.limit(&tenancy, *limit).is_none()));
    }
}
