//! The times of a memory beside those of its creation and its changes: when it happened, in which time it
//! holds, and when it ends.

use serde::{Deserialize, Serialize};

use crate::id::Timestamp;

/// Longest time for which a memory may be kept by its `ttl`: a hundred years.
pub const TTL_SECONDS_MAX: u64 = 100 * 365 * 86_400;

/// Times of a memory, as far as they are known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Times {
    /// When it happened, if that is not when it was stored.
    pub occurred_at: Option<Timestamp>,
    /// From when on it holds; by default since it happened.
    pub valid_from: Option<Timestamp>,
    /// Until when it holds, not including that time; by default without end.
    pub valid_until: Option<Timestamp>,
    /// When another one replaced it.
    pub superseded_at: Option<Timestamp>,
    /// When a tick deletes it.
    pub expires_at: Option<Timestamp>,
    /// Seconds after which it expires.
    pub ttl_seconds: Option<u64>,
    /// Whether each recall begins its `ttl_seconds` anew.
    pub refresh_on_read: bool,
}

impl Times {
    /// These times; `None` if there are none.
    pub fn some(self) -> Option<Box<Self>> {
        (self != Self::default()).then(|| Box::new(self))
    }

    /// With the end that `ttl_seconds` sets at `now`.
    #[must_use]
    pub fn kept_from(self, now: Timestamp) -> Self {
        let after = |seconds: u64| {
            let micros = i64::try_from(seconds).unwrap_or(i64::MAX);
            Timestamp(now.0.saturating_add(micros.saturating_mul(Timestamp::SECOND_MICROS)))
        };
        Self { expires_at: self.ttl_seconds.map(after).or(self.expires_at), ..self }
    }
}

/// Changes of times; `None` leaves one as it is, `Some(None)` removes it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimesPatch {
    /// When it happened.
    pub occurred_at: Option<Option<Timestamp>>,
    /// From when on it holds.
    pub valid_from: Option<Option<Timestamp>>,
    /// Until when it holds.
    pub valid_until: Option<Option<Timestamp>>,
    /// When it ends. Removes `ttl_seconds`.
    pub expires_at: Option<Option<Timestamp>>,
    /// Seconds from now on after which it ends.
    pub ttl_seconds: Option<Option<u64>>,
    /// Whether each recall begins them anew.
    pub refresh_on_read: Option<bool>,
}

impl TimesPatch {
    /// Changes times at `now`.
    pub fn apply_to(&self, times: &mut Times, now: Timestamp) {
        let Self { occurred_at, valid_from, valid_until, .. } = *self;
        times.occurred_at = occurred_at.unwrap_or(times.occurred_at);
        times.valid_from = valid_from.unwrap_or(times.valid_from);
        times.valid_until = valid_until.unwrap_or(times.valid_until);
        times.refresh_on_read = self.refresh_on_read.unwrap_or(times.refresh_on_read);
        if let Some(expires_at) = self.expires_at {
            (times.expires_at, times.ttl_seconds) = (expires_at, None);
        }
        if let Some(ttl_seconds) = self.ttl_seconds {
            (times.expires_at, times.ttl_seconds) = (None, ttl_seconds);
            *times = times.kept_from(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patches_of_the_end_replace_each_other() {
        let mut times = Times { expires_at: Some(Timestamp(9)), ..Times::default() };
        let now = Timestamp(1_000_000);
        TimesPatch { ttl_seconds: Some(Some(2)), ..TimesPatch::default() }
            .apply_to(&mut times, now);
        assert_eq!((times.expires_at, times.ttl_seconds), (Some(Timestamp(3_000_000)), Some(2)));
        TimesPatch { expires_at: Some(None), ..TimesPatch::default() }.apply_to(&mut times, now);
        assert_eq!(times, Times::default());
    }
}
