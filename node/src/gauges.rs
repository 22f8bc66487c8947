//! The numbers of the node that Prometheus collects, by name. What counts
//! requests is the public face's own.

use std::sync::Arc;

use api::{App, Gauges};
use raft::Handle;
use storage::model::delivery::Outbox;
use storage::{GraphCounts, Reader, View};

use crate::embed::Counters;
use crate::webhooks::Counters as Sent;

/// Reads everything once.
pub(crate) fn read(
    app: &App,
    raft: &Handle,
    reader: &Reader,
    embedding: &Arc<Counters>,
    sent: &Arc<Sent>,
) -> Gauges {
    let status = raft.status();
    let totals = raft.totals();
    let graphs = reader.tenants().into_iter().map(|tenant| reader.graph_counts(tenant));
    let graphs = graphs.fold(GraphCounts::default(), GraphCounts::plus);
    let memories: u64 = reader.tenants().into_iter().map(|t| reader.counts(t).memories).sum();
    let flag = |set: bool| f64::from(u8::from(set));
    let seconds = embedding.seconds();
    let index = |value: u64| value as f64;
    let mut gauges = Gauges {
        values: vec![
            gauge("hearth_has_leader", "1 if a leader is known.", flag(status.leader.is_some())),
            gauge("hearth_is_leader", "1 on the leader.", flag(status.role == "leader")),
            gauge("hearth_quarantined", "1 if kept out.", flag(status.quarantine.is_some())),
            gauge("hearth_raft_term", "Present term.", index(status.term)),
            gauge("hearth_raft_last_log_index", "Last entry.", index(status.last_log_index)),
            gauge("hearth_raft_commit_index", "Last committed entry.", index(status.commit_index)),
            gauge("hearth_raft_applied_index", "Last applied entry.", index(status.applied_index)),
            gauge(
                "hearth_raft_snapshot_index",
                "Entry up to which the state is durable without the log.",
                index(status.snapshot_index),
            ),
            gauge("hearth_raft_purged_index", "Last entry cut off.", index(status.purged_index)),
            gauge(
                "hearth_staleness_seconds",
                "Time since this node's state was known to be the newest.",
                raft.staleness().map_or(f64::INFINITY, |staleness| staleness.as_secs_f64()),
            ),
            gauge("hearth_executor_queue", "Commands that wait.", status.queued as f64),
            counter("hearth_executor_batches_total", "Batches written.", totals.batches),
            counter("hearth_executor_batch_bytes_total", "Bytes of those.", totals.batch_bytes),
            counter(
                "hearth_executor_batch_commands_total",
                "Commands in those.",
                totals.batch_commands,
            ),
            counter("hearth_executor_accepted_total", "Commands done.", totals.accepted),
            counter("hearth_executor_refused_total", "Commands refused.", totals.refused),
            counter("hearth_executor_busy_total", "Commands turned away.", totals.busy),
            counter(
                "hearth_recalls_dropped_total",
                "Recalls that no report had room for.",
                app.recalls_dropped(),
            ),
            gauge("hearth_event_streams", "Event streams open.", app.streams_open() as f64),
            counter("hearth_forwarded_total", "Commands sent to the leader.", totals.forwarded),
            counter("hearth_log_wal_syncs_total", "Syncs of the log.", totals.wal_syncs),
            gauge("hearth_log_bytes", "Bytes of the log, roughly.", totals.log_bytes as f64),
            gauge("hearth_memories", "Memories of all tenants.", memories as f64),
            counter(
                "hearth_searches_exact_total",
                "SearchCounters of all.",
                reader.searches().exact(),
            ),
            counter(
                "hearth_searches_graph_total",
                "SearchCounters through a graph.",
                reader.searches().by_graph(),
            ),
            gauge("hearth_graph_held", "Memories in graphs.", graphs.held as f64),
            gauge("hearth_graph_missing", "Memories not in graphs yet.", graphs.missing as f64),
            gauge("hearth_graph_lost", "Memories that graphs do not find.", graphs.lost as f64),
            counter("hearth_embedder_texts_total", "Texts embedded.", embedding.texts()),
            counter("hearth_embedder_cached_total", "Found in the cache.", embedding.cached()),
            counter("hearth_embedder_busy_total", "Texts turned away.", embedding.busy()),
            ("hearth_embedder_seconds_total", "Time spent embedding.", "counter", seconds),
        ],
    };
    gauges.values.extend(of_webhooks(reader, sent));
    gauges
}

/// A number, its name and what it says.
type Number = (&'static str, &'static str, &'static str, f64);

fn gauge(name: &'static str, help: &'static str, value: f64) -> Number {
    (name, help, "gauge", value)
}

fn counter(name: &'static str, help: &'static str, value: u64) -> Number {
    (name, help, "counter", value as f64)
}

fn of_webhooks(reader: &Reader, sent: &Sent) -> Vec<Number> {
    let outboxes = reader.tenants().into_iter().filter_map(|t| reader.outbox(t).ok());
    let outbox = outboxes.fold(Outbox::default(), Outbox::plus);
    vec![
        gauge("hearth_webhooks_pending", "Deliveries pending.", outbox.pending as f64),
        gauge("hearth_webhooks_dead_letters", "Dead letters kept.", outbox.dead_letters as f64),
        counter(
            "hearth_webhooks_dropped_total",
            "Firings that pending no delivery, since too many were pending.",
            outbox.dropped,
        ),
        counter(
            "hearth_webhooks_delivered_total",
            "Deliveries that receivers took from this node.",
            sent.delivered(),
        ),
        counter(
            "hearth_webhook_attempts_failed_total",
            "Attempts of this node that failed.",
            sent.failed(),
        ),
    ]
}
