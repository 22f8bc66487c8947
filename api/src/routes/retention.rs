//! Rules of retention: read, replaced, and tried out.

use storage::command::UpdateRetention;
use storage::model::retention::RetentionRule;

use crate::prelude::*;
use crate::requests::retention::RetentionRules;

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
pub(crate) async fn retention_get(
    ReaderRead(session, freshness): ReaderRead,
) -> ApiResponse<Retention> {
    let mut rules = session.tenant().await?.retention;
    let access = &session.caller.access;
    rules.retain(|rule| rule.namespace.as_ref().is_none_or(|it| access.allows(it)));
    let rules = rules.into_iter().map(Into::into).collect();
    Ok(Success::ok(freshness, Retention { rules }))
}

/// Replace the rules of retention. The next tick applies them.
#[utoipa::path(put, path = "/api/v1/settings/retention", tag = "settings",
    request_body = RetentionRules, responses((status = OK, body = Retention), WriteErrors))]
pub(crate) async fn retention_put(
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
pub(crate) async fn retention_preview(
    AdminRead(session, freshness): AdminRead,
    ValidJson(request): ValidJson<RetentionRules>,
) -> ApiResponse<RetentionPreview> {
    let rules = request.into_rules()?;
    let due = session.retention_due(rules.clone()).await?;
    let rules = rules.into_iter().zip(due);
    let rules = rules.map(|(rule, due)| DueRule { rule: rule.into(), due }).collect();
    Ok(Success::ok(freshness, RetentionPreview { rules }))
}

impl From<RetentionRule> for RuleOfRetention {
    fn from(rule: RetentionRule) -> Self {
        Self {
            namespace: rule.namespace,
            memory_type: rule.memory_type.map(OneOf),
            action: OneOf(rule.action),
            after_days: rule.after_days,
        }
    }
}
