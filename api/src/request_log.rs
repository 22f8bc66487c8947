//! Which requests have a line in the log: all that are slow or fail in this service, one of many others,
//! and rejections up to a rate. What a client does wrong a thousand times a second is one line and a count.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use opentelemetry::TraceId;
use parking_lot::Mutex;
use tracing::field::display;

use crate::admission::budget::KeyOfTenant;

/// Routes without lines: what calls them says itself what it finds.
pub(crate) const PROBES: [&str; 3] = ["/livez", "/readyz", "/metrics"];
/// Lines per second for one key and status.
const REJECTIONS_PER_SECOND: u32 = 10;
/// Keys and statuses that are counted at a time.
const REJECTED_MAX: usize = 1_000;
const SECOND: Duration = Duration::from_secs(1);

/// What the operator wants to see of requests.
#[derive(Debug, Clone, Copy)]
pub struct RequestOptions {
    /// A request that takes longer is slow.
    pub slow: Duration,
    /// One of so many other requests has a line; 0 is none.
    pub one_of: u64,
    /// One of so many requests is traced, and each one that continues a sampled trace. 0: only those.
    /// `None`: none at all.
    pub traced_one_of: Option<u64>,
}

/// Selects one of so many.
pub(crate) struct Sample {
    one_of: u64,
    count: AtomicU64,
}

impl Sample {
    pub(crate) fn new(one_of: u64) -> Self {
        Self { one_of, count: AtomicU64::new(0) }
    }

    pub(crate) fn next_is_selected(&self) -> bool {
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        self.one_of > 0 && number.is_multiple_of(self.one_of)
    }
}

/// Permits so many in each second.
pub(crate) struct PerSecond {
    max: u32,
    /// Begin of the present second.
    since: Instant,
    permitted: u32,
}

impl PerSecond {
    pub(crate) fn new(max: u32, now: Instant) -> Self {
        Self { max, since: now, permitted: 0 }
    }

    /// Whether the present second has room for one more.
    pub(crate) fn permits(&mut self, now: Instant) -> bool {
        if !self.is_present(now) {
            (self.since, self.permitted) = (now, 0);
        }
        let has_room = self.permitted < self.max;
        self.permitted += u32::from(has_room);
        has_room
    }

    /// Whether `now` is in the second of the last one.
    fn is_present(&self, now: Instant) -> bool {
        now.duration_since(self.since) < SECOND
    }
}

/// A request that is over.
pub(crate) struct Ended<'a> {
    pub(crate) id: &'a str,
    pub(crate) method: &'a str,
    pub(crate) route: &'a str,
    pub(crate) status: u16,
    pub(crate) took: Duration,
    /// Of an authenticated request.
    pub(crate) key: Option<KeyOfTenant>,
    /// Of a traced request.
    pub(crate) trace: Option<TraceId>,
}

pub(crate) struct RequestLog {
    slow: Duration,
    sample: Sample,
    rejected: Mutex<HashMap<(Option<KeyOfTenant>, u16), Rejected>>,
}

/// The rejections of one key with one status.
struct Rejected {
    lines: PerSecond,
    /// Those without a line.
    silent: u64,
}

impl RequestLog {
    pub(crate) fn new(options: &RequestOptions) -> Self {
        let (slow, sample) = (options.slow, Sample::new(options.one_of));
        Self { slow, sample, rejected: Mutex::default() }
    }

    /// Writes the line of a request, if it has one. `name` finds the name of a key.
    pub(crate) fn record(&self, ended: &Ended<'_>, name: impl Fn(KeyOfTenant) -> Option<String>) {
        let silent = match ended.status {
            _ if PROBES.contains(&ended.route) => None,
            500.. => Some(0),
            400.. => self.rejection(ended, Instant::now()),
            _ => (ended.took > self.slow || self.sample.next_is_selected()).then_some(0),
        };
        let Some(silent) = silent else { return };
        let Ended { id, method, route, status, .. } = ended;
        let (tenant, key) = (ended.key.map(|(tenant, _)| tenant.0), ended.key.and_then(name));
        let ms = ended.took.as_millis() as u64;
        // Those without a line since the last one of this key and status.
        let unlogged = (silent > 0).then_some(silent);
        let trace_id = ended.trace.map(display);
        tracing::info!(
            target: "request",
            request_id = id, method, route, status, ms, tenant, key, trace_id, unlogged
        );
    }

    /// Whether a rejection has a line: the number of those before it that have none.
    fn rejection(&self, ended: &Ended<'_>, now: Instant) -> Option<u64> {
        let (mut rejected, kind) = (self.rejected.lock(), (ended.key, ended.status));
        if rejected.len() >= REJECTED_MAX && !rejected.contains_key(&kind) {
            let mut dropped = 0;
            rejected.retain(|_, one| {
                let is_recent = one.lines.is_present(now);
                dropped += if is_recent { 0 } else { one.silent };
                is_recent
            });
            if dropped > 0 {
                tracing::info!(target: "request", unlogged = dropped, "rejections without lines");
            }
            if rejected.len() >= REJECTED_MAX {
                return None;
            }
        }
        let new = Rejected { lines: PerSecond::new(REJECTIONS_PER_SECOND, now), silent: 0 };
        let one = rejected.entry(kind).or_insert(new);
        if !one.lines.permits(now) {
            one.silent += 1;
            return None;
        }
        Some(std::mem::take(&mut one.silent))
    }
}

#[cfg(test)]
mod tests {
    use storage::model::id::{KeyId, TenantId};

    use super::*;

    fn log() -> RequestLog {
        RequestLog::new(&RequestOptions { slow: SECOND, one_of: 0, traced_one_of: None })
    }

    fn rejection(status: u16) -> Ended<'static> {
        let (id, method, route) = ("r", "GET", "/");
        Ended { id, method, route, status, took: Duration::ZERO, key: None, trace: None }
    }

    #[test]
    fn rejections_have_lines_up_to_a_rate() {
        let log = log();
        let now = Instant::now();
        let lines = (0..1_000).filter_map(|_| log.rejection(&rejection(404), now)).count();
        assert_eq!(lines, 10);
        assert_eq!(log.rejection(&rejection(401), now), Some(0), "another status");
        assert_eq!(log.rejection(&rejection(404), now + SECOND), Some(990), "and a count");
        assert_eq!(log.rejection(&rejection(404), now + SECOND), Some(0));
    }

    #[test]
    fn kinds_of_rejections_are_bounded() {
        let log = log();
        let now = Instant::now();
        let key = |number: u32| {
            let key = Some((TenantId(number), KeyId([0; 8])));
            Ended { key, ..rejection(404) }
        };
        for number in 0..2_000 {
            log.rejection(&key(number), now);
        }
        assert_eq!(log.rejected.lock().len(), REJECTED_MAX);
        assert_eq!(log.rejection(&key(2_000), now + SECOND), Some(0), "room again");
    }

    #[test]
    fn one_of_many_requests_is_a_sample() {
        let sample = Sample::new(100);
        assert_eq!((0..1_000).filter(|_| sample.next_is_selected()).count(), 10);
        assert!(!Sample::new(0).next_is_selected());
    }
}
