//! Keys of a tenant, and which namespaces they may touch. The text of a key is shown once,
//! when it is made.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use storage::model::access::{AGENT_BYTES_MAX, ANY, Policy, Rule};
use storage::model::id::Timestamp;
use storage::model::memory::NAMESPACE_BYTES_MAX;
use storage::model::tenant::{ApiKey, KEY_NAME_BYTES_MAX, KeyId, KeyText, Role};
use storage::{Action, Refusal, Reply, View};
use uuid::Uuid;

use crate::app::App;
use crate::auth::{AdminCaller, AgentCaller};
use crate::consistency::Freshness;
use crate::error::{ApiError, ApiResult};
use crate::extract::Body;
use crate::wire;
use crate::write::ask;

/// Name of a key that nobody named.
const UNNAMED: &str = "unnamed";

/// List the keys.
pub(crate) async fn key_list(
    State(app): State<App>,
    AdminCaller(caller): AdminCaller,
    freshness: Freshness,
) -> ApiResult<Response> {
    let keys = app.read(move |reader| reader.api_keys(caller.tenant)).await?;
    let keys: Vec<Value> = keys.iter().map(|(id, key)| shown_key(*id, key)).collect();
    Ok((freshness, Json(json!({ "keys": keys }))).into_response())
}

/// Create a key: `{name, role?, namespace?}`.
pub(crate) async fn key_create(
    State(app): State<App>,
    AdminCaller(caller): AdminCaller,
    body: Body,
) -> ApiResult<Response> {
    let fields = &body.fields;
    let name = fields.alias(&["name", "label"]).unwrap_or("name");
    // Published clients send an empty one when nobody names it.
    let name = fields.text(name, KEY_NAME_BYTES_MAX)?.filter(|name| !name.trim().is_empty());
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
    let (freshness, reply) = ask(&app, &caller, None, Action::KeyCreate(id, key)).await?;
    let Reply::ApiKey(id, key) = reply else { return Err(ApiError::internal()) };
    let mut body = shown_key(id, &key);
    body["key"] = text.as_str().into();
    Ok((StatusCode::CREATED, freshness, Json(body)).into_response())
}

/// Delete a key: from then on nobody gets in with it.
pub(crate) async fn key_delete(
    State(app): State<App>,
    AdminCaller(caller): AdminCaller,
    Path(id): Path<String>,
) -> ApiResult<Response> {
    let id = id.parse().map_err(|_| ApiError::invalid("id", "must be the id of a key"))?;
    let (freshness, reply) = ask(&app, &caller, None, Action::KeyDelete(id)).await?;
    let Reply::ApiKey(id, key) = reply else { return Err(ApiError::internal()) };
    let mut body = shown_key(id, &key);
    body["deleted"] = true.into();
    Ok((freshness, Json(body)).into_response())
}

/// Make a namespace the caller's own: searches boost what lies in it.
pub(crate) async fn namespace_default(
    State(app): State<App>,
    AgentCaller(caller): AgentCaller,
    body: Body,
) -> ApiResult<Response> {
    let namespace = body.fields.namespace()?;
    let action = Action::KeyNamespace(caller.key, namespace);
    let (freshness, reply) = ask(&app, &caller, None, action).await?;
    let Reply::ApiKey(_, key) = reply else { return Err(ApiError::internal()) };
    Ok((freshness, Json(json!({ "ok": true, "namespace": key.namespace }))).into_response())
}

/// List the access rules.
pub(crate) async fn rule_list(
    State(app): State<App>,
    AdminCaller(caller): AdminCaller,
    freshness: Freshness,
) -> ApiResult<Response> {
    let rules = app.read(move |reader| reader.access_rules(caller.tenant)).await?;
    let items: Vec<Value> = rules.rules.iter().map(|rule| shown_rule(rule, true)).collect();
    Ok((freshness, Json(json!({ "items": items }))).into_response())
}

/// Make a rule: `{agent_id, namespace, policy}`; policy `default` takes it away.
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
    let action = Action::RulePut { agent, namespace, policy };
    let (freshness, reply) = ask(&app, &caller, None, action).await?;
    let Reply::Rule(rule) = reply else { return Err(ApiError::internal()) };
    let status = if policy.is_some() { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, freshness, Json(shown_rule(&rule, policy.is_some()))).into_response())
}

/// Take a rule away.
pub(crate) async fn rule_delete(
    State(app): State<App>,
    AdminCaller(caller): AdminCaller,
    Path(id): Path<String>,
) -> ApiResult<Response> {
    let number = id.parse().map_err(|_| ApiError::invalid("id", "must be the id of a rule"))?;
    let (freshness, reply) = ask(&app, &caller, None, Action::RuleDelete(number)).await?;
    let Reply::Rule(rule) = reply else { return Err(ApiError::from(no_rule())) };
    Ok((freshness, Json(shown_rule(&rule, false))).into_response())
}

fn no_rule() -> Refusal {
    Refusal::NoSuch("rule".into())
}

fn shown_key(id: KeyId, key: &ApiKey) -> Value {
    json!({
        "id": id.to_string(),
        "name": key.name,
        "label": key.name,
        "role": key.role.name(),
        "namespace": key.namespace,
        "created_at": wire::timestamp(key.created_at),
        "last_used_at": key.last_used_at.map(wire::timestamp),
    })
}

fn shown_rule(rule: &Rule, stands: bool) -> Value {
    let policy = match (stands, rule.policy) {
        (false, _) => "default",
        (true, Policy::Allow) => "allow",
        (true, Policy::Deny) => "deny",
    };
    json!({
        "id": rule.number.to_string(),
        "agent_id": rule.agent,
        "namespace": rule.namespace,
        "policy": policy,
        "created_at": wire::timestamp(rule.created_at),
    })
}

fn random() -> [u8; 32] {
    let (first, second) = (Uuid::new_v4(), Uuid::new_v4());
    let mut random = [0; 32];
    random[..16].copy_from_slice(first.as_bytes());
    random[16..].copy_from_slice(second.as_bytes());
    random
}
