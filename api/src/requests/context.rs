//! The context of an agent's turn, as routes and tools request and return it.

use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::error::ApiResult;
use crate::requests::fields::{EvidenceWord, MemoryIdText, Namespace, Query, TokenBudget};
use crate::requests::headers::NamespaceHeader;
use crate::requests::memories::any_namespace;
use crate::requests::values::{Id, OneOf};
use crate::service::Session;

/// A context to load.
#[derive(Default, Deserialize, ToSchema)]
#[schema(example = json!({"query": "How does this customer want invoices?", "token_budget": 500}))]
pub(crate) struct ContextRequest {
    /// What the conversation is about. Without it, the context has the hottest memories only.
    query: Option<Query>,
    /// Alias of `query`, and first of them.
    #[schema(ignore)]
    prompt: Option<Query>,
    /// Tokens of the context at most, counted by a bound that holds for all scripts.
    #[serde(default)]
    pub(crate) token_budget: TokenBudget,
    /// Only memories of this namespace; `*` is all.
    #[schema(schema_with = any_namespace)]
    pub(crate) namespace: Option<Namespace>,
}

impl ContextRequest {
    /// What the conversation is about; `None` if that is blank.
    pub(crate) fn query(&self) -> Option<&str> {
        let texts = [&self.prompt, &self.query].into_iter().flatten();
        texts.map(|text| text.0.as_str()).find(|text| !text.trim().is_empty())
    }

    /// Loads what a session may read. `home` and `zone` are those of the request's headers.
    pub(crate) async fn load(
        self,
        session: &Session,
        home: &NamespaceHeader,
        zone: TimeZone,
    ) -> ApiResult<LoadedContext> {
        let room = self.token_budget.get();
        let query = self.query().map(str::to_owned);
        let filter = home.filter(session, self.namespace)?;
        let loaded = session.load_context(query, filter, home.namespace(), zone, room).await?;
        Ok(LoadedContext {
            estimated_tokens: loaded.tokens,
            context: loaded.text,
            memory_ids: loaded.ids.into_iter().map(Id).collect(),
            evidence: loaded.evidence.map(OneOf),
            cold_matches: loaded.cold_matches,
        })
    }
}

/// A context for an agent's turn.
#[derive(Serialize, ToSchema)]
pub(crate) struct LoadedContext {
    /// A sentence, then headings in Markdown, each with memories: one line of JSON for each.
    pub(crate) context: String,
    /// Their ids, in the order of the context.
    pub(crate) memory_ids: Vec<MemoryIdText>,
    /// A bound of its tokens.
    pub(crate) estimated_tokens: usize,
    /// Whether the memories that match may answer the query. Null without a query.
    #[schema(required)]
    pub(crate) evidence: Option<EvidenceWord>,
    /// Archived memories, up to 100, that may answer the query and would be among those that match.
    pub(crate) cold_matches: usize,
}
