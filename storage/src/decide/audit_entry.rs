//! What an entry of the audit log shows. No text of a memory is among it, so that a purge need not change
//! the log. What may be secret is shown as a digest, and names are cut by `short`.

use sha2::{Digest, Sha256};

use model::audit::{AuditAction, Fields};
use model::id::TenantId;

/// What the audit log shows of a command.
pub struct Entry {
    pub(super) action: AuditAction,
    /// What the command is about.
    pub(super) target: String,
    /// The values of what it changes, as they are, and what else it did.
    pub(super) fields: Fields,
    /// The tenant that a command of the cluster changes: its log has the entry too.
    pub(super) tenant: Option<TenantId>,
}

impl Entry {
    pub(super) fn new(action: AuditAction, target: impl Into<String>, fields: Fields) -> Self {
        Self { action, target: target.into(), fields, tenant: None }
    }
}

/// Removes what is equal in both.
pub(super) fn keep_differing(before: &mut Fields, after: &mut Fields) {
    let equal: Vec<_> = before
        .iter()
        .filter(|(name, text)| after.get(*name) == Some(*text))
        .map(|(name, _)| name.clone())
        .collect();
    for name in equal {
        before.remove(&name);
        after.remove(&name);
    }
}

pub(super) fn texts<const N: usize>(fields: [(&str, Option<String>); N]) -> Fields {
    fields.into_iter().filter_map(|(name, text)| Some((name.to_owned(), text?))).collect()
}

pub(super) fn numbers(fields: &[(&str, usize)]) -> Fields {
    fields.iter().map(|(name, number)| ((*name).to_owned(), number.to_string())).collect()
}

/// A digest, for what may be secret, cut to 16 bytes.
pub(super) fn digest(bytes: &[u8]) -> String {
    format!("SHA-256 {}", hex::encode(&Sha256::digest(bytes)[..16]))
}
