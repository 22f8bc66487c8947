//! The server of one request, as rmcp calls it.

use std::borrow::Cow;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;
use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, CustomRequest, CustomResult,
    DiscoverResult, ErrorCode, GetPromptRequestParams, GetPromptResponse, GetPromptResult,
    Implementation, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult,
    ListToolsResult, PaginatedRequestParams, PromptMessage, ProtocolVersion,
    ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, ResourceContents, Role,
    ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::json;

use crate::app::VERSION;
use crate::mcp::call::Call;
use crate::mcp::resources;
use crate::mcp::tools::{Tool as AgentTool, ToolSet};

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
    call: Call,
    offered: Arc<ToolSet>,
}

impl Server {
    pub(super) fn new(call: Call, offered: Arc<ToolSet>) -> Self {
        Self { call, offered }
    }

    /// The tools of the caller.
    fn tools(&self) -> impl Iterator<Item = &'static AgentTool> {
        self.offered.of(self.call.session.caller.role)
    }

    fn tool(&self, name: &str) -> Option<&'static AgentTool> {
        self.offered.named(name, self.call.session.caller.role)
    }

    /// Runs the work of a request. It ends with its client, and a panic ends it alone: rmcp would wait
    /// for ever.
    async fn run<T>(
        &self,
        context: &RequestContext<RoleServer>,
        work: impl Future<Output = Result<T, ErrorData>> + Send,
    ) -> Result<T, ErrorData> {
        let done = tokio::select! {
            done = AssertUnwindSafe(work).catch_unwind() => done.unwrap_or_else(|_| {
                tracing::error!("a request of MCP panicked");
                Err(internal())
            }),
            () = context.ct.cancelled() => Err(ErrorData::internal_error("cancelled", None)),
        };
        done.map_err(|error| self.named(error))
    }

    /// The error with the id of the request, as errors outside of MCP have it.
    fn named(&self, error: ErrorData) -> ErrorData {
        let data = json!({ "request_id": self.call.session.request.id });
        ErrorData { data: Some(data), ..error }
    }
}

fn internal() -> ErrorData {
    let message = "this node failed to handle the request; the cause is in its log";
    ErrorData::internal_error(message, None)
}

/// Whether the request is of a revision without `initialize`, which has hints for caches.
fn has_cache_hints(context: &RequestContext<RoleServer>) -> bool {
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
            .enable_prompts()
            .build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("hearth", VERSION))
            .with_instructions(self.offered.instructions())
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Borrowed(VERSIONS)
    }

    async fn discover(&self, _: RequestContext<RoleServer>) -> Result<DiscoverResult, ErrorData> {
        Ok(DiscoverResult::from_server_info(VERSIONS.to_vec(), self.get_info())
            .with_ttl_ms(LISTS_TTL_MILLIS)
            .with_cache_scope(CacheScope::Private))
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let role = self.call.session.caller.role;
        let tools = self.tools().map(|tool| tool.described(role));
        list!(context, ListToolsResult::with_all_items(tools.collect()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        Some(self.tool(name)?.described(self.call.session.caller.role))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(tool) = self.tool(&request.name) else {
            let message = format!("this key has no tool {:?}", request.name);
            return Err(self.named(ErrorData::invalid_params(message, None)));
        };
        let arguments = request.arguments.unwrap_or_default();
        let work = async { Ok(tool.call(self.call.clone(), arguments).await.into()) };
        self.run(&context, work).await
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        list!(context, ListResourcesResult::with_all_items(resources::resources()))
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        list!(context, ListResourceTemplatesResult::with_all_items(resources::templates()))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let work = async {
            let read = resources::read(&self.call, &request.uri).await;
            let read = read.map_err(|error| ErrorData::internal_error(error.message, None))?;
            let text = read
                .ok_or_else(|| ErrorData::resource_not_found("there is no such resource", None))?;
            let contents = vec![ResourceContents::text(text, request.uri.clone())];
            Ok(ReadResourceResult::new(contents).into())
        };
        self.run(&context, work).await
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let prompts = resources::prompts(|tool| self.tool(tool).is_some());
        list!(context, ListPromptsResult::with_all_items(prompts))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let argument = |name: &str| {
            let value = request.arguments.as_ref()?.get(name)?.as_str()?;
            Some(value.to_owned()).filter(|text| !text.is_empty())
        };
        let has = |tool: &str| self.tool(tool).is_some();
        let text = resources::prompt(&request.name, has, argument).ok_or_else(|| {
            let message = format!("there is no prompt {:?}", request.name);
            self.named(ErrorData::invalid_params(message, None))
        })?;
        Ok(GetPromptResult::new(vec![PromptMessage::new_text(Role::User, text)]).into())
    }

    /// Requests that rmcp cannot read: their method, or its parameters.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        Err(self.named(match request.method.as_str() {
            "tools/call" | "resources/read" | "prompts/get" => {
                ErrorData::invalid_params("the parameters are malformed", None)
            }
            _ => ErrorData::new(ErrorCode::METHOD_NOT_FOUND, request.method, None),
        }))
    }
}
