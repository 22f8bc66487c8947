//! Tenants: their rows, the roles of their API keys, and their limits: of tiers, or of their own.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::guard::Guard;
use crate::id::{TenantId, Timestamp};
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
    /// What it lets into its memories.
    pub guard: Guard,
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
            guard: Guard::default(),
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

named_enum! {
    /// What of a tenant is limited.
    #[derive(PartialOrd, Ord)]
    pub enum Limit {
        /// Requests in any 60 seconds, over all nodes.
        RequestsPerMinute = "requests_per_minute",
        /// Memories, those of the cold tier included.
        Memories = "memories",
        /// Bytes of labels, key points and vectors.
        Bytes = "bytes",
        /// API keys.
        Keys = "keys",
        /// Triggers.
        Triggers = "triggers",
        /// Event streams on one node.
        Streams = "streams",
        /// Edges.
        Edges = "edges",
    }
}

/// Most tiers.
pub const TIERS_MAX: usize = 100;
/// Longest name of a tier, in bytes.
pub const TIER_NAME_BYTES_MAX: usize = 64;
/// Most tenants.
pub const TENANTS_MAX: usize = 10_000;
/// The tier of a tenant that names no other, until the operator chooses one.
pub const DEFAULT_TIER: &str = "enterprise";

/// The limits of a tier. What it does not name is unlimited.
pub type Limits = BTreeMap<Limit, u64>;

/// Limits of one tenant, in place of those of its tier; `None` is unlimited.
pub type OwnLimits = BTreeMap<Limit, Option<u64>>;

/// A named set of limits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tier {
    /// Its name.
    pub name: String,
    /// Its limits.
    pub limits: Limits,
    /// Whether a new tenant that names no tier gets this one. One of them is.
    pub is_default: bool,
}

/// What all tenants share: the tiers, and the last id of a tenant. No id is used twice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tenancy {
    /// The id of the newest tenant.
    pub last: TenantId,
    /// The tiers, in order of creation.
    pub tiers: Vec<Tier>,
}

impl Default for Tenancy {
    /// No tenant, and the three tiers of the specification.
    fn default() -> Self {
        let tier = |name: &str, limits: &[(Limit, u64)]| Tier {
            name: name.to_owned(),
            limits: limits.iter().copied().collect(),
            is_default: name == DEFAULT_TIER,
        };
        let tiers = vec![
            tier("free", &[(Limit::RequestsPerMinute, 60), (Limit::Memories, 1_000)]),
            tier("middle", &[(Limit::RequestsPerMinute, 300), (Limit::Memories, 50_000)]),
            tier(DEFAULT_TIER, &[]),
        ];
        Self { last: TenantId(0), tiers }
    }
}

impl Tenancy {
    /// A tier.
    pub fn tier(&self, name: &str) -> Option<&Tier> {
        self.tiers.iter().find(|tier| tier.name == name)
    }

    /// The tier of a new tenant that names none.
    pub fn default_tier(&self) -> Option<&Tier> {
        self.tiers.iter().find(|tier| tier.is_default)
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
