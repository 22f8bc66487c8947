//! The last hour of some of the node's metrics, in memory, for the charts of the dashboard. Prometheus
//! keeps them for longer.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use parking_lot::Mutex;
use prometheus::Registry;
use prometheus::proto::{MetricFamily, MetricType};
use serde::Serialize;

/// Interval of the samples.
pub const SAMPLE_INTERVAL: Duration = Duration::from_secs(15);
/// Samples that are kept: those of an hour.
const SAMPLES_MAX: usize = 240;
/// Metrics that are kept: those of the charts. Those with labels are added up; of a histogram, the
/// number and the sum of its values are kept.
const NAMES: [&str; 9] = [
    "hearth_http_requests_total",
    "hearth_http_request_seconds",
    "hearth_memories",
    "hearth_cold_memories",
    "hearth_raft_term",
    "hearth_peer_lag_entries",
    "hearth_memory_resident_bytes",
    "hearth_disk_free_bytes",
    "process_cpu_seconds_total",
];

/// Samples of the metrics, the oldest first.
#[derive(Default)]
pub(crate) struct MetricsHistory {
    samples: Mutex<VecDeque<Sample>>,
}

struct Sample {
    /// Seconds since 1970.
    at: i64,
    values: BTreeMap<String, f64>,
}

/// The samples by metric.
#[derive(Serialize)]
pub(crate) struct HistoryView {
    interval_seconds: u64,
    /// Times of the samples, in seconds since 1970, the oldest first.
    at: Vec<i64>,
    /// A value for each time; null where the metric did not exist.
    series: BTreeMap<String, Vec<Option<f64>>>,
}

impl MetricsHistory {
    /// Adds a sample of the metrics of `registry`, and removes the oldest beyond an hour.
    pub(crate) fn record(&self, registry: &Registry, at: i64) {
        let families = registry.gather();
        let kept = families.iter().filter(|family| NAMES.contains(&family.name()));
        let values = kept.flat_map(values).collect();
        let mut samples = self.samples.lock();
        samples.push_back(Sample { at, values });
        while samples.len() > SAMPLES_MAX {
            samples.pop_front();
        }
    }

    pub(crate) fn view(&self) -> HistoryView {
        let samples = self.samples.lock();
        let names = samples.iter().flat_map(|sample| sample.values.keys());
        let series = |name: &String| {
            let values = samples.iter().map(|sample| sample.values.get(name).copied());
            (name.clone(), values.collect())
        };
        HistoryView {
            interval_seconds: SAMPLE_INTERVAL.as_secs(),
            at: samples.iter().map(|sample| sample.at).collect(),
            series: names.collect::<BTreeSet<_>>().into_iter().map(series).collect(),
        }
    }
}

/// Names and values of a metric, over all of its labels.
fn values(family: &MetricFamily) -> Vec<(String, f64)> {
    let (name, metrics) = (family.name(), family.get_metric().iter());
    match family.get_field_type() {
        MetricType::COUNTER => {
            vec![(name.to_owned(), metrics.map(|metric| metric.get_counter().get_value()).sum())]
        }
        MetricType::GAUGE => {
            vec![(name.to_owned(), metrics.map(|metric| metric.get_gauge().get_value()).sum())]
        }
        MetricType::HISTOGRAM => {
            let histograms = || metrics.clone().map(|metric| metric.get_histogram());
            let count: u64 = histograms().map(|histogram| histogram.get_sample_count()).sum();
            let sum = histograms().map(|histogram| histogram.get_sample_sum()).sum();
            vec![(format!("{name}_count"), count as f64), (format!("{name}_sum"), sum)]
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use prometheus::{IntCounterVec, Opts};

    use super::*;

    #[test]
    fn labels_are_added_up_and_samples_bounded() {
        let registry = Registry::new();
        let opts = Opts::new("hearth_http_requests_total", "Requests.");
        let requests = IntCounterVec::new(opts, &["status"]).unwrap();
        registry.register(Box::new(requests.clone())).unwrap();
        let history = MetricsHistory::default();
        history.record(&registry, 0);
        for at in 1..=SAMPLES_MAX as i64 {
            requests.with_label_values(&["200"]).inc();
            requests.with_label_values(&["404"]).inc();
            history.record(&registry, at);
        }
        let view = history.view();
        assert_eq!((view.at.first(), view.at.len()), (Some(&1), SAMPLES_MAX));
        assert_eq!(view.series["hearth_http_requests_total"][..2], [Some(2.0), Some(4.0)]);
    }
}
