//! Rules for API keys: creation, deletion, and a key's own namespace.

use crate::change::Change;
use crate::decide::context::Context;
use crate::decide::error::Decided;
use crate::model::tenant::{ApiKey, KEYS_MAX, KeyId, Role};
use crate::reply::{Rejection, Reply};
use crate::table::view::View;

pub(super) fn create(context: &mut Context<'_, '_>, id: KeyId, key: &ApiKey) -> Decided<Reply> {
    let keys = context.draft.api_keys(context.tenant)?;
    if keys.len() >= KEYS_MAX {
        return Err(Rejection::TooMany { what: "keys".into(), max: KEYS_MAX }.into());
    }
    if keys.iter().any(|(known, _)| *known == id) {
        return Err(Rejection::IdTaken.into());
    }
    let key = ApiKey { created_at: context.now(), last_used_at: None, ..key.clone() };
    context.push(Change::ApiKeyPut(context.tenant, id, key.clone()));
    Ok(Reply::ApiKey(id, key))
}

/// Deletes a key, unless it is the tenant's last one that may administer it.
pub(super) fn delete(context: &mut Context<'_, '_>, id: KeyId) -> Decided<Reply> {
    let mut keys = context.draft.api_keys(context.tenant)?;
    let at = keys.iter().position(|(known, _)| *known == id).ok_or_else(no_key)?;
    let (_, key) = keys.remove(at);
    let has_other_admin = keys.iter().any(|(_, other)| other.role >= Role::Admin);
    if key.role >= Role::Admin && !has_other_admin {
        let reason =
            "this is the last key that may administer the tenant: create another one first";
        return Err(Rejection::WrongState(reason.into()).into());
    }
    context.push(Change::ApiKeyRemoved(context.tenant, id));
    Ok(Reply::ApiKey(id, key))
}

/// Sets or clears the namespace that the key's searches boost.
pub(super) fn set_namespace(
    context: &mut Context<'_, '_>,
    id: KeyId,
    namespace: Option<&str>,
) -> Decided<Reply> {
    let keys = context.draft.api_keys(context.tenant)?;
    let (_, key) = keys.into_iter().find(|(known, _)| *known == id).ok_or_else(no_key)?;
    let key = ApiKey { namespace: namespace.map(str::to_owned), ..key };
    context.push(Change::ApiKeyPut(context.tenant, id, key.clone()));
    Ok(Reply::ApiKey(id, key))
}

fn no_key() -> Rejection {
    Rejection::NoSuch("key".into())
}
