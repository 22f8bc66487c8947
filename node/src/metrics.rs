//! Prometheus metrics of the node: Raft, storage, embedder, webhooks. Their values are read at
//! each scrape. The `api` crate has the metrics of HTTP requests.

use std::collections::HashMap;
use std::sync::Arc;

use api::App;
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{Counter, Gauge, Opts};
use raft::{Handle, Status, Totals};
use storage::model::delivery::Outbox;
use storage::{GraphCounts, Reader, View};

use crate::{embed, webhooks};

/// Collects the metrics of a node.
pub(crate) struct NodeMetrics {
    app: App,
    raft: Handle,
    reader: Reader,
    embedder: Arc<embed::Counters>,
    webhooks: Arc<webhooks::Counters>,
    descriptions: Vec<Desc>,
}

/// The values of one scrape.
struct Snapshot<'a> {
    node: &'a NodeMetrics,
    status: Status,
    totals: Totals,
    memories: u64,
    graphs: GraphCounts,
    outbox: Outbox,
}

enum Kind {
    Counter,
    Gauge,
}

/// One metric, and how its value is read.
struct Metric {
    kind: Kind,
    name: &'static str,
    help: &'static str,
    value: fn(&Snapshot<'_>) -> f64,
}

impl NodeMetrics {
    pub(crate) fn new(
        app: &App,
        raft: &Handle,
        reader: &Reader,
        embedder: Arc<embed::Counters>,
        webhooks: Arc<webhooks::Counters>,
    ) -> Self {
        let descriptions = METRICS.iter().map(Metric::description).collect();
        let (app, raft, reader) = (app.clone(), raft.clone(), reader.clone());
        Self { app, raft, reader, embedder, webhooks, descriptions }
    }

    fn snapshot(&self) -> Snapshot<'_> {
        let tenants = self.reader.tenants();
        let graphs = tenants.iter().map(|tenant| self.reader.graph_counts(*tenant));
        let outboxes = tenants.iter().filter_map(|tenant| self.reader.outbox(*tenant).ok());
        Snapshot {
            node: self,
            status: self.raft.status(),
            totals: self.raft.totals(),
            memories: tenants.iter().map(|tenant| self.reader.counts(*tenant).memories).sum(),
            graphs: graphs.fold(GraphCounts::default(), GraphCounts::plus),
            outbox: outboxes.fold(Outbox::default(), Outbox::plus),
        }
    }
}

impl Collector for NodeMetrics {
    fn desc(&self) -> Vec<&Desc> {
        self.descriptions.iter().collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let snapshot = self.snapshot();
        METRICS.iter().flat_map(|metric| metric.collect(&snapshot)).collect()
    }
}

const fn counter(
    name: &'static str,
    help: &'static str,
    value: fn(&Snapshot<'_>) -> f64,
) -> Metric {
    Metric { kind: Kind::Counter, name, help, value }
}

const fn gauge(name: &'static str, help: &'static str, value: fn(&Snapshot<'_>) -> f64) -> Metric {
    Metric { kind: Kind::Gauge, name, help, value }
}

impl Metric {
    fn description(&self) -> Desc {
        Desc::new(self.name.into(), self.help.into(), Vec::new(), HashMap::new())
            .expect("the name is valid")
    }

    fn collect(&self, snapshot: &Snapshot<'_>) -> Vec<MetricFamily> {
        let (options, value) = (Opts::new(self.name, self.help), (self.value)(snapshot));
        match self.kind {
            Kind::Counter => {
                let counter = Counter::with_opts(options).expect("the name is valid");
                counter.inc_by(value);
                counter.collect()
            }
            Kind::Gauge => {
                let gauge = Gauge::with_opts(options).expect("the name is valid");
                gauge.set(value);
                gauge.collect()
            }
        }
    }
}

fn flag(is_set: bool) -> f64 {
    f64::from(u8::from(is_set))
}

fn staleness_seconds(raft: &Handle) -> f64 {
    raft.staleness().map_or(f64::INFINITY, |staleness| staleness.as_secs_f64())
}

const METRICS: [Metric; 37] = [
    gauge("hearth_has_leader", "1 if this node is or follows a leader, else 0.", |s| {
        flag(s.status.leader.is_some())
    }),
    gauge("hearth_is_leader", "1 if this node is the leader, else 0.", |s| {
        flag(s.status.role == "leader")
    }),
    gauge("hearth_quarantined", "1 if this node is quarantined, else 0.", |s| {
        flag(s.status.quarantine.is_some())
    }),
    gauge("hearth_raft_term", "Current Raft term.", |s| s.status.term as f64),
    gauge("hearth_raft_last_log_index", "Index of the last log entry.", |s| {
        s.status.last_log_index as f64
    }),
    gauge("hearth_raft_commit_index", "Index of the last committed log entry.", |s| {
        s.status.commit_index as f64
    }),
    gauge("hearth_raft_applied_index", "Index of the last applied log entry.", |s| {
        s.status.applied_index as f64
    }),
    gauge(
        "hearth_raft_snapshot_index",
        "Index of the last log entry whose effect is durable without the log.",
        |s| s.status.snapshot_index as f64,
    ),
    gauge("hearth_raft_purged_index", "Index of the last log entry removed by compaction.", |s| {
        s.status.purged_index as f64
    }),
    gauge(
        "hearth_staleness_seconds",
        "Upper bound of the age of the state that this node serves.",
        |s| staleness_seconds(&s.node.raft),
    ),
    gauge("hearth_executor_queue", "Commands in the queue of the executor.", |s| {
        s.status.queued as f64
    }),
    counter("hearth_executor_batches_total", "Batches written to the log.", |s| {
        s.totals.batches as f64
    }),
    counter("hearth_executor_batch_bytes_total", "Bytes of the batches written.", |s| {
        s.totals.batch_bytes as f64
    }),
    counter("hearth_executor_batch_commands_total", "Commands in the batches written.", |s| {
        s.totals.batch_commands as f64
    }),
    counter("hearth_executor_accepted_total", "Commands executed.", |s| s.totals.accepted as f64),
    counter("hearth_executor_rejected_total", "Commands rejected by a rule.", |s| {
        s.totals.rejected as f64
    }),
    counter("hearth_executor_busy_total", "Commands rejected because the queue was full.", |s| {
        s.totals.busy as f64
    }),
    counter("hearth_forwarded_total", "Commands forwarded to the leader.", |s| {
        s.totals.forwarded as f64
    }),
    counter("hearth_log_wal_syncs_total", "Syncs of the log to disk.", |s| {
        s.totals.wal_syncs as f64
    }),
    gauge("hearth_log_bytes", "Approximate size of the log in bytes.", |s| {
        s.totals.log_bytes as f64
    }),
    counter("hearth_recalls_dropped_total", "Recalls lost because the report was full.", |s| {
        s.node.app.recalls_dropped() as f64
    }),
    gauge("hearth_event_streams", "Open event streams.", |s| s.node.app.streams_open() as f64),
    gauge("hearth_memories", "Memories of all tenants.", |s| s.memories as f64),
    counter("hearth_searches_exact_total", "Vector searches that scored all candidates.", |s| {
        s.node.reader.searches().exact() as f64
    }),
    counter("hearth_searches_graph_total", "Vector searches through an HNSW graph.", |s| {
        s.node.reader.searches().by_graph() as f64
    }),
    gauge("hearth_graph_held", "Memories in HNSW graphs.", |s| s.graphs.held as f64),
    gauge("hearth_graph_missing", "Memories not yet in an HNSW graph.", |s| {
        s.graphs.missing as f64
    }),
    gauge("hearth_graph_lost", "Memories in an HNSW graph that searches do not reach.", |s| {
        s.graphs.lost as f64
    }),
    counter("hearth_embedder_texts_total", "Texts embedded.", |s| s.node.embedder.texts() as f64),
    counter("hearth_embedder_cached_total", "Texts whose vector was cached.", |s| {
        s.node.embedder.cached() as f64
    }),
    counter("hearth_embedder_busy_total", "Texts rejected because the queue was full.", |s| {
        s.node.embedder.busy() as f64
    }),
    counter("hearth_embedder_seconds_total", "Seconds spent embedding, over all threads.", |s| {
        s.node.embedder.seconds()
    }),
    gauge("hearth_webhooks_pending", "Pending deliveries.", |s| s.outbox.pending as f64),
    gauge("hearth_webhooks_dead_letters", "Dead letters.", |s| s.outbox.dead_letters as f64),
    counter(
        "hearth_webhooks_dropped_total",
        "Firings without a delivery because too many were pending.",
        |s| s.outbox.dropped as f64,
    ),
    counter("hearth_webhooks_delivered_total", "Deliveries accepted by their receiver.", |s| {
        s.node.webhooks.delivered() as f64
    }),
    counter("hearth_webhook_attempts_failed_total", "Failed delivery attempts.", |s| {
        s.node.webhooks.failed() as f64
    }),
];

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn metrics_have_unique_conventional_names() {
        let mut names = HashSet::new();
        for metric in &METRICS {
            assert_eq!(metric.description().fq_name, metric.name);
            assert!(metric.name.starts_with("hearth_") && metric.help.ends_with('.'));
            assert!(names.insert(metric.name), "{} is a duplicate", metric.name);
            let is_counter = matches!(metric.kind, Kind::Counter);
            assert_eq!(metric.name.ends_with("_total"), is_counter, "{}", metric.name);
        }
    }
}
