//! Limits of tenants, and tiers: named sets of limits that tenants share.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::id::TenantId;

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
