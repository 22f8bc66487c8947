//! What a command is, apart from its fields: its reply, its class, what the audit log records of it,
//! and its rule. A command of a tenant and one of the cluster are two kinds, so that neither is decided
//! as the other.

use crate::decide::audit::AuditedAct;
use crate::decide::context::{Context, Decided};
use crate::decide::draft::Draft;
use crate::error::Result;
use crate::etag::Etag;
use crate::reply::ReplyValue;

/// The queue of the executor in which a command waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Priority {
    /// A client waits for the outcome.
    Client,
    /// A background task of the leader. It comes after all clients.
    Background,
}

/// What a command may do while disks or memory are full, and who waits for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// It stores more data for a client.
    AddsData,
    /// It changes what there is for a client, or adds little.
    Changes,
    /// It gives memory back.
    OnlyRemoves,
    /// It is a task of the service.
    Background,
    /// It is such a task, and stores more data.
    BackgroundAddsData,
}

impl Class {
    /// Whether a full disk rejects it.
    pub fn adds_data(self) -> bool {
        matches!(self, Self::AddsData | Self::BackgroundAddsData)
    }

    /// Whether it passes while memory is full.
    pub fn only_removes(self) -> bool {
        self == Self::OnlyRemoves
    }

    /// Its queue.
    pub fn priority(self) -> Priority {
        match self {
            Self::AddsData | Self::Changes | Self::OnlyRemoves => Priority::Client,
            Self::Background | Self::BackgroundAddsData => Priority::Background,
        }
    }
}

/// What the audit log shows of a command of a tenant: called before it is decided, without its reply,
/// and afterwards. The log has the fields that differ, or no entry if all are equal.
pub type TenantAudit<C> =
    Option<fn(&C, &Context<'_>, Option<&<C as TenantRule>::Reply>) -> Result<AuditedAct>>;

/// [`TenantAudit`] of a command of the cluster.
pub type ClusterAudit<C> =
    Option<fn(&C, &Draft, Option<&<C as ClusterRule>::Reply>) -> Result<AuditedAct>>;

/// A command of a tenant. Only [`decide`](super::decide) calls its rule.
pub trait TenantRule: Sized {
    /// What it returns.
    type Reply: ReplyValue;
    /// Its class.
    const CLASS: Class;
    /// What the audit log shows of it; `None` if nothing.
    const AUDIT: TenantAudit<Self>;

    /// Its rule: adds changes to the draft of the context, or rejects the command.
    ///
    /// # Errors
    /// See [`DecideError`](super::DecideError).
    fn decide(&self, context: &mut Context<'_>) -> Decided<Self::Reply>;

    /// The tag of the resource that it changes; `None` if that is none, or does not exist. A request with
    /// `If-Match` names it.
    ///
    /// # Errors
    /// If the state cannot be read.
    fn tag(&self, _context: &mut Context<'_>) -> Result<Option<Etag>> {
        Ok(None)
    }

    /// Whether a request may require that its resource does not exist.
    fn may_require_absence(&self) -> bool {
        false
    }
}

/// A command of the cluster. Only [`decide`](super::decide) calls its rule.
pub trait ClusterRule: Sized {
    /// What it returns.
    type Reply: ReplyValue;
    /// Its class.
    const CLASS: Class;
    /// What the audit log shows of it; `None` if nothing.
    const AUDIT: ClusterAudit<Self>;

    /// See [`TenantRule::decide`].
    ///
    /// # Errors
    /// See [`DecideError`](super::DecideError).
    fn decide(&self, draft: &mut Draft) -> Decided<Self::Reply>;
}
