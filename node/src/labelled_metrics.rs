//! Prometheus metrics of the node with labels: its build, applied events by kind, and the lag of
//! each other node. Their values are read at each scrape.

use prometheus::core::{Collector, Desc, Describer};
use prometheus::proto::MetricFamily;
use prometheus::{CounterVec, GaugeVec, Opts};
use raft::Handle;
use storage::Reader;
use storage::model::journal::EventName;

pub(crate) struct LabelledMetrics {
    raft: Handle,
    reader: Reader,
    descriptions: Vec<Desc>,
}

impl LabelledMetrics {
    pub(crate) fn new(raft: &Handle, reader: &Reader) -> Self {
        let options = [build_info(), events(), lags()].into_iter();
        let describe = |(options, label): (Opts, &str)| options.variable_label(label).describe();
        let descriptions: Result<_, _> = options.map(describe).collect();
        let descriptions = descriptions.expect("names and labels are valid");
        Self { raft: raft.clone(), reader: reader.clone(), descriptions }
    }
}

/// Options and the label of a metric.
type Labelled = (Opts, &'static str);

fn build_info() -> Labelled {
    (Opts::new("hearth_build_info", "1, with the version of this node."), "version")
}

fn events() -> Labelled {
    let help = "Journal events that this node has applied, by kind.";
    (Opts::new("hearth_events_total", help), "kind")
}

fn lags() -> Labelled {
    let help = "On the leader: entries of its log that another node has not confirmed.";
    (Opts::new("hearth_peer_lag_entries", help), "peer")
}

fn gauges((options, label): Labelled, values: &[(String, u64)]) -> Vec<MetricFamily> {
    let gauges = GaugeVec::new(options, &[label]).expect("name and label are valid");
    for (name, value) in values {
        gauges.with_label_values(&[name]).set(*value as f64);
    }
    gauges.collect()
}

impl Collector for LabelledMetrics {
    fn desc(&self) -> Vec<&Desc> {
        self.descriptions.iter().collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let mut families = gauges(build_info(), &[(env!("CARGO_PKG_VERSION").to_owned(), 1)]);
        let lag = |(node, lag): (u64, u64)| (node.to_string(), lag);
        let lagging: Vec<_> = self.raft.lags().into_iter().map(lag).collect();
        families.extend(gauges(lags(), &lagging));
        let (options, label) = events();
        let counters = CounterVec::new(options, &[label]).expect("name and label are valid");
        for name in EventName::ALL {
            let count = self.reader.applied().events(name);
            counters.with_label_values(&[name.name()]).inc_by(count as f64);
        }
        families.extend(counters.collect());
        families
    }
}
