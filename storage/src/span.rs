//! Spans of traced requests: which step of a request takes how long. `node` sends them to a collector of
//! OpenTelemetry. A request that is not traced has no span, and its steps have none either.
//!
//! A span has numbers and names of the program. No text of a memory or a query is in one.

use tracing::{Span, info_span};

/// The target of all these spans. Log lines show none of them.
pub const TARGET: &str = "span";

/// Whether a span belongs to a traced request.
pub fn is_traced(span: &Span) -> bool {
    !span.is_disabled() && span.metadata().is_some_and(|metadata| metadata.target() == TARGET)
}

/// A span below the present one, if that belongs to a traced request.
pub fn child(name: &'static str) -> Span {
    child_of(&Span::current(), name)
}

/// A span below `parent`, if that belongs to a traced request.
pub fn child_of(parent: &Span, name: &'static str) -> Span {
    match is_traced(parent) {
        true => info_span!(target: TARGET, parent: parent, "step", otel.name = name),
        false => Span::none(),
    }
}
