//! What only the operator's listener shows.

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};

use crate::app::App;
use crate::metrics::Gauges;

/// Everything that Prometheus collects.
pub(crate) async fn metrics_get(State(app): State<App>, gauges: Gauges) -> Response {
    let text = app.metrics().text(&gauges);
    ([(CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response()
}
