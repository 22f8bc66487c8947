//! Keys of a tenant, and which namespaces they may touch. The text of a key is shown once,
//! when it is made.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use storage::model::access::{AGENT_BYTES_MAX, ANY, Policy, Rule};
use storage::model::id::Timestamp;
use storage::model::memory::NAMESPACE_BYTES_MAX;
use storage::model::tenant::{ApiKey, KEY_NAME_BYTES_MAX, KeyId, KeyText, Role};
use storage::{Action, Rejection, Reply, View};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::app::App;
use crate::auth::{AdminCaller, AgentCaller};
use crate::consistency::Freshness;
use crate::error::{ApiError, ApiResult};
use crate::extract::{Body, Fields};
use crate::openapi::{Missing, Reading, Writing};
use crate::wire::requests::{self, Fresh};
use crate::wire::{self, schema};
use crate::write::{Answer, ask};

/// Name of a key that nobody named.
const UNNAMED: &str = "unnamed";

/// A key, without its text.
#[derive(Serialize, ToSchema)]
struct ShownKey {
    id: String,
    name: String,
    /// The name, by another name.
    label: String,
    #[schema(schema_with = schema::role)]
    role: &'static str,
    #[schema(required)]
    namespace: Option<String>,
    #[schema(format = DateTime)]
    created_at: String,
    #[schema(required, format = DateTime)]
    last_used_at: Option<String>,
}

/// A key that was made.
#[derive(Serialize, ToSchema)]
struct CreatedKey {
    #[serde(flatten)]
    key_row: ShownKey,
    /// Its text, shown this once.
    key: String,
}

/// A key that is no more.
#[derive(Serialize, ToSchema)]
struct DeletedKey {
    #[serde(flatten)]
    key_row: ShownKey,
    /// Always true.
    deleted: bool,
}

/// All keys of a tenant.
#[derive(Serialize, ToSchema)]
struct KeyList {
    keys: Vec<ShownKey>,
}

/// The caller's own namespace.
#[derive(Serialize, ToSchema)]
struct Moved {
    /// Always true.
    ok: bool,
    #[schema(required)]
    namespace: Option<String>,
}

/// A rule.
#[derive(Serialize, ToSchema)]
struct ShownRule {
    id: String,
    agent_id: String,
    namespace: String,
    /// `default`, when it holds no longer.
    #[schema(schema_with = schema::policy)]
    policy: &'static str,
    #[schema(format = DateTime)]
    created_at: String,
}

/// All rules of a tenant.
#[derive(Serialize, ToSchema)]
struct RuleList {
    items: Vec<ShownRule>,
}

/// List the keys.
#[utoipa::path(get, path = "/api/v1/keys", tag = "access", params(Fresh),
    responses((status = OK, body = KeyList), Reading))]
pub(crate) async fn key_list(
    State(app): State<App>,
    AdminCaller(caller): AdminCaller,
    freshness: Freshness,
) -> ApiResult<Response> {
    let keys = app.read(move |reader| reader.api_keys(caller.tenant)).await?;
    let keys = keys.iter().map(|(id, key)| shown_key(*id, key)).collect();
    Ok((freshness, Json(KeyList { keys })).into_response())
}

/// Create a key.
#[utoipa::path(post, path = "/api/v1/keys", tag = "access",
    request_body = requests::NewKey,
    responses((status = CREATED, body = CreatedKey), Writing))]
pub(crate) async fn key_create(
    State(app): State<App>,
    AdminCaller(caller): AdminCaller,
    body: Body,
) -> ApiResult<Response> {
    let fields = &body.fields;
    // Published clients send an empty one when nobody names it.
    let read = |fields: &Fields, name: &str| fields.text(name, KEY_NAME_BYTES_MAX);
    let name = fields.either(&["name", "label"], read)?.filter(|name| !name.trim().is_empty());
    let name = name.unwrap_or_else(|| UNNAMED.to_owned());
    let role = |name: &str| Role::OF_KEYS.into_iter().find(|role| role.name() == name);
    let role = fields.one_of("role", role, "reader, agent, admin")?.unwrap_or(Role::Agent);
    let text = KeyText::from_random(random());
    let id = KeyText::id_of(text.as_str()).ok_or_else(ApiError::internal)?;
    let key = ApiKey {
        name,
        role,
        hash: KeyText::hash(text.as_str()),
        namespace: fields.namespace()?,
        created_at: Timestamp::default(),
        last_used_at: None,
    };
    let Answer { freshness, reply, .. } =
        ask(&app, &caller, None, Action::CreateKey(id, key)).await?;
    let Reply::ApiKey(id, key) = reply else { return Err(ApiError::internal()) };
    let body = CreatedKey { key_row: shown_key(id, &key), key: text.as_str().to_owned() };
    Ok((StatusCode::CREATED, freshness, Json(body)).into_response())
}

/// Delete a key: from then on nobody gets in with it. One that may administer the tenant stays.
#[utoipa::path(delete, path = "/api/v1/keys/{id}", tag = "access",
    params(("id" = String, Path, pattern = "^[0-9a-f]{16}$")),
    responses((status = OK, body = DeletedKey), Writing, Missing))]
pub(crate) async fn key_delete(
    State(app): State<App>,
    AdminCaller(caller): AdminCaller,
    Path(id): Path<String>,
) -> ApiResult<Response> {
    let id = id.parse().map_err(|_| ApiError::invalid("id", "must be the id of a key"))?;
    let Answer { freshness, reply, .. } = ask(&app, &caller, None, Action::DeleteKey(id)).await?;
    let Reply::ApiKey(id, key) = reply else { return Err(ApiError::internal()) };
    let body = DeletedKey { key_row: shown_key(id, &key), deleted: true };
    Ok((freshness, Json(body)).into_response())
}

/// Make a namespace the caller's own: searches boost what lies in it.
#[utoipa::path(put, path = "/api/v1/namespaces/default", tag = "access",
    request_body = requests::OwnNamespace,
    responses((status = OK, body = Moved), Writing, Missing))]
pub(crate) async fn namespace_default(
    State(app): State<App>,
    AgentCaller(caller): AgentCaller,
    body: Body,
) -> ApiResult<Response> {
    let namespace = body.fields.namespace()?;
    let action = Action::SetKeyNamespace(caller.key, namespace);
    let Answer { freshness, reply, .. } = ask(&app, &caller, None, action).await?;
    let Reply::ApiKey(_, key) = reply else { return Err(ApiError::internal()) };
    Ok((freshness, Json(Moved { ok: true, namespace: key.namespace })).into_response())
}

/// List the access rules.
#[utoipa::path(get, path = "/api/v1/namespaces/acl", tag = "access", params(Fresh),
    responses((status = OK, body = RuleList), Reading))]
pub(crate) async fn rule_list(
    State(app): State<App>,
    AdminCaller(caller): AdminCaller,
    freshness: Freshness,
) -> ApiResult<Response> {
    let rules = app.read(move |reader| reader.access_rules(caller.tenant)).await?;
    let items = rules.rules.iter().map(|rule| shown_rule(rule, true)).collect();
    Ok((freshness, Json(RuleList { items })).into_response())
}

/// Make a rule; policy `default` takes it away.
#[utoipa::path(post, path = "/api/v1/namespaces/acl", tag = "access",
    request_body = requests::NewRule,
    responses((status = CREATED, body = ShownRule), (status = OK, body = ShownRule), Writing, Missing))]
pub(crate) async fn rule_create(
    State(app): State<App>,
    AdminCaller(caller): AdminCaller,
    body: Body,
) -> ApiResult<Response> {
    let fields = &body.fields;
    let agent = fields.full_text("agent_id", AGENT_BYTES_MAX)?.unwrap_or_else(|| ANY.to_owned());
    let namespace = fields.full_text("namespace", NAMESPACE_BYTES_MAX)?;
    let namespace = namespace.ok_or_else(|| ApiError::invalid("namespace", "is required"))?;
    let policy = |name: &str| match name {
        "allow" => Some(Some(Policy::Allow)),
        "deny" => Some(Some(Policy::Deny)),
        "default" => Some(None),
        _ => None,
    };
    let policy = fields.one_of("policy", policy, "allow, deny, default")?;
    let policy = policy.ok_or_else(|| ApiError::invalid("policy", "is required"))?;
    let action = Action::PutRule { agent, namespace, policy };
    let Answer { freshness, reply, .. } = ask(&app, &caller, None, action).await?;
    let Reply::Rule(rule) = reply else { return Err(ApiError::internal()) };
    let status = if policy.is_some() { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, freshness, Json(shown_rule(&rule, policy.is_some()))).into_response())
}

/// Take a rule away.
#[utoipa::path(delete, path = "/api/v1/namespaces/acl/{id}", tag = "access",
    params(("id" = String, Path, pattern = "^[0-9]{1,18}$")),
    responses((status = OK, body = ShownRule), Writing, Missing))]
pub(crate) async fn rule_delete(
    State(app): State<App>,
    AdminCaller(caller): AdminCaller,
    Path(id): Path<String>,
) -> ApiResult<Response> {
    let number = id.parse().map_err(|_| ApiError::invalid("id", "must be the id of a rule"))?;
    let Answer { freshness, reply, .. } =
        ask(&app, &caller, None, Action::DeleteRule(number)).await?;
    let Reply::Rule(rule) = reply else { return Err(ApiError::from(no_rule())) };
    Ok((freshness, Json(shown_rule(&rule, false))).into_response())
}

fn no_rule() -> Rejection {
    Rejection::NoSuch("rule".into())
}

fn shown_key(id: KeyId, key: &ApiKey) -> ShownKey {
    ShownKey {
        id: id.to_string(),
        name: key.name.clone(),
        label: key.name.clone(),
        role: key.role.name(),
        namespace: key.namespace.clone(),
        created_at: wire::timestamp(key.created_at),
        last_used_at: key.last_used_at.map(wire::timestamp),
    }
}

fn shown_rule(rule: &Rule, stands: bool) -> ShownRule {
    let policy = match (stands, rule.policy) {
        (false, _) => "default",
        (true, Policy::Allow) => "allow",
        (true, Policy::Deny) => "deny",
    };
    ShownRule {
        id: rule.number.to_string(),
        agent_id: rule.agent.clone(),
        namespace: rule.namespace.clone(),
        policy,
        created_at: wire::timestamp(rule.created_at),
    }
}

fn random() -> [u8; 32] {
    let (first, second) = (Uuid::new_v4(), Uuid::new_v4());
    let mut random = [0; 32];
    random[..16].copy_from_slice(first.as_bytes());
    random[16..].copy_from_slice(second.as_bytes());
    random
}
