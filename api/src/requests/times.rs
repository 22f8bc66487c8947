//! Times in requests: an instant or a day, and the time zone of the caller.

use std::ops::Range;
use std::str::FromStr;

use jiff::civil::{Date, Time};
use jiff::tz::TimeZone;
use storage::model::id::Timestamp;
use storage::model::times::{Times, TimesPatch};

/// An instant such as `2026-03-05T14:30:00Z`, which is a microsecond, or a day such as
/// `2026-03-05`. An empty text is all time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TimeSpan {
    All,
    Instant(Timestamp),
    Day(Date),
}

impl TimeSpan {
    /// The time from the start of `from` to the end of `to`, whose days are those of `zone`. An
    /// absent one is no bound.
    pub(crate) fn between(
        from: Option<Self>,
        to: Option<Self>,
        zone: &TimeZone,
    ) -> Option<Range<Timestamp>> {
        if from.is_none() && to.is_none() {
            return None;
        }
        let start = from.map_or(Timestamp(i64::MIN), |from| from.range(zone).start);
        Some(start..to.map_or(Timestamp(i64::MAX), |to| to.range(zone).end))
    }

    /// When it begins, in UTC; `None` if it is all time.
    pub(crate) fn start(self) -> Option<Timestamp> {
        (self != Self::All).then(|| self.range(&TimeZone::UTC).start)
    }

    /// An instant in it: the last one of a day. `None` if it is all time.
    pub(crate) fn instant_in(self, zone: &TimeZone) -> Option<Timestamp> {
        match self {
            Self::All => None,
            Self::Instant(at) => Some(at),
            Self::Day(_) => Some(Timestamp(self.range(zone).end.0 - 1)),
        }
    }

    fn range(self, zone: &TimeZone) -> Range<Timestamp> {
        // The last days of the calendar have no instants.
        let midnight = |day: Result<Date, jiff::Error>| {
            let start = day.and_then(|day| zone.to_timestamp(day.to_datetime(Time::midnight())));
            start.map_or(Timestamp(i64::MAX), |start| Timestamp(start.as_microsecond()))
        };
        match self {
            Self::All => Timestamp(i64::MIN)..Timestamp(i64::MAX),
            Self::Instant(at) => at..Timestamp(at.0 + 1),
            Self::Day(day) => midnight(Ok(day))..midnight(day.tomorrow()),
        }
    }
}

impl FromStr for TimeSpan {
    type Err = jiff::Error;

    fn from_str(text: &str) -> Result<Self, jiff::Error> {
        if text.is_empty() {
            return Ok(Self::All);
        }
        match text.parse::<jiff::Timestamp>() {
            Ok(instant) => Ok(Self::Instant(Timestamp(instant.as_microsecond()))),
            Err(_) => text.parse().map(Self::Day),
        }
    }
}

/// A time zone of the IANA database, such as `Europe/Berlin`. An empty text is UTC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Zone(pub(crate) TimeZone);

impl FromStr for Zone {
    type Err = jiff::Error;

    fn from_str(text: &str) -> Result<Self, jiff::Error> {
        if text.is_empty() {
            return Ok(Self(TimeZone::UTC));
        }
        TimeZone::get(text).map(Self)
    }
}

impl Zone {
    /// The names of all zones.
    pub(crate) fn names() -> impl Iterator<Item = String> {
        jiff::tz::db().available().map(|name| name.to_string())
    }
}

/// The times that a request gives a memory. An empty text removes one.
#[derive(Debug, Default)]
pub(crate) struct GivenTimes {
    pub(crate) occurred_at: Option<TimeSpan>,
    pub(crate) valid_from: Option<TimeSpan>,
    pub(crate) valid_until: Option<TimeSpan>,
    pub(crate) expires_at: Option<TimeSpan>,
    pub(crate) ttl_seconds: Option<u64>,
    pub(crate) refresh_on_read: Option<bool>,
}

impl GivenTimes {
    pub(crate) fn patch(self) -> TimesPatch {
        let start = |time: Option<TimeSpan>| time.map(TimeSpan::start);
        TimesPatch {
            occurred_at: start(self.occurred_at),
            valid_from: start(self.valid_from),
            valid_until: self.valid_until.map(end),
            expires_at: start(self.expires_at),
            ttl_seconds: self.ttl_seconds.map(Some),
            refresh_on_read: self.refresh_on_read,
        }
    }

    /// The times of a new memory. Its `ttl_seconds` begin with its creation.
    pub(crate) fn new_times(self) -> Times {
        let patch = self.patch();
        let mut times = Times::default();
        TimesPatch { ttl_seconds: None, ..patch }.apply_to(&mut times, Timestamp::default());
        times.ttl_seconds = patch.ttl_seconds.flatten();
        times
    }
}

/// Until when something holds: a day is included.
fn end(time: TimeSpan) -> Option<Timestamp> {
    match time {
        TimeSpan::Instant(at) => Some(at),
        TimeSpan::All => None,
        day @ TimeSpan::Day(_) => {
            TimeSpan::between(None, Some(day), &TimeZone::UTC).map(|it| it.end)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_have_names() {
        let hours = |text: &str| {
            let Zone(zone) = text.parse().unwrap();
            zone.to_offset(jiff::Timestamp::UNIX_EPOCH).seconds() as f64 / 3_600.0
        };
        assert_eq!(["", "UTC", "Asia/Kolkata", "asia/kolkata"].map(hours), [0.0, 0.0, 5.5, 5.5]);
        for wrong in ["Mars/Base", "+02:00", "yesterday"] {
            assert!(wrong.parse::<Zone>().is_err(), "{wrong}");
        }
        assert!(Zone::names().all(|name| name.parse::<Zone>().is_ok()));
    }

    #[test]
    fn bounds_include_their_day_or_instant() {
        let range = |text: &str, zone: &str| {
            let Zone(zone) = zone.parse().unwrap();
            text.parse::<TimeSpan>().unwrap().range(&zone)
        };
        let day = range("2026-03-05", "");
        assert_eq!(day.end.since(day.start), Timestamp::DAY_MICROS);
        let instant = range("2026-03-05T01:00:00+01:00", "");
        assert_eq!((instant.start, instant.end.0), (day.start, day.start.0 + 1));
        let of_berlin = range("2026-03-05", "Europe/Berlin");
        assert_eq!(day.start.since(of_berlin.start), Timestamp::DAY_MICROS / 24);
        assert!(range("9999-12-31", "").start > day.end);
        let all = range("", "");
        assert!(all.start < day.start && all.end > day.end);
        for wrong in ["yesterday", "2026-13-01", "2026-03-05T25:00:00Z"] {
            assert!(wrong.parse::<TimeSpan>().is_err(), "{wrong}");
        }
    }
}
