//! Prometheus metrics of the node: Raft, storage, embedder, webhooks. Their values are read at
//! each scrape. The `api` crate has the metrics of HTTP requests.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use api::App;
use prometheus::core::{Collector, Desc, Describer};
use prometheus::process_collector::ProcessCollector;
use prometheus::proto::MetricFamily;
use prometheus::{Counter, Gauge, Opts};
use raft::{Handle, NodeRole, Status, Totals};
use storage::model::trigger::Outbox;
use storage::{GraphCounts, Reader};

use crate::collector::SpanCounters;
use crate::disk::DiskUse;
use crate::embed::{self, Embedders};
use crate::engine::Engine;
use crate::listeners;
use crate::places::Counters;
use crate::webhooks::{self, Sender};

pub(crate) struct NodeMetrics {
    app: App,
    raft: Handle,
    reader: Reader,
    embedder: Arc<embed::Counters>,
    webhooks: Arc<webhooks::Counters>,
    connections: Arc<Counters>,
    disk: Arc<DiskUse>,
    spans: Arc<SpanCounters>,
    descriptions: Vec<Desc>,
}

struct Snapshot<'a> {
    node: &'a NodeMetrics,
    status: Status,
    totals: Totals,
    memories: u64,
    cold: u64,
    index_bytes: u64,
    graphs: GraphCounts,
    outbox: Outbox,
}

/// Name (without `hearth_`) and help text of a metric, and how its value is read. A metric whose
/// name ends with `_total` is a counter; any other is a gauge.
type Metric<V> = (&'static str, &'static str, fn(&Snapshot<'_>) -> V);

impl NodeMetrics {
    pub(crate) fn new(
        app: &App,
        engine: &Engine,
        embedder: &Embedders,
        webhooks: &Sender,
        listeners: &listeners::Shared,
        spans: Arc<SpanCounters>,
    ) -> Self {
        let (embedder, webhooks) = (embedder.counters.clone(), webhooks.counters.clone());
        let (app, raft, reader) = (app.clone(), engine.raft.clone(), engine.reader.clone());
        let connections = Arc::clone(&listeners.connections);
        let disk = Arc::clone(&engine.disk.used);
        let descriptions = descriptions();
        Self { app, raft, reader, embedder, webhooks, connections, disk, spans, descriptions }
    }

    fn snapshot(&self) -> Snapshot<'_> {
        let tenants = self.reader.tenants();
        let graphs = tenants.iter().map(|tenant| self.reader.graph_counts(*tenant));
        let counts: Vec<_> = tenants.iter().map(|tenant| self.reader.counts(*tenant)).collect();
        Snapshot {
            node: self,
            status: self.raft.status(),
            totals: self.raft.totals(),
            cold: tenants.iter().map(|tenant| self.reader.cold_memories(*tenant)).sum(),
            memories: counts.iter().map(|counts| counts.memories).sum(),
            index_bytes: counts.iter().map(|counts| counts.index_bytes).sum(),
            graphs: graphs.fold(GraphCounts::default(), GraphCounts::plus),
            outbox: self.reader.all_outboxes(),
        }
    }
}

impl Collector for NodeMetrics {
    fn desc(&self) -> Vec<&Desc> {
        self.descriptions.iter().chain(self.embedder.seconds.desc()).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let snapshot = self.snapshot();
        let integers =
            METRICS.iter().map(|(name, help, value)| (name, help, value(&snapshot) as f64));
        let seconds = SECONDS.iter().map(|(name, help, value)| (name, help, value(&snapshot)));
        integers
            .chain(seconds)
            .flat_map(|(name, help, value)| family(options(name, help), value))
            .chain(self.embedder.seconds.collect())
            .collect()
    }
}

/// Processor time, memory, open files and start of this process, by the names that all exporters
/// use.
pub(crate) fn process_metrics() -> Box<dyn Collector> {
    Box::new(ProcessCollector::for_self())
}

/// Adds the common prefix of all names.
fn options(name: &str, help: &str) -> Opts {
    Opts::new(name, help).namespace("hearth")
}

fn descriptions() -> Vec<Desc> {
    let integers = METRICS.iter().map(|(name, help, _)| options(name, help));
    let all = integers.chain(SECONDS.iter().map(|(name, help, _)| options(name, help)));
    all.map(|options| options.describe().expect("the name is valid")).collect()
}

fn family(options: Opts, value: f64) -> Vec<MetricFamily> {
    if options.name.ends_with("_total") {
        let counter = Counter::with_opts(options).expect("the name is valid");
        counter.inc_by(value);
        counter.collect()
    } else {
        let gauge = Gauge::with_opts(options).expect("the name is valid");
        gauge.set(value);
        gauge.collect()
    }
}

const SECONDS: &[Metric<f64>] = &[
    ("staleness_seconds", "Upper bound of the age of the state that this node serves.", |s| {
        s.node.raft.staleness().map_or(f64::INFINITY, |staleness| staleness.as_secs_f64())
    }),
    ("cluster_clock_offset_seconds", "Cluster time minus the wall clock of this machine.", |s| {
        s.node.raft.clock_offset_micros().map_or(f64::NAN, |micros| micros as f64 / 1e6)
    }),
    ("log_sync_pending_seconds", "Seconds since the start of a sync that has not ended.", |s| {
        s.node.raft.timings().map_or(0.0, |timings| timings.pending_seconds()[0])
    }),
    (
        "apply_pending_seconds",
        "Seconds since the start of an application that has not ended.",
        |s| s.node.raft.timings().map_or(0.0, |timings| timings.pending_seconds()[1]),
    ),
    ("embedder_seconds_total", "Seconds spent embedding, over all threads.", |s| {
        s.node.embedder.micros.load(Relaxed) as f64 / 1e6
    }),
];

const METRICS: &[Metric<u64>] = &[
    ("has_leader", "1 if this node leads or had contact with a leader within 10 s, else 0.", |s| {
        s.node.app.is_in_contact().into()
    }),
    ("is_leader", "1 if this node is the leader, else 0.", |s| {
        u64::from(s.status.role == NodeRole::Leader)
    }),
    ("quarantined", "1 if this node is quarantined, else 0.", |s| {
        u64::from(s.status.quarantine.is_some())
    }),
    ("voters", "Voters of the cluster.", |s| s.node.raft.voters() as u64),
    ("raft_term", "Current Raft term.", |s| s.status.term),
    ("raft_last_log_index", "Index of the last log entry.", |s| s.status.last_log_index),
    ("raft_commit_index", "Index of the last committed log entry.", |s| s.status.commit_index),
    ("raft_applied_index", "Index of the last applied log entry.", |s| s.status.applied_index),
    (
        "raft_snapshot_index",
        "Index of the last log entry whose effect is durable without the log.",
        |s| s.status.snapshot_index,
    ),
    ("raft_purged_index", "Index of the last log entry removed by compaction.", |s| {
        s.status.purged_index
    }),
    ("executor_queue", "Commands in the queue of the executor.", |s| s.status.queued as u64),
    ("executor_batches_total", "Batches written to the log.", |s| s.totals.batches),
    ("executor_batch_bytes_total", "Bytes of the batches written.", |s| s.totals.batch_bytes),
    ("executor_batch_commands_total", "Commands in the batches written.", |s| {
        s.totals.batch_commands
    }),
    (
        "executor_failed_batches_total",
        "Batches decided on another state, or whose outcome this node did not learn.",
        |s| s.totals.failed_batches,
    ),
    ("executor_accepted_total", "Commands executed.", |s| s.totals.accepted),
    ("executor_rejected_total", "Commands rejected by a rule.", |s| s.totals.rejected),
    ("executor_busy_total", "Commands rejected because the queue was full.", |s| s.totals.busy),
    ("forwarded_total", "Commands forwarded to the leader.", |s| s.totals.forwarded),
    ("leader_changes_total", "Leaders that this node followed or was, one after the other.", |s| {
        s.totals.leader_changes
    }),
    ("state_bytes", "Bytes of the files of the state.", |s| s.node.reader.state_bytes()),
    ("log_wal_syncs_total", "Syncs of the log to disk.", |s| s.totals.wal_syncs),
    ("log_bytes", "Approximate size of the log in bytes.", |s| s.totals.log_bytes),
    ("clock_steps_total", "Steps of the wall clock of this machine.", |s| s.totals.clock_steps),
    ("ticks_total", "Ticks of tenants that this node has applied.", |s| {
        s.node.reader.applied().ticks()
    }),
    ("recalls_total", "Recalls that searches at this node caused.", |s| s.node.app.recalls()),
    (
        "recalls_dropped_total",
        "Recalls lost because the buffer of unreported recalls was full.",
        |s| s.node.app.recalls_dropped(),
    ),
    (
        "key_uses_dropped_total",
        "Kinds of use of keys dropped before the audit log had them. Each returns with its next use.",
        |s| s.node.app.key_uses_dropped(),
    ),
    ("requests_in_progress", "Authenticated requests until their responses are sent.", |s| {
        s.node.app.budgets()[0].taken
    }),
    ("request_bytes", "Bytes of bodies of requests in progress.", |s| {
        s.node.app.budgets()[1].taken
    }),
    ("response_bytes", "Bytes of responses that are not sent yet.", |s| {
        s.node.app.budgets()[2].taken
    }),
    ("event_streams", "Open event streams.", |s| s.node.app.budgets()[3].taken),
    ("limited_requests_total", "Requests rejected at a limit of a key or of this node.", |s| {
        s.node.app.budgets().iter().map(|budget| budget.rejected).sum()
    }),
    ("failed_authentications_total", "Requests with a wrong key.", |s| {
        s.node.app.failed_authentications()
    }),
    ("rate_limited_total", "Requests rejected at the requests per minute of their tenant.", |s| {
        s.node.app.rate_limited()
    }),
    ("connections_ended_total", "Connections ended for too many frames without a request.", |s| {
        s.node.connections.ended.load(Relaxed)
    }),
    ("connections_evicted_total", "Connections without a key that made room for others.", |s| {
        s.node.connections.evicted.load(Relaxed)
    }),
    ("connections_rejected_total", "Connections that found no place.", |s| {
        s.node.connections.rejected.load(Relaxed)
    }),
    ("reads_busy_total", "Reads rejected after too long a wait for others.", |s| {
        s.node.app.overdue()[0]
    }),
    ("writes_busy_total", "Writes rejected after too long a wait for others.", |s| {
        s.node.app.overdue()[2]
    }),
    ("memory_resident_bytes", "Resident memory of the process.", |s| s.node.app.memory().resident),
    ("memory_limit_bytes", "Resident memory above which new work is rejected.", |s| {
        s.node.app.memory().limit
    }),
    ("memory_rejected_total", "Requests rejected for the memory limit.", |s| {
        s.node.app.memory().rejected
    }),
    ("disk_free_bytes", "Free space of the fullest file system of the data folder.", |s| {
        s.node.disk.free.load(Relaxed)
    }),
    ("disk_reserve_bytes", "Free space below which the disk counts as full.", |s| {
        s.node.disk.reserve.load(Relaxed)
    }),
    ("disk_full", "1 if the disk of this node is full, else 0.", |s| {
        s.node.disk.full.load(Relaxed)
    }),
    ("disk_rejected_total", "Commands rejected because the disks of a majority are full.", |s| {
        s.totals.disk_full
    }),
    ("feature_level", "Feature level of the cluster, 0 before it is bootstrapped.", |s| {
        s.node.reader.feature_level().into()
    }),
    ("memories", "Memories of all tenants, of both tiers.", |s| s.memories),
    ("cold_memories", "Those of the cold tier.", |s| s.cold),
    ("cache_bytes", "RAM of the caches and write buffers of log and state.", |s| {
        s.totals.log_cache_bytes + s.node.reader.cache_bytes()
    }),
    ("index_bytes", "Estimated bytes of the word indexes in RAM.", |s| s.index_bytes),
    ("searches_exact_total", "Vector searches that scored all candidates.", |s| {
        s.node.reader.searches().exact()
    }),
    ("searches_graph_total", "Vector searches through an HNSW graph.", |s| {
        s.node.reader.searches().by_graph()
    }),
    ("graph_memories", "Memories in HNSW graphs.", |s| s.graphs.covered),
    ("graph_missing", "Memories not yet in an HNSW graph.", |s| s.graphs.missing),
    ("graph_lost", "Memories in an HNSW graph that searches do not reach.", |s| s.graphs.lost),
    ("embedder_texts_total", "Texts embedded.", |s| s.node.embedder.texts.load(Relaxed)),
    ("embedder_failed_total", "Parts of texts that were not embedded.", |s| {
        s.node.embedder.failed.load(Relaxed)
    }),
    ("reranker_searches_total", "Searches whose first results a reranker ordered.", |s| {
        s.node.embedder.reranked.load(Relaxed)
    }),
    ("reranker_failed_total", "Searches for which the reranker did not respond.", |s| {
        s.node.embedder.unranked.load(Relaxed)
    }),
    ("extractor_turns_total", "Turns of which the extractor named the facts.", |s| {
        s.node.embedder.extracted.load(Relaxed)
    }),
    (
        "extractor_failed_total",
        "Turns that were not extracted: it failed, or too many waited.",
        |s| s.node.embedder.unextracted.load(Relaxed),
    ),
    ("embedder_cached_total", "Texts whose vector was cached.", |s| {
        s.node.embedder.cached.load(Relaxed)
    }),
    ("model_changing", "1 while the embedding model is changed, else 0.", |s| {
        s.node.reader.is_model_changing().into()
    }),
    ("model_postponed_total", "Switches to a next model that this node postponed.", |s| {
        s.node.embedder.postponed.load(Relaxed)
    }),
    ("model_refused", "1 if this node cannot load the next embedding model, else 0.", |s| {
        s.node.embedder.refused.load(Relaxed).into()
    }),
    ("model_outdated", "1 if the model in use is not the configured one, else 0.", |s| {
        s.node.embedder.outdated.load(Relaxed).into()
    }),
    ("model_embedded_total", "Memories embedded by a next model at this node.", |s| {
        s.node.embedder.changed.load(Relaxed)
    }),
    ("embedder_waiting", "Parts of texts that wait for a thread of the embedder.", |s| {
        s.node.embedder.waiting.load(Relaxed)
    }),
    ("embedder_busy_total", "Texts rejected after too long a wait for others.", |s| {
        s.node.app.overdue()[1]
    }),
    ("webhooks_pending", "Pending deliveries.", |s| s.outbox.pending),
    ("webhooks_dead_letters", "Dead letters.", |s| s.outbox.dead_letters),
    ("webhooks_dropped_total", "Firings without a delivery because too many were pending.", |s| {
        s.outbox.dropped
    }),
    ("webhooks_delivered_total", "Deliveries accepted by their receiver.", |s| {
        s.node.webhooks.delivered.load(Relaxed)
    }),
    ("webhook_attempts_failed_total", "Failed delivery attempts.", |s| {
        s.node.webhooks.failed.load(Relaxed)
    }),
    ("spans_total", "Spans of traced requests that ended.", |s| s.node.spans.ended.load(Relaxed)),
    ("traces_skipped_total", "Traces of clients not continued, at their limit per second.", |s| {
        s.node.app.traces_skipped()
    }),
    ("spans_sent_total", "Spans that the collector of traces accepted.", |s| {
        s.node.spans.sent.load(Relaxed)
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
            let families = family(Opts::new(&fq_name, help), 1.0);
            let is_counter = families[0].get_field_type() == MetricType::COUNTER;
            assert_eq!(fq_name.ends_with("_total"), is_counter, "{fq_name}");
            assert!(names.insert(fq_name.clone()), "{fq_name} is a duplicate");
        }
    }
}
