//! The rules of the guard: read, replaced, and tried out.

use serde::Deserialize;
use storage::Etag;
use storage::command::UpdateGuard;
use storage::model::guard::{
    self, GUARD_PATTERNS_MAX, GUARD_PATTERNS_OF_TENANT_MAX, GUARD_RULES_MAX,
};
use utoipa::ToSchema;

use crate::error::{ApiError, ApiResult};
use crate::guard::compiled;
use crate::prelude::*;
use crate::requests::values::{Items, JsonObject};

/// A pattern of the tenant.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct GuardPattern {
    /// What stands in place of a match.
    name: GuardPatternName,
    /// A regular expression without look-around and back-references, and of bounded size.
    pattern: GuardPatternText,
    action: GuardWord,
}

// The derives below need literals.
const _: () = assert!(GUARD_RULES_MAX == 100 && GUARD_PATTERNS_MAX == 16);

/// What happens to new texts of a namespace in which something is found.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct GuardRule {
    /// Memories of this namespace and of those below it; `*` is all, and the default.
    namespace: Option<Namespace>,
    /// Keys, tokens, passwords, private keys.
    #[schema(default = "off")]
    secrets: Option<GuardWord>,
    /// Numbers of cards and accounts with the right check digits.
    #[schema(default = "off")]
    numbers: Option<GuardWord>,
    /// Addresses of e-mail.
    #[schema(default = "off")]
    emails: Option<GuardWord>,
    /// Instructions for a model, such as to ignore those before.
    #[schema(default = "flag")]
    instructions: Option<GuardWord>,
    #[schema(value_type = Vec<GuardPattern>, max_items = 16)]
    patterns: Option<Items<JsonObject<GuardPattern>, 0, GUARD_PATTERNS_MAX>>,
}

/// The rules of a tenant. The first one that covers a namespace decides.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(example = json!({"rules": [{"namespace": "customers", "secrets": "redact", "numbers": "block"}]}))]
pub(crate) struct GuardRules {
    #[schema(value_type = Vec<GuardRule>, max_items = 100)]
    rules: Items<JsonObject<GuardRule>, 0, GUARD_RULES_MAX>,
}

impl GuardRules {
    fn into_rules(self) -> ApiResult<Vec<guard::GuardRule>> {
        let patterns = |JsonObject(rule): &JsonObject<GuardRule>| {
            rule.patterns.as_ref().map_or(0, |patterns| patterns.0.len())
        };
        // They are compiled to be checked.
        if self.rules.0.iter().map(patterns).sum::<usize>() > GUARD_PATTERNS_OF_TENANT_MAX {
            let message =
                format!("must have at most {GUARD_PATTERNS_OF_TENANT_MAX} patterns together");
            return Err(ApiError::invalid("rules", message));
        }
        let rules = self.rules.0.into_iter().enumerate();
        rules
            .map(|(at, JsonObject(rule))| {
                rule.into_rule().map_err(|error| error.within(&format!("rules[{at}]")))
            })
            .collect()
    }
}

impl GuardRule {
    fn into_rule(self) -> ApiResult<guard::GuardRule> {
        let namespace = named_namespace(self.namespace)?;
        let patterns = self.patterns.map_or_else(Vec::new, |patterns| patterns.0);
        let patterns = patterns.into_iter().enumerate().map(|(at, JsonObject(own))| {
            let fault = |fault: String| ApiError::invalid(format!("patterns[{at}].pattern"), fault);
            compiled(&own.pattern.0).map_err(fault)?;
            let (name, pattern) = (own.name.0, own.pattern.0);
            Ok(guard::GuardPattern { name, pattern, action: own.action.0 })
        });
        let default = guard::GuardRule::default();
        let action = |word: Option<GuardWord>, default| word.map_or(default, |word| word.0);
        Ok(guard::GuardRule {
            namespace: namespace.filter(|name| name != "*"),
            secrets: action(self.secrets, default.secrets),
            numbers: action(self.numbers, default.numbers),
            emails: action(self.emails, default.emails),
            instructions: action(self.instructions, default.instructions),
            patterns: patterns.collect::<ApiResult<_>>()?,
        })
    }
}

/// A pattern of a rule.
#[derive(Serialize, ToSchema)]
struct PatternOfGuard {
    name: String,
    pattern: String,
    action: GuardWord,
}

/// A rule.
#[derive(Serialize, ToSchema)]
#[schema(as = RuleOfGuard)]
struct GuardRuleView {
    namespace: Nullable<String>,
    secrets: GuardWord,
    numbers: GuardWord,
    emails: GuardWord,
    instructions: GuardWord,
    patterns: Vec<PatternOfGuard>,
}

/// The rules of a tenant, in order.
#[derive(Serialize, ToSchema)]
#[schema(as = Guard)]
pub(crate) struct GuardView {
    rules: Vec<GuardRuleView>,
}

impl From<Vec<guard::GuardRule>> for GuardView {
    fn from(rules: Vec<guard::GuardRule>) -> Self {
        let pattern = |own: guard::GuardPattern| PatternOfGuard {
            name: own.name,
            pattern: own.pattern,
            action: OneOf(own.action),
        };
        let rule = |rule: guard::GuardRule| GuardRuleView {
            namespace: rule.namespace,
            secrets: OneOf(rule.secrets),
            numbers: OneOf(rule.numbers),
            emails: OneOf(rule.emails),
            instructions: OneOf(rule.instructions),
            patterns: rule.patterns.into_iter().map(pattern).collect(),
        };
        Self { rules: rules.into_iter().map(rule).collect() }
    }
}

/// A text to try out.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(example = json!({"text": "the key is AKIAIOSFODNN7EXAMPLE", "namespace": "customers"}))]
pub(crate) struct GuardTrial {
    text: FullLabel,
    /// Where it would be stored; by default where the key stores.
    namespace: Option<Namespace>,
    /// Rules in place of those of the tenant.
    #[schema(value_type = Option<Vec<GuardRule>>, max_items = 100)]
    rules: Option<Items<JsonObject<GuardRule>, 0, GUARD_RULES_MAX>>,
}

/// What the guard would do with a text.
#[derive(Serialize, ToSchema)]
pub(crate) struct GuardOutcome {
    /// What would be stored.
    text: String,
    detections: Vec<DetectionWord>,
    flagged: bool,
    quarantined: bool,
    /// What would reject the write.
    blocked_by: Nullable<String>,
}

/// Get the rules of the guard. Keys with restricted access see those of their namespaces.
#[utoipa::path(get, path = "/api/v1/settings/guard", tag = "settings", params(ReadHeaders),
    responses((status = OK, body = GuardView), ReadErrors))]
pub(crate) async fn get_guard(
    ReaderRead(session, freshness): ReaderRead,
) -> ApiResponse<GuardView> {
    let tenant = session.tenant().await?;
    session.request.set_tag(Etag::of(&tenant));
    let mut rules = tenant.guard.rules;
    let access = &session.caller.access;
    rules.retain(|rule| rule.namespace.as_ref().is_none_or(|it| access.allows(it)));
    Ok(Success::ok(freshness, rules.into()))
}

/// Replace the rules of the guard. They decide about texts that are written from then on.
#[utoipa::path(put, path = "/api/v1/settings/guard", tag = "settings",
    request_body = GuardRules, responses((status = OK, body = GuardView), WriteErrors))]
pub(crate) async fn set_guard(
    Admin(session): Admin,
    ValidJson(request): ValidJson<GuardRules>,
) -> ApiResponse<GuardView> {
    let rules = tokio::task::block_in_place(|| request.into_rules())?;
    let done = session.submit(UpdateGuard(rules.clone())).await?;
    Ok(Success::ok(done.freshness, rules.into()))
}

/// Examine a text by rules. Nothing is stored.
#[utoipa::path(post, path = "/api/v1/settings/guard/preview", tag = "settings",
    params(ReadHeaders), request_body = GuardTrial,
    responses((status = OK, body = GuardOutcome), BodyErrors))]
pub(crate) async fn preview_guard(
    AdminRead(session, freshness): AdminRead,
    ValidJson(request): ValidJson<GuardTrial>,
) -> ApiResponse<GuardOutcome> {
    let namespace = session.store_namespace(named_namespace(request.namespace)?);
    let rules = request.rules.map(|rules| GuardRules { rules }.into_rules()).transpose()?;
    let (text, detections) = session.try_guard(&namespace, &request.text.0, rules);
    let body = GuardOutcome {
        text,
        detections: detections.mark.detections().map(OneOf).collect(),
        flagged: detections.mark.is_flagged(),
        quarantined: detections.mark.is_quarantined(),
        blocked_by: detections.blocked,
    };
    Ok(Success::ok(freshness, body))
}
