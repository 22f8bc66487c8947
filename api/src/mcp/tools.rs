//! The tools, by their published names: what agents read about each, who may call it, and its function.

use std::sync::{Arc, LazyLock};

use axum::body::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use rmcp::model::{CallToolResult, ContentBlock, JsonObject, ToolAnnotations};
use serde::de::DeserializeOwned;
use storage::model::tenant::Role;
use utoipa::ToSchema;

use crate::current::take_response_bytes;
use crate::mcp::call::Call;
use crate::mcp::calls;
use crate::mcp::results::ToolResult;
use crate::openapi::standalone;
use crate::requests::JsonBody;
use crate::responses::json_bytes;
use crate::service::error::{ApiError, ApiResult};

/// A tool.
pub(super) struct Tool {
    /// What agents read.
    pub(super) description: rmcp::model::Tool,
    /// The role that it needs.
    pub(super) role: Role,
    run: Box<
        dyn Fn(Call, JsonObject) -> BoxFuture<'static, ApiResult<CallToolResult>> + Send + Sync,
    >,
}

/// The effects of a tool.
#[derive(Clone, Copy)]
enum Effect {
    Reads,
    /// A repeated call changes nothing more.
    Sets,
    Adds,
    Deletes,
}

static TOOLS: LazyLock<Vec<Tool>> = LazyLock::new(|| {
    [find_tools(), change_tools(), trigger_tools()].into_iter().flatten().collect()
});

/// The tools that a node offers.
pub(super) struct ToolSet {
    /// Their names; empty is all.
    names: Vec<String>,
}

impl ToolSet {
    /// The tools of these names; all, if there are none.
    pub(super) fn new(names: Vec<String>) -> Result<Self, String> {
        let is_known = |name: &&String| TOOLS.iter().any(|tool| tool.description.name == **name);
        match names.iter().find(|name| !is_known(name)) {
            Some(unknown) => Err(format!("mcp.tools: there is no tool {unknown:?}")),
            None => Ok(Self { names }),
        }
    }

    /// Those that a caller of a role may use, in a fixed order.
    pub(super) fn of(&self, role: Role) -> impl Iterator<Item = &'static Tool> {
        let is_offered = |tool: &Tool| {
            self.names.is_empty() || self.names.iter().any(|name| tool.description.name == *name)
        };
        TOOLS.iter().filter(move |tool| role >= tool.role && is_offered(tool))
    }

    /// The tool of a name, if a caller of a role may use it.
    pub(super) fn named(&self, name: &str, role: Role) -> Option<&'static Tool> {
        self.of(role).find(|tool| tool.description.name == name)
    }
}

impl Tool {
    /// Calls it. What is wrong with a call is part of the result: the agent reads it and tries again.
    pub(super) async fn call(&self, call: Call, arguments: JsonObject) -> CallToolResult {
        match (self.run)(call, arguments).await {
            Ok(result) => result,
            Err(error) => CallToolResult::error(vec![ContentBlock::text(error_text(&error))]),
        }
    }
}

fn error_text(error: &ApiError) -> String {
    let field = error.field.as_ref().map_or(String::new(), |field| format!("{field} "));
    let retry = error
        .retry_after_seconds
        .map_or(String::new(), |seconds| format!(" (repeat the call in {seconds} s)"));
    format!("{}: {field}{}{retry}", error.code, error.message)
}

/// Tools that find memories.
fn find_tools() -> Vec<Tool> {
    vec![
        tool(
            ("sulcus_context", "Load context", Effect::Reads),
            "Load what is known, within a budget of tokens: memories that match the query first, then \
             pinned and hot ones. Call it at the beginning of a conversation or task, and when the topic \
             changes.",
            calls::load_context,
        ),
        tool(
            ("sulcus_search", "Search memories", Effect::Reads),
            "Find memories by meaning. Call it before you answer from what you do not see, and before you \
             store what may be known already. Found memories become hotter.",
            calls::search,
        ),
        tool(
            ("sulcus_hot_nodes", "Hottest memories", Effect::Reads),
            "List the memories that are most in use.",
            calls::hottest,
        ),
        tool(
            ("sulcus_list", "List memories", Effect::Reads),
            "List memories page by page, the hottest first, with filters. To find something, use \
             sulcus_search.",
            calls::list,
        ),
        tool(
            ("sulcus_status", "Status", Effect::Reads),
            "Count the memories that this key may read, and say where new ones are stored.",
            calls::status,
        ),
    ]
}

/// Tools that store and change memories.
fn change_tools() -> Vec<Tool> {
    vec![
        tool(
            ("sulcus_remember", "Remember", Effect::Adds),
            "Store one statement that will matter later: a fact, preference, decision, event or procedure. \
             Write it so that it is clear without this conversation. If it replaces a memory, pass that \
             id as `supersedes`.",
            calls::remember,
        ),
        tool(
            ("sulcus_update", "Update a memory", Effect::Sets),
            "Change the text, type, pin or heat of a memory. To correct a statement that no longer holds, \
             store a new memory with `supersedes` instead: the history stays.",
            calls::update,
        ),
        tool(
            ("sulcus_feedback", "Give feedback", Effect::Adds),
            "Report whether a found memory helped, did not help, no longer holds or is wrong. It makes the \
             memory hotter or colder.",
            calls::feedback,
        ),
        tool(
            ("sulcus_pin", "Pin a memory", Effect::Sets),
            "Pin a memory: it never cools, and each context begins with it. For rules that always hold.",
            calls::pin,
        ),
        tool(
            ("sulcus_unpin", "Unpin a memory", Effect::Sets),
            "Let a memory cool again.",
            calls::unpin,
        ),
        tool(
            ("sulcus_relate", "Relate two memories", Effect::Sets),
            "Create an edge between two memories. A recall of one also warms the other.",
            calls::relate,
        ),
        tool(
            ("sulcus_forget", "Forget a memory", Effect::Deletes),
            "Delete a memory for ever. Call it only if a person requests it, or for what should never have \
             been stored. Locked memories stay.",
            calls::forget,
        ),
    ]
}

/// Tools for triggers.
fn trigger_tools() -> Vec<Tool> {
    vec![
        tool(
            ("sulcus_trigger_list", "List triggers", Effect::Reads),
            "List the rules that fire when something happens to memories.",
            calls::triggers,
        ),
        tool(
            ("sulcus_trigger_create", "Create a trigger", Effect::Adds),
            "Create a rule: when an event happens to a memory that matches the filters, the action is done. \
             Call it only if a person requests it.",
            calls::create_trigger,
        ),
        tool(
            ("sulcus_trigger_delete", "Delete a trigger", Effect::Deletes),
            "Delete a rule. Call it only if a person requests it.",
            calls::delete_trigger,
        ),
    ]
}

/// A tool with the function that it calls.
fn tool<A, R, F>(
    (name, title, effect): (&'static str, &str, Effect),
    description: &'static str,
    function: fn(Call, A) -> F,
) -> Tool
where
    A: DeserializeOwned + ToSchema + Send + 'static,
    R: ToolResult + Send,
    F: Future<Output = ApiResult<R>> + Send + 'static,
{
    let annotations = ToolAnnotations::new()
        .read_only(matches!(effect, Effect::Reads))
        .destructive(matches!(effect, Effect::Deletes))
        .idempotent(!matches!(effect, Effect::Adds))
        .open_world(false);
    let view = rmcp::model::Tool::new(name, description, standalone::<A>())
        .with_title(title)
        .with_raw_output_schema(Arc::new(standalone::<R>()))
        .with_annotations(annotations);
    let role = if matches!(effect, Effect::Reads) { Role::Reader } else { Role::Agent };
    let run = move |call, arguments| {
        async move { result(&function(call, parsed(arguments)?).await?) }.boxed()
    };
    Tool { description: view, role, run: Box::new(run) }
}

fn parsed<A: DeserializeOwned>(arguments: JsonObject) -> ApiResult<A> {
    let text = serde_json::to_vec(&arguments).map_err(|_| ApiError::internal())?;
    JsonBody(Bytes::from(text)).parse()
}

/// A response has the result as JSON, and again as a text, with each quote escaped.
const COPIES: usize = 3;

/// The result as JSON and as text. Its bytes count against the responses of this node before it is
/// built.
fn result<R: ToolResult>(result: &R) -> ApiResult<CallToolResult> {
    take_response_bytes(COPIES * json_bytes(result)?).map_err(ApiError::responses_full)?;
    let value = serde_json::to_value(result).map_err(|_| ApiError::internal())?;
    let text = match result.text() {
        Some(text) => text.to_owned(),
        None => value.to_string(),
    };
    let mut built = CallToolResult::structured(value);
    built.content = vec![ContentBlock::text(text)];
    Ok(built)
}
