//! Times that a query names: "last week", "3 days ago", "in March", "2026-03-05". Read in
//! UTC as of the cluster clock. What closeness to such a time is worth is the score's
//! business.

use std::borrow::Cow;

use jiff::ToSpan;
use jiff::civil::{Date, Weekday};
use jiff::tz::TimeZone;

use crate::model::id::Timestamp;

/// A stretch of time that a query names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    /// The words that name it, as they stand in the query.
    pub reference: String,
    /// First instant of it.
    pub start: Timestamp,
    /// First instant after it.
    pub end: Timestamp,
    /// Whether the words mean another time on another day, so that no memory is found by them.
    pub is_relative: bool,
}

/// Days from `first` up to, not including, `end`.
type Days = (Date, Date);

/// Words of a query that are looked at for a time.
const WORDS_MAX: usize = 128;
/// Largest number of units that "N days ago" may name.
const NUMBER_MAX: i64 = 1_000;

impl Window {
    /// `query` without the words of a relative time: "what broke" of "what broke last week".
    pub fn subject<'q>(&self, query: &'q str) -> Cow<'q, str> {
        match query.split_once(&self.reference) {
            Some((before, after)) if self.is_relative => format!("{before} {after}").into(),
            _ => query.into(),
        }
    }

    /// Days between `at` and this window; 0 within it.
    pub fn days_outside(&self, at: Timestamp) -> f64 {
        let micros = self.start.since(at).max(at.since(self.end));
        micros as f64 / Timestamp::DAY_MICROS as f64
    }
}

/// The first time that `query` names, if it names one.
pub fn window(query: &str, now: Timestamp) -> Option<Window> {
    let today = date_of(now)?;
    let words = words(query);
    let texts: Vec<String> = words.iter().map(|(_, word)| word.to_lowercase()).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    (0..texts.len()).find_map(|at| {
        let (before, rest) = (&texts[..at], &texts[at..]);
        let (length, days) = named(before, rest, today)?;
        let (first, end) = match before.last() {
            Some(&"since") => (days.0, today.tomorrow().ok()?),
            _ => days,
        };
        let (last_at, last) = words[at + length - 1];
        let reference = query[words[at].0..last_at + last.len()].to_owned();
        let is_date = |word: &&str| {
            month(word).is_some() || word.get(..4).is_some_and(|first| year(first).is_some())
        };
        let is_relative = !rest[..length].iter().any(is_date);
        Some(Window { reference, start: start_of(first)?, end: start_of(end)?, is_relative })
    })
}

/// The first words of `query` with their places; a date in digits is one word.
fn words(query: &str) -> Vec<(usize, &str)> {
    let mut words = Vec::new();
    let mut start = None;
    let ends = query.char_indices().chain([(query.len(), ' ')]);
    for (at, c) in ends {
        let inside = c.is_alphanumeric() || c == '-' && start.is_some();
        match (inside, start) {
            (true, None) => start = Some(at),
            (false, Some(from)) => {
                words.push((from, query[from..at].trim_end_matches('-')));
                start = None;
            }
            _ => {}
        }
        if words.len() == WORDS_MAX {
            break;
        }
    }
    words
}

/// The time that `rest` begins with: how many words name it, and its days. `before` are
/// the words in front, which tell a month from a word that looks like one.
fn named(before: &[&str], rest: &[&str], today: Date) -> Option<(usize, Days)> {
    let found = match rest {
        ["today", ..] => (1, day(today)?),
        ["the", "day", "before", "yesterday", ..] => (4, day(today.checked_sub(2.days()).ok()?)?),
        ["yesterday", ..] => (1, day(today.yesterday().ok()?)?),
        ["last", "night", ..] => (2, day(today.yesterday().ok()?)?),
        ["last" | "past" | "previous", number, unit, ..]
            if count(number).is_some() && unit_of(unit).is_some() =>
        {
            (3, (back(today, count(number)?, unit_of(unit)?)?, today.tomorrow().ok()?))
        }
        [number, unit, "ago", ..] => {
            let (count, unit) = (count(number)?, unit_of(unit)?);
            (3, around(back(today, count, unit)?, unit)?)
        }
        ["past", unit, ..] => (2, (back(today, 1, unit_of(unit)?)?, today.tomorrow().ok()?)),
        ["this", unit, ..] if unit_of(unit).is_some() => (2, around(today, unit_of(unit)?)?),
        ["last" | "previous", unit, ..] if unit_of(unit).is_some() => {
            let unit = unit_of(unit)?;
            (2, around(back(today, 1, unit)?, unit)?)
        }
        ["last", name, ..] if weekday(name).is_some() => {
            (2, day(latest(today.yesterday().ok()?, weekday(name)?)?)?)
        }
        ["last", name, ..] if month(name).is_some() => {
            (2, month_before(today.first_of_month().yesterday().ok()?, month(name)?)?)
        }
        [name, ..] if weekday(name).is_some() => (1, day(latest(today, weekday(name)?)?)?),
        [number, ..] if number.starts_with(|c: char| c.is_ascii_digit()) => {
            return in_digits(before, rest, today);
        }
        [name, ..] => return in_month(before, rest, month(name)?, today),
        [] => return None,
    };
    Some(found)
}

/// "2026-03-05", "2026-03", "5 March 2026", and "2026" after "in", "during" or "since".
fn in_digits(before: &[&str], rest: &[&str], today: Date) -> Option<(usize, Days)> {
    let parts: Vec<&str> = rest[0].split('-').collect();
    match parts.as_slice() {
        [year_, month_, day_] => {
            let date = Date::new(year(year_)?, number(month_, 12)?, number(day_, 31)?).ok()?;
            Some((1, day(date)?))
        }
        [year_, month_] => {
            let first = Date::new(year(year_)?, number(month_, 12)?, 1).ok()?;
            Some((1, around(first, Unit::Month)?))
        }
        [one] => {
            if let Some((at, name)) = month_day(one).zip(rest.get(1)) {
                let month = month(name)?;
                return match rest.get(2).and_then(|text| year(text)) {
                    Some(year) => Some((3, day(Date::new(year, month, at).ok()?)?)),
                    None => Some((2, day(latest_date(today, month, at)?)?)),
                };
            }
            let asked = matches!(before.last(), Some(&("in" | "during" | "since")));
            let first = Date::new(year(one).filter(|_| asked)?, 1, 1).ok()?;
            Some((1, around(first, Unit::Year)?))
        }
        _ => None,
    }
}

/// "March 5 2026", "March 5", "March 2026", and "March" after a word that makes it a time.
fn in_month(before: &[&str], rest: &[&str], month: i8, today: Date) -> Option<(usize, Days)> {
    let introduced = matches!(
        before.last(),
        Some(&("in" | "during" | "since" | "from" | "of" | "until" | "early" | "mid" | "late"))
    );
    let (next, after) = (rest.get(1), rest.get(2));
    if let Some(year) = next.and_then(|text| year(text)) {
        return Some((2, around(Date::new(year, month, 1).ok()?, Unit::Month)?));
    }
    if let Some(at) = next.and_then(|text| month_day(text)) {
        return match after.and_then(|text| year(text)) {
            Some(year) => Some((3, day(Date::new(year, month, at).ok()?)?)),
            None => Some((2, day(latest_date(today, month, at)?)?)),
        };
    }
    if introduced { Some((1, month_before(today, month)?)) } else { None }
}

#[derive(Debug, Clone, Copy)]
enum Unit {
    Day,
    Week,
    Month,
    Year,
}

fn unit_of(word: &str) -> Option<Unit> {
    Some(match word.strip_suffix('s').unwrap_or(word) {
        "day" => Unit::Day,
        "week" => Unit::Week,
        "month" => Unit::Month,
        "year" => Unit::Year,
        _ => return None,
    })
}

/// So many units before `date`.
fn back(date: Date, count: i64, unit: Unit) -> Option<Date> {
    let span = match unit {
        Unit::Day => count.days(),
        Unit::Week => count.weeks(),
        Unit::Month => count.months(),
        Unit::Year => count.years(),
    };
    date.checked_sub(span).ok()
}

/// The calendar unit that `date` lies in; weeks begin on Monday.
fn around(date: Date, unit: Unit) -> Option<Days> {
    let (first, length) = match unit {
        Unit::Day => (date, 1.day()),
        Unit::Week => (latest(date, Weekday::Monday)?, 1.week()),
        Unit::Month => (date.first_of_month(), 1.month()),
        Unit::Year => (date.first_of_year(), 1.year()),
    };
    Some((first, first.checked_add(length).ok()?))
}

fn day(date: Date) -> Option<Days> {
    around(date, Unit::Day)
}

/// The latest such weekday that is not after `date`.
fn latest(date: Date, weekday: Weekday) -> Option<Date> {
    date.checked_sub(i64::from(date.weekday().since(weekday)).days()).ok()
}

/// The latest such month that has begun by `date`.
fn month_before(date: Date, month: i8) -> Option<Days> {
    let year = if month <= date.month() { date.year() } else { date.year() - 1 };
    around(Date::new(year, month, 1).ok()?, Unit::Month)
}

/// The latest such day that is not after `today`.
fn latest_date(today: Date, month: i8, day: i8) -> Option<Date> {
    let of = |year| Date::new(year, month, day).ok();
    of(today.year()).filter(|date| *date <= today).or_else(|| of(today.year() - 1))
}

fn weekday(word: &str) -> Option<Weekday> {
    Some(match word {
        "monday" => Weekday::Monday,
        "tuesday" => Weekday::Tuesday,
        "wednesday" => Weekday::Wednesday,
        "thursday" => Weekday::Thursday,
        "friday" => Weekday::Friday,
        "saturday" => Weekday::Saturday,
        "sunday" => Weekday::Sunday,
        _ => return None,
    })
}

fn month(word: &str) -> Option<i8> {
    const NAMES: [&str; 12] = [
        "january",
        "february",
        "march",
        "april",
        "may",
        "june",
        "july",
        "august",
        "september",
        "october",
        "november",
        "december",
    ];
    let whole = NAMES.iter().position(|name| *name == word);
    let short = || NAMES.iter().position(|name| word.len() == 3 && name.starts_with(word));
    whole.or_else(short).map(|at| at as i8 + 1)
}

/// A number as it stands before "days ago".
fn count(word: &str) -> Option<i64> {
    const NAMES: [&str; 13] = [
        "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten",
        "eleven", "twelve",
    ];
    let named = || NAMES.iter().position(|name| *name == word).map(|at| at as i64);
    let one = || matches!(word, "a" | "an").then_some(1);
    let number = word.parse().ok().or_else(named).or_else(one)?;
    (0..=NUMBER_MAX).contains(&number).then_some(number)
}

fn year(word: &str) -> Option<i16> {
    let digits = word.len() == 4 && word.bytes().all(|byte| byte.is_ascii_digit());
    word.parse().ok().filter(|year| digits && (1900..=2199).contains(year))
}

/// A day of a month: "5", "05", "5th".
fn month_day(word: &str) -> Option<i8> {
    let digits = ["st", "nd", "rd", "th"].iter().find_map(|end| word.strip_suffix(end));
    number(digits.unwrap_or(word), 31)
}

fn number(word: &str, max: i8) -> Option<i8> {
    let digits = word.len() <= 2 && word.bytes().all(|byte| byte.is_ascii_digit());
    word.parse().ok().filter(|number| digits && (1..=max).contains(number))
}

fn date_of(now: Timestamp) -> Option<Date> {
    let now = jiff::Timestamp::from_microsecond(now.0).ok()?;
    Some(now.to_zoned(TimeZone::UTC).date())
}

fn start_of(date: Date) -> Option<Timestamp> {
    let start = date.to_zoned(TimeZone::UTC).ok()?;
    Some(Timestamp(start.timestamp().as_microsecond()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Saturday, 21 November 2026, 17:30 UTC.
    const NOW: Timestamp = Timestamp(1_795_282_200_000_000);

    fn shown(query: &str) -> Option<(String, String)> {
        let window = window(query, NOW)?;
        let day = |at: Timestamp| date_of(at).unwrap().to_string();
        Some((window.reference, format!("{}..{}", day(window.start), day(window.end))))
    }

    #[track_caller]
    fn names(query: &str, reference: &str, days: &str) {
        assert_eq!(shown(query), Some((reference.to_owned(), days.to_owned())), "{query}");
    }

    #[test]
    fn relative_times_are_calendar_units_before_today() {
        names("what did I do today?", "today", "2026-11-21..2026-11-22");
        names("Yesterday's meeting", "Yesterday", "2026-11-20..2026-11-21");
        names("the day before yesterday", "the day before yesterday", "2026-11-19..2026-11-20");
        names("decisions of last week", "last week", "2026-11-09..2026-11-16");
        names("plans for this week", "this week", "2026-11-16..2026-11-23");
        names("last month", "last month", "2026-10-01..2026-11-01");
        names("last year", "last year", "2025-01-01..2026-01-01");
        names("the past week", "past week", "2026-11-14..2026-11-22");
        names("over the last 3 days", "last 3 days", "2026-11-18..2026-11-22");
    }

    #[test]
    fn so_many_units_ago_is_the_unit_that_lies_there() {
        names("bug of 3 days ago", "3 days ago", "2026-11-18..2026-11-19");
        names("two weeks ago", "two weeks ago", "2026-11-02..2026-11-09");
        names("a month ago", "a month ago", "2026-10-01..2026-11-01");
        names("1 year ago", "1 year ago", "2025-01-01..2026-01-01");
    }

    #[test]
    fn a_weekday_is_the_latest_one_and_last_is_before_today() {
        names("what was said on Friday", "Friday", "2026-11-20..2026-11-21");
        names("saturday", "saturday", "2026-11-21..2026-11-22");
        names("last saturday", "last saturday", "2026-11-14..2026-11-15");
        names("since monday", "monday", "2026-11-16..2026-11-22");
    }

    #[test]
    fn months_and_dates_are_the_latest_that_have_begun() {
        names("in March", "March", "2026-03-01..2026-04-01");
        names("trip in december", "december", "2025-12-01..2026-01-01");
        names("last november", "last november", "2025-11-01..2025-12-01");
        names("March 2025 budget", "March 2025", "2025-03-01..2025-04-01");
        names("on March 5th", "March 5th", "2026-03-05..2026-03-06");
        names("5 March 2024", "5 March 2024", "2024-03-05..2024-03-06");
        names("Dec 24", "Dec 24", "2025-12-24..2025-12-25");
        names("released 2026-03-05.", "2026-03-05", "2026-03-05..2026-03-06");
        names("2026-03 report", "2026-03", "2026-03-01..2026-04-01");
        names("in 2024", "2024", "2024-01-01..2025-01-01");
        names("since 2024-02-29", "2024-02-29", "2024-02-29..2026-11-22");
    }

    #[test]
    fn words_that_only_look_like_times_name_none() {
        for query in [
            "",
            "may I march there",
            "order 2024 boxes",
            "the last time",
            "this is it",
            "ago",
            "2026-13-01",
            "2026-02-30",
            "five days",
            "99999 days ago",
            "second week",
            "-",
        ] {
            assert_eq!(shown(query), None, "{query}");
        }
    }

    #[test]
    fn a_relative_time_is_no_part_of_the_subject() {
        let subject = |query: &str| window(query, NOW).unwrap().subject(query).into_owned();
        assert_eq!(subject("what broke last week in billing"), "what broke   in billing");
        assert_eq!(subject("notes of 2026-03-05"), "notes of 2026-03-05");
        assert_eq!(subject("the March budget, in March"), "the March budget, in March");
    }

    #[test]
    fn closeness_is_counted_in_days_from_either_end() {
        let window = window("yesterday", NOW).unwrap();
        let day = Timestamp::DAY_MICROS;
        assert_eq!(window.days_outside(Timestamp(window.start.0 + 5)), 0.0);
        assert_eq!(window.days_outside(Timestamp(window.start.0 - day)), 1.0);
        assert_eq!(window.days_outside(Timestamp(window.end.0 + 3 * day)), 3.0);
    }

    proptest! {
        #[test]
        fn any_text_at_any_time_is_read_without_harm(
            text in "((last|this|in|since|5|0|31|2026-02|ago|days|march|monday|\\PC)[ -]?){0,8}",
            now: i64,
        ) {
            if let Some(window) = window(&text, Timestamp(now)) {
                prop_assert!(window.start < window.end && text.contains(&window.reference));
            }
        }
    }
}
