//! Prometheus metrics of the steps of a write: its sync, its commit, its application, and the calls
//! to other nodes. They show which disk or which connection is slow. Snapshots are counted here too. The same
//! steps are spans of traced commands.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use prometheus::core::Collector;
use prometheus::{Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, Opts};
use storage::span::child_of;
use tokio::time::Instant;
use tracing::Span;

use crate::types::NodeId;

/// Upper bounds of the histograms, in seconds: from a fast sync to a stalled disk.
const BUCKETS: [f64; 15] = [
    0.000_1, 0.000_25, 0.000_5, 0.001, 0.002, 0.004, 0.008, 0.015, 0.03, 0.06, 0.12, 0.25, 0.5,
    1.0, 5.0,
];

/// Spans of the traced commands in the batch that the leader has proposed.
type Traced = Arc<Mutex<Vec<Span>>>;

/// Durations of steps that one thread takes, one after the other, and the start of the present one.
#[derive(Clone)]
pub(crate) struct Steps {
    name: &'static str,
    seconds: Histogram,
    started_at: Arc<Mutex<Option<Instant>>>,
    traced: Traced,
}

/// A step that is under way; dropped at its end.
pub(crate) struct Step<'a> {
    steps: &'a Steps,
    /// Its spans: the batch waits for the step.
    _spans: Vec<Span>,
}

/// The time in which a batch is proposed; dropped at its end.
pub(crate) struct Proposed<'a>(&'a Traced);

impl Drop for Proposed<'_> {
    fn drop(&mut self) {
        self.0.lock().clear();
    }
}

impl Steps {
    fn new(name: &'static str, seconds: Histogram, traced: &Traced) -> Self {
        Self { name, seconds, started_at: Arc::default(), traced: Arc::clone(traced) }
    }

    pub(crate) fn start(&self) -> Step<'_> {
        *self.started_at.lock() = Some(Instant::now());
        let traced = self.traced.lock();
        Step { steps: self, _spans: traced.iter().map(|it| child_of(it, self.name)).collect() }
    }

    /// Seconds since the start of the step that is under way; 0 without one.
    fn pending_seconds(&self) -> f64 {
        self.started_at.lock().map_or(0.0, |started_at| started_at.elapsed().as_secs_f64())
    }
}

impl Step<'_> {
    /// Ends the step without a record of its duration.
    pub(crate) fn discard(self) {
        self.steps.started_at.lock().take();
    }
}

impl Drop for Step<'_> {
    fn drop(&mut self) {
        if let Some(started_at) = self.steps.started_at.lock().take() {
            self.steps.seconds.observe(started_at.elapsed().as_secs_f64());
        }
    }
}

/// The metrics; cheap to clone. The node registers them.
#[derive(Clone)]
pub struct Timings {
    pub(crate) log_sync: Steps,
    pub(crate) log_mark: Steps,
    pub(crate) commit: Histogram,
    pub(crate) apply: Steps,
    pub(crate) calls: HistogramVec,
    pub(crate) failed_calls: IntCounterVec,
    pub(crate) sent_bytes: IntCounterVec,
    pub(crate) sent_snapshots: IntCounter,
    pub(crate) installed_snapshots: IntCounter,
    traced: Traced,
}

impl Default for Timings {
    fn default() -> Self {
        let options = |name: &str, help: &str| {
            HistogramOpts::new(format!("hearth_{name}"), help).buckets(BUCKETS.to_vec())
        };
        let histogram = |name, help| {
            Histogram::with_opts(options(name, help)).expect("name and buckets are valid")
        };
        let counter = |name: &str, help, labels: &[&str]| {
            IntCounterVec::new(Opts::new(format!("hearth_{name}"), help), labels)
                .expect("name and labels are valid")
        };
        let total = |name: &str, help: &str| {
            IntCounter::new(format!("hearth_{name}"), help).expect("the name is valid")
        };
        let calls = HistogramVec::new(
            options("peer_call_seconds", "Durations of answered calls to another node."),
            &["peer", "channel"],
        );
        let traced = Traced::default();
        let steps = |name, metric, help| Steps::new(name, histogram(metric, help), &traced);
        Self {
            log_sync: steps(
                "sync",
                "log_sync_seconds",
                "Durations of writes to the log with their sync.",
            ),
            log_mark: steps(
                "mark",
                "log_mark_seconds",
                "Durations of writes of the log's high-water mark.",
            ),
            commit: histogram(
                "commit_seconds",
                "Time from the proposal of a batch until the leader has applied it.",
            ),
            apply: steps("apply", "apply_seconds", "Time to apply the entries of one pass."),
            calls: calls.expect("name, labels and buckets are valid"),
            failed_calls: counter(
                "peer_calls_failed_total",
                "Calls to another node without an answer.",
                &["peer", "channel"],
            ),
            sent_bytes: counter(
                "peer_sent_bytes_total",
                "Bytes of calls to another node, without snapshots.",
                &["peer", "channel"],
            ),
            sent_snapshots: total("snapshots_sent_total", "Snapshots that another node installed."),
            installed_snapshots: total("snapshots_installed_total", "Snapshots installed here."),
            traced,
        }
    }
}

impl Timings {
    /// Gives each step from here on a span below each of `spans`, until the result is dropped.
    pub(crate) fn trace(&self, spans: Vec<Span>) -> Proposed<'_> {
        *self.traced.lock() = spans;
        Proposed(&self.traced)
    }

    /// Records a call of so many bytes; `took` is `None` without an answer.
    pub(crate) fn record_call(
        &self,
        peer: NodeId,
        channel: &str,
        bytes: usize,
        took: Option<Duration>,
    ) {
        let peer = peer.to_string();
        let labels = [peer.as_str(), channel];
        self.sent_bytes.with_label_values(&labels).inc_by(bytes as u64);
        // A series from the first call on: a rate needs a value before the first failure.
        let failed = self.failed_calls.with_label_values(&labels);
        match took {
            Some(took) => self.calls.with_label_values(&labels).observe(took.as_secs_f64()),
            None => failed.inc(),
        }
    }

    /// Seconds since the start of a sync of the log or its mark that has not ended, and of the application of
    /// entries. A disk that hangs shows here only: histograms have what has ended.
    pub fn pending_seconds(&self) -> [f64; 2] {
        let log = self.log_sync.pending_seconds().max(self.log_mark.pending_seconds());
        [log, self.apply.pending_seconds()]
    }

    /// All metrics, to register them.
    pub fn collectors(&self) -> [Box<dyn Collector>; 9] {
        [
            Box::new(self.log_sync.seconds.clone()),
            Box::new(self.log_mark.seconds.clone()),
            Box::new(self.commit.clone()),
            Box::new(self.apply.seconds.clone()),
            Box::new(self.calls.clone()),
            Box::new(self.failed_calls.clone()),
            Box::new(self.sent_bytes.clone()),
            Box::new(self.sent_snapshots.clone()),
            Box::new(self.installed_snapshots.clone()),
        ]
    }
}
