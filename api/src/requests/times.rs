//! Times in requests: an instant or a day.

use std::ops::Range;
use std::str::FromStr;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use storage::model::id::Timestamp;

/// An instant such as `2026-03-05T14:30:00Z`, which is a microsecond, or a day such as
/// `2026-03-05`, in UTC. An empty text is all time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TimeSpan {
    start: Timestamp,
    /// First instant after it.
    end: Timestamp,
}

impl TimeSpan {
    /// The time from the start of `from` to the end of `to`. An absent one is no bound.
    pub(crate) fn between(from: Option<Self>, to: Option<Self>) -> Option<Range<Timestamp>> {
        if from.is_none() && to.is_none() {
            return None;
        }
        let start = from.map_or(Timestamp(i64::MIN), |from| from.start);
        Some(start..to.map_or(Timestamp(i64::MAX), |to| to.end))
    }
}

impl FromStr for TimeSpan {
    type Err = jiff::Error;

    fn from_str(text: &str) -> Result<Self, jiff::Error> {
        if text.is_empty() {
            return Ok(Self { start: Timestamp(i64::MIN), end: Timestamp(i64::MAX) });
        }
        let micros = |time: jiff::Timestamp| Timestamp(time.as_microsecond());
        if let Ok(instant) = text.parse::<jiff::Timestamp>() {
            let start = micros(instant);
            return Ok(Self { start, end: Timestamp(start.0 + 1) });
        }
        let day: Date = text.parse()?;
        // The last days of the calendar have no instants.
        let midnight = |day: Result<Date, jiff::Error>| {
            let start = day.and_then(|day| day.to_zoned(TimeZone::UTC));
            start.map_or(Timestamp(i64::MAX), |start| micros(start.timestamp()))
        };
        Ok(Self { start: midnight(Ok(day)), end: midnight(day.tomorrow()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_include_their_day_or_instant() {
        let day = "2026-03-05".parse::<TimeSpan>().unwrap();
        assert_eq!(day.end.0 - day.start.0, Timestamp::DAY_MICROS);
        let instant = "2026-03-05T01:00:00+01:00".parse::<TimeSpan>().unwrap();
        assert!("9999-12-31".parse::<TimeSpan>().is_ok());
        assert_eq!((instant.start, instant.end.0), (day.start, day.start.0 + 1));
        let all = "".parse::<TimeSpan>().unwrap();
        assert!(all.start < day.start && all.end > day.end);
        for wrong in ["yesterday", "2026-13-01", "2026-03-05T25:00:00Z"] {
            assert!(wrong.parse::<TimeSpan>().is_err(), "{wrong}");
        }
    }
}
