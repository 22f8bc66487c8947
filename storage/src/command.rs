//! Commands: the requests for changes. A command travels from the node that received the request to
//! the leader. It never enters the log. It contains everything that differs between machines, such as
//! embeddings and random ids: the node that received the request computed it.
//!
//! A command is a struct. Its file in `decide/` has its fields, its reply, its class, what the audit log
//! records of it, and its rule: see [`TenantRule`] and [`ClusterRule`]. The lists below give each one
//! its number between nodes.

use std::net::IpAddr;

use model::id::{KeyId, TenantId};
use model::receipt::ReceiptRequest;
use serde::{Deserialize, Serialize};

use crate::codec;
use crate::decide::context::{Context, Decided};
use crate::decide::draft::Draft;
use crate::decide::rule::{Class, ClusterRule, TenantRule};
use crate::decide::run::{run_for_cluster, run_for_tenant};
use crate::etag::Precondition;
use crate::reply::Reply;

pub use crate::decide::bulk::BulkFilter;
pub use crate::decide::cluster::{
    AddMember, AdvanceClock, Bootstrap, RaiseLevel, RecordOperation, ReleaseWebhooks, RemoveMember,
    Verify,
};
pub use crate::decide::create_memories::CreateMemories;
pub use crate::decide::edge::{CreateEdge, DeleteEdge, EdgeRef, Supersede};
pub use crate::decide::expire::Expire;
pub use crate::decide::fold::Unfold;
pub use crate::decide::import::Import;
pub use crate::decide::keys::{CreateKey, DeleteKey, RotateKey, SetKeyNamespace};
pub use crate::decide::memory::{
    DeleteMemories, DeleteMemory, RestoreMemories, UpdateMemories, UpdateMemory,
};
pub use crate::decide::models::{
    BeginModelSwitch, CancelModelChange, ForceModelSwitch, PostponeModelSwitch, RecordVectors,
    ReportModelReady, StartModelChange, SwitchModel,
};
pub use crate::decide::outbox::{RecordAttempts, ReplayDeliveries, ReplayDelivery};
pub use crate::decide::purge::{PurgeMemories, RemoveTraces, TRACES_MAX, TraceRows};
pub use crate::decide::recall::{GiveFeedback, RecordReport};
pub use crate::decide::tenant::{
    ChangeTenant, DeleteRule, PutRule, RecordActivity, UpdateGuard, UpdateRetention, UpdateSettings,
};
pub use crate::decide::tenants::{CreateTenant, DeleteTenant, NewTenant, PutTier, UpdateTenant};
pub use crate::decide::tick::AdvanceTick;
pub use crate::decide::trigger::{CreateTrigger, DeleteTrigger, UpdateTrigger};

/// A requested change, with its sender.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Command {
    /// The key of the caller; `None` is the service itself, or the operator.
    pub actor: Option<KeyId>,
    /// The address from which the request came; `None` is the service itself.
    pub source: Option<IpAddr>,
    /// The idempotency key under which the outcome is stored.
    pub receipt: Option<ReceiptRequest>,
    /// The state of its resource that it requires.
    pub condition: Option<Precondition>,
    /// The version of the guard that examined its texts.
    pub guard: Option<u64>,
    /// The requested change.
    pub action: Action,
}

/// A requested change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Action {
    /// Of the cluster.
    Cluster(ClusterAction),
    /// Of a tenant.
    Tenant(TenantId, TenantAction),
}

/// Makes an enum of commands. Each has its number in the bytes between nodes, from 0 on: new ones are
/// appended.
macro_rules! commands {
    (
        $(#[$doc:meta])*
        $all:ident: $rule:ident, $run:ident on $on:ty {
            $($number:literal => $command:ident,)+
        }
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        pub enum $all {
            $($command($command),)+
        }

        $(impl From<$command> for $all {
            fn from(command: $command) -> Self {
                Self::$command(command)
            }
        })+

        impl $all {
            /// The class of the command.
            pub fn class(&self) -> Class {
                match self {
                    $(Self::$command(_) => <$command as $rule>::CLASS,)+
                }
            }

            /// Decides the command by its rule.
            pub(crate) fn decide(&self, on: &mut $on) -> Decided<Reply> {
                match self {
                    $(Self::$command(command) => $run(command, on),)+
                }
            }
        }

        const _: () = codec::assert_ascending(&[$($number),+]);
    };
}

commands! {
    /// A command of the cluster.
    ClusterAction: ClusterRule, run_for_cluster on Draft {
        0 => Bootstrap,
        1 => AdvanceClock,
        2 => Expire,
        3 => Verify,
        4 => AddMember,
        5 => RemoveMember,
        6 => RaiseLevel,
        7 => RecordReport,
        8 => RecordOperation,
        9 => ReleaseWebhooks,
        10 => CreateTenant,
        11 => UpdateTenant,
        12 => DeleteTenant,
        13 => PutTier,
        14 => StartModelChange,
        15 => CancelModelChange,
        16 => ReportModelReady,
        17 => RecordVectors,
        18 => ForceModelSwitch,
        19 => BeginModelSwitch,
        20 => SwitchModel,
        21 => PostponeModelSwitch,
    }
}

commands! {
    /// A command of a tenant.
    TenantAction: TenantRule, run_for_tenant on Context<'_> {
        0 => CreateMemories,
        1 => UpdateMemory,
        2 => UpdateMemories,
        3 => DeleteMemory,
        4 => DeleteMemories,
        5 => RestoreMemories,
        6 => PurgeMemories,
        7 => RemoveTraces,
        8 => Import,
        9 => Unfold,
        10 => GiveFeedback,
        11 => CreateEdge,
        12 => DeleteEdge,
        13 => Supersede,
        14 => CreateTrigger,
        15 => UpdateTrigger,
        16 => DeleteTrigger,
        17 => RecordAttempts,
        18 => ReplayDelivery,
        19 => ReplayDeliveries,
        20 => CreateKey,
        21 => RotateKey,
        22 => DeleteKey,
        23 => SetKeyNamespace,
        24 => PutRule,
        25 => DeleteRule,
        26 => ChangeTenant,
        27 => UpdateSettings,
        28 => UpdateRetention,
        29 => RecordActivity,
        30 => AdvanceTick,
        31 => UpdateGuard,
    }
}

impl Command {
    /// A command of the service itself, or of the operator, for a tenant.
    pub fn of_tenant(tenant: TenantId, action: impl Into<TenantAction>) -> Self {
        let action = Action::Tenant(tenant, action.into());
        Self { actor: None, source: None, receipt: None, condition: None, guard: None, action }
    }

    /// A command of the service itself, or of the operator, for the cluster.
    pub fn of_cluster(action: impl Into<ClusterAction>) -> Self {
        Self {
            actor: None,
            source: None,
            receipt: None,
            condition: None,
            guard: None,
            action: Action::Cluster(action.into()),
        }
    }

    /// The tenant; commands of the cluster have none.
    pub fn tenant(&self) -> Option<TenantId> {
        match self.action {
            Action::Cluster(_) => None,
            Action::Tenant(tenant, _) => Some(tenant),
        }
    }

    /// Its class.
    pub fn class(&self) -> Class {
        match &self.action {
            Action::Cluster(action) => action.class(),
            Action::Tenant(_, action) => action.class(),
        }
    }

    /// Its encoded size, and what its structs take at least. In memory, a command takes some times as
    /// much at most.
    pub fn size_bytes(&self) -> usize {
        const STRUCTS: usize = 128;
        STRUCTS + codec::size(self)
    }
}
