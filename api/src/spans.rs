//! The spans of requests: which requests are traced, and whose traces they continue (W3C Trace Context).

use axum::http::{HeaderMap, Method};
use opentelemetry::propagation::TextMapPropagator;
use opentelemetry::trace::TraceContextExt;
use opentelemetry::{Context, TraceId};
use opentelemetry_http::HeaderExtractor;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use storage::span::{TARGET, is_traced};
use tracing::field::Empty;
use tracing::{Span, info_span};
use tracing_opentelemetry::OpenTelemetrySpanExt;

use crate::request_log::{PROBES, Sample};

pub(crate) struct Spans {
    node: u64,
    /// `None` if no request is traced.
    sample: Option<Sample>,
}

impl Spans {
    /// Of requests that continue no trace, `one_of` so many are traced; with `None`, no request is.
    pub(crate) fn new(node: u64, one_of: Option<u64>) -> Self {
        Self { node, sample: one_of.map(Sample::new) }
    }

    /// The span of a request; a disabled one if it is not traced.
    pub(crate) fn start(
        &self,
        id: &str,
        headers: &HeaderMap,
        method: &Method,
        route: &str,
    ) -> Span {
        let Some(sample) = &self.sample else { return Span::none() };
        let propagator = TraceContextPropagator::new();
        let parent = propagator.extract_with_context(&Context::new(), &HeaderExtractor(headers));
        let is_selected = match parent.span().span_context() {
            sender if sender.is_valid() => sender.is_sampled(),
            _ => !PROBES.contains(&route) && sample.next_is_selected(),
        };
        if !is_selected {
            return Span::none();
        }
        let span = info_span!(
            target: TARGET,
            parent: None,
            "request",
            otel.name = format!("{method} {route}"),
            otel.kind = "server",
            http.request.method = %method,
            http.route = route,
            http.response.status_code = Empty,
            otel.status_code = Empty,
            request_id = id,
            tenant = Empty,
            node = self.node,
        );
        // It fails without a collector.
        let _: Result<(), _> = span.set_parent(parent);
        span
    }
}

/// Records the end of a request.
pub(crate) fn end(span: &Span, status: u16, tenant: Option<u32>) {
    span.record("http.response.status_code", status);
    if status >= 500 {
        span.record("otel.status_code", "ERROR");
    }
    if let Some(tenant) = tenant {
        span.record("tenant", tenant);
    }
}

/// The id of the trace of a traced request.
pub(crate) fn trace_id(span: &Span) -> Option<TraceId> {
    let id = |context: &Context| context.span().span_context().trace_id();
    is_traced(span).then(|| id(&span.context()))
}
