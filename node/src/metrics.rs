//! Prometheus metrics of the node: Raft, storage, embedder, webhooks. Their values are read at
//! each scrape. The `api` crate has the metrics of HTTP requests.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use api::App;
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{Counter, Gauge, Opts};
use raft::{Handle, Status, Totals};
use storage::model::delivery::Outbox;
use storage::{GraphCounts, Reader, SearchCounters, View};

use crate::embed::{self, Pool};
use crate::webhooks::{self, Sender};

pub(crate) struct NodeMetrics {
    app: App,
    raft: Handle,
    reader: Reader,
    embedder: Arc<embed::Counters>,
    webhooks: Arc<webhooks::Counters>,
    descriptions: Vec<Desc>,
}

struct Snapshot<'a> {
    app: &'a App,
    raft: &'a Handle,
    searches: &'a SearchCounters,
    embedder: &'a embed::Counters,
    webhooks: &'a webhooks::Counters,
    status: Status,
    totals: Totals,
    memories: u64,
    graphs: GraphCounts,
    outbox: Outbox,
}

/// Name and help text of a metric, and how its value is read. A metric whose name ends with
/// `_total` is a counter; any other is a gauge.
type Metric<V> = (&'static str, &'static str, fn(&Snapshot<'_>) -> V);

impl NodeMetrics {
    pub(crate) fn new(
        app: &App,
        raft: &Handle,
        reader: &Reader,
        embedder: &Pool,
        webhooks: &Sender,
    ) -> Self {
        let (embedder, webhooks) = (embedder.counters.clone(), webhooks.counters.clone());
        let (app, raft, reader) = (app.clone(), raft.clone(), reader.clone());
        Self { app, raft, reader, embedder, webhooks, descriptions: descriptions() }
    }

    fn snapshot(&self) -> Snapshot<'_> {
        let tenants = self.reader.tenants();
        let graphs = tenants.iter().map(|tenant| self.reader.graph_counts(*tenant));
        let outboxes = tenants.iter().filter_map(|tenant| self.reader.outbox(*tenant).ok());
        Snapshot {
            app: &self.app,
            raft: &self.raft,
            searches: self.reader.searches(),
            embedder: &self.embedder,
            webhooks: &self.webhooks,
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
        let integers =
            METRICS.iter().map(|(name, help, value)| (name, help, value(&snapshot) as f64));
        let seconds = SECONDS.iter().map(|(name, help, value)| (name, help, value(&snapshot)));
        integers.chain(seconds).flat_map(|(name, help, value)| family(name, help, value)).collect()
    }
}

fn descriptions() -> Vec<Desc> {
    let integers = METRICS.iter().map(|(name, help, _)| (name, help));
    let all = integers.chain(SECONDS.iter().map(|(name, help, _)| (name, help)));
    let description = |(name, help): (&&str, &&str)| {
        Desc::new((*name).into(), (*help).into(), Vec::new(), HashMap::new())
    };
    all.map(description).collect::<Result<_, _>>().expect("the names are valid")
}

fn family(name: &str, help: &str, value: f64) -> Vec<MetricFamily> {
    let options = Opts::new(name, help);
    if name.ends_with("_total") {
        let counter = Counter::with_opts(options).expect("the name is valid");
        counter.inc_by(value);
        counter.collect()
    } else {
        let gauge = Gauge::with_opts(options).expect("the name is valid");
        gauge.set(value);
        gauge.collect()
    }
}

/// Metrics in seconds.
const SECONDS: [Metric<f64>; 2] = [
    (
        "hearth_staleness_seconds",
        "Upper bound of the age of the state that this node serves.",
        |s| s.raft.staleness().map_or(f64::INFINITY, |staleness| staleness.as_secs_f64()),
    ),
    ("hearth_embedder_seconds_total", "Seconds spent embedding, over all threads.", |s| {
        s.embedder.micros.load(Relaxed) as f64 / 1e6
    }),
];

/// All other metrics.
const METRICS: [Metric<u64>; 35] = [
    ("hearth_has_leader", "1 if this node is or follows a leader, else 0.", |s| {
        u64::from(s.status.leader.is_some())
    }),
    ("hearth_is_leader", "1 if this node is the leader, else 0.", |s| {
        u64::from(s.status.role == "leader")
    }),
    ("hearth_quarantined", "1 if this node is quarantined, else 0.", |s| {
        u64::from(s.status.quarantine.is_some())
    }),
    ("hearth_raft_term", "Current Raft term.", |s| s.status.term),
    ("hearth_raft_last_log_index", "Index of the last log entry.", |s| s.status.last_log_index),
    ("hearth_raft_commit_index", "Index of the last committed log entry.", |s| {
        s.status.commit_index
    }),
    ("hearth_raft_applied_index", "Index of the last applied log entry.", |s| {
        s.status.applied_index
    }),
    (
        "hearth_raft_snapshot_index",
        "Index of the last log entry whose effect is durable without the log.",
        |s| s.status.snapshot_index,
    ),
    ("hearth_raft_purged_index", "Index of the last log entry removed by compaction.", |s| {
        s.status.purged_index
    }),
    ("hearth_executor_queue", "Commands in the queue of the executor.", |s| s.status.queued as u64),
    ("hearth_executor_batches_total", "Batches written to the log.", |s| s.totals.batches),
    ("hearth_executor_batch_bytes_total", "Bytes of the batches written.", |s| {
        s.totals.batch_bytes
    }),
    ("hearth_executor_batch_commands_total", "Commands in the batches written.", |s| {
        s.totals.batch_commands
    }),
    ("hearth_executor_accepted_total", "Commands executed.", |s| s.totals.accepted),
    ("hearth_executor_rejected_total", "Commands rejected by a rule.", |s| s.totals.rejected),
    ("hearth_executor_busy_total", "Commands rejected because the queue was full.", |s| {
        s.totals.busy
    }),
    ("hearth_forwarded_total", "Commands forwarded to the leader.", |s| s.totals.forwarded),
    ("hearth_log_wal_syncs_total", "Syncs of the log to disk.", |s| s.totals.wal_syncs),
    ("hearth_log_bytes", "Approximate size of the log in bytes.", |s| s.totals.log_bytes),
    (
        "hearth_recalls_dropped_total",
        "Recalls lost because the buffer of unreported recalls was full.",
        |s| s.app.recalls_dropped(),
    ),
    ("hearth_event_streams", "Open event streams.", |s| s.app.streams_open() as u64),
    ("hearth_memories", "Memories of all tenants.", |s| s.memories),
    ("hearth_searches_exact_total", "Vector searches that scored all candidates.", |s| {
        s.searches.exact()
    }),
    ("hearth_searches_graph_total", "Vector searches through an HNSW graph.", |s| {
        s.searches.by_graph()
    }),
    ("hearth_graph_held", "Memories in HNSW graphs.", |s| s.graphs.held),
    ("hearth_graph_missing", "Memories not yet in an HNSW graph.", |s| s.graphs.missing),
    ("hearth_graph_lost", "Memories in an HNSW graph that searches do not reach.", |s| {
        s.graphs.lost
    }),
    ("hearth_embedder_texts_total", "Texts embedded.", |s| s.embedder.texts.load(Relaxed)),
    ("hearth_embedder_cached_total", "Texts whose vector was cached.", |s| {
        s.embedder.cached.load(Relaxed)
    }),
    ("hearth_embedder_busy_total", "Texts rejected because the queue was full.", |s| {
        s.embedder.busy.load(Relaxed)
    }),
    ("hearth_webhooks_pending", "Pending deliveries.", |s| s.outbox.pending),
    ("hearth_webhooks_dead_letters", "Dead letters.", |s| s.outbox.dead_letters),
    (
        "hearth_webhooks_dropped_total",
        "Firings without a delivery because too many were pending.",
        |s| s.outbox.dropped,
    ),
    ("hearth_webhooks_delivered_total", "Deliveries accepted by their receiver.", |s| {
        s.webhooks.delivered.load(Relaxed)
    }),
    ("hearth_webhook_attempts_failed_total", "Failed delivery attempts.", |s| {
        s.webhooks.failed.load(Relaxed)
    }),
];

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use prometheus::proto::MetricType;

    use super::*;

    #[test]
    fn metrics_have_unique_conventional_names() {
        let mut names = HashSet::new();
        for Desc { fq_name, help, .. } in descriptions() {
            assert!(fq_name.starts_with("hearth_") && help.ends_with('.'));
            let families = family(&fq_name, &help, 1.0);
            let is_counter = families[0].get_field_type() == MetricType::COUNTER;
            assert_eq!(fq_name.ends_with("_total"), is_counter, "{fq_name}");
            assert!(names.insert(fq_name.clone()), "{fq_name} is a duplicate");
        }
    }
}
