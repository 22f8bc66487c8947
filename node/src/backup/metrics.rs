//! Prometheus metrics of scheduled backups and of log shipping.

use prometheus::core::Collector;
use prometheus::{IntCounter, IntGauge};

/// The metrics; cheap to clone.
#[derive(Clone)]
pub(crate) struct BackupMetrics {
    pub(crate) newest: IntGauge,
    interval: IntGauge,
    /// Last entry of the log in the place, as this node knows it.
    pub(crate) shipped: IntGauge,
    pub(crate) unshipped_since: IntGauge,
    pub(crate) failures: IntCounter,
}

impl Default for BackupMetrics {
    fn default() -> Self {
        let gauge = |name, help| IntGauge::new(name, help).expect("the name is valid");
        let failures = IntCounter::new(
            "hearth_backup_failures_total",
            "Scheduled backups of this node that failed, failed looks at the place of backups, and \
             failed writes of the log there.",
        );
        Self {
            newest: gauge(
                "hearth_backup_newest_timestamp_seconds",
                "Time of the newest backup of this cluster in the configured place; 0 without one.",
            ),
            interval: gauge("hearth_backup_interval_seconds", "Configured time between backups."),
            shipped: gauge(
                "hearth_backup_log_index",
                "Last entry of the log that is in the place of backups, as this node knows.",
            ),
            unshipped_since: gauge(
                "hearth_backup_log_behind_since_timestamp_seconds",
                "Time since which changes of this node's log are missing in the place of backups; 0 if \
                 none are.",
            ),
            failures: failures.expect("the name is valid"),
        }
    }
}

impl BackupMetrics {
    /// The metrics of a node that is configured to create a backup every so many hours.
    pub(crate) fn collectors(&self, interval_hours: u32) -> [Box<dyn Collector>; 5] {
        self.interval.set(3_600 * i64::from(interval_hours));
        [
            Box::new(self.newest.clone()),
            Box::new(self.interval.clone()),
            Box::new(self.shipped.clone()),
            Box::new(self.unshipped_since.clone()),
            Box::new(self.failures.clone()),
        ]
    }
}
