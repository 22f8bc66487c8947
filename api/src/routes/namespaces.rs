//! Access rules for namespaces, and the caller's own namespace.

use storage::command::{DeleteRule, PutRule};
use storage::model::access::{ANY, Rule};

use crate::prelude::*;
use crate::requests::access::{NewRule, OwnNamespace};
use crate::words::RulePolicy;

/// The caller's own namespace.
#[derive(Serialize, ToSchema)]
pub(crate) struct OwnNamespaceView {
    /// Always true.
    ok: bool,
    namespace: Nullable<String>,
}

/// A rule.
#[derive(Serialize, ToSchema)]
pub(crate) struct RuleView {
    id: String,
    agent_id: String,
    namespace: String,
    // `default` after its deletion.
    policy: PolicyWord,
    created_at: Time,
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
    Agent(session): Agent,
    ValidJson(request): ValidJson<OwnNamespace>,
) -> ApiResponse<OwnNamespaceView> {
    let namespace = named_namespace(request.namespace)?;
    let done = session.set_own_namespace(namespace).await?;
    let body = OwnNamespaceView { ok: true, namespace: done.value.key.namespace };
    Ok(Success::ok(done.freshness, body))
}

/// List the access rules.
#[utoipa::path(get, path = "/api/v1/namespaces/acl", tag = "access", params(ReadHeaders),
    responses((status = OK, body = RuleList), ReadErrors))]
pub(crate) async fn rule_list(AdminRead(session, freshness): AdminRead) -> ApiResponse<RuleList> {
    let rules = session.rules().await?.rules;
    let view = |rule: Rule| RuleView::new(Some(rule.policy), rule);
    Ok(Success::ok(freshness, RuleList { items: rules.into_iter().map(view).collect() }))
}

/// Create or replace a rule; policy `default` deletes it.
#[utoipa::path(post, path = "/api/v1/namespaces/acl", tag = "access", request_body = NewRule,
    responses((status = CREATED, body = RuleView), (status = OK, body = RuleView), WriteErrors,
        NotFound))]
pub(crate) async fn rule_create(
    Admin(session): Admin,
    ValidJson(request): ValidJson<NewRule>,
) -> ApiResponse<RuleView> {
    let agent = request.agent_id.map_or_else(|| ANY.to_owned(), |agent| agent.0);
    let policy = request.policy.0;
    let done = session.submit(PutRule { agent, namespace: request.namespace.0, policy }).await?;
    let status = if policy.is_some() { StatusCode::CREATED } else { StatusCode::OK };
    let body = RuleView::new(policy, done.value);
    Ok(Success { status, freshness: done.freshness, body })
}

/// Delete a rule.
#[utoipa::path(delete, path = "/api/v1/namespaces/acl/{id}", tag = "access", params(RulePath),
    responses((status = OK, body = RuleView), WriteErrors, NotFound))]
pub(crate) async fn rule_delete(
    Admin(session): Admin,
    RulePath(number): RulePath,
) -> ApiResponse<RuleView> {
    let done = session.submit(DeleteRule(number)).await?;
    Ok(Success::ok(done.freshness, RuleView::new(None, done.value)))
}

impl RuleView {
    fn new(policy: RulePolicy, rule: Rule) -> Self {
        Self {
            id: rule.number.to_string(),
            agent_id: rule.agent,
            namespace: rule.namespace,
            policy: OneOf(policy),
            created_at: Time(rule.created_at),
        }
    }
}
