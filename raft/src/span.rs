//! The span of a request in a call to another node, so that the trace goes on there (the ids of W3C Trace
//! Context). Only traced requests have one.

use opentelemetry::Context;
use opentelemetry::trace::{SpanContext, SpanId, TraceContextExt, TraceFlags, TraceId, TraceState};
use serde::{Deserialize, Serialize};
use storage::span::{TARGET, is_traced};
use tracing::{Span, info_span};
use tracing_opentelemetry::OpenTelemetrySpanExt;

use crate::types::NodeId;

/// A span of another node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RemoteSpan {
    trace: [u8; 16],
    span: [u8; 8],
}

impl RemoteSpan {
    /// The ids of a span, if it belongs to a traced request.
    pub(crate) fn of(span: &Span) -> Option<Self> {
        if !is_traced(span) {
            return None;
        }
        let context = span.context();
        let span = context.span();
        let ids = span.span_context();
        ids.is_valid()
            .then(|| Self { trace: ids.trace_id().to_bytes(), span: ids.span_id().to_bytes() })
    }

    /// A span of this node below it: a command that the other node sent.
    pub(crate) fn submission(self, local: NodeId) -> Span {
        let (trace, span) = (TraceId::from_bytes(self.trace), SpanId::from_bytes(self.span));
        let (flags, state) = (TraceFlags::SAMPLED, TraceState::default());
        let parent = SpanContext::new(trace, span, flags, true, state);
        let submission = info_span!(
            target: TARGET,
            parent: None,
            "submit",
            otel.kind = "server",
            node = local
        );
        // Without a collector on this node, the span is disabled and has no parent.
        let _: Result<(), _> =
            submission.set_parent(Context::new().with_remote_span_context(parent));
        submission
    }
}
