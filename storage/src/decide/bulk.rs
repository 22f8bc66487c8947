//! Commands that apply one rule to several memories, each by itself.

use model::audit::Fields;
use model::id::MemoryId;
use model::memory::{Memory, MemoryType};
use serde::{Deserialize, Serialize};

use crate::decide::audit::{digest, numbers};
use crate::decide::context::{Context, DecideError, Decided};
use crate::decide::fire::fire;
use crate::reply::{BULK_MAX, Rejection};

/// Most ids of memories that an entry of the audit log names.
const IDS_MAX: usize = 10;

/// The result per memory, in the order of the command.
pub type Outcomes = Vec<Result<(), Rejection>>;

/// Filter of the memories that a bulk command names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BulkFilter {
    /// Only memories of this type.
    pub memory_type: Option<MemoryType>,
    /// Only memories in this namespace.
    pub namespace: Option<String>,
}

impl BulkFilter {
    /// Whether `memory` passes the filter.
    pub fn matches(&self, memory: &Memory) -> bool {
        self.memory_type.is_none_or(|one| one == memory.memory_type)
            && self.namespace.as_ref().is_none_or(|one| *one == memory.namespace)
    }
}

/// Applies one rule to several memories, each by itself, as far as one command may go.
pub(super) fn for_each(
    context: &mut Context<'_>,
    ids: &[MemoryId],
    mut act: impl FnMut(&mut Context<'_>, MemoryId) -> Decided<()>,
) -> Decided<Outcomes> {
    let mark = context.draft.mark();
    let mut outcomes = Vec::new();
    for id in ids.iter().take(BULK_MAX) {
        outcomes.push(match act(context, *id) {
            Ok(()) => Ok(()),
            Err(DecideError::Rejected(rejection)) => Err(rejection),
            Err(fault) => return Err(fault),
        });
        fire(context.draft)?;
        if context.draft.is_past_soft_limit(mark) {
            break;
        }
    }
    Ok(outcomes)
}

/// What a command did to several memories, for the audit log; nothing if it changed none.
pub(super) fn audited(ids: &[MemoryId], outcomes: &Outcomes) -> Fields {
    let done: Vec<_> = ids.iter().zip(outcomes).filter(|(_, outcome)| outcome.is_ok()).collect();
    if done.is_empty() {
        return Fields::new();
    }
    let rejected = outcomes.iter().filter(|outcome| outcome.is_err()).count();
    let mut fields = numbers(&[("done", done.len()), ("rejected", rejected)]);
    let named: Vec<_> = done.iter().take(IDS_MAX).map(|(id, _)| id.to_string()).collect();
    fields.insert("first_ids".into(), named.join(" "));
    let all: Vec<_> = done.iter().flat_map(|(id, _)| id.0).collect();
    fields.insert("ids".into(), digest(&all));
    fields
}
