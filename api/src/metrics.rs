//! Prometheus metrics of HTTP requests: a counter and a latency histogram per route.

use std::time::Duration;

use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, Opts, Registry};

/// Upper bounds of the latency histogram, in seconds.
const BUCKETS: [f64; 14] =
    [0.0005, 0.001, 0.002, 0.004, 0.008, 0.015, 0.03, 0.06, 0.12, 0.25, 0.5, 1.0, 5.0, 10.0];

/// Metrics that each request updates; cheap to clone.
#[derive(Clone)]
pub struct Metrics {
    requests: IntCounterVec,
    seconds: HistogramVec,
}

impl Metrics {
    /// Creates the metrics and registers them.
    ///
    /// # Panics
    /// When `registry` has metrics of these names already.
    pub fn new(registry: &Registry) -> Self {
        let requests = IntCounterVec::new(
            Opts::new("hearth_http_requests_total", "HTTP requests by route and status."),
            &["method", "route", "status"],
        )
        .expect("name and labels are valid");
        let seconds = HistogramVec::new(
            HistogramOpts::new("hearth_http_request_seconds", "HTTP response time by route.")
                .buckets(BUCKETS.to_vec()),
            &["method", "route"],
        )
        .expect("name, labels and buckets are valid");
        registry.register(Box::new(requests.clone())).expect("registered once");
        registry.register(Box::new(seconds.clone())).expect("registered once");
        Self { requests, seconds }
    }

    pub(crate) fn request(&self, method: &str, route: &str, status: u16, took: Duration) {
        // Clients choose the method. One label for all unusual ones bounds the number of series.
        let method = match method {
            "GET" | "POST" | "PATCH" | "DELETE" | "PUT" | "HEAD" => method,
            _ => "other",
        };
        let status = status.to_string();
        self.requests.with_label_values(&[method, route, &status]).inc();
        self.seconds.with_label_values(&[method, route]).observe(took.as_secs_f64());
    }
}
