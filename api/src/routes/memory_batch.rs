//! Batch create: up to 50 memories, all or none, in one log entry.

use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use crate::app::App;
use crate::auth::AgentCaller;
use crate::current::set_created;
use crate::openapi::IdempotentErrors;
use crate::requests::headers::{Home, Once};
use crate::requests::memories::NewMemories;
use crate::responses::Respond;
use crate::responses::memory::MemoryOrDeleted;
use crate::responses::trigger::WithNotifications;
use crate::service::error::ApiResult;
use crate::service::memories::MemoryInput;
use crate::service::writes::Touched;
use crate::write::Write;

/// A memory of a batch.
#[derive(Serialize, ToSchema)]
struct BatchItem {
    #[serde(flatten)]
    memory: MemoryOrDeleted,
    /// `created`, or `deleted` since.
    status: &'static str,
}

/// All memories of a batch, in its order.
#[derive(Serialize, ToSchema)]
pub(crate) struct Batch {
    results: Vec<BatchItem>,
}

/// Create several memories: all or none.
#[utoipa::path(post, path = "/api/v1/agent/nodes/batch", tag = "memories", params(Home, Once),
    request_body = NewMemories,
    responses((status = CREATED, body = WithNotifications<Batch>), IdempotentErrors))]
pub(crate) async fn memory_create_batch(
    State(app): State<App>,
    AgentCaller(caller): AgentCaller,
    home: Home,
    write: Write<NewMemories>,
) -> ApiResult<Respond<WithNotifications<Batch>>> {
    let receipt = write.receipt;
    let home = home.namespace();
    let nodes = write.body.nodes.0.into_iter().enumerate();
    let inputs = nodes.map(|(at, node)| {
        let input = node.0.into_input(home.as_deref());
        input.map_err(|error| error.within(&format!("nodes[{at}]")))
    });
    let inputs = inputs.collect::<ApiResult<Vec<MemoryInput>>>()?;
    let count = inputs.len();
    let done = app.service().create_memories(&caller, receipt, inputs).await?;
    if !done.value.is_replay {
        set_created(count);
    }
    let item = |touched: Touched| {
        let status = if matches!(touched, Touched::Present(_)) { "created" } else { "deleted" };
        BatchItem { memory: touched.into(), status }
    };
    let results = done.value.memories.into_iter().map(item).collect();
    let body = WithNotifications::new(Batch { results }, &done.notifications);
    Ok(Respond::created(done.freshness, body))
}
