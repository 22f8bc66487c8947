//! API keys of a tenant. The text of a key is returned once, when it is created.

use serde::Deserialize;
use storage::KeyReply;
use storage::command::DeleteKey;
use storage::model::access::{ANY, Rules};
use storage::model::api_key::{ApiKey, KEY_LIFETIME_SECONDS, KEY_NAMESPACES_MAX, NewApiKey};
use storage::model::id::{KeyId, Timestamp};
use storage::model::tenant::Role;
use utoipa::{IntoParams, ToSchema};

use crate::error::{ApiError, ApiResult};
use crate::prelude::*;
use crate::requests::memories::any_namespace;
use crate::requests::values::Id;

/// Name of a key that the request does not name.
const UNNAMED: &str = "unnamed";

/// A new key.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(example = json!({"name": "support agent", "role": "agent"}))]
pub(crate) struct NewKey {
    name: Option<KeyName>,
    /// Alias of `name`, which comes first.
    #[schema(ignore)]
    label: Option<KeyName>,
    #[schema(default = "agent")]
    pub(crate) role: Option<RoleWord>,
    /// Its own namespace, which its searches boost.
    #[schema(schema_with = any_namespace)]
    pub(crate) namespace: Option<Namespace>,
    /// The only namespaces that it may use, at least one. Absent is all. Not for an admin key.
    #[schema(min_items = 1, max_items = 100)]
    namespaces: Option<Vec<RuleNamespace>>,
    /// How long it is valid. Absent is without an end.
    expires_in_seconds: Option<KeyLifetime>,
    /// Alias of `expires_in_seconds`, which comes first: when it ends.
    #[schema(ignore)]
    expires_at: Option<TimeText>,
}

/// Which keys.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct KeyQuery {
    #[serde(default)]
    #[param(inline)]
    limit: KeyLimit,
    /// The `next_cursor` of the page before, or the id of a key: the page begins after it.
    #[param(value_type = Option<String>, pattern = "^[0-9a-f]{16}$")]
    cursor: Option<KeyIdText>,
    /// A namespace: each key in the response has `may_use`.
    pub(crate) access_to: Option<Namespace>,
}

/// A key's new text.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(example = json!({"overlap_seconds": 600}))]
pub(crate) struct KeyRotation {
    /// How long the present text stays valid.
    #[schema(default = 3600)]
    pub(crate) overlap_seconds: Option<KeyOverlap>,
}

impl KeyQuery {
    pub(crate) fn limit(&self) -> usize {
        self.limit.get()
    }

    pub(crate) fn after(&self) -> Option<KeyId> {
        self.cursor.as_ref().map(|Id(key)| *key)
    }
}

impl NewKey {
    /// The namespaces that it may use; empty is all. An empty list is rejected: a client that computed
    /// it meant none.
    pub(crate) fn bound_to(&self) -> ApiResult<Vec<String>> {
        let Some(names) = &self.namespaces else { return Ok(Vec::new()) };
        let names: Vec<_> = names.iter().map(|name| name.0.clone()).collect();
        let is_admin = self.role.as_ref().is_some_and(|role| role.0 >= Role::Admin);
        let message = match () {
            () if names.len() > KEY_NAMESPACES_MAX => {
                format!("must have at most {KEY_NAMESPACES_MAX} names")
            }
            () if is_admin => "must be absent: an admin key may use all namespaces".to_owned(),
            () if names.is_empty() => "must have a name; absent is all namespaces".to_owned(),
            () if names.iter().any(|name| name == ANY) => "must name each namespace".to_owned(),
            () => return Ok(names),
        };
        Err(ApiError::invalid("namespaces", message))
    }

    /// The seconds for which it is valid; `None` is without an end.
    pub(crate) fn lifetime(&self, now: Timestamp) -> ApiResult<Option<u64>> {
        let end = self.expires_at.as_ref().and_then(|time| time.0.start());
        let seconds = match (&self.expires_in_seconds, end) {
            (Some(seconds), _) => return Ok(Some(seconds.0)),
            (None, None) => return Ok(None),
            (None, Some(end)) => end.since(now) / 1_000_000,
        };
        let (min, max) = KEY_LIFETIME_SECONDS;
        match u64::try_from(seconds) {
            Ok(seconds) if (min..=max).contains(&seconds) => Ok(Some(seconds)),
            _ => Err(ApiError::invalid("expires_at", "must be in the future, within ten years")),
        }
    }

    /// Published clients send an empty name for none.
    pub(crate) fn name(&self) -> String {
        let names = [&self.name, &self.label].into_iter().flatten().map(|text| text.0.as_str());
        let first = names.into_iter().find(|name| !name.trim().is_empty());
        first.unwrap_or(UNNAMED).to_owned()
    }
}

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
pub(crate) async fn list_keys(
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
pub(crate) async fn create_key(
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
pub(crate) async fn rotate_key(
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
pub(crate) async fn delete_key(
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
