//! The server of one request, as rmcp calls it.

use std::borrow::Cow;
use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;
use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, CompleteRequestParams, CompleteResult,
    CompletionInfo, CustomRequest, CustomResult, DiscoverResult, ErrorCode, GetPromptRequestParams,
    GetPromptResponse, GetPromptResult, Implementation, InitializeRequestParams, InitializeResult,
    ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult,
    PaginatedRequestParams, ProgressNotificationParam, PromptMessage, ProtocolVersion,
    ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, Reference, Role,
    ServerCapabilities, ServerConfig, SubscriptionFilter, Tool,
};
use rmcp::service::{RequestContext as McpContext, SubscriptionContext};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::json;
use tracing::Instrument;

use crate::app::{App, VERSION};
use crate::error::{ApiError, ErrorKind};
use crate::limits::{MCP_DEADLINE, MCP_PROGRESS_INTERVAL};
use crate::mcp::calls::Call;
use crate::mcp::messages::code_of;
use crate::mcp::profiles::ToolSet;
use crate::mcp::results::MEMORY;
use crate::mcp::tools::{Tool as AgentTool, described};
use crate::mcp::{confirmation, prompts, resources, subscriptions};

/// The revisions of the protocol that this endpoint speaks.
const VERSIONS: &[ProtocolVersion] = &[
    ProtocolVersion::V_2025_03_26,
    ProtocolVersion::V_2025_06_18,
    ProtocolVersion::V_2025_11_25,
    ProtocolVersion::V_2026_07_28,
];
/// Time for which clients may keep lists. A key may get another role.
const LISTS_TTL_MILLIS: u64 = 60_000;

#[derive(Clone)]
pub(super) struct Server {
    pub(super) app: App,
    pub(super) call: Call,
    pub(super) offered: Arc<ToolSet>,
    /// Whether the client reads streams, in which progress is reported.
    pub(super) reads_streams: bool,
}

impl Server {
    fn tool(&self, name: &str) -> Option<&'static AgentTool> {
        self.offered.named(name, self.call.session.caller.role)
    }

    /// Runs the work of a request. It ends with its client and at its time limit, and a panic ends it
    /// alone: rmcp would wait for ever.
    async fn run<T>(
        &self,
        context: &McpContext<RoleServer>,
        work: impl Future<Output = Result<T, ErrorData>> + Send,
    ) -> Result<T, ErrorData> {
        let request = &self.call.session.request;
        let work = AssertUnwindSafe(work.instrument(request.span.clone())).catch_unwind();
        let done = tokio::select! {
            done = tokio::time::timeout(MCP_DEADLINE, work) => match done {
                Ok(Ok(done)) => done,
                Ok(Err(_)) => {
                    tracing::error!(request_id = request.id, "a request of MCP panicked");
                    Err(self.error(ApiError::internal()))
                }
                Err(_) if request.has_written() => {
                    let message = "the write may or may not have happened: check before you repeat it";
                    Err(self.error(ApiError::new(ErrorKind::Unknown, "outcome_unknown", message)))
                }
                Err(_) => Err(self.error(ApiError::unavailable("busy", "the request took too long"))),
            },
            () = context.ct.cancelled() => Err(ErrorData::internal_error("cancelled", None)),
            never = self.report_progress(context) => match never {},
        };
        done.map_err(|error| self.named(error))
    }

    /// Says every second that a call goes on, if its client wants to know: it may wait longer then.
    async fn report_progress(&self, context: &McpContext<RoleServer>) -> Infallible {
        let token = context.meta.get_progress_token().filter(|_| self.reads_streams);
        let Some(token) = token else { return std::future::pending().await };
        let mut seconds = 0.0;
        loop {
            tokio::time::sleep(MCP_PROGRESS_INTERVAL).await;
            seconds += MCP_PROGRESS_INTERVAL.as_secs_f64();
            let progress = ProgressNotificationParam::new(token.clone(), seconds)
                .with_message("the cluster is at work");
            // A client that is gone ends the call elsewhere.
            let _: Result<(), _> = context.peer.notify_progress(progress).await;
        }
    }

    /// An error of the interface as one of the protocol.
    fn error(&self, error: ApiError) -> ErrorData {
        let (code, message) = (ErrorCode(code_of(&error)), error.message.clone());
        let data = serde_json::to_value(error.body(&self.call.session.request.id)).ok();
        ErrorData::new(code, message, data)
    }

    /// The error with the id of the request, as errors outside of MCP have it.
    fn named(&self, error: ErrorData) -> ErrorData {
        let data = json!({ "request_id": self.call.session.request.id });
        ErrorData { data: error.data.or(Some(data)), ..error }
    }
}

/// Whether the request is of a revision without `initialize`, which has hints for caches.
fn has_cache_hints(context: &McpContext<RoleServer>) -> bool {
    context.protocol_version().is_some_and(|version| !version.has_initialize())
}

/// A list, with hints for caches if the revision of the request has them.
macro_rules! list {
    ($context:expr, $list:expr) => {{
        let list = $list;
        Ok(match has_cache_hints(&$context) {
            true => list.with_ttl_ms(LISTS_TTL_MILLIS).with_cache_scope(CacheScope::Private),
            false => list,
        })
    }};
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_resources()
            .enable_resources_subscribe()
            .enable_resources_list_changed()
            .enable_prompts()
            .enable_completions()
            .build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("hearth", VERSION))
            .with_instructions(self.offered.instructions())
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Borrowed(VERSIONS)
    }

    /// Subscriptions of these revisions need sessions.
    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: McpContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        context.peer.set_peer_info(request.clone());
        let mut result = self.negotiate_initialize(&request)?;
        if let Some(resources) = &mut result.capabilities.resources {
            (resources.subscribe, resources.list_changed) = (None, None);
        }
        Ok(result)
    }

    async fn discover(&self, _: McpContext<RoleServer>) -> Result<DiscoverResult, ErrorData> {
        Ok(DiscoverResult::from_server_info(VERSIONS.to_vec(), self.get_info())
            .with_ttl_ms(LISTS_TTL_MILLIS)
            .with_cache_scope(CacheScope::Private))
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        context: McpContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let role = self.call.session.caller.role;
        list!(context, ListToolsResult::with_all_items(described(self.offered.of(role), role)))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        Some(self.tool(name)?.described(self.call.session.caller.role))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: McpContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(tool) = self.tool(&request.name) else {
            let message = format!("this key has no tool {:?}", request.name);
            return Err(self.named(ErrorData::invalid_params(message, None)));
        };
        let arguments = request.arguments.unwrap_or_default();
        let work = async {
            let question = match confirmation::is_possible(&context) {
                true => confirmation::question(&self.call, tool, &arguments).await,
                false => None,
            };
            if let Some(question) = question
                && let Some(response) = confirmation::ask(question, request.input_responses)
            {
                return Ok(response);
            }
            Ok(tool.call(self.call.clone(), arguments).await.into())
        };
        self.run(&context, work).await
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: McpContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let cursor = request.and_then(|request| request.cursor);
        let work = async {
            resources::list(&self.call, cursor.as_deref()).await.map_err(|error| self.error(error))
        };
        let (page, next) = self.run(&context, work).await?;
        Ok(ListResourcesResult { next_cursor: next, ..ListResourcesResult::with_all_items(page) })
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        context: McpContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        list!(context, ListResourceTemplatesResult::with_all_items(resources::templates()))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: McpContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let work = async {
            let read = resources::read(&self.call, &request.uri).await;
            let contents = read
                .map_err(|error| self.error(error))?
                .ok_or_else(|| ErrorData::resource_not_found("there is no such resource", None))?;
            Ok(ReadResourceResult::new(vec![contents]).into())
        };
        self.run(&context, work).await
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        context: McpContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let prompts = prompts::prompts(|tool| self.tool(tool).is_some());
        list!(context, ListPromptsResult::with_all_items(prompts))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _: McpContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let argument = |name: &str| {
            let value = request.arguments.as_ref()?.get(name)?.as_str()?;
            Some(value.to_owned()).filter(|text| !text.is_empty())
        };
        let has = |tool: &str| self.tool(tool).is_some();
        let text = prompts::prompt(&request.name, has, argument).ok_or_else(|| {
            let message = format!("there is no prompt {:?}", request.name);
            self.named(ErrorData::invalid_params(message, None))
        })?;
        Ok(GetPromptResult::new(vec![PromptMessage::new_text(Role::User, text)]).into())
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        context: McpContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let (name, value) = (request.argument.name.as_str(), request.argument.value.as_str());
        let work = async {
            let values = match &request.r#ref {
                Reference::Resource(it) if it.uri.starts_with(MEMORY) && name == "id" => {
                    resources::complete_id(&self.call, value).await
                }
                Reference::Prompt(it) if it.name == prompts::LOAD_CONTEXT && name == "topic" => {
                    resources::complete_topic(&self.call, value).await
                }
                _ => Ok(Vec::new()),
            };
            let values = values.map_err(|error| self.error(error))?;
            let values = CompletionInfo::with_all_values(values);
            Ok(CompleteResult::new(values.map_err(|fault| ErrorData::internal_error(fault, None))?))
        };
        self.run(&context, work).await
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        subscriptions::accepted(requested)
    }

    async fn listen(&self, subscription: SubscriptionContext) -> Result<(), ErrorData> {
        let listening = subscriptions::listen(&self.app, &self.call, subscription).await;
        listening.map_err(|error| self.error(error))
    }

    /// Requests that rmcp cannot read: their method, or its parameters.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _: McpContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        Err(self.named(match request.method.as_str() {
            "tools/call" | "resources/read" | "prompts/get" => {
                ErrorData::invalid_params("the parameters are malformed", None)
            }
            _ => ErrorData::new(ErrorCode::METHOD_NOT_FOUND, request.method, None),
        }))
    }
}
