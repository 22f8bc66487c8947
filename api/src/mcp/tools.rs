//! The tools, by their published names: what agents read about each, who may call it, and its function.

use std::sync::{Arc, LazyLock};

use futures::FutureExt;
use futures::future::BoxFuture;
use rmcp::model::{CallToolResult, ContentBlock, JsonObject, ToolAnnotations};
use serde::de::DeserializeOwned;
use serde_json::Value;
use storage::model::tenant::Role;
use utoipa::ToSchema;

use crate::admission::request::RequestContext;
use crate::error::{ApiError, ApiResult};
use crate::mcp::calls::Call;
use crate::mcp::results::ToolResult;
use crate::mcp::{calls, graph};
use crate::openapi::{argument_schema, result_schema};
use crate::requests::parse_arguments;
use crate::responses::json_bytes;

/// A tool.
pub(super) struct Tool {
    /// What agents read.
    pub(super) description: rmcp::model::Tool,
    /// The role that it needs.
    pub(super) role: Role,
    effect: Effect,
    run: Box<
        dyn Fn(Call, JsonObject) -> BoxFuture<'static, ApiResult<CallToolResult>> + Send + Sync,
    >,
    /// Whether it accepts arguments.
    #[cfg(feature = "fuzzing")]
    accepts: fn(JsonObject) -> bool,
}

/// The effects of a tool.
#[derive(Clone, Copy)]
enum Effect {
    Reads,
    /// It warms what it finds, and may fire triggers; that of a reader does neither.
    Recalls,
    /// It changes memories by as much again at each call: their heat.
    Moves,
    /// It adds what is absent: a repeated call changes nothing more.
    AddsOnce,
    /// It changes what is there: a repeated call changes nothing more.
    Replaces,
    /// It adds. That a new memory replaces an old one is a mark on the old one, which stays as it is.
    Adds,
    /// What is added may send memories to hosts that this call names. Other calls reach only hosts that
    /// were named so before.
    AddsSender,
    Deletes,
}

impl Effect {
    fn annotations(self, role: Role) -> ToolAnnotations {
        let recalls = matches!(self, Self::Recalls) && role > Role::Reader;
        let reads = matches!(self, Self::Reads | Self::Recalls) && !recalls;
        ToolAnnotations::new()
            .read_only(reads)
            .destructive(matches!(self, Self::Moves | Self::Replaces | Self::Deletes))
            .idempotent(!recalls && !matches!(self, Self::Moves | Self::Adds | Self::AddsSender))
            .open_world(matches!(self, Self::AddsSender))
    }
}

pub(super) static TOOLS: LazyLock<Vec<Tool>> = LazyLock::new(|| {
    [find_tools(), change_tools(), trigger_tools()].into_iter().flatten().collect()
});

pub(super) static GRAPH_TOOLS: LazyLock<Vec<Tool>> = LazyLock::new(graph_tools);
pub(super) static SEARCH_TOOLS: LazyLock<Vec<Tool>> = LazyLock::new(search_tools);

/// What agents of a role read of these tools. A schema of results occurs once, with the first tool that has
/// it: agents pay for each.
pub(super) fn described<'a>(
    tools: impl Iterator<Item = &'a Tool>,
    role: Role,
) -> Vec<rmcp::model::Tool> {
    let mut described: Vec<rmcp::model::Tool> = Vec::new();
    for tool in tools {
        let mut tool = tool.described(role);
        if described.iter().any(|other| other.output_schema == tool.output_schema) {
            tool.output_schema = None;
        }
        described.push(tool);
    }
    described
}

impl Tool {
    /// What agents of a role read.
    pub(super) fn described(&self, role: Role) -> rmcp::model::Tool {
        let annotations = self.effect.annotations(role);
        self.description.clone().with_annotations(annotations)
    }

    pub(super) fn deletes(&self) -> bool {
        matches!(self.effect, Effect::Deletes)
    }

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
            "sulcus_context",
            "Load context",
            Effect::Recalls,
            "Load what is known, within a budget of tokens: memories that match the query first, then \
             pinned and hot ones. Call it at the beginning of a conversation or task, and when the topic \
             changes.",
            calls::load_context,
        ),
        tool(
            "sulcus_search",
            "Search memories",
            Effect::Recalls,
            "Find memories by meaning. Call it before you answer from what you do not see, and before you \
             store what may be known already. Found memories become hotter.",
            calls::search,
        ),
        tool(
            "sulcus_hot_nodes",
            "Hottest memories",
            Effect::Reads,
            "List the memories that are most in use.",
            calls::hottest,
        ),
        tool(
            "sulcus_list",
            "List memories",
            Effect::Reads,
            "List memories page by page, the hottest first, with filters. To find something, use \
             sulcus_search.",
            calls::list,
        ),
        tool(
            "sulcus_read",
            "Read a memory",
            Effect::Reads,
            "Read a memory by its id, with its metadata and its nearest neighbours. Call it if a result of \
             a search leaves out what you need.",
            calls::read,
        ),
        tool(
            "sulcus_graph_traverse",
            "Follow edges",
            Effect::Reads,
            "List the memories that edges connect with one, over one or more edges, such as what a decision \
             was derived from.",
            calls::traverse,
        ),
        tool(
            "sulcus_status",
            "Status",
            Effect::Reads,
            "Count the memories that this key may read, and say where new ones are stored.",
            calls::status,
        ),
    ]
}

/// Tools that store and change memories.
fn change_tools() -> Vec<Tool> {
    vec![
        tool(
            "sulcus_remember",
            "Remember",
            Effect::Adds,
            "Store one statement that will matter later: a fact, preference, decision, event or procedure. \
             Write it so that it is clear without this conversation. If it replaces a memory, pass that \
             id as `supersedes`.",
            calls::remember,
        ),
        tool(
            "sulcus_update",
            "Update a memory",
            Effect::Replaces,
            "Change the text, type, pin, heat, tags or metadata of a memory. To correct a statement that no \
             longer holds, store a new memory with `supersedes` instead: the history stays. Set the heat only \
             if a memory will matter in the next days (100) or no longer does (0); to rate one that you used, \
             give feedback.",
            calls::update,
        ),
        tool(
            "sulcus_feedback",
            "Give feedback",
            Effect::Moves,
            "Report whether a found memory helped, did not help, no longer holds or is wrong, after you used it \
             or saw that it does not fit. It makes the memory hotter or colder.",
            calls::feedback,
        ),
        tool(
            "sulcus_pin",
            "Pin a memory",
            Effect::Replaces,
            "Pin a memory: it never cools, and each context begins with it. Only for rules that always hold, \
             such as a language to reply in: pinned memories take room from others.",
            calls::pin,
        ),
        tool(
            "sulcus_unpin",
            "Unpin a memory",
            Effect::Replaces,
            "Let a memory cool again.",
            calls::unpin,
        ),
        tool(
            "sulcus_relate",
            "Relate two memories",
            Effect::AddsOnce,
            "Create an edge between two memories. A recall of one also warms the other.",
            calls::relate,
        ),
        tool(
            "sulcus_forget",
            "Forget a memory",
            Effect::Deletes,
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
            "sulcus_trigger_list",
            "List triggers",
            Effect::Reads,
            "List the rules that fire when something happens to memories.",
            calls::triggers,
        ),
        tool(
            "sulcus_trigger_create",
            "Create a trigger",
            Effect::AddsSender,
            "Create a rule: when an event happens to a memory that matches the filters, the action is done. \
             Call it only if a person requests it.",
            calls::create_trigger,
        ),
        tool(
            "sulcus_trigger_delete",
            "Delete a trigger",
            Effect::Deletes,
            "Delete a rule. Call it only if a person requests it.",
            calls::delete_trigger,
        ),
    ]
}

/// The pair of tools that some programs require, by their names and forms.
fn search_tools() -> Vec<Tool> {
    vec![
        tool(
            "search",
            "Search memories",
            Effect::Recalls,
            "Find memories by meaning. Returns titles: fetch those that may answer.",
            calls::find,
        ),
        tool("fetch", "Fetch a memory", Effect::Reads, "Read a memory by its id.", calls::fetch),
    ]
}

/// The tools of the reference memory server.
fn graph_tools() -> Vec<Tool> {
    vec![
        tool(
            "create_entities",
            "Create entities",
            Effect::AddsOnce,
            "Create entities of the knowledge graph, each with statements about it. One that exists stays \
             as it is.",
            graph::create_entities,
        ),
        tool(
            "create_relations",
            "Create relations",
            Effect::AddsOnce,
            "Create relations between entities, in active voice. Those of entities that do not exist are left \
             out and named.",
            graph::create_relations,
        ),
        tool(
            "add_observations",
            "Add observations",
            Effect::AddsOnce,
            "Add statements about entities. Those about entities that do not exist are left out and named.",
            graph::add_observations,
        ),
        tool(
            "delete_entities",
            "Delete entities",
            Effect::Deletes,
            "Delete entities with their statements and relations.",
            graph::delete_entities,
        ),
        tool(
            "delete_observations",
            "Delete observations",
            Effect::Deletes,
            "Delete statements about entities.",
            graph::delete_observations,
        ),
        tool(
            "delete_relations",
            "Delete relations",
            Effect::Deletes,
            "Delete relations between entities.",
            graph::delete_relations,
        ),
        tool(
            "read_graph",
            "Read the graph",
            Effect::Reads,
            "Read all entities, their statements, and all relations.",
            graph::read_graph,
        ),
        tool(
            "search_nodes",
            "Search the graph",
            Effect::Reads,
            "Find entities by a part of their name, their type or a statement.",
            graph::search_nodes,
        ),
        tool(
            "open_nodes",
            "Open entities",
            Effect::Reads,
            "Read entities by their names, with all their relations.",
            graph::open_nodes,
        ),
    ]
}

/// A tool with the function that it calls.
fn tool<A, R, F>(
    name: &'static str,
    title: &str,
    effect: Effect,
    description: &'static str,
    function: fn(Call, A) -> F,
) -> Tool
where
    A: DeserializeOwned + ToSchema + Send + 'static,
    R: ToolResult + Send,
    F: Future<Output = ApiResult<R>> + Send + 'static,
{
    let view = rmcp::model::Tool::new(name, description, argument_schema::<A>())
        .with_title(title)
        .with_raw_output_schema(Arc::new(result_schema::<R>()));
    let role = match effect {
        Effect::Reads | Effect::Recalls => Role::Reader,
        _ => Role::Agent,
    };
    let run = move |call: Call, arguments| {
        async move {
            let request = Arc::clone(&call.session.request);
            result(&request, &function(call, parse_arguments(arguments)?).await?)
        }
        .boxed()
    };
    Tool {
        description: view,
        role,
        effect,
        run: Box::new(run),
        #[cfg(feature = "fuzzing")]
        accepts: |arguments| parse_arguments::<A>(arguments).is_ok(),
    }
}

/// How many tools accept arguments.
#[cfg(feature = "fuzzing")]
pub(crate) fn accepting(arguments: &JsonObject) -> usize {
    let all = TOOLS.iter().chain(&*GRAPH_TOOLS).chain(&*SEARCH_TOOLS);
    all.filter(|tool| (tool.accepts)(arguments.clone())).count()
}

/// A response has the result as JSON, and again as a text, with each quote escaped.
const COPIES: usize = 3;

/// The result as JSON and as text. Its bytes count against the responses of this node before it is
/// built.
fn result<R: ToolResult>(request: &RequestContext, result: &R) -> ApiResult<CallToolResult> {
    request.take_response_bytes(COPIES * json_bytes(result)?)?;
    let mut value = serde_json::to_value(result).map_err(|_| ApiError::internal())?;
    remove_nulls(&mut value);
    let text = match result.text() {
        Some(text) => text.to_owned(),
        None => value.to_string(),
    };
    let mut built = CallToolResult::structured(value);
    built.content = vec![ContentBlock::text(text)];
    Ok(built)
}

/// Leaves out fields without a value, but for what an agent stored.
fn remove_nulls(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(remove_nulls),
        Value::Object(fields) => {
            fields.retain(|_, field| !field.is_null());
            fields.iter_mut().filter(|(name, _)| *name != "metadata").for_each(|(_, field)| {
                remove_nulls(field);
            });
        }
        _ => {}
    }
}
