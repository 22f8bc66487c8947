//! Rules of retention in requests.

use serde::Deserialize;
use storage::model::retention::RETENTION_RULES_MAX;
use utoipa::ToSchema;

use crate::error::{ApiError, ApiResult};
use crate::requests::fields::*;
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
pub(crate) struct RetentionRules {
    #[schema(value_type = Vec<RetentionRule>, max_items = 100)]
    rules: Items<JsonObject<RetentionRule>, 0, RETENTION_RULES_MAX>,
}

impl RetentionRules {
    pub(crate) fn into_rules(self) -> ApiResult<Vec<storage::model::retention::RetentionRule>> {
        let rules = self.rules.0.into_iter().enumerate();
        let rule = |(at, JsonObject(rule)): (usize, JsonObject<RetentionRule>)| {
            let namespace = named_namespace(rule.namespace)
                .map_err(|error: ApiError| error.within(&format!("rules[{at}]")))?;
            Ok(storage::model::retention::RetentionRule {
                namespace: namespace.filter(|name| name != "*"),
                memory_type: rule.memory_type.map(|it| it.0),
                action: rule.action.0,
                after_days: rule.after_days.0 as u32,
            })
        };
        rules.map(rule).collect()
    }
}
