//! Usage of a tenant in the present calendar month.

use axum::extract::State;
use serde::Serialize;
use storage::model::analytics::Usage;
use storage::model::score::rounded;
use utoipa::ToSchema;

use crate::app::App;
use crate::auth::AdminCaller;
use crate::openapi::ReadErrors;
use crate::read::FreshRead;
use crate::requests::headers::Fresh;
use crate::responses::{Respond, days_of};
use crate::service::error::ApiResult;

/// Usage of a tenant in the present calendar month.
#[derive(Serialize, ToSchema)]
pub(crate) struct UsageView {
    #[schema(format = Date)]
    billing_period_start: String,
    #[schema(format = Date)]
    billing_period_end: String,
    /// Requests.
    sync_requests: u64,
    nodes_added: u64,
    avg_latency_ms: f64,
    max_latency_ms: f64,
}

/// Get the usage of the present calendar month.
#[utoipa::path(get, path = "/api/v1/admin/usage", tag = "analytics", params(Fresh),
    responses((status = OK, body = UsageView), ReadErrors))]
pub(crate) async fn usage_get(
    State(app): State<App>,
    AdminCaller(caller): AdminCaller,
    FreshRead(freshness): FreshRead,
) -> ApiResult<Respond<UsageView>> {
    let (usage, month) = app.service().usage(&caller).await?;
    let (first, last) = days_of(month);
    let body = UsageView {
        billing_period_start: first,
        billing_period_end: last,
        sync_requests: usage.requests,
        nodes_added: usage.nodes_added,
        avg_latency_ms: average_ms(&usage),
        max_latency_ms: rounded(usage.latency_max_micros as f64 / 1e3),
    };
    Ok(Respond::ok(freshness, body))
}

/// Mean time of a request, in milliseconds.
pub(crate) fn average_ms(usage: &Usage) -> f64 {
    match usage.requests {
        0 => 0.0,
        requests => rounded(usage.latency_micros as f64 / 1e3 / requests as f64),
    }
}
