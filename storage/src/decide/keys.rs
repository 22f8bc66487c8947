//! Commands for the API keys of a tenant. A tenant keeps one that may administer it and has no end.

use model::api_key::{
    ApiKey, EXPIRED_KEPT_SECONDS, KEY_LIFETIME_SECONDS, KEYS_MAX, NewApiKey, OVERLAP_SECONDS_MAX,
};
use model::audit::{AuditAction, Fields, short};
use model::id::{KeyId, Timestamp};
use model::tenant::{Limit, Role};
use serde::{Deserialize, Serialize};

use crate::change::Change;
use crate::decide::audit::{AuditedAct, texts};
use crate::decide::context::{Context, Decided, reject_if};
use crate::decide::rule::{Class, TenantAudit, TenantRule};
use crate::error::Result;
use crate::etag::Etag;
use crate::reply::{KeyReply, Rejection};
use crate::table::key::Key;
use crate::table::view::View;

/// Creates a key. Those that ended long ago are deleted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CreateKey {
    /// Its id.
    pub id: KeyId,
    /// The key.
    pub key: NewApiKey,
}

impl TenantRule for CreateKey {
    type Reply = KeyReply;
    const CLASS: Class = Class::Changes;
    const AUDIT: TenantAudit<Self> = Some(Self::audit);

    fn decide(&self, context: &mut Context<'_>) -> Decided<KeyReply> {
        let (id, new) = (self.id, &self.key);
        let (shortest, longest) = KEY_LIFETIME_SECONDS;
        let is_allowed =
            new.lifetime_seconds.is_none_or(|time| (shortest..=longest).contains(&time));
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
            reject_if(
                outlives,
                wrong_state("the new key would outlive yours: give it an end before"),
            )?;
        }
        context.push(Change::ApiKeyPut(context.tenant, id, key.clone()));
        Ok(KeyReply { id, key })
    }
}

impl CreateKey {
    fn audit(&self, context: &Context<'_>, _reply: Option<&KeyReply>) -> Result<AuditedAct> {
        let fields = row(context, self.id)?;
        Ok(AuditedAct::new(AuditAction::KeyCreate, target(self.id), fields))
    }
}

/// Gives a key another text. The present one stays valid for a while. The one before it ends. The
/// acting key learns the text, so a key with an end does not prolong itself, and rotates none that
/// outlives it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RotateKey {
    /// The key.
    pub id: KeyId,
    /// SHA-256 of its new text.
    pub hash: [u8; 32],
    /// How long the present text stays valid.
    pub overlap_seconds: u64,
}

impl TenantRule for RotateKey {
    type Reply = KeyReply;
    const CLASS: Class = Class::Changes;
    const AUDIT: TenantAudit<Self> = Some(Self::audit);

    fn decide(&self, context: &mut Context<'_>) -> Decided<KeyReply> {
        let Self { id, hash, overlap_seconds } = *self;
        let is_allowed = overlap_seconds <= OVERLAP_SECONDS_MAX;
        reject_if(!is_allowed, wrong_state("the overlap is out of range"))?;
        let key = existing(context, id)?;
        let has_ended = !key.is_valid_at(context.now());
        reject_if(has_ended, wrong_state("the key has ended: create another one"))?;
        let mut key = key.rotated(hash, overlap_seconds, context.now());
        if let Some(end) = end_of_actor(context)? {
            let is_own = context.actor == Some(id);
            let outlives = !is_own && key.expires_at.is_none_or(|at| at > end);
            reject_if(outlives, wrong_state("the rotated key would outlive yours"))?;
            key.expires_at = key.expires_at.map(|at| at.min(end));
        }
        context.push(Change::ApiKeyPut(context.tenant, id, key.clone()));
        Ok(KeyReply { id, key })
    }

    fn tag(&self, context: &mut Context<'_>) -> Result<Option<Etag>> {
        key_tag(context, self.id)
    }
}

impl RotateKey {
    fn audit(&self, context: &Context<'_>, _reply: Option<&KeyReply>) -> Result<AuditedAct> {
        let fields = row(context, self.id)?;
        Ok(AuditedAct::new(AuditAction::KeyRotate, target(self.id), fields))
    }
}

fn key_tag(context: &Context<'_>, id: KeyId) -> Result<Option<Etag>> {
    let row: Option<ApiKey> = context.draft.record(&Key::ApiKey(context.tenant, id))?;
    Ok(row.as_ref().map(Etag::of))
}

/// Deletes a key, unless it is the tenant's last one without an end that may administer it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeleteKey(pub KeyId);

impl TenantRule for DeleteKey {
    type Reply = KeyReply;
    const CLASS: Class = Class::OnlyRemoves;
    const AUDIT: TenantAudit<Self> = Some(Self::audit);

    fn decide(&self, context: &mut Context<'_>) -> Decided<KeyReply> {
        let id = self.0;
        let key = existing(context, id)?;
        let keys = context.draft.api_keys(context.tenant)?;
        let is_other = |(known, key): &(KeyId, ApiKey)| *known != id && stays_admin(key);
        if stays_admin(&key) && !keys.iter().any(is_other) {
            let reason = "this is the last key without an end that may administer the tenant: \
                          create another one first";
            return Err(wrong_state(reason).into());
        }
        context.push(Change::ApiKeyRemoved(context.tenant, id));
        Ok(KeyReply { id, key })
    }

    fn tag(&self, context: &mut Context<'_>) -> Result<Option<Etag>> {
        key_tag(context, self.0)
    }
}

impl DeleteKey {
    fn audit(&self, context: &Context<'_>, _reply: Option<&KeyReply>) -> Result<AuditedAct> {
        let fields = row(context, self.0)?;
        Ok(AuditedAct::new(AuditAction::KeyDelete, target(self.0), fields))
    }
}

/// Sets or clears the namespace that a key's searches boost. It must be open to the key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SetKeyNamespace {
    /// The key.
    pub id: KeyId,
    /// The namespace.
    pub namespace: Option<String>,
}

impl TenantRule for SetKeyNamespace {
    type Reply = KeyReply;
    const CLASS: Class = Class::Changes;
    const AUDIT: TenantAudit<Self> = Some(Self::audit);

    fn decide(&self, context: &mut Context<'_>) -> Decided<KeyReply> {
        let Self { id, namespace } = self.clone();
        let key = existing(context, id)?;
        if let Some(namespace) = &namespace {
            context.check_access(namespace)?;
        }
        let key = ApiKey { namespace, ..key };
        context.push(Change::ApiKeyPut(context.tenant, id, key.clone()));
        Ok(KeyReply { id, key })
    }

    fn tag(&self, context: &mut Context<'_>) -> Result<Option<Etag>> {
        key_tag(context, self.id)
    }
}

impl SetKeyNamespace {
    fn audit(&self, context: &Context<'_>, _reply: Option<&KeyReply>) -> Result<AuditedAct> {
        let fields = row(context, self.id)?;
        Ok(AuditedAct::new(AuditAction::KeyNamespace, target(self.id), fields))
    }
}

fn target(id: KeyId) -> String {
    format!("key {id}")
}

/// The values of a key that the audit log shows.
fn row(context: &Context<'_>, id: KeyId) -> Result<Fields> {
    let key: Option<ApiKey> = context.draft.record(&Key::ApiKey(context.tenant, id))?;
    let Some(key) = key else { return Ok(Fields::new()) };
    Ok(texts([
        ("name", Some(short(&key.name))),
        ("role", Some(key.role.name().to_owned())),
        ("namespace", key.namespace),
        ("namespaces", Some(short(&key.namespaces.join(" "))).filter(|names| !names.is_empty())),
        ("expires_at", key.expires_at.map(|at| at.to_string())),
        ("rotated_at", key.rotated_at.map(|at| at.to_string())),
        ("former_valid_until", key.former.map(|former| former.valid_until.to_string())),
    ]))
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
