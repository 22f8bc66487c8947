//! Tombstones of rejected values: left by deletions that reject a value, read by what must not bring it back.

use model::memory::Memory;
use model::tombstone::{NamespaceHash, Tombstone, Tombstones, ValueHash};
use sha2::{Digest, Sha256};

use crate::change::Change;
use crate::decide::context::{Context, Decided, reject_if};
use crate::reply::Rejection;
use crate::table::key::Key;
use crate::table::view::View;

/// The hash of a namespace, as tombstones have it.
pub(crate) fn namespace_hash(namespace: &str) -> NamespaceHash {
    let [a, b, c, d, e, f, g, h, ..] = <[u8; 32]>::from(Sha256::digest(namespace));
    [a, b, c, d, e, f, g, h]
}

/// Leaves a tombstone of the value of a memory.
pub(super) fn leave(context: &mut Context<'_>, memory: &Memory, value: ValueHash) -> Decided<()> {
    let (tenant, bucket) = (context.tenant, value[0]);
    let namespace = namespace_hash(&memory.namespace);
    let mut all: Tombstones =
        context.draft.record(&Key::Tombstones(tenant, bucket))?.unwrap_or_default();
    all.add(Tombstone { value, namespace, author: memory.origin.key });
    context.push(Change::TombstonesPut(tenant, bucket, all));
    Ok(())
}

/// Rejects values of which one has a tombstone.
pub(super) fn check(context: &Context<'_>, values: &[ValueHash]) -> Decided<()> {
    let is_rejected = context.draft.has_tombstone(context.tenant, values)?;
    reject_if(is_rejected, Rejection::ValueRejected)
}
