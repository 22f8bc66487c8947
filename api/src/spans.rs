//! The spans of requests: which requests are traced, and whose traces they continue (W3C Trace Context).

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use axum::http::HeaderMap;
use opentelemetry::propagation::TextMapPropagator;
use opentelemetry::trace::{SpanContext, TraceContextExt, TraceFlags, TraceState};
use opentelemetry::{Context, TraceId};
use opentelemetry_http::HeaderExtractor;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use parking_lot::Mutex;
use storage::span::{TARGET, is_traced};
use tracing::field::Empty;
use tracing::{Span, info_span};
use tracing_opentelemetry::OpenTelemetrySpanExt;

use crate::request_log::{PROBES, PerSecond, Sample};

/// Traces of clients that a node continues per second. Anyone can send the header, also without a key, and
/// must not displace the spans of the sample.
const CONTINUED_PER_SECOND_MAX: u32 = 50;

pub(crate) struct Spans {
    node: u64,
    /// `None` if no request is traced.
    sample: Option<Sample>,
    /// Traces of clients that were continued.
    continued: Mutex<PerSecond>,
    skipped: AtomicU64,
}

impl Spans {
    /// Of requests that continue no trace, `one_of` so many are traced; with `None`, no request is.
    pub(crate) fn new(node: u64, one_of: Option<u64>) -> Self {
        let continued = Mutex::new(PerSecond::new(CONTINUED_PER_SECOND_MAX, Instant::now()));
        Self { node, sample: one_of.map(Sample::new), continued, skipped: AtomicU64::new(0) }
    }

    /// Requests whose clients trace them and that have no span, at the limit per second.
    pub(crate) fn skipped(&self) -> u64 {
        self.skipped.load(Ordering::Relaxed)
    }

    /// The span of a request; a disabled one if it is not traced.
    pub(crate) fn start(&self, id: &str, headers: &HeaderMap, method: &str, route: &str) -> Span {
        let sample = self.sample.as_ref().filter(|_| !PROBES.contains(&route));
        let Some(sample) = sample else { return Span::none() };
        let propagator = TraceContextPropagator::new();
        let sent = propagator.extract_with_context(&Context::new(), &HeaderExtractor(headers));
        let sender = sent.span().span_context().clone();
        let is_selected = match sender.is_valid() {
            true => sender.is_sampled() && self.continues_one_more(),
            false => sample.next_is_selected(),
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
            http.request.method = method,
            http.route = route,
            http.response.status_code = Empty,
            otel.status_code = Empty,
            request_id = id,
            tenant = Empty,
            node = self.node,
        );
        if sender.is_valid() {
            // The ids alone: `tracestate` is a text of the client, and each span would keep it.
            let (trace, parent, state) =
                (sender.trace_id(), sender.span_id(), TraceState::default());
            let parent = SpanContext::new(trace, parent, TraceFlags::SAMPLED, true, state);
            // It fails without a collector.
            let _: Result<(), _> = span.set_parent(Context::new().with_remote_span_context(parent));
        }
        span
    }

    /// Whether the limit per second permits one more trace of a client.
    fn continues_one_more(&self) -> bool {
        let has_room = self.continued.lock().permits(Instant::now());
        self.skipped.fetch_add(u64::from(!has_room), Ordering::Relaxed);
        has_room
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
