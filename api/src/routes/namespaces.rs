//! Access rules for namespaces, and the caller's own namespace.

use axum::extract::State;
use axum::http::StatusCode;
use serde::Serialize;
use storage::model::access::Rule;
use utoipa::ToSchema;

use crate::app::App;
use crate::auth::{AdminCaller, AgentCaller};
use crate::openapi::{NotFound, ReadErrors, WriteErrors};
use crate::read::FreshRead;
use crate::requests::ValidJson;
use crate::requests::access::{NewRule, OwnNamespace};
use crate::requests::headers::Fresh;
use crate::requests::memories::named_namespace;
use crate::requests::path::RulePath;
use crate::responses::{Respond, timestamp, word};
use crate::service::error::ApiResult;
use crate::words::RulePolicy;

/// The caller's own namespace.
#[derive(Serialize, ToSchema)]
pub(crate) struct OwnNamespaceView {
    /// Always true.
    ok: bool,
    #[schema(required)]
    namespace: Option<String>,
}

/// A rule.
#[derive(Serialize, ToSchema)]
pub(crate) struct RuleView {
    id: String,
    agent_id: String,
    namespace: String,
    /// `default` after its deletion.
    #[schema(schema_with = word::<RulePolicy>)]
    policy: &'static str,
    #[schema(format = DateTime)]
    created_at: String,
}

/// All rules of a tenant.
#[derive(Serialize, ToSchema)]
pub(crate) struct RuleList {
    items: Vec<RuleView>,
}

/// Set the caller's own namespace: its searches boost memories of it.
#[utoipa::path(put, path = "/api/v1/namespaces/default", tag = "access",
    request_body = OwnNamespace,
    responses((status = OK, body = OwnNamespaceView), WriteErrors, NotFound))]
pub(crate) async fn namespace_default(
    State(app): State<App>,
    AgentCaller(caller): AgentCaller,
    ValidJson(request): ValidJson<OwnNamespace>,
) -> ApiResult<Respond<OwnNamespaceView>> {
    let namespace = named_namespace(request.namespace)?;
    let done = app.service().set_own_namespace(&caller, namespace).await?;
    let (_, key) = done.value;
    Ok(Respond::ok(done.freshness, OwnNamespaceView { ok: true, namespace: key.namespace }))
}

/// List the access rules.
#[utoipa::path(get, path = "/api/v1/namespaces/acl", tag = "access", params(Fresh),
    responses((status = OK, body = RuleList), ReadErrors))]
pub(crate) async fn rule_list(
    State(app): State<App>,
    AdminCaller(caller): AdminCaller,
    FreshRead(freshness): FreshRead,
) -> ApiResult<Respond<RuleList>> {
    let rules = app.service().access_rules(&caller).await?;
    let view = |rule: &Rule| RuleView::new(rule, RulePolicy(Some(rule.policy)));
    Ok(Respond::ok(freshness, RuleList { items: rules.rules.iter().map(view).collect() }))
}

/// Create or replace a rule; policy `default` deletes it.
#[utoipa::path(post, path = "/api/v1/namespaces/acl", tag = "access", request_body = NewRule,
    responses((status = CREATED, body = RuleView), (status = OK, body = RuleView), WriteErrors,
        NotFound))]
pub(crate) async fn rule_create(
    State(app): State<App>,
    AdminCaller(caller): AdminCaller,
    ValidJson(request): ValidJson<NewRule>,
) -> ApiResult<Respond<RuleView>> {
    let (agent, namespace, policy) = (request.agent(), request.namespace.0, request.policy.0);
    let done = app.service().put_rule(&caller, agent, namespace, policy.0).await?;
    let status = if policy.0.is_some() { StatusCode::CREATED } else { StatusCode::OK };
    let body = RuleView::new(&done.value, policy);
    Ok(Respond::ok(done.freshness, body).with_status(status))
}

/// Delete a rule.
#[utoipa::path(delete, path = "/api/v1/namespaces/acl/{id}", tag = "access", params(RulePath),
    responses((status = OK, body = RuleView), WriteErrors, NotFound))]
pub(crate) async fn rule_delete(
    State(app): State<App>,
    AdminCaller(caller): AdminCaller,
    RulePath(number): RulePath,
) -> ApiResult<Respond<RuleView>> {
    let done = app.service().delete_rule(&caller, number).await?;
    Ok(Respond::ok(done.freshness, RuleView::new(&done.value, RulePolicy(None))))
}

impl RuleView {
    fn new(rule: &Rule, policy: RulePolicy) -> Self {
        Self {
            id: rule.number.to_string(),
            agent_id: rule.agent.clone(),
            namespace: rule.namespace.clone(),
            policy: policy.name(),
            created_at: timestamp(rule.created_at),
        }
    }
}
