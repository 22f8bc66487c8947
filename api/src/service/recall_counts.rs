//! Recalls, results, requests and key uses of one tenant that the recall buffer holds.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use storage::model::analytics::{REPORT_KEYS_MAX, REPORT_RECALLS_MAX, TenantReport, Usage};
use storage::model::id::{KeyId, MemoryId, Timestamp};

use crate::service::returned::{Returned, Turn};

/// Interval at which the use of a key is reported.
pub(super) const KEY_INTERVAL: Duration = Duration::from_secs(300);

/// What tenants divide of a report.
#[derive(Clone, Copy)]
pub(super) enum ReportPart {
    Recalls,
    Firings,
    Keys,
}
/// The number of [`ReportPart`]s.
pub(super) const PARTS: usize = 3;
/// What a tenant needs of each [`ReportPart`].
pub(super) type Needs = [usize; PARTS];

/// The room of a report for each [`ReportPart`], over all tenants. A result is never divided, so its
/// firings may exceed it.
pub(crate) type Room = [usize; PARTS];
/// The room of a report. It is small: writes wait while the leader decides a report, and while each
/// node applies it.
pub(crate) const REPORT_ROOM: Room = [100, 25, 200];
/// The room of the reports of a node that stops, which has little time: all that a command may have.
pub(crate) const LAST_REPORT_ROOM: Room = [REPORT_RECALLS_MAX, 125, REPORT_KEYS_MAX];

/// What the searches of one tenant found and recalled on this node since it was last reported.
pub(super) struct TenantContents {
    keys: BTreeMap<KeyId, KeyContents>,
    /// Memories with recalls, of all keys.
    pub(super) memories: usize,
    pub(super) returned: Returned,
    /// When it was last in a report, and when it last had some of each [`ReportPart`], or when it was made.
    pub(super) reported_at: Turn,
    pub(super) served: [Turn; PARTS],
    pub(super) searches: u64,
    pub(super) searches_with_results: u64,
    usage: Usage,
    /// Whether reported memories were removed since the last report.
    has_made_room: bool,
}

/// What one key has searched.
#[derive(Default)]
struct KeyContents {
    recalls: HashMap<MemoryId, Recalls>,
    /// When recalls were last reported: the others' turn comes first.
    recalls_at: Option<Turn>,
    /// Whether the key was used since its use was last reported.
    is_used: bool,
    use_reported: Option<Instant>,
}

/// Recalls of a memory.
#[derive(Default)]
struct Recalls {
    unreported: u32,
    reported: Option<Instant>,
}

impl Default for TenantContents {
    fn default() -> Self {
        let joined = (Instant::now(), 0);
        Self {
            keys: BTreeMap::new(),
            memories: 0,
            returned: Returned::default(),
            reported_at: joined,
            served: [joined; PARTS],
            searches: 0,
            searches_with_results: 0,
            usage: Usage::default(),
            has_made_room: false,
        }
    }
}

impl TenantContents {
    /// Whether nothing is left of it to report, or to know for later reports.
    pub(super) fn is_idle(&self) -> bool {
        self.keys.is_empty() && self.returned.is_empty() && !self.has_counts()
    }

    /// Whether it has searches or requests to report.
    pub(super) fn has_counts(&self) -> bool {
        self.searches > 0 || self.usage != Usage::default()
    }

    /// What it needs of each [`ReportPart`] of a report.
    pub(super) fn needs(&self, now: Instant, interval: Duration) -> Needs {
        let recalls = self.keys.values().flat_map(|of_key| of_key.recalls.values());
        let recalls = recalls.filter(|recalls| recalls.is_due(now, interval)).count();
        let keys = self.keys.values().filter(|of_key| of_key.is_due(now)).count();
        [recalls, self.returned.firings(), keys]
    }

    /// Takes recalls that are due: their last report is `interval` ago. Of each key, those that were
    /// never reported come first, then those whose report is longest ago, so that none waits for
    /// ever.
    pub(super) fn take_recalls(
        &mut self,
        now: Instant,
        interval: Duration,
        mut room: usize,
    ) -> Vec<(MemoryId, u32)> {
        let mut queues: Vec<_> = self
            .keys
            .iter()
            .map(|(key, of_key)| {
                let due = of_key.recalls.iter().filter(|(_, it)| it.is_due(now, interval));
                let mut due: Vec<_> =
                    due.map(|(id, recalls)| (Reverse(recalls.reported), *id)).collect();
                // The last one is taken first.
                due.sort_unstable();
                (of_key.recalls_at, *key, due)
            })
            .collect();
        queues.sort_unstable_by_key(|(at, key, _)| (*at, *key));
        let mut counts = BTreeMap::new();
        while room > 0 && queues.iter().any(|(_, _, due)| !due.is_empty()) {
            for (_, key, due) in &mut queues {
                let Some(of_key) = self.keys.get_mut(key).filter(|_| room > 0) else { break };
                let Some((_, id)) = due.pop() else { continue };
                room -= 1;
                of_key.recalls_at = Some((now, usize::MAX - room));
                let reported = Recalls { unreported: 0, reported: Some(now) };
                let taken = of_key.recalls.insert(id, reported).unwrap_or_default();
                *counts.entry(id).or_insert(0_u32) += taken.unreported;
            }
        }
        counts.into_iter().collect()
    }

    /// Takes the uses of keys that are due. Those that were reported longest ago come first.
    pub(super) fn take_keys(
        &mut self,
        now: Instant,
        clock: Timestamp,
        room: usize,
    ) -> Vec<(KeyId, Timestamp)> {
        let mut due: Vec<_> =
            self.keys.iter_mut().filter(|(_, of_key)| of_key.is_due(now)).collect();
        due.sort_by_key(|(_, of_key)| of_key.use_reported);
        let taken = due.into_iter().take(room).map(|(id, of_key)| {
            (of_key.is_used, of_key.use_reported) = (false, Some(now));
            (*id, clock)
        });
        taken.collect()
    }

    pub(super) fn take_counts(&mut self, turn: Turn, report: &mut TenantReport) {
        self.reported_at = turn;
        report.searches = std::mem::take(&mut self.searches);
        report.searches_with_results = std::mem::take(&mut self.searches_with_results);
        report.usage = std::mem::take(&mut self.usage);
    }

    /// Removes the recalls that were reported, once per report.
    pub(super) fn make_room(&mut self) {
        if !std::mem::replace(&mut self.has_made_room, true) {
            self.remove_reported();
        }
    }

    /// Removes the recalls that were reported.
    pub(super) fn remove_reported(&mut self) {
        let keys = self.keys.values_mut();
        keys.for_each(|of_key| of_key.recalls.retain(|_, recalls| recalls.unreported > 0));
        self.memories = self.keys.values().map(|of_key| of_key.recalls.len()).sum();
    }

    /// Counts a recall of a memory, if it has an entry or `has_room` for one. Returns whether it did.
    pub(super) fn count(&mut self, key: KeyId, id: MemoryId, has_room: bool) -> bool {
        let of_key = self.keys.entry(key).or_default();
        if let Some(recalls) = of_key.recalls.get_mut(&id) {
            recalls.unreported = recalls.unreported.saturating_add(1);
            return true;
        }
        if has_room {
            of_key.recalls.insert(id, Recalls { unreported: 1, reported: None });
            self.memories += 1;
        }
        has_room
    }

    /// Counts a request of a key.
    pub(super) fn count_request(&mut self, key: KeyId, usage: &Usage) {
        self.usage.add(usage);
        self.keys.entry(key).or_default().is_used = true;
    }

    /// Removes what would be reported at once when it happens again.
    pub(super) fn remove_idle(&mut self, now: Instant, interval: Duration) {
        self.has_made_room = false;
        self.keys.retain(|_, of_key| {
            of_key.recalls.retain(|_, it| it.unreported > 0 || !it.may_report(now, interval));
            !of_key.recalls.is_empty() || of_key.is_used || !of_key.may_report(now)
        });
        self.memories = self.keys.values().map(|of_key| of_key.recalls.len()).sum();
    }
}

impl KeyContents {
    /// Whether its last report is long enough ago.
    fn may_report(&self, now: Instant) -> bool {
        self.use_reported.is_none_or(|at| now - at >= KEY_INTERVAL)
    }

    /// Whether it has a use to report.
    fn is_due(&self, now: Instant) -> bool {
        self.is_used && self.may_report(now)
    }
}

impl Recalls {
    /// Whether its last report is `interval` ago.
    fn may_report(&self, now: Instant, interval: Duration) -> bool {
        self.reported.is_none_or(|at| now - at >= interval)
    }

    /// Whether it has recalls to report.
    fn is_due(&self, now: Instant, interval: Duration) -> bool {
        self.unreported > 0 && self.may_report(now, interval)
    }
}
