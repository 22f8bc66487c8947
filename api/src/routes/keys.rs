//! API keys of a tenant. The text of a key is returned once, when it is created.

use storage::model::id::KeyId;
use storage::model::tenant::{ApiKey, Role};

use crate::prelude::*;
use crate::requests::access::NewKey;

/// A key, without its text.
#[derive(Serialize, ToSchema)]
struct KeyView {
    id: String,
    name: String,
    /// The name, again.
    label: String,
    role: RoleWord,
    namespace: Nullable<String>,
    created_at: Time,
    #[schema(required)]
    last_used_at: Option<Time>,
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

/// All keys of a tenant.
#[derive(Serialize, ToSchema)]
pub(crate) struct KeyList {
    keys: Vec<KeyView>,
}

/// List the keys.
#[utoipa::path(get, path = "/api/v1/keys", tag = "access", params(ReadHeaders),
    responses((status = OK, body = KeyList), ReadErrors))]
pub(crate) async fn key_list(AdminRead(session, freshness): AdminRead) -> ApiResponse<KeyList> {
    let keys = session.api_keys().await?;
    Ok(Success::ok(freshness, KeyList { keys: keys.into_iter().map(KeyView::from).collect() }))
}

/// Create a key.
#[utoipa::path(post, path = "/api/v1/keys", tag = "access", request_body = NewKey,
    responses((status = CREATED, body = CreatedKeyView), WriteErrors))]
pub(crate) async fn key_create(
    Admin(session): Admin,
    ValidJson(request): ValidJson<NewKey>,
) -> ApiResponse<CreatedKeyView> {
    let (name, role) = (request.name(), request.role.map_or(Role::Agent, |role| role.0));
    let namespace = named_namespace(request.namespace)?;
    let (done, text) = session.create_key(name, role, namespace).await?;
    let body = CreatedKeyView { view: done.value.into(), key: text.as_str().to_owned() };
    Ok(Success::created(done.freshness, body))
}

/// Delete a key: it is invalid from then on. The last key that may administer the tenant stays.
#[utoipa::path(delete, path = "/api/v1/keys/{id}", tag = "access", params(KeyPath),
    responses((status = OK, body = DeletedKeyView), WriteErrors, NotFound))]
pub(crate) async fn key_delete(
    Admin(session): Admin,
    KeyPath(id): KeyPath,
) -> ApiResponse<DeletedKeyView> {
    let done = session.delete_key(id).await?;
    Ok(Success::ok(done.freshness, DeletedKeyView { view: done.value.into(), deleted: true }))
}

impl From<(KeyId, ApiKey)> for KeyView {
    fn from((id, key): (KeyId, ApiKey)) -> Self {
        Self {
            id: id.to_string(),
            label: key.name.clone(),
            name: key.name,
            role: OneOf(key.role),
            namespace: key.namespace,
            created_at: Time(key.created_at),
            last_used_at: key.last_used_at.map(Time),
        }
    }
}
