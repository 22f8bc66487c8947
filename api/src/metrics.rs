//! What operators watch, in the Prometheus text format. Counts of requests are
//! kept here; gauges of the rest of the node are read when asked for.

use std::time::Duration;

use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, Opts, Registry, TextEncoder};

/// One number of the node, read at the time of asking.
pub struct Gauges {
    /// Name, help text, and `counter` or `gauge`, with the value.
    pub values: Vec<(&'static str, &'static str, &'static str, f64)>,
}

/// Counts of the public face.
#[derive(Clone)]
pub struct Metrics {
    registry: Registry,
    requests: IntCounterVec,
    seconds: HistogramVec,
}

/// Upper bounds of the latency histogram, in seconds.
const BUCKETS: [f64; 14] =
    [0.0005, 0.001, 0.002, 0.004, 0.008, 0.015, 0.03, 0.06, 0.12, 0.25, 0.5, 1.0, 5.0, 10.0];

impl Default for Metrics {
    fn default() -> Self {
        let requests = IntCounterVec::new(
            Opts::new("hearth_http_requests_total", "Requests answered, by route and status."),
            &["method", "route", "status"],
        )
        .expect("name and labels are valid");
        let seconds = HistogramVec::new(
            HistogramOpts::new("hearth_http_request_seconds", "Time to answer, by route.")
                .buckets(BUCKETS.to_vec()),
            &["method", "route"],
        )
        .expect("name, labels and buckets are valid");
        let registry = Registry::new();
        registry.register(Box::new(requests.clone())).expect("registered once");
        registry.register(Box::new(seconds.clone())).expect("registered once");
        Self { registry, requests, seconds }
    }
}

impl Metrics {
    pub(crate) fn request(&self, method: &str, route: &str, status: u16, took: Duration) {
        // Methods come from the caller: anything unusual shares one label.
        let method = match method {
            "GET" | "POST" | "PATCH" | "DELETE" | "PUT" | "HEAD" => method,
            _ => "other",
        };
        let status = status.to_string();
        self.requests.with_label_values(&[method, route, &status]).inc();
        self.seconds.with_label_values(&[method, route]).observe(took.as_secs_f64());
    }

    /// Everything as text.
    pub(crate) fn text(&self, gauges: &Gauges) -> String {
        let mut text = TextEncoder::new()
            .encode_to_string(&self.registry.gather())
            .unwrap_or_else(|error| format!("# {error}\n"));
        for (name, help, kind, value) in &gauges.values {
            text += &format!("# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}\n");
        }
        text
    }
}
