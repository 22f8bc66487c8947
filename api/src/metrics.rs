//! Metrics. Of HTTP requests, a counter and a latency histogram per route. Of tenants, the requests of the
//! busiest, and of all others together: a tenant that becomes one of the busiest starts at 0, and the counts
//! of one that is no longer among them go to the others, so their sum never falls. For the charts of the
//! dashboard, some metrics of the last hour; Prometheus keeps them for longer.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use prometheus::proto::{MetricFamily, MetricType};
use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, Opts, Registry};
use serde::Serialize;
use storage::model::id::TenantId;
use utoipa::ToSchema;

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
        let status = status.to_string();
        self.requests.with_label_values(&[method, route, &status]).inc();
        self.seconds.with_label_values(&[method, route]).observe(took.as_secs_f64());
    }
}

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
#[derive(Serialize, ToSchema)]
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

/// Most tenants that have counts of their own.
pub(crate) const BUSIEST_MAX: usize = 100;
/// Interval at which the busiest tenants are found again.
const INTERVAL: Duration = Duration::from_secs(60);

/// Counts of requests since the start of the process, or since a tenant is one of the busiest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RequestCounts {
    /// Requests with a valid key.
    pub requests: u64,
    /// Of these, requests that were rejected at a limit: 429.
    pub rejected: u64,
    /// Time until their responses were ready.
    pub micros: u64,
}

/// The requests of tenants on this node.
pub(crate) struct TenantRequests(Mutex<Counts>);

struct Counts {
    busiest: BTreeMap<TenantId, RequestCounts>,
    others: RequestCounts,
    /// Requests of late: each interval halves them. At most one entry for each tenant.
    recent: HashMap<TenantId, u64>,
    ranked_at: Instant,
}

impl Default for TenantRequests {
    fn default() -> Self {
        Self(Mutex::new(Counts {
            busiest: BTreeMap::new(),
            others: RequestCounts::default(),
            recent: HashMap::new(),
            ranked_at: Instant::now(),
        }))
    }
}

impl TenantRequests {
    /// Counts a request.
    pub(crate) fn count(&self, tenant: TenantId, is_rejected: bool, took: Duration) {
        self.count_at(Instant::now(), tenant, is_rejected, took);
    }

    fn count_at(&self, now: Instant, tenant: TenantId, is_rejected: bool, took: Duration) {
        let mut counts = self.0.lock();
        if now.saturating_duration_since(counts.ranked_at) >= INTERVAL {
            counts.rank();
            counts.ranked_at = now;
        }
        *counts.recent.entry(tenant).or_default() += 1;
        let has_room = counts.busiest.len() < BUSIEST_MAX;
        let of_tenant = match counts.busiest.get_mut(&tenant) {
            Some(of_tenant) => of_tenant,
            None if has_room => counts.busiest.entry(tenant).or_default(),
            None => &mut counts.others,
        };
        of_tenant.requests += 1;
        of_tenant.rejected += u64::from(is_rejected);
        of_tenant.micros += u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
    }

    /// The counts of the busiest tenants, and of all others together.
    pub(crate) fn all(&self) -> (BTreeMap<TenantId, RequestCounts>, RequestCounts) {
        let counts = self.0.lock();
        (counts.busiest.clone(), counts.others)
    }
}

impl Counts {
    /// Finds the busiest tenants. Equally busy ones keep what they have.
    fn rank(&mut self) {
        for tenant in self.busiest.keys() {
            self.recent.entry(*tenant).or_default();
        }
        let rank = |(tenant, requests): (&TenantId, &u64)| {
            (Reverse(*requests), !self.busiest.contains_key(tenant), *tenant)
        };
        let mut ranks: Vec<_> = self.recent.iter().map(rank).collect();
        ranks.sort_unstable();
        ranks.truncate(BUSIEST_MAX);
        let mut before = std::mem::take(&mut self.busiest);
        for (.., tenant) in ranks {
            self.busiest.insert(tenant, before.remove(&tenant).unwrap_or_default());
        }
        for leaving in before.into_values() {
            self.others.requests += leaving.requests;
            self.others.rejected += leaving.rejected;
            self.others.micros += leaving.micros;
        }
        self.recent.retain(|_, requests| {
            *requests /= 2;
            *requests > 0
        });
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

    fn requests(counts: &TenantRequests, tenant: u32) -> Option<u64> {
        counts.all().0.get(&TenantId(tenant)).map(|of_tenant| of_tenant.requests)
    }

    #[test]
    fn busiest_tenants_have_counts_of_their_own() {
        let (counts, start) = (TenantRequests::default(), Instant::now());
        let count = |tenant, after| {
            counts.count_at(start + after, TenantId(tenant), false, Duration::from_micros(3));
        };
        let most = BUSIEST_MAX as u32;
        for tenant in 1..=most + 2 {
            count(tenant, Duration::ZERO);
        }
        assert_eq!((counts.all().0.len(), counts.all().1.requests), (BUSIEST_MAX, 2));
        for _ in 0..3 {
            count(most + 1, Duration::ZERO);
        }
        assert_eq!(requests(&counts, most + 1), None, "until the interval ends");
        count(1, INTERVAL);
        assert_eq!((requests(&counts, 1), requests(&counts, most + 1)), (Some(2), Some(0)));
        assert_eq!(requests(&counts, most), None, "one of them made room");
        count(most + 1, INTERVAL);
        assert_eq!(requests(&counts, most + 1), Some(1));
        assert_eq!(counts.all().1, RequestCounts { requests: 6, rejected: 0, micros: 18 });
        assert_eq!(counts.all().0.len(), BUSIEST_MAX);
    }

    #[test]
    fn idle_tenants_are_removed() {
        let (counts, start) = (TenantRequests::default(), Instant::now());
        counts.count_at(start, TenantId(1), true, Duration::ZERO);
        counts.count_at(start + INTERVAL, TenantId(2), false, Duration::ZERO);
        assert_eq!(counts.0.lock().recent.len(), 1);
        assert_eq!(counts.all().0[&TenantId(1)].rejected, 1, "its counts stay while there is room");
    }
}
