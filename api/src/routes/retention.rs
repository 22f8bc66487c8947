//! Rules of retention: read, replaced, and tried out.

use serde::Deserialize;
use storage::Etag;
use storage::command::UpdateRetention;
use storage::model::retention::{self, RETENTION_RULES_MAX};
use utoipa::ToSchema;

use crate::error::{ApiError, ApiResult};
use crate::prelude::*;
use crate::requests::memories::named_namespace;
use crate::requests::values::{Items, JsonObject};

/// Memories that are archived or deleted after some days.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct RetentionRule {
    /// Only memories of this namespace; `*` is all, and the default.
    namespace: Option<Namespace>,
    /// Only memories of this type.
    memory_type: Option<MemoryTypeWord>,
    action: RetentionWord,
    /// Days for which they were cold and not used.
    after_days: RetentionDays,
}

// The derive below needs a literal.
const _: () = assert!(RETENTION_RULES_MAX == 100);

/// The rules of a tenant. Of each action, the first one for the namespace and type of a memory
/// decides.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(example = json!({"rules": [{"namespace": "logs", "action": "delete", "after_days": 30}]}))]
pub(crate) struct RetentionRules {
    #[schema(value_type = Vec<RetentionRule>, max_items = 100)]
    rules: Items<JsonObject<RetentionRule>, 0, RETENTION_RULES_MAX>,
}

impl RetentionRules {
    pub(crate) fn into_rules(self) -> ApiResult<Vec<retention::RetentionRule>> {
        let rules = self.rules.0.into_iter().enumerate();
        let rule = |(at, JsonObject(rule)): (usize, JsonObject<RetentionRule>)| {
            let namespace = named_namespace(rule.namespace)
                .map_err(|error: ApiError| error.within(&format!("rules[{at}]")))?;
            Ok(retention::RetentionRule {
                namespace: namespace.filter(|name| name != "*"),
                memory_type: rule.memory_type.map(|it| it.0),
                action: rule.action.0,
                after_days: rule.after_days.0 as u32,
            })
        };
        rules.map(rule).collect()
    }
}

/// A rule.
#[derive(Serialize, ToSchema)]
struct RuleOfRetention {
    namespace: Nullable<String>,
    #[schema(required)]
    memory_type: Option<MemoryTypeWord>,
    action: RetentionWord,
    after_days: u32,
}

/// The rules of a tenant, in order.
#[derive(Serialize, ToSchema)]
pub(crate) struct Retention {
    rules: Vec<RuleOfRetention>,
}

/// A rule, and the memories on which it is due.
#[derive(Serialize, ToSchema)]
struct DueRule {
    #[serde(flatten)]
    rule: RuleOfRetention,
    /// Memories that the next tick would archive or delete, unless they are locked.
    due: u64,
}

/// What rules would do.
#[derive(Serialize, ToSchema)]
pub(crate) struct RetentionPreview {
    rules: Vec<DueRule>,
}

/// Get the rules of retention. Keys with restricted access see those of their namespaces.
#[utoipa::path(get, path = "/api/v1/settings/retention", tag = "settings", params(ReadHeaders),
    responses((status = OK, body = Retention), ReadErrors))]
pub(crate) async fn get_retention(
    ReaderRead(session, freshness): ReaderRead,
) -> ApiResponse<Retention> {
    let tenant = session.tenant().await?;
    session.request.set_tag(Etag::of(&tenant));
    let mut rules = tenant.retention;
    let access = &session.caller.access;
    rules.retain(|rule| rule.namespace.as_ref().is_none_or(|it| access.allows(it)));
    let rules = rules.into_iter().map(Into::into).collect();
    Ok(Success::ok(freshness, Retention { rules }))
}

/// Replace the rules of retention. The next tick applies them.
#[utoipa::path(put, path = "/api/v1/settings/retention", tag = "settings",
    request_body = RetentionRules, responses((status = OK, body = Retention), WriteErrors))]
pub(crate) async fn set_retention(
    Admin(session): Admin,
    ValidJson(request): ValidJson<RetentionRules>,
) -> ApiResponse<Retention> {
    let rules = request.into_rules()?;
    let done = session.submit(UpdateRetention(rules.clone())).await?;
    let rules = rules.into_iter().map(Into::into).collect();
    Ok(Success::ok(done.freshness, Retention { rules }))
}

/// Count the memories on which rules would be due now. Nothing changes.
#[utoipa::path(post, path = "/api/v1/settings/retention/preview", tag = "settings",
    params(ReadHeaders), request_body = RetentionRules,
    responses((status = OK, body = RetentionPreview), BodyErrors))]
pub(crate) async fn preview_retention(
    AdminRead(session, freshness): AdminRead,
    ValidJson(request): ValidJson<RetentionRules>,
) -> ApiResponse<RetentionPreview> {
    let rules = request.into_rules()?;
    let due = session.retention_due(rules.clone()).await?;
    let rules = rules.into_iter().zip(due);
    let rules = rules.map(|(rule, due)| DueRule { rule: rule.into(), due }).collect();
    Ok(Success::ok(freshness, RetentionPreview { rules }))
}

impl From<retention::RetentionRule> for RuleOfRetention {
    fn from(rule: retention::RetentionRule) -> Self {
        Self {
            namespace: rule.namespace,
            memory_type: rule.memory_type.map(OneOf),
            action: OneOf(rule.action),
            after_days: rule.after_days,
        }
    }
}
