//! A person confirms what cannot be taken back: deletions, new texts of memories, and webhooks. Only where
//! the client can put the question to a person, which the revision 2026-07-28 does without sessions: the
//! result of the first call is the question, and the client repeats the call with the reply.

use rmcp::RoleServer;
use rmcp::model::{
    CallToolResponse, CallToolResult, ContentBlock, ElicitRequest, ElicitRequestParams,
    ElicitationSchema, InputRequest, InputRequests, InputRequiredResult, InputResponses,
    JsonObject,
};
use rmcp::service::RequestContext as McpContext;
use serde_json::Value;
use storage::model::id::MemoryId;

use crate::mcp::calls::Call;
use crate::mcp::results::title;
use crate::mcp::tools::Tool;

/// The name of the question.
const CONFIRM: &str = "confirm";

/// Whether the client of a request can ask a person.
pub(super) fn is_possible(context: &McpContext<RoleServer>) -> bool {
    let is_modern = context.protocol_version().is_some_and(|version| !version.has_initialize());
    let capabilities = context.client_capabilities();
    let elicitation = capabilities.and_then(|it| it.elicitation);
    // One that names no form of it means forms.
    is_modern && elicitation.is_some_and(|it| it.form.is_some() || it.url.is_none())
}

/// The question to a person before a call; `None` for a call that needs no person.
pub(super) async fn question(call: &Call, tool: &Tool, arguments: &JsonObject) -> Option<String> {
    let text = |name: &str| arguments.get(name).and_then(Value::as_str);
    let name = tool.description.name.as_ref();
    match name {
        "sulcus_forget" => {
            Some(format!("Delete the memory {}?", quoted(call, text("memory_id")).await))
        }
        "sulcus_update" => {
            let (old, new) = (quoted(call, text("memory_id")).await, text("label")?);
            Some(format!("Replace the text of the memory {old} by {new:?}?"))
        }
        "sulcus_trigger_create" if text("action") == Some("webhook") => {
            let settings = arguments.get("action_config");
            let url = settings.and_then(|it| it.get("url")).and_then(Value::as_str);
            Some(format!("Send memories to {}?", url.unwrap_or("an address")))
        }
        _ if tool.deletes() => {
            let arguments = Value::from(arguments.clone());
            Some(format!("Let {name} delete {arguments}?"))
        }
        _ => None,
    }
}

/// The beginning of the text of a memory; its id, if it cannot be read.
async fn quoted(call: &Call, id: Option<&str>) -> String {
    let parsed = id.and_then(|id| id.parse::<MemoryId>().ok());
    let record = match parsed {
        Some(id) => call.session.memory(id).await.ok(),
        None => None,
    };
    let title = record.map(|record| format!("{:?}", title(&record)));
    title.unwrap_or_else(|| id.unwrap_or_default().to_owned())
}

/// The result of a call in place of what it does: the question, before there is a reply, or that the
/// person did not accept.
pub(super) fn ask(question: String, replies: Option<InputResponses>) -> Option<CallToolResponse> {
    let reply = replies.and_then(|mut replies| replies.remove(CONFIRM));
    let Some(reply) = reply else {
        let form = ElicitRequestParams::FormElicitationParams {
            meta: None,
            message: question,
            requested_schema: ElicitationSchema::new(Default::default()),
        };
        let question = InputRequest::Elicitation(ElicitRequest::new(form));
        let questions = InputRequests::from([(CONFIRM.to_owned(), question)]);
        return Some(InputRequiredResult::from_input_requests(questions).into());
    };
    if reply["action"] == "accept" {
        return None;
    }
    let text = "not_confirmed: the person did not confirm this, and nothing changed";
    Some(CallToolResult::error(vec![ContentBlock::text(text)]).into())
}
