//! Prometheus metrics by tenant: for the busiest ones each, and for all others together, so the
//! number of series is bounded.

use std::collections::{BTreeMap, HashSet};

use api::{App, RequestCounts};
use prometheus::core::{Collector, Desc, Describer};
use prometheus::proto::MetricFamily;
use prometheus::{CounterVec, GaugeVec, Opts};
use storage::{Counts, Reader};

/// The label of a tenant's number, or of all others.
const LABEL: &str = "tenant";
const OTHERS: &str = "other";

/// The values of one tenant, or of all others together.
#[derive(Default)]
struct Row {
    requests: RequestCounts,
    memories: u64,
    bytes: u64,
}

/// Name (without `hearth_tenant_`) and help text of a metric, and how its value is read. A metric
/// whose name ends with `_total` is a counter; any other is a gauge.
type Metric = (&'static str, &'static str, fn(&Row) -> f64);

const METRICS: [Metric; 5] = [
    ("requests_total", "Requests with a valid key.", |row| row.requests.requests as f64),
    ("request_seconds_total", "Seconds until their responses were ready.", |row| {
        row.requests.micros as f64 / 1e6
    }),
    ("rejected_total", "Requests rejected at a limit.", |row| row.requests.rejected as f64),
    ("memories", "Memories of both tiers.", |row| row.memories as f64),
    ("bytes", "Bytes of labels, key points and vectors.", |row| row.bytes as f64),
];

pub(crate) struct TenantMetrics {
    app: App,
    reader: Reader,
    descriptions: Vec<Desc>,
}

impl TenantMetrics {
    pub(crate) fn new(app: &App, reader: &Reader) -> Self {
        let describe = |(name, help, _): &Metric| options(name, help).describe();
        let described: Result<_, _> = METRICS.iter().map(describe).collect();
        let descriptions = described.expect("the names are valid");
        Self { app: app.clone(), reader: reader.clone(), descriptions }
    }

    /// The busiest tenants by their numbers, and the others. A deleted one is in neither.
    fn rows(&self) -> BTreeMap<String, Row> {
        let (busiest, others) = self.app.busiest_tenants();
        let name = |tenant| match busiest.contains_key(&tenant) {
            true => tenant.0.to_string(),
            false => OTHERS.to_owned(),
        };
        let tenants = self.reader.tenants();
        let mut rows = BTreeMap::from([(OTHERS.to_owned(), Row::default())]);
        for tenant in &tenants {
            let Counts { memories, bytes, .. } = self.reader.counts(*tenant);
            let row = rows.entry(name(*tenant)).or_default();
            row.memories += memories;
            row.bytes += bytes;
        }
        let existing: HashSet<_> = tenants.into_iter().collect();
        for (tenant, requests) in busiest.iter().filter(|(tenant, _)| existing.contains(tenant)) {
            rows.entry(name(*tenant)).or_default().requests = *requests;
        }
        rows.entry(OTHERS.to_owned()).or_default().requests = others;
        rows
    }
}

impl Collector for TenantMetrics {
    fn desc(&self) -> Vec<&Desc> {
        self.descriptions.iter().collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let rows = self.rows();
        METRICS.iter().flat_map(|metric| family(metric, &rows)).collect()
    }
}

fn options(name: &str, help: &str) -> Opts {
    Opts::new(name, help).namespace("hearth_tenant").variable_label(LABEL)
}

fn family((name, help, value): &Metric, rows: &BTreeMap<String, Row>) -> Vec<MetricFamily> {
    if name.ends_with("_total") {
        let counters = CounterVec::new(options(name, help), &[LABEL]).expect("the name is valid");
        for (tenant, row) in rows {
            counters.with_label_values(&[tenant]).inc_by(value(row));
        }
        counters.collect()
    } else {
        let gauges = GaugeVec::new(options(name, help), &[LABEL]).expect("the name is valid");
        for (tenant, row) in rows {
            gauges.with_label_values(&[tenant]).set(value(row));
        }
        gauges.collect()
    }
}
