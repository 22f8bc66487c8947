//! Requests per minute of tenants on this node. A request of a limited tenant needs a grant of the
//! leader, which counts them for all nodes (raft `leader/rates.rs`). One call gets the grants of all
//! requests that wait. Without a leader, a node accepts its part of the limit by a window of its
//! own.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use raft::{Counts, GRANT_TIME, Grant, GrantRequest, Handle, History, WINDOW_SECONDS};
use storage::model::id::TenantId;
use storage::model::tenant::TENANTS_MAX;
use tokio::time::Instant;

use crate::error::{ApiError, ErrorKind};

/// Time limit of a request to the leader.
const GRANT_TIMEOUT: Duration = Duration::from_millis(500);
/// Longest time for which requests are rejected without another call of the leader: a limit may have
/// changed, or another node may have returned grants.
const CLOSED_MAX: Duration = Duration::from_secs(1);

/// How far a tenant is from its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RateStatus {
    /// Requests per minute.
    pub(crate) limit: u64,
    /// Requests that the leader could have granted in addition.
    pub(crate) remaining: u64,
    /// Time until another request has room; zero while some remain.
    pub(crate) wait: Duration,
}

impl RateStatus {
    /// The error of a request beyond the limit.
    pub(crate) fn error(self) -> ApiError {
        let message = format!("the tenant has reached its {} requests per minute", self.limit);
        ApiError::new(ErrorKind::TooMany, "rate_limited", message).retry_after(self.wait)
    }
}

/// The requests of all limited tenants on this node.
#[derive(Default)]
pub(crate) struct Rates {
    tenants: Mutex<HashMap<TenantId, Arc<TenantRate>>>,
    rejected: AtomicU64,
}

#[derive(Default)]
struct TenantRate {
    state: Mutex<RateState>,
    /// Held during a call of the leader.
    turn: tokio::sync::Mutex<()>,
    waiting: AtomicU32,
}

#[derive(Default)]
struct RateState {
    /// Requests that may still be accepted by the last grant, and until when.
    granted: u32,
    valid_until: Option<Instant>,
    /// Term and second of the last grant.
    grant: (u64, i64),
    /// The last term whose leader has the history.
    known_term: u64,
    /// When the last grant was made, and what all nodes were granted until then.
    granted_at: Option<Instant>,
    of_all: Window,
    remaining: u64,
    /// When the leader should have room again, and until when it is not called.
    room_at: Option<Instant>,
    closed_until: Option<Instant>,
    /// What this node has accepted with grants, or has reported.
    accepted: Window,
    /// What it has accepted without a leader, and has not reported yet.
    alone: Window,
}

/// Requests of the last minute: times, a second apart, and numbers, the oldest first.
#[derive(Default)]
struct Window(VecDeque<(Instant, u32)>);

impl Rates {
    /// Requests that were rejected.
    pub(crate) fn rejected(&self) -> u64 {
        self.rejected.load(Ordering::Relaxed)
    }

    /// Accepts a request of a tenant with this limit, or rejects it.
    pub(crate) async fn accept(
        &self,
        raft: &Handle,
        tenant: TenantId,
        limit: u64,
    ) -> Result<RateStatus, RateStatus> {
        let rate = self.of(tenant);
        let waiting = Waiting::new(&rate.waiting);
        let accepted = rate.accept(raft, tenant, limit).await;
        drop(waiting);
        self.rejected.fetch_add(u64::from(accepted.is_err()), Ordering::Relaxed);
        accepted
    }

    fn of(&self, tenant: TenantId) -> Arc<TenantRate> {
        let mut tenants = self.tenants.lock();
        if tenants.len() >= TENANTS_MAX {
            // Some were deleted, or have no limit now.
            let now = Instant::now();
            tenants.retain(|_, rate| {
                let mut state = rate.state.lock();
                state.drop_old(now);
                state.accepted.total() + state.alone.total() > 0
            });
        }
        Arc::clone(tenants.entry(tenant).or_default())
    }
}

/// Counts a request that waits, also if its client leaves.
struct Waiting<'a>(&'a AtomicU32);

impl<'a> Waiting<'a> {
    fn new(count: &'a AtomicU32) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl TenantRate {
    async fn accept(
        &self,
        raft: &Handle,
        tenant: TenantId,
        limit: u64,
    ) -> Result<RateStatus, RateStatus> {
        if let Some(known) = self.state.lock().accept(Instant::now(), limit) {
            return known;
        }
        let _turn = self.turn.lock().await;
        // Another request may have got a grant for this one, too.
        if let Some(known) = self.state.lock().accept(Instant::now(), limit) {
            return known;
        }
        let waiting = self.waiting.load(Ordering::Relaxed).max(1);
        let request = self.state.lock().request(tenant, waiting, raft.status().term);
        let called = Instant::now();
        let grant = raft.grant(&request, called + GRANT_TIMEOUT).await;
        let (mut state, now) = (self.state.lock(), Instant::now());
        match grant {
            Some(grant) => {
                state.take(grant, &request, called, now);
                state.accept(now, limit).unwrap_or_else(|| Err(state.rate_status(limit, now)))
            }
            None => state.accept_alone(now, limit, raft.voters() as u64),
        }
    }
}

impl RateState {
    /// Accepts or rejects a request by the last grant; `None` if the leader must be called.
    fn accept(&mut self, now: Instant, limit: u64) -> Option<Result<RateStatus, RateStatus>> {
        if self.granted > 0 && self.valid_until.is_some_and(|until| now < until) {
            self.granted -= 1;
            self.accepted.record(now);
            return Some(Ok(self.rate_status(limit, now)));
        }
        let is_closed = self.closed_until.is_some_and(|until| now < until);
        is_closed.then(|| Err(self.rate_status(limit, now)))
    }

    /// Accepts a request without a leader: at most the part of this node in a minute, and its part
    /// of what the last leader could still have granted.
    fn accept_alone(
        &mut self,
        now: Instant,
        limit: u64,
        voters: u64,
    ) -> Result<RateStatus, RateStatus> {
        self.drop_old(now);
        let alone = self.alone.total();
        let part = (limit / voters).saturating_sub(self.accepted.total());
        let of_leader = limit.saturating_sub(self.of_all.total()).div_ceil(voters);
        let room = part.min(of_leader).saturating_sub(alone);
        self.remaining = room.saturating_sub(1);
        if room > 0 {
            self.room_at = None;
            self.alone.record(now);
            return Ok(self.rate_status(limit, now));
        }
        let windows = [&self.of_all, &self.accepted, &self.alone];
        let firsts = windows.into_iter().filter_map(|window| window.0.front());
        self.room_at = Some(firsts.map(|(at, _)| *at).min().unwrap_or(now) + WINDOW);
        Err(self.rate_status(limit, now))
    }

    fn drop_old(&mut self, now: Instant) {
        let windows = [&mut self.accepted, &mut self.of_all, &mut self.alone];
        windows.into_iter().for_each(|window| window.drop_old(now));
    }

    /// A request to the leader of a term. As many requests are expected as came within the last
    /// second.
    fn request(&mut self, tenant: TenantId, waiting: u32, term: u64) -> GrantRequest {
        let now = Instant::now();
        self.drop_old(now);
        let recent = self.accepted.counts(now).0.first().filter(|(ago, _)| *ago == 0).copied();
        let expected = recent.map_or(0, |(_, count)| count);
        let age = self.granted_at.map(|at| now - at).filter(|age| *age < WINDOW);
        let history = || History {
            seconds: if age.is_some() { &self.of_all } else { &self.accepted }.counts(now),
            age_ms: age.map(|age| age.as_millis() as u64),
        };
        GrantRequest {
            tenant,
            waiting,
            expected,
            history: (self.known_term != term).then(history),
            alone: self.alone.counts(now),
            // Returned once: the response may be lost.
            unused: match std::mem::take(&mut self.granted) {
                0 => None,
                unused => Some((self.grant.0, self.grant.1, unused)),
            },
        }
    }

    /// Takes a grant of a leader that was called at `called`: the grant is younger, and was not
    /// used before.
    fn take(&mut self, grant: Grant, request: &GrantRequest, called: Instant, now: Instant) {
        self.grant = (grant.term, grant.second);
        self.granted_at = Some(called);
        self.of_all = Window::of(&grant.window, now);
        self.accepted.add(std::mem::take(&mut self.alone));
        if request.history.is_some() && grant.has_history {
            self.known_term = grant.term;
        } else if !grant.has_history {
            // The next request has the history.
            self.known_term = 0;
        }
        (self.granted, self.remaining) = (grant.granted, grant.remaining);
        self.valid_until = Some(called + GRANT_TIME);
        let wait = Duration::from_millis(grant.wait_ms);
        self.room_at = (grant.remaining == 0).then_some(now + wait);
        self.closed_until = (grant.granted == 0).then_some(now + wait.min(CLOSED_MAX));
    }

    fn rate_status(&self, limit: u64, now: Instant) -> RateStatus {
        let wait = self.room_at.map(|at| at.saturating_duration_since(now)).unwrap_or_default();
        let remaining = self.remaining.saturating_add(self.granted.into()).min(limit);
        RateStatus { limit, remaining, wait: if remaining > 0 { Duration::ZERO } else { wait } }
    }
}

impl Window {
    /// What was granted so many seconds ago.
    fn of(Counts(counts): &Counts, now: Instant) -> Self {
        let time = |ago: u8| now.checked_sub(Duration::from_secs(ago.into()));
        Self(counts.iter().rev().filter_map(|(ago, count)| Some((time(*ago)?, *count))).collect())
    }

    /// By whole seconds of age.
    fn counts(&self, now: Instant) -> Counts {
        let mut ages = BTreeMap::new();
        for (at, count) in &self.0 {
            *ages.entry((now - *at).as_secs() as u8).or_default() += count;
        }
        Counts(ages.into_iter().collect())
    }

    fn total(&self) -> u64 {
        self.0.iter().map(|(_, count)| u64::from(*count)).sum()
    }

    /// Adds the requests of another window.
    fn add(&mut self, other: Self) {
        self.0.extend(other.0);
        self.0.make_contiguous().sort_by_key(|(at, _)| *at);
    }

    fn record(&mut self, now: Instant) {
        match self.0.back_mut().filter(|(at, _)| now - *at < Duration::from_secs(1)) {
            Some((_, count)) => *count += 1,
            None => self.0.push_back((now, 1)),
        }
    }

    fn drop_old(&mut self, now: Instant) {
        while self.0.front().is_some_and(|(at, _)| now - *at >= WINDOW) {
            self.0.pop_front();
        }
    }
}

/// Time for which a request counts on this node.
const WINDOW: Duration = Duration::from_secs(WINDOW_SECONDS as u64 - 1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_alone_accepts_its_part() {
        let (mut state, start) = (RateState::default(), Instant::now());
        for second in 0..10 {
            let now = start + Duration::from_secs(second);
            assert!(state.accept_alone(now, 60, 3).is_ok());
            assert!(state.accept_alone(now, 60, 3).is_ok());
        }
        let full = state.accept_alone(start + Duration::from_secs(10), 60, 3).unwrap_err();
        assert_eq!(
            full,
            RateStatus { limit: 60, remaining: 0, wait: WINDOW - Duration::from_secs(10) }
        );
        assert!(state.accept_alone(start + WINDOW, 60, 3).is_ok());
    }

    #[test]
    fn grants_are_used_within_their_time() {
        let (mut state, start) = (RateState::default(), Instant::now());
        assert_eq!(state.accept(start, 60), None, "the leader is called first");
        let grant = |granted, wait_ms| Grant {
            term: 3,
            second: 9,
            granted,
            remaining: 0,
            wait_ms,
            has_history: true,
            window: Counts(vec![(0, granted)]),
        };
        let request = state.request(TenantId(1), 2, 3);
        assert_eq!((request.waiting, request.history.clone()), (2, Some(History::default())));
        state.take(grant(2, 30_000), &request, start, start);
        let wait = Duration::from_secs(30);
        let rate_status = |remaining, wait| RateStatus { limit: 60, remaining, wait };
        assert_eq!(state.accept(start, 60), Some(Ok(rate_status(1, Duration::ZERO))));
        let late = start + GRANT_TIME;
        assert_eq!(state.accept(late, 60), None, "the rest is not used later");
        let request = state.request(TenantId(1), 1, 3);
        assert_eq!((request.history.clone(), request.unused), (None, Some((3, 9, 1))));
        state.take(grant(0, 30_000), &request, late, late);
        assert_eq!(state.accept(late, 60), Some(Err(rate_status(0, wait))));
        assert_eq!(state.accept(late + CLOSED_MAX, 60), None, "the leader is called again");
        let history = state.request(TenantId(1), 1, 4).history.expect("a new leader gets it");
        assert!(history.age_ms.is_some(), "that of all nodes");
    }
}
