//! Prometheus metrics of scheduled backups.

use prometheus::core::Collector;
use prometheus::{IntCounter, IntGauge};

/// The metrics; cheap to clone.
#[derive(Clone)]
pub(crate) struct BackupMetrics {
    pub(crate) newest: IntGauge,
    interval: IntGauge,
    pub(crate) failures: IntCounter,
}

impl Default for BackupMetrics {
    fn default() -> Self {
        let gauge = |name, help| IntGauge::new(name, help).expect("the name is valid");
        let failures = IntCounter::new(
            "hearth_backup_failures_total",
            "Scheduled backups of this node that failed, and failed looks at the place of backups.",
        );
        Self {
            newest: gauge(
                "hearth_backup_newest_timestamp_seconds",
                "Time of the newest backup of this cluster in the configured place; 0 without one.",
            ),
            interval: gauge("hearth_backup_interval_seconds", "Configured time between backups."),
            failures: failures.expect("the name is valid"),
        }
    }
}

impl BackupMetrics {
    /// The metrics of a node that is configured to create a backup every so many hours.
    pub(crate) fn collectors(&self, interval_hours: u32) -> [Box<dyn Collector>; 3] {
        self.interval.set(3_600 * i64::from(interval_hours));
        [
            Box::new(self.newest.clone()),
            Box::new(self.interval.clone()),
            Box::new(self.failures.clone()),
        ]
    }
}
