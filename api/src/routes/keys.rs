//! API keys of a tenant. The text of a key is returned once, when it is created.

use storage::KeyReply;
use storage::command::DeleteKey;
use storage::model::access::Rules;
use storage::model::api_key::{ApiKey, NewApiKey};
use storage::model::id::KeyId;
use storage::model::tenant::Role;

use crate::prelude::*;
use crate::requests::access::{KeyQuery, KeyRotation, NewKey};

/// Default of `overlap_seconds`.
const OVERLAP_DEFAULT: u64 = 3_600;

/// A key, without its text.
#[derive(Serialize, ToSchema)]
struct KeyView {
    id: String,
    name: String,
    /// The name, again.
    label: String,
    role: RoleWord,
    namespace: Nullable<String>,
    /// The only namespaces that it may use; empty is all.
    namespaces: Vec<String>,
    created_at: Time,
    /// When it got its present text, if it was rotated.
    #[schema(required)]
    rotated_at: Option<Time>,
    /// Until when its former text is valid too, if it was rotated.
    #[schema(required)]
    former_valid_until: Option<Time>,
    /// When it ends; null is never.
    #[schema(required)]
    expires_at: Option<Time>,
}

/// A key in a list.
#[derive(Serialize, ToSchema)]
pub(crate) struct ListedKeyView {
    #[serde(flatten)]
    view: KeyView,
    /// Its last use, within some minutes, if it was used.
    #[schema(required)]
    last_used_at: Option<Time>,
    /// Whether it is valid and may use the namespace `access_to`, if the request names one.
    #[serde(skip_serializing_if = "Option::is_none")]
    may_use: Option<bool>,
}

/// A key that was created.
#[derive(Serialize, ToSchema)]
pub(crate) struct CreatedKeyView {
    #[serde(flatten)]
    view: KeyView,
    /// Its text: returned this once.
    key: String,
}

/// A key that was deleted.
#[derive(Serialize, ToSchema)]
pub(crate) struct DeletedKeyView {
    #[serde(flatten)]
    view: KeyView,
    /// Always true.
    deleted: bool,
}

/// Keys of a tenant.
#[derive(Serialize, ToSchema)]
pub(crate) struct KeyList {
    keys: Vec<ListedKeyView>,
    /// Cursor of the next page; null on the last.
    next_cursor: Nullable<String>,
}

/// List the keys, in order of their ids.
#[utoipa::path(get, path = "/api/v1/keys", tag = "access", params(KeyQuery, ReadHeaders),
    responses((status = OK, body = KeyList), ReadErrors))]
pub(crate) async fn key_list(
    AdminRead(session, freshness): AdminRead,
    ValidQuery(query): ValidQuery<KeyQuery>,
) -> ApiResponse<KeyList> {
    let page = session.keys_after(query.after(), query.limit()).await?;
    let rules = match &query.access_to {
        Some(_) => session.rules().await?,
        None => Rules::default(),
    };
    let now = session.now();
    let may_use = |id: KeyId, key: &ApiKey| {
        let namespace = query.access_to.as_ref()?.0.trim();
        Some(key.is_valid_at(now) && rules.access_of(id, key).allows(namespace))
    };
    let keys = page.items.into_iter().map(|(id, key, last_used_at)| ListedKeyView {
        may_use: may_use(id, &key),
        view: KeyReply { id, key }.into(),
        last_used_at: last_used_at.map(Time),
    });
    let (keys, next_cursor) = (keys.collect(), page.next.map(|id| id.to_string()));
    Ok(Success::ok(freshness, KeyList { keys, next_cursor }))
}

/// Create a key.
#[utoipa::path(post, path = "/api/v1/keys", tag = "access", request_body = NewKey,
    responses((status = CREATED, body = CreatedKeyView), UnrepeatedErrors))]
pub(crate) async fn key_create(
    Admin(session): Admin,
    ValidJson(request): ValidJson<NewKey>,
) -> ApiResponse<CreatedKeyView> {
    let (name, namespaces) = (request.name(), request.bound_to()?);
    let lifetime_seconds = request.lifetime(session.now())?;
    let role = request.role.map_or(Role::Agent, |role| role.0);
    let namespace = named_namespace(request.namespace)?;
    let new = |text: &_| NewApiKey {
        namespace,
        namespaces,
        lifetime_seconds,
        ..NewApiKey::new(name, role, text)
    };
    let (done, text) = session.create_key(new).await?;
    let body = CreatedKeyView { view: done.value.into(), key: text.as_str().to_owned() };
    Ok(Success::created(done.freshness, body))
}

/// Give a key another text. The present one stays valid for a while; the one before it ends. A key
/// with an end gets as much time again as it had.
#[utoipa::path(post, path = "/api/v1/keys/{id}/rotate", tag = "access", params(KeyPath),
    request_body = KeyRotation,
    responses((status = OK, body = CreatedKeyView), UnrepeatedErrors, NotFound))]
pub(crate) async fn key_rotate(
    Admin(session): Admin,
    KeyPath(id): KeyPath,
    ValidJson(request): ValidJson<KeyRotation>,
) -> ApiResponse<CreatedKeyView> {
    let overlap_seconds = request.overlap_seconds.map_or(OVERLAP_DEFAULT, |seconds| seconds.0);
    let (done, text) = session.rotate_key(id, overlap_seconds).await?;
    let body = CreatedKeyView { view: done.value.into(), key: text.as_str().to_owned() };
    Ok(Success::ok(done.freshness, body))
}

/// Delete a key: it is invalid from then on. The last key that may administer the tenant and has no
/// end stays.
#[utoipa::path(delete, path = "/api/v1/keys/{id}", tag = "access", params(KeyPath),
    responses((status = OK, body = DeletedKeyView), WriteErrors, NotFound))]
pub(crate) async fn key_delete(
    Admin(session): Admin,
    KeyPath(id): KeyPath,
) -> ApiResponse<DeletedKeyView> {
    let done = session.submit(DeleteKey(id)).await?;
    Ok(Success::ok(done.freshness, DeletedKeyView { view: done.value.into(), deleted: true }))
}

impl From<KeyReply> for KeyView {
    fn from(KeyReply { id, key }: KeyReply) -> Self {
        Self {
            id: id.to_string(),
            label: key.name.clone(),
            name: key.name,
            role: OneOf(key.role),
            namespace: key.namespace,
            namespaces: key.namespaces,
            created_at: Time(key.created_at),
            rotated_at: key.rotated_at.map(Time),
            former_valid_until: key.former.map(|former| Time(former.valid_until)),
            expires_at: key.expires_at.map(Time),
        }
    }
}
