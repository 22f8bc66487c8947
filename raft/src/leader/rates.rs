//! Requests per minute of tenants. The leader counts what it grants, and nodes accept requests only
//! with a grant. So all nodes together accept at most the limit in any 60 seconds.
//!
//! The window slides in steps of a second (a sliding window of counters). A grant may be used for
//! one second, so it counts for 62: the second in which it was made, the one in which it may be
//! used, and a minute. Windows are in memory only, but each grant has the whole window, for its
//! node. So a new leader inherits the windows of the nodes. If they are old, it takes each voter
//! that has not reported for one that has accepted its part of the limit, a third with three
//! voters, evenly over the minute before.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::time::Duration;

use storage::model::id::TenantId;
use tokio::time::Instant;

use crate::grants::{Counts, Grant, GrantRequest, History, WINDOW_SECONDS};
use crate::types::NodeId;

const MINUTE: Duration = Duration::from_secs(60);
/// Age of the last grant of a node, up to which its window counts as that of all nodes. Grants to
/// others since then are missing.
const HISTORY_AGE_MAX: Duration = Duration::from_secs(2);
/// Largest part of the room that a voter gets for requests that it expects. What it does not use is
/// missing elsewhere, so the last requests of a minute are granted one by one.
const EXPECTED_PART: u64 = 16;

/// The windows of all tenants, in one term.
pub(crate) struct Rates {
    term: u64,
    opened_at: Instant,
    windows: HashMap<TenantId, Window>,
    /// Second of the last removal of empty windows.
    cleaned: i64,
}

/// What was granted to a tenant.
#[derive(Default)]
struct Window {
    /// In this term.
    granted: Seconds,
    /// Before it, by the fullest window of a node; and what nodes have accepted without a leader, or
    /// with grants that are older than a minute.
    inherited: Seconds,
    alone: Seconds,
    /// Nodes whose history is included.
    known: BTreeSet<NodeId>,
    /// Whether nothing is missing of what was granted before this term.
    is_complete: bool,
}

/// Numbers by second, the oldest first.
#[derive(Default)]
struct Seconds {
    counts: VecDeque<(i64, u64)>,
    total: u64,
}

/// The limit of a tenant, and the voters of the cluster.
pub(crate) struct Limits<'a> {
    pub(crate) per_minute: u64,
    pub(crate) voters: &'a [NodeId],
}

impl Rates {
    pub(crate) fn new(term: u64, now: Instant) -> Self {
        Self { term, opened_at: now, windows: HashMap::new(), cleaned: 0 }
    }

    pub(crate) fn term(&self) -> u64 {
        self.term
    }

    /// Grants what `from` needs, as far as there is room.
    pub(crate) fn grant(
        &mut self,
        from: NodeId,
        request: &GrantRequest,
        limits: &Limits<'_>,
        now: Instant,
    ) -> Grant {
        let elapsed = now - self.opened_at;
        let second = elapsed.as_secs() as i64;
        self.clean(second);
        let term = self.term;
        let window = self.windows.entry(request.tenant).or_default();
        window.drop_old(second);
        // Later, nothing of the time before this term counts.
        let inherits = second < WINDOW_SECONDS;
        if let Some(history) = request.history.as_ref().filter(|_| inherits) {
            window.inherit(from, history, second);
        }
        window.alone.add_all(&request.alone, second);
        if let Some((of_term, at, count)) = request.unused
            && of_term == term
        {
            window.granted.remove(at, u64::from(count));
        }
        let missing = window.missing(limits.voters);
        // The missing voters may have accepted their part before this term.
        let known_part = 1.0 - missing * (1.0 - elapsed.as_secs_f64() / 60.0).max(0.0);
        let part = (limits.per_minute as f64 * known_part) as u64;
        let room = limits.per_minute.saturating_sub(window.total());
        let room = room.min(part.saturating_sub(window.granted.total));
        let expected = room / EXPECTED_PART / limits.voters.len().max(1) as u64;
        let expected = expected.min(u64::from(request.expected));
        let granted = room.min(u64::from(request.waiting) + expected) as u32;
        window.granted.add(second, u64::from(granted));
        let remaining = room - u64::from(granted);
        let wait = if remaining > 0 {
            Duration::ZERO
        } else {
            window.wait(limits.per_minute, elapsed, missing)
        };
        Grant {
            term,
            second,
            granted,
            remaining,
            wait_ms: wait.as_millis() as u64,
            has_history: !inherits || window.known.contains(&from),
            window: window.counts(second),
        }
    }

    /// Removes windows that count nothing, once a second.
    fn clean(&mut self, second: i64) {
        if std::mem::replace(&mut self.cleaned, second) != second {
            self.windows.values_mut().for_each(|window| window.drop_old(second));
            // What nodes have reported counts for a minute only.
            self.windows.retain(|_, window| window.total() > 0 || second < WINDOW_SECONDS);
        }
    }
}

impl Window {
    /// Takes what a node reports of the time before this term.
    fn inherit(&mut self, from: NodeId, history: &History, second: i64) {
        if !self.known.insert(from) {
            return;
        }
        let Some(age_ms) = history.age_ms else {
            return self.alone.add_all(&history.seconds, second);
        };
        let mut all = Seconds::default();
        all.add_all(&history.seconds, second);
        if all.total > self.inherited.total {
            self.inherited = all;
        }
        self.is_complete |= Duration::from_millis(age_ms) <= HISTORY_AGE_MAX;
    }

    fn parts(&mut self) -> [&mut Seconds; 3] {
        [&mut self.granted, &mut self.inherited, &mut self.alone]
    }

    fn drop_old(&mut self, second: i64) {
        self.parts().into_iter().for_each(|part| part.drop_old(second));
    }

    fn total(&self) -> u64 {
        self.granted.total + self.inherited.total + self.alone.total
    }

    /// The whole window, by age.
    fn counts(&self, second: i64) -> Counts {
        let mut ages = BTreeMap::new();
        for (at, count) in
            [&self.granted, &self.inherited, &self.alone].iter().flat_map(|part| &part.counts)
        {
            let age = u8::try_from(second - at).unwrap_or_default();
            let sum: &mut u32 = ages.entry(age).or_default();
            *sum = sum.saturating_add(u32::try_from(*count).unwrap_or(u32::MAX));
        }
        Counts(ages.into_iter().collect())
    }

    /// The share of voters whose history is missing.
    fn missing(&self, voters: &[NodeId]) -> f64 {
        let missing = voters.iter().filter(|voter| !self.known.contains(voter)).count();
        if self.is_complete { 0.0 } else { missing as f64 / voters.len().max(1) as f64 }
    }

    /// Time until one more may be granted.
    fn wait(&self, limit: u64, elapsed: Duration, missing: f64) -> Duration {
        if limit == 0 {
            // It may be changed meanwhile.
            return MINUTE;
        }
        let used = (self.granted.total + 1) as f64 / limit as f64;
        let until_part = (1.0 - (1.0 - used) / missing.max(f64::MIN_POSITIVE)).clamp(0.0, 1.0);
        let until_part = MINUTE.mul_f64(until_part).saturating_sub(elapsed);
        let firsts = [&self.granted, &self.inherited, &self.alone].map(Seconds::first);
        let until_room = match firsts.into_iter().flatten().min() {
            Some(oldest) if self.total() >= limit => {
                let end = Duration::from_secs((oldest + WINDOW_SECONDS).max(0) as u64);
                end.saturating_sub(elapsed)
            }
            _ => Duration::ZERO,
        };
        until_part.max(until_room).max(Duration::from_millis(1))
    }
}

impl Seconds {
    fn drop_old(&mut self, second: i64) {
        while let Some((at, count)) = self.counts.front().copied()
            && at <= second - WINDOW_SECONDS
        {
            self.counts.pop_front();
            self.total -= count;
        }
    }

    fn add(&mut self, second: i64, count: u64) {
        if count == 0 {
            return;
        }
        let at = self.counts.partition_point(|(at, _)| *at < second);
        match self.counts.get_mut(at).filter(|(found, _)| *found == second) {
            Some((_, found)) => *found += count,
            None => self.counts.insert(at, (second, count)),
        }
        self.total += count;
    }

    fn add_all(&mut self, counts: &Counts, second: i64) {
        for (age, count) in &counts.0 {
            self.add(second - i64::from(*age), u64::from(*count));
        }
    }

    fn remove(&mut self, second: i64, count: u64) {
        if let Some((_, found)) = self.counts.iter_mut().find(|(at, _)| *at == second) {
            let removed = count.min(*found);
            *found -= removed;
            self.total -= removed;
        }
    }

    /// The first second that counts something.
    fn first(&self) -> Option<i64> {
        self.counts.iter().find(|(_, count)| *count > 0).map(|(at, _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grants::GRANT_TIME;

    const TENANT: TenantId = TenantId(1);
    const VOTERS: [NodeId; 3] = [1, 2, 3];

    fn request(waiting: u32) -> GrantRequest {
        let alone = Counts::default();
        GrantRequest { tenant: TENANT, waiting, expected: 0, history: None, alone, unused: None }
    }

    fn limits(per_minute: u64) -> Limits<'static> {
        Limits { per_minute, voters: &VOTERS }
    }

    /// Windows of a leader to which all voters have reported: nothing.
    fn known(now: Instant) -> Rates {
        let mut rates = Rates::new(7, now);
        let empty = GrantRequest { history: Some(History::default()), ..request(0) };
        for from in VOTERS {
            rates.grant(from, &empty, &limits(60), now);
        }
        rates
    }

    #[test]
    fn any_minute_has_at_most_the_limit() {
        let start = Instant::now();
        let mut rates = known(start);
        let mut used = Vec::new();
        for step in 0..2_000_u64 {
            let now = start + Duration::from_millis(100 * step);
            let waiting = if step % 700 < 350 { 3 } else { 40 };
            let grant = rates.grant(1 + step % 3, &request(waiting), &limits(60), now);
            // Used as late as it may be.
            used.push((now + GRANT_TIME, u64::from(grant.granted)));
        }
        for (from, _) in &used {
            let minute = *from..*from + Duration::from_secs(60);
            let sum: u64 =
                used.iter().filter(|(at, _)| minute.contains(at)).map(|(_, count)| count).sum();
            assert!(sum <= 60, "{sum}");
        }
        let all: u64 = used.iter().map(|(_, count)| count).sum();
        assert!(all >= 180, "200 seconds of demand: {all}");
    }

    #[test]
    fn waits_end_when_there_is_room() {
        let start = Instant::now();
        let mut rates = known(start);
        let grant = rates.grant(1, &request(100), &limits(60), start);
        assert_eq!((grant.granted, grant.remaining), (60, 0));
        let later = start + Duration::from_millis(10_500);
        let grant = rates.grant(2, &request(1), &limits(60), later);
        assert_eq!((grant.granted, grant.wait_ms), (0, 51_500));
        let end = later + Duration::from_millis(grant.wait_ms);
        assert_eq!(rates.grant(2, &request(1), &limits(60), end).granted, 1);
        let mut rates = known(start);
        assert_eq!(rates.grant(2, &request(1), &limits(0), start).wait_ms, 60_000);
    }

    #[test]
    fn expected_requests_get_a_small_part() {
        let start = Instant::now();
        let mut rates = known(start);
        let eager = GrantRequest { expected: 1_000, ..request(1) };
        assert_eq!(rates.grant(1, &eager, &limits(60), start).granted, 2);
        assert_eq!(rates.grant(2, &request(40), &limits(60), start).granted, 40);
        assert_eq!(rates.grant(1, &eager, &limits(60), start).granted, 1, "18 of 60 remain");
        assert_eq!(rates.grant(3, &eager, &limits(6_000), start).granted, 1 + 5_957 / 16 / 3);
    }

    #[test]
    fn unused_grants_return() {
        let start = Instant::now();
        let mut rates = known(start);
        let grant = rates.grant(1, &request(60), &limits(60), start);
        let returned = GrantRequest { unused: Some((7, grant.second, 59)), ..request(0) };
        let now = start + GRANT_TIME;
        assert_eq!(rates.grant(1, &returned, &limits(60), now).remaining, 59);
        let of_other_term = GrantRequest { unused: Some((6, grant.second, 1)), ..request(0) };
        assert_eq!(rates.grant(1, &of_other_term, &limits(60), now).remaining, 59);
    }

    #[test]
    fn history_counts_in_the_first_minute_only() {
        let start = Instant::now();
        let mut rates = known(start);
        let now = start + Duration::from_secs(200);
        let grant = rates.grant(1, &request(40), &limits(60), now);
        assert_eq!((grant.granted, grant.has_history), (40, true));
        let history = History { seconds: grant.window, age_ms: Some(100) };
        for from in VOTERS {
            let again = GrantRequest { history: Some(history.clone()), ..request(0) };
            let grant = rates.grant(from, &again, &limits(60), now);
            assert_eq!((grant.remaining, grant.has_history), (20, true));
        }
    }

    #[test]
    fn requests_accepted_without_a_leader_add_up() {
        let start = Instant::now();
        let mut rates = known(start);
        for from in VOTERS {
            let alone = GrantRequest { alone: Counts(vec![(2, 10)]), ..request(0) };
            rates.grant(from, &alone, &limits(60), start + Duration::from_secs(90));
        }
        let later = start + Duration::from_secs(91);
        assert_eq!(rates.grant(1, &request(0), &limits(60), later).remaining, 30);
    }

    #[test]
    fn new_leader_inherits_the_windows_of_nodes() {
        let start = Instant::now();
        let now = start + Duration::from_secs(1);
        let report = |seconds, age_ms| {
            let history = History { seconds: Counts(seconds), age_ms };
            GrantRequest { history: Some(history), ..request(0) }
        };
        // The window of one that was granted something a moment before is complete.
        let mut rates = Rates::new(7, start);
        let grant = rates.grant(1, &report(vec![(3, 50)], Some(500)), &limits(60), now);
        assert_eq!((grant.remaining, grant.has_history), (10, true));
        let grant = rates.grant(2, &report(vec![(9, 30)], Some(900)), &limits(60), now);
        assert_eq!((grant.remaining, grant.window), (10, Counts(vec![(3, 50)])));
        assert_eq!(rates.grant(2, &request(20), &limits(60), now).granted, 10);
        // What nodes have accepted without a leader adds up.
        let mut rates = Rates::new(7, start);
        for (voter, accepted) in [(1, 20), (2, 10), (3, 5)] {
            rates.grant(voter, &report(vec![(3, accepted)], None), &limits(60), now);
        }
        assert_eq!(rates.grant(1, &request(0), &limits(60), now).remaining, 25);
        // Voters that are missing may have accepted their parts.
        let mut rates = Rates::new(7, start);
        rates.grant(1, &report(vec![(3, 12)], Some(9_000)), &limits(60), start);
        let grant = rates.grant(1, &request(100), &limits(60), start);
        assert_eq!((grant.granted, grant.wait_ms), (20, 1_500));
        let later = start + Duration::from_secs(30);
        assert_eq!(rates.grant(1, &request(100), &limits(60), later).granted, 20);
        let minute = start + MINUTE;
        assert_eq!(rates.grant(1, &request(100), &limits(60), minute).granted, 60 - 20 - 20);
    }
}
