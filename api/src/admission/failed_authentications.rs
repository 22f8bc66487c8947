//! Failed authentications. The response to one is delayed, more each time that its source network
//! fails, so that guesses cost their sender time and this node little. A valid key is never delayed,
//! wherever it comes from.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ipnet::IpNet;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::admission::budget::{LEVELS, NetworkBudget, networks};
use crate::error::{ApiError, ApiResult, ErrorKind};

/// Failures of a network without a delay: of a host, and of its larger networks.
const FREE: [u32; LEVELS] = [5, 20, 80];
/// The first delay. Each further failure doubles it.
const DELAY_MIN: Duration = Duration::from_millis(100);
const DELAY_MAX: Duration = Duration::from_secs(2);
/// After each such time, one failure expires.
const FAILURE_TIME: Duration = Duration::from_secs(10);
/// Interval at which networks without failures are removed, if there is no room.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);
/// Most failures that count beyond them.
const OVER_MAX: u32 = 8;
/// Responses that are delayed at once. Further ones are sent at once, with status 429.
const DELAYED_MAX: usize = 1_024;
/// Those of one host.
const NETWORK_DELAYED_MAX: usize = 16;
/// Most networks with a count of their own. Further ones share one count.
const NETWORKS_MAX: usize = 10_000;
/// The address of all further ones, and of requests without an address.
const OTHERS: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

pub(crate) struct FailedAuthentications {
    networks: Mutex<Networks>,
    delayed: NetworkBudget,
    total: AtomicU64,
}

#[derive(Default)]
struct Networks {
    failures: HashMap<IpNet, Failures>,
    /// When those without failures were removed.
    swept_at: Option<Instant>,
}

#[derive(Clone, Copy)]
struct Failures {
    count: u32,
    /// When the last one was expired, or the first one happened.
    since: Instant,
}

impl Default for FailedAuthentications {
    fn default() -> Self {
        Self {
            networks: Mutex::default(),
            delayed: NetworkBudget::new(DELAYED_MAX, NETWORK_DELAYED_MAX),
            total: AtomicU64::new(0),
        }
    }
}

impl Failures {
    /// What is left of the failures at `now`.
    fn at(self, now: Instant) -> Self {
        let expired = now.duration_since(self.since).as_secs() / FAILURE_TIME.as_secs();
        let expired = u32::try_from(expired).unwrap_or(u32::MAX);
        match self.count.saturating_sub(expired) {
            0 => Self { count: 0, since: now },
            count => Self { count, since: self.since + expired * FAILURE_TIME },
        }
    }
}

impl FailedAuthentications {
    /// Failures since the start of the process.
    pub(crate) fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }

    /// Counts a failure, and waits for its delay. The error, if too many responses are delayed
    /// already.
    pub(crate) async fn delay(&self, address: Option<IpAddr>) -> ApiResult<()> {
        self.total.fetch_add(1, Ordering::Relaxed);
        fail::fail_point!("authentication-delay", |_| Ok(()));
        let address = address.unwrap_or(OTHERS);
        let delay = self.count(address, Instant::now());
        if delay.is_zero() {
            return Ok(());
        }
        let Ok(_share) = self.delayed.take(address) else {
            let message = "too many requests with a wrong key from your address";
            let error = ApiError::new(ErrorKind::TooMany, "too_many_failures", message);
            return Err(error.retry_after(delay));
        };
        tokio::time::sleep(delay).await;
        Ok(())
    }

    /// Counts a failure. Returns the delay of its response: the longest of its networks.
    fn count(&self, address: IpAddr, now: Instant) -> Duration {
        let mut failures = self.networks.lock();
        let of_networks = networks(address).zip(FREE);
        let delays = of_networks.map(|(network, free)| failures.count(network, free, now));
        delays.max().unwrap_or_default()
    }
}

impl Networks {
    fn count(&mut self, network: IpNet, free: u32, now: Instant) -> Duration {
        let Self { failures: networks, swept_at } = self;
        // All of them are examined: not for each failure.
        let may_sweep = swept_at.is_none_or(|at| now.duration_since(at) >= SWEEP_INTERVAL);
        if networks.len() >= NETWORKS_MAX && may_sweep {
            networks.retain(|_, failures| failures.at(now).count > 0);
            *swept_at = Some(now);
        }
        let is_full = networks.len() >= NETWORKS_MAX && !networks.contains_key(&network);
        let network = if is_full { OTHERS.into() } else { network };
        let failures = networks.entry(network).or_insert(Failures { count: 0, since: now });
        *failures = failures.at(now);
        failures.count = (failures.count + 1).min(free + OVER_MAX);
        match failures.count.saturating_sub(free) {
            0 => Duration::ZERO,
            over => (DELAY_MIN * 2_u32.pow(over - 1)).min(DELAY_MAX),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;
    use std::task::Poll;

    use super::*;

    fn address(host: u32) -> IpAddr {
        Ipv4Addr::from_bits(host).into()
    }

    #[test]
    fn delay_grows_and_is_expired() {
        let (failed, now) = (FailedAuthentications::default(), Instant::now());
        let delays: Vec<_> = (0..20).map(|_| failed.count(address(1), now).as_millis()).collect();
        assert_eq!(delays[..7], [0, 0, 0, 0, 0, 100, 200]);
        assert_eq!(delays[10..], [2_000; 10]);
        assert_eq!(failed.count(address(2), now), Duration::ZERO, "a neighbour has none");
        let later = now + FAILURE_TIME * (FREE[0] + OVER_MAX - 1);
        assert_eq!(failed.count(address(1), later), Duration::ZERO);
    }

    #[test]
    fn hosts_of_one_site_share_a_count() {
        let (failed, now) = (FailedAuthentications::default(), Instant::now());
        let count = |network: u16| {
            let site = [0x2001, 0xdb8, 1, network, 0, 0, 0, 1];
            failed.count(Ipv6Addr::from(site).into(), now)
        };
        let of_one_prefix = (0..FREE[1] as u16).map(count);
        assert_eq!(of_one_prefix.max(), Some(Duration::ZERO), "each of another /64");
        assert_eq!(count(100), DELAY_MIN, "of the same /56");
        let others = (1..FREE[2] as u16 - FREE[1] as u16).map(|at| count(at << 8));
        assert_eq!(others.max(), Some(Duration::ZERO), "each of another /56");
        assert_eq!(count(0xff00), DELAY_MIN, "of the same /48");
    }

    #[test]
    fn networks_without_failures_make_room() {
        let (failed, now) = (FailedAuthentications::default(), Instant::now());
        let fill =
            |now| (1..=2 * NETWORKS_MAX as u32).map(|host| failed.count(address(host), now)).max();
        assert_eq!(fill(now), Some(DELAY_MAX), "the last ones share a count");
        assert!(failed.networks.lock().failures.len() <= NETWORKS_MAX + 1);
        assert_eq!(failed.count(address(u32::MAX), now + FAILURE_TIME), Duration::ZERO);
        assert!(failed.networks.lock().failures.len() <= 2);
    }

    #[tokio::test]
    async fn few_responses_of_a_network_wait() {
        let failed = FailedAuthentications::default();
        let (mut waiting, mut rejected) = (Vec::new(), 0);
        for _ in 0..100 {
            let mut delay = Box::pin(failed.delay(Some(address(1))));
            match futures::poll!(&mut delay) {
                Poll::Pending => waiting.push(delay),
                Poll::Ready(Err(_)) => rejected += 1,
                Poll::Ready(Ok(())) => {}
            }
        }
        assert_eq!(waiting.len(), NETWORK_DELAYED_MAX);
        assert_eq!(rejected, 100 - FREE[0] as usize - NETWORK_DELAYED_MAX);
        assert_eq!(failed.total(), 100);
    }
}
