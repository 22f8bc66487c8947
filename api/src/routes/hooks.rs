//! Hooks of coding agents: each takes the JSON that the agent sends to its hooks, and returns what the agent
//! reads back. Memories are recalled and turns captured without a decision of the model.

use serde::Deserialize;
use serde_json::Value;
use storage::model::memory::MemoryRecord;
use utoipa::IntoParams;

use crate::prelude::*;
use crate::service::capture::{Project, Turn, text_of};

/// How much a hook returns, and whether it captures.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct HookQuery {
    /// Tokens of the context at most.
    #[serde(default)]
    #[param(inline)]
    token_budget: HookTokens,
    /// Whether turns are captured.
    #[param(default = true)]
    capture: Option<bool>,
}

/// The input of a hook, as coding agents send it. Other fields are ignored.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(example = json!({"session_id": "29bb308b", "cwd": "/home/me/shop", "hook_event_name": "UserPromptSubmit", "prompt": "Which port does the deploy use?"}))]
pub(crate) struct HookInput {
    /// The session of the agent.
    session_id: Option<HookText>,
    /// The folder in which it works: its last part names the project.
    cwd: Option<HookText>,
    /// What the person wrote.
    prompt: Option<HookText>,
    /// The last text of the agent in its turn.
    last_assistant_message: Option<HookText>,
    /// The tool that ran.
    tool_name: Option<HookText>,
    /// What the tool returned. An object with a true `is_error` or `isError`, or an `error`, is a failure.
    #[schema(value_type = Option<Value>)]
    tool_response: Option<Value>,
}

/// What a coding agent reads back. Empty if there is nothing to say.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HookOutput {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    hook_specific_output: Option<HookSpecificOutput>,
}

/// What is added to the context of the model.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct HookSpecificOutput {
    hook_event_name: &'static str,
    additional_context: String,
}

impl HookOutput {
    fn new(event: &'static str, text: Option<String>) -> Self {
        let output =
            |additional_context| HookSpecificOutput { hook_event_name: event, additional_context };
        Self { hook_specific_output: text.map(output) }
    }

    fn none() -> Self {
        Self { hook_specific_output: None }
    }
}

impl HookInput {
    fn project(&self, session: &Session, home: &NamespaceHeader) -> Project {
        let home = home.namespace();
        let base = session.store_namespace(home.clone());
        Project::of(&base, self.cwd.as_ref().map(|folder| folder.0.as_str()), home)
    }
}

async fn capture(
    session: &Session,
    query: &HookQuery,
    project: &Project,
    input: &HookInput,
    role: &'static str,
    text: &str,
) -> ApiResult<Option<MemoryRecord>> {
    if query.capture == Some(false) {
        return Ok(None);
    }
    let session_id = input.session_id.as_ref().map(|id| id.0.clone());
    session.capture(project, Turn { role, text, session: session_id }).await
}

/// The beginning of a session: returns pinned and hot memories.
#[utoipa::path(post, path = "/api/v1/hooks/session-start", tag = "hooks",
    params(HookQuery, NamespaceHeader, ZoneHeader), request_body = HookInput,
    responses((status = OK, body = HookOutput), UnrepeatedErrors))]
pub(crate) async fn begin_session(
    ReaderRead(session, freshness): ReaderRead,
    home: NamespaceHeader,
    zone: ZoneHeader,
    ValidQuery(query): ValidQuery<HookQuery>,
    ValidJson(input): ValidJson<HookInput>,
) -> ApiResponse<HookOutput> {
    let project = input.project(&session, &home);
    let room = query.token_budget.get();
    let found = session.recall_present(&project, zone.time_zone(), room).await?;
    Ok(Success::ok(freshness, HookOutput::new("SessionStart", text_of(found))))
}

/// A prompt: returns the memories that match it, and captures it.
#[utoipa::path(post, path = "/api/v1/hooks/prompt", tag = "hooks",
    params(HookQuery, NamespaceHeader, ZoneHeader), request_body = HookInput,
    responses((status = OK, body = HookOutput), UnrepeatedErrors))]
pub(crate) async fn submit_prompt(
    ReaderRead(session, freshness): ReaderRead,
    home: NamespaceHeader,
    zone: ZoneHeader,
    ValidQuery(query): ValidQuery<HookQuery>,
    ValidJson(input): ValidJson<HookInput>,
) -> ApiResponse<HookOutput> {
    let Some(prompt) = &input.prompt else { return Ok(Success::ok(freshness, HookOutput::none())) };
    let project = input.project(&session, &home);
    let room = query.token_budget.get();
    let found = session.recall(&project, &prompt.0, zone.time_zone(), room).await?;
    let captured = capture(&session, &query, &project, &input, "user", &prompt.0).await?;
    if let Some(id) = &input.session_id {
        session.remember_prompt(&id.0, captured);
    }
    Ok(Success::ok(freshness, HookOutput::new("UserPromptSubmit", text_of(found))))
}

/// A tool ran: captures that it failed.
#[utoipa::path(post, path = "/api/v1/hooks/tool", tag = "hooks",
    params(HookQuery, NamespaceHeader), request_body = HookInput,
    responses((status = OK, body = HookOutput), UnrepeatedErrors))]
pub(crate) async fn end_tool(
    ReaderRead(session, freshness): ReaderRead,
    home: NamespaceHeader,
    ValidQuery(query): ValidQuery<HookQuery>,
    ValidJson(input): ValidJson<HookInput>,
) -> ApiResponse<HookOutput> {
    let failure = input.tool_response.as_ref().and_then(failure_of);
    if let (Some(tool), Some(failure)) = (&input.tool_name, failure) {
        let project = input.project(&session, &home);
        let text = format!("The tool {} failed: {failure}", tool.0);
        capture(&session, &query, &project, &input, "tool", &text).await?;
    }
    Ok(Success::ok(freshness, HookOutput::none()))
}

/// What a failed tool says; `None` if it did not fail.
fn failure_of(response: &Value) -> Option<String> {
    let has_failed = response["is_error"] == true || response["isError"] == true;
    let texts = [&response["error"], &response["stderr"], &response["content"]];
    let text = texts.into_iter().find_map(Value::as_str).filter(|text| !text.trim().is_empty());
    match (has_failed, response["error"].as_str()) {
        (true, _) => Some(text.unwrap_or("it does not say why").to_owned()),
        (false, Some(error)) if !error.is_empty() => Some(error.to_owned()),
        _ => None,
    }
}

/// A turn ended: captures the last text of the agent.
#[utoipa::path(post, path = "/api/v1/hooks/stop", tag = "hooks",
    params(HookQuery, NamespaceHeader), request_body = HookInput,
    responses((status = OK, body = HookOutput), UnrepeatedErrors))]
pub(crate) async fn end_turn(
    ReaderRead(session, freshness): ReaderRead,
    home: NamespaceHeader,
    ValidQuery(query): ValidQuery<HookQuery>,
    ValidJson(input): ValidJson<HookInput>,
) -> ApiResponse<HookOutput> {
    if let Some(message) = &input.last_assistant_message {
        let project = input.project(&session, &home);
        capture(&session, &query, &project, &input, "assistant", &message.0).await?;
        if let Some(id) = input.session_id.as_ref().filter(|_| query.capture != Some(false)) {
            session.extract_later(project, &id.0, &message.0);
        }
    }
    Ok(Success::ok(freshness, HookOutput::none()))
}

/// The agent is about to shorten its context. What it forgets was captured turn by turn, and the session start
/// that follows returns the memories again.
#[utoipa::path(post, path = "/api/v1/hooks/compact", tag = "hooks",
    params(HookQuery), request_body = HookInput,
    responses((status = OK, body = HookOutput), UnrepeatedErrors))]
pub(crate) async fn compact_context(
    ReaderRead(_, freshness): ReaderRead,
    ValidQuery(_): ValidQuery<HookQuery>,
    ValidJson(_): ValidJson<HookInput>,
) -> ApiResponse<HookOutput> {
    Ok(Success::ok(freshness, HookOutput::none()))
}
