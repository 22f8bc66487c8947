//! API keys of a tenant. The text of a key is returned once, when it is created.

use axum::extract::State;
use serde::Serialize;
use storage::model::tenant::{ApiKey, KeyId, Role};
use utoipa::ToSchema;

use crate::app::App;
use crate::auth::AdminCaller;
use crate::openapi::{NotFound, ReadErrors, WriteErrors};
use crate::read::FreshRead;
use crate::requests::ValidJson;
use crate::requests::access::NewKey;
use crate::requests::headers::Fresh;
use crate::requests::memories::named_namespace;
use crate::requests::path::KeyPath;
use crate::responses::{Respond, timestamp, word};
use crate::service::error::ApiResult;

/// A key, without its text.
#[derive(Serialize, ToSchema)]
struct KeyView {
    id: String,
    name: String,
    /// The name, again.
    label: String,
    #[schema(schema_with = word::<Role>)]
    role: &'static str,
    #[schema(required)]
    namespace: Option<String>,
    #[schema(format = DateTime)]
    created_at: String,
    #[schema(required, format = DateTime)]
    last_used_at: Option<String>,
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
#[utoipa::path(get, path = "/api/v1/keys", tag = "access", params(Fresh),
    responses((status = OK, body = KeyList), ReadErrors))]
pub(crate) async fn key_list(
    State(app): State<App>,
    AdminCaller(caller): AdminCaller,
    FreshRead(freshness): FreshRead,
) -> ApiResult<Respond<KeyList>> {
    let keys = app.service().keys(&caller).await?;
    let keys = keys.iter().map(|(id, key)| KeyView::new(*id, key)).collect();
    Ok(Respond::ok(freshness, KeyList { keys }))
}

/// Create a key.
#[utoipa::path(post, path = "/api/v1/keys", tag = "access", request_body = NewKey,
    responses((status = CREATED, body = CreatedKeyView), WriteErrors))]
pub(crate) async fn key_create(
    State(app): State<App>,
    AdminCaller(caller): AdminCaller,
    ValidJson(request): ValidJson<NewKey>,
) -> ApiResult<Respond<CreatedKeyView>> {
    let (name, role) = (request.name(), request.role());
    let namespace = named_namespace(request.namespace)?;
    let done = app.service().create_key(&caller, name, role, namespace).await?;
    let created = done.value;
    let view = KeyView::new(created.id, &created.key);
    let body = CreatedKeyView { view, key: created.text.as_str().to_owned() };
    Ok(Respond::created(done.freshness, body))
}

/// Delete a key: it is invalid from then on. The last key that may administer the tenant stays.
#[utoipa::path(delete, path = "/api/v1/keys/{id}", tag = "access", params(KeyPath),
    responses((status = OK, body = DeletedKeyView), WriteErrors, NotFound))]
pub(crate) async fn key_delete(
    State(app): State<App>,
    AdminCaller(caller): AdminCaller,
    KeyPath(id): KeyPath,
) -> ApiResult<Respond<DeletedKeyView>> {
    let done = app.service().delete_key(&caller, id).await?;
    let (id, key) = done.value;
    let body = DeletedKeyView { view: KeyView::new(id, &key), deleted: true };
    Ok(Respond::ok(done.freshness, body))
}

impl KeyView {
    fn new(id: KeyId, key: &ApiKey) -> Self {
        Self {
            id: id.to_string(),
            name: key.name.clone(),
            label: key.name.clone(),
            role: key.role.name(),
            namespace: key.namespace.clone(),
            created_at: timestamp(key.created_at),
            last_used_at: key.last_used_at.map(timestamp),
        }
    }
}
