//! Rules for the API keys of a tenant. A tenant keeps one that may administer it and has no end.

use crate::change::Change;
use crate::decide::context::{Context, Decided, reject_if};
use crate::model::api_key::{
    ApiKey, EXPIRED_KEPT_SECONDS, KEY_LIFETIME_SECONDS, KEYS_MAX, NewApiKey, OVERLAP_SECONDS_MAX,
};
use crate::model::id::{KeyId, Timestamp};
use crate::model::limits::Limit;
use crate::model::tenant::Role;
use crate::reply::{Rejection, Reply};
use crate::table::key::Key;
use crate::table::view::View;

/// Creates a key. Those that ended long ago are deleted.
pub(super) fn create(context: &mut Context<'_>, id: KeyId, new: &NewApiKey) -> Decided<Reply> {
    let (shortest, longest) = KEY_LIFETIME_SECONDS;
    let is_allowed = new.lifetime_seconds.is_none_or(|time| (shortest..=longest).contains(&time));
    let is_bound_admin = new.role >= Role::Admin && !new.namespaces.is_empty();
    reject_if(!is_allowed, wrong_state("the lifetime of the key is out of range"))?;
    reject_if(is_bound_admin, wrong_state("an admin key may use all namespaces"))?;
    let mut keys = context.draft.api_keys(context.tenant)?;
    reject_if(keys.iter().any(|(known, _)| *known == id), Rejection::IdTaken)?;
    let now = context.now();
    for (expired, _) in keys.extract_if(.., |(_, key)| ended_long_ago(key, now)) {
        context.push(Change::ApiKeyRemoved(context.tenant, expired));
    }
    let limit = context.draft.limit(context.tenant, Limit::Keys)?.unwrap_or(u64::MAX);
    let max = usize::try_from(limit).unwrap_or(KEYS_MAX).min(KEYS_MAX);
    // The operator replaces a lost admin key: one above the limit.
    let of_operator = usize::from(context.actor.is_none());
    reject_if(keys.len() >= max + of_operator, Rejection::too_many("keys", max))?;
    let key = new.clone().row(now);
    if let Some(end) = end_of_actor(context)? {
        let outlives = key.expires_at.is_none_or(|at| at > end);
        reject_if(outlives, wrong_state("the new key would outlive yours: give it an end before"))?;
    }
    context.push(Change::ApiKeyPut(context.tenant, id, key.clone()));
    Ok(Reply::ApiKey(id, key))
}

/// Gives a key another text. The present one stays valid for a while. The one before it ends. The
/// acting key learns the text, so a key with an end does not prolong itself, and rotates none that
/// outlives it.
pub(super) fn rotate(
    context: &mut Context<'_>,
    id: KeyId,
    hash: [u8; 32],
    overlap_seconds: u64,
) -> Decided<Reply> {
    let is_allowed = overlap_seconds <= OVERLAP_SECONDS_MAX;
    reject_if(!is_allowed, wrong_state("the overlap is out of range"))?;
    let key = existing(context, id)?;
    reject_if(
        !key.is_valid_at(context.now()),
        wrong_state("the key has ended: create another one"),
    )?;
    let mut key = key.rotated(hash, overlap_seconds, context.now());
    if let Some(end) = end_of_actor(context)? {
        let is_own = context.actor == Some(id);
        let outlives = !is_own && key.expires_at.is_none_or(|at| at > end);
        reject_if(outlives, wrong_state("the rotated key would outlive yours"))?;
        key.expires_at = key.expires_at.map(|at| at.min(end));
    }
    context.push(Change::ApiKeyPut(context.tenant, id, key.clone()));
    Ok(Reply::ApiKey(id, key))
}

/// Deletes a key, unless it is the tenant's last one without an end that may administer it.
pub(super) fn delete(context: &mut Context<'_>, id: KeyId) -> Decided<Reply> {
    let key = existing(context, id)?;
    let keys = context.draft.api_keys(context.tenant)?;
    let is_other = |(known, key): &(KeyId, ApiKey)| *known != id && stays_admin(key);
    if stays_admin(&key) && !keys.iter().any(is_other) {
        let reason = "this is the last key without an end that may administer the tenant: create \
                      another one first";
        return Err(wrong_state(reason).into());
    }
    context.push(Change::ApiKeyRemoved(context.tenant, id));
    Ok(Reply::ApiKey(id, key))
}

/// Sets or clears the namespace that the key's searches boost. It must be open to the key.
pub(super) fn set_namespace(
    context: &mut Context<'_>,
    id: KeyId,
    namespace: Option<&str>,
) -> Decided<Reply> {
    let key = existing(context, id)?;
    if let Some(namespace) = namespace {
        context.check_access(namespace)?;
    }
    let key = ApiKey { namespace: namespace.map(str::to_owned), ..key };
    context.push(Change::ApiKeyPut(context.tenant, id, key.clone()));
    Ok(Reply::ApiKey(id, key))
}

fn existing(context: &Context<'_>, id: KeyId) -> Decided<ApiKey> {
    let key: Option<ApiKey> = context.draft.record(&Key::ApiKey(context.tenant, id))?;
    Ok(key.ok_or_else(|| Rejection::no_such("key"))?)
}

/// When the acting key ends, if it does.
fn end_of_actor(context: &Context<'_>) -> Decided<Option<Timestamp>> {
    let Some(actor) = context.actor else { return Ok(None) };
    Ok(existing(context, actor)?.expires_at)
}

fn stays_admin(key: &ApiKey) -> bool {
    key.role >= Role::Admin && key.expires_at.is_none()
}

fn ended_long_ago(key: &ApiKey, now: Timestamp) -> bool {
    let kept = std::time::Duration::from_secs(EXPIRED_KEPT_SECONDS);
    key.expires_at.is_some_and(|end| end.plus(kept) < now)
}

fn wrong_state(reason: &str) -> Rejection {
    Rejection::WrongState(reason.into())
}
