//! Prometheus metrics of the node that have labels, or a value at the leader only: its build, applied
//! events by kind, the lag of each other node, and how many may fail. Their values are read at each scrape.

use prometheus::core::{Collector, Desc, Describer};
use prometheus::proto::MetricFamily;
use prometheus::{CounterVec, GaugeVec, Opts};
use raft::Handle;
use storage::Reader;
use storage::model::journal::EventName;

use crate::program::{COMMIT, VERSION};

pub(crate) struct LabelledMetrics {
    raft: Handle,
    reader: Reader,
    descriptions: Vec<Desc>,
}

impl LabelledMetrics {
    pub(crate) fn new(raft: &Handle, reader: &Reader) -> Self {
        let options = [build_info(), events(), lags(), failure_tolerance()].into_iter();
        let describe = |(options, labels): Labelled| {
            labels.iter().fold(options, |options, label| options.variable_label(*label)).describe()
        };
        let descriptions: Result<_, _> = options.map(describe).collect();
        let descriptions = descriptions.expect("names and labels are valid");
        Self { raft: raft.clone(), reader: reader.clone(), descriptions }
    }
}

/// Options and the labels of a metric.
type Labelled = (Opts, &'static [&'static str]);

fn build_info() -> Labelled {
    let help = "1, with the version of this node, and the commit that it was built of.";
    (Opts::new("hearth_build_info", help), &["version", "commit"])
}

fn events() -> Labelled {
    let help = "Journal events that this node has applied, by kind.";
    (Opts::new("hearth_events_total", help), &["kind"])
}

fn lags() -> Labelled {
    let help = "On the leader: entries of its log that another node has not confirmed.";
    (Opts::new("hearth_peer_lag_entries", help), &["peer"])
}

fn failure_tolerance() -> Labelled {
    let help = "On the leader: voters that may fail before writes stop.";
    (Opts::new("hearth_failure_tolerance", help), &[])
}

/// A gauge with these values by the values of its labels.
fn gauges<const N: usize>(
    (options, labels): Labelled,
    values: &[([&str; N], f64)],
) -> Vec<MetricFamily> {
    let gauges = GaugeVec::new(options, labels).expect("name and labels are valid");
    for (of, value) in values {
        gauges.with_label_values(of).set(*value);
    }
    gauges.collect()
}

impl Collector for LabelledMetrics {
    fn desc(&self) -> Vec<&Desc> {
        self.descriptions.iter().collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let mut families = gauges(build_info(), &[([VERSION, COMMIT], 1.0)]);
        let lagging: Vec<_> = self
            .raft
            .lags()
            .into_iter()
            .map(|(node, lag)| (node.to_string(), lag as f64))
            .collect();
        let lagging: Vec<_> = lagging.iter().map(|(node, lag)| ([node.as_str()], *lag)).collect();
        families.extend(gauges(lags(), &lagging));
        let tolerance = self.raft.failure_tolerance().map(|voters| ([], voters as f64));
        families.extend(gauges(failure_tolerance(), tolerance.as_slice()));
        let (options, labels) = events();
        let counters = CounterVec::new(options, labels).expect("name and labels are valid");
        for name in EventName::ALL {
            let count = self.reader.applied().events(name);
            counters.with_label_values(&[name.name()]).inc_by(count as f64);
        }
        families.extend(counters.collect());
        families
    }
}
