//! Temporal expressions in queries: "last week", "3 days ago", "in March", "2026-03-05".
//!
//! The parser takes the first expression of a query and returns its time window, in UTC and
//! relative to the cluster clock. It tries each word as the start of an expression in a fixed
//! grammar of English phrases. `search` boosts memories created in or near the window.

use std::borrow::Cow;

use jiff::civil::Date;
use jiff::tz::TimeZone;

use crate::model::calendar::{
    DayRange, Unit, latest_date, latest_month, latest_weekday, parse_bounded, parse_count,
    parse_month, parse_month_day, parse_unit, parse_weekday, parse_year, single_day,
    unit_containing, units_before,
};
use crate::model::id::Timestamp;
use crate::model::words::content_words;

/// The time window of a temporal expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    /// The expression, as in the query.
    pub reference: String,
    /// First instant of the window.
    pub start: Timestamp,
    /// First instant after the window.
    pub end: Timestamp,
    /// Whether the meaning depends on the current day. Such words are not search terms.
    pub is_relative: bool,
}

/// Words that ask for anything.
const ASKING: &str = "anything everything something things stuff happen happened going note notes \
    memory memories remember new list show tell know";

/// Words of a query that are parsed.
const WORDS_MAX: usize = 128;

impl Window {
    /// `query` without a relative expression: "what broke" for "what broke last week".
    pub fn subject<'q>(&self, query: &'q str) -> Cow<'q, str> {
        match query.split_once(&self.reference) {
            Some((before, after)) if self.is_relative => format!("{before} {after}").into(),
            _ => query.into(),
        }
    }

    /// Whether `query` has no content words beside the expression: "what did I do last Tuesday?".
    pub fn is_all_of(&self, query: &str) -> bool {
        let Some((before, after)) = query.split_once(&self.reference) else { return false };
        let rest = content_words(&format!("{before} {after}"), WORDS_MAX);
        let asking = content_words(ASKING, WORDS_MAX);
        rest.iter().all(|word| asking.contains(word))
    }

    /// Whether a time is in this window.
    pub fn contains(&self, at: Timestamp) -> bool {
        (self.start..self.end).contains(&at)
    }

    /// Days between `at` and this window. 0 inside the window.
    pub fn days_outside(&self, at: Timestamp) -> f64 {
        let micros = self.start.since(at).max(at.since(self.end));
        micros as f64 / Timestamp::DAY_MICROS as f64
    }
}

/// The window of the first temporal expression in `query`.
pub fn window(query: &str, now: Timestamp) -> Option<Window> {
    let today = date_of(now)?;
    let words = words(query);
    let texts: Vec<String> = words.iter().map(|(_, word)| word.to_lowercase()).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    (0..texts.len()).find_map(|at| {
        let (before, rest) = (&texts[..at], &texts[at..]);
        let (length, days) = parse_time(before, rest, today)?;
        let (first, end) = match before.last() {
            Some(&"since") => (days.0, today.tomorrow().ok()?.max(days.1)),
            _ => days,
        };
        let (last_at, last) = words[at + length - 1];
        let reference = query[words[at].0..last_at + last.len()].to_owned();
        let is_date = |word: &&str| {
            parse_month(word).is_some()
                || word.get(..4).is_some_and(|first| parse_year(first).is_some())
        };
        let is_relative = !rest[..length].iter().any(is_date);
        Some(Window { reference, start: start_of(first)?, end: start_of(end)?, is_relative })
    })
}

/// The first words of `query` with their byte offsets. A numeric date is one word.
fn words(query: &str) -> Vec<(usize, &str)> {
    let parts = query.split(|c: char| !c.is_alphanumeric() && c != '-');
    let words = parts.map(|part| part.trim_matches('-')).filter(|word| !word.is_empty());
    // Words are slices of `query`, so the distance of their addresses is the offset.
    let offset = |word: &str| word.as_ptr().addr() - query.as_ptr().addr();
    words.take(WORDS_MAX).map(|word| (offset(word), word)).collect()
}

/// The expression at the start of `rest`: its number of words, and its days. `before` are
/// the preceding words. They distinguish the month "may" from the verb.
fn parse_time(before: &[&str], rest: &[&str], today: Date) -> Option<(usize, DayRange)> {
    let yesterday = today.yesterday().ok()?;
    let until_today = |first: Date| Some((first, today.tomorrow().ok()?));
    Some(match rest {
        ["today", ..] => (1, single_day(today)?),
        ["the", "day", "before", "yesterday", ..] => (4, single_day(yesterday.yesterday().ok()?)?),
        ["yesterday", ..] => (1, single_day(yesterday)?),
        ["last", "night", ..] => (2, single_day(yesterday)?),
        ["last" | "past" | "previous", number, unit, ..]
            if let Some((count, unit)) = parse_count(number).zip(parse_unit(unit)) =>
        {
            (3, until_today(units_before(today, count, unit)?)?)
        }
        [number, unit, "ago", ..] => {
            let (count, unit) = (parse_count(number)?, parse_unit(unit)?);
            (3, unit_containing(units_before(today, count, unit)?, unit)?)
        }
        ["past", unit, ..] => (2, until_today(units_before(today, 1, parse_unit(unit)?)?)?),
        ["this", unit, ..] if let Some(unit) = parse_unit(unit) => {
            (2, unit_containing(today, unit)?)
        }
        ["last" | "previous", unit, ..] if let Some(unit) = parse_unit(unit) => {
            (2, unit_containing(units_before(today, 1, unit)?, unit)?)
        }
        ["last", name, ..] if let Some(weekday) = parse_weekday(name) => {
            (2, single_day(latest_weekday(yesterday, weekday)?)?)
        }
        ["last", name, ..] if let Some(month) = parse_month(name) => {
            (2, latest_month(today.first_of_month().yesterday().ok()?, month)?)
        }
        [name, ..] if let Some(weekday) = parse_weekday(name) => {
            (1, single_day(latest_weekday(today, weekday)?)?)
        }
        [number, ..] if number.starts_with(|c: char| c.is_ascii_digit()) => {
            return parse_numeric_date(before, rest, today);
        }
        [name, ..] => return parse_month_date(before, rest, parse_month(name)?, today),
        [] => return None,
    })
}

/// Parses "2026-03-05", "2026-03", "5 March 2026", and "2026" after "in", "during" or "since".
fn parse_numeric_date(before: &[&str], rest: &[&str], today: Date) -> Option<(usize, DayRange)> {
    let parts: Vec<&str> = rest[0].split('-').collect();
    match parts.as_slice() {
        [year, month, day] => {
            let (month, day) = (parse_bounded(month, 12)?, parse_bounded(day, 31)?);
            Some((1, single_day(Date::new(parse_year(year)?, month, day).ok()?)?))
        }
        [year, month] => {
            let first = Date::new(parse_year(year)?, parse_bounded(month, 12)?, 1).ok()?;
            Some((1, unit_containing(first, Unit::Month)?))
        }
        [one] => {
            if let Some((day, name)) = parse_month_day(one).zip(rest.get(1)) {
                return month_day(parse_month(name)?, day, rest.get(2), today);
            }
            let has_preposition = matches!(before.last(), Some(&("in" | "during" | "since")));
            let first = Date::new(parse_year(one).filter(|_| has_preposition)?, 1, 1).ok()?;
            Some((1, unit_containing(first, Unit::Year)?))
        }
        _ => None,
    }
}

/// Parses "March 5 2026", "March 5", "March 2026", and "March" after a preposition of time.
fn parse_month_date(
    before: &[&str],
    rest: &[&str],
    month: i8,
    today: Date,
) -> Option<(usize, DayRange)> {
    let next = rest.get(1);
    if let Some(year) = next.and_then(|text| parse_year(text)) {
        return Some((2, unit_containing(Date::new(year, month, 1).ok()?, Unit::Month)?));
    }
    if let Some(day) = next.and_then(|text| parse_month_day(text)) {
        return month_day(month, day, rest.get(2), today);
    }
    let prepositions = ["in", "during", "since", "from", "of", "until", "early", "mid", "late"];
    before.last().filter(|word| prepositions.contains(word))?;
    Some((1, latest_month(today, month)?))
}

/// A day of a month: of the year in `next`, else the latest such day.
fn month_day(month: i8, day: i8, next: Option<&&str>, today: Date) -> Option<(usize, DayRange)> {
    match next.and_then(|text| parse_year(text)) {
        Some(year) => Some((3, single_day(Date::new(year, month, day).ok()?)?)),
        None => Some((2, single_day(latest_date(today, month, day)?)?)),
    }
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

    fn parsed(query: &str) -> Option<(String, String)> {
        let window = window(query, NOW)?;
        let day = |at: Timestamp| date_of(at).unwrap().to_string();
        Some((window.reference, format!("{}..{}", day(window.start), day(window.end))))
    }

    #[track_caller]
    fn names(query: &str, reference: &str, days: &str) {
        assert_eq!(parsed(query), Some((reference.to_owned(), days.to_owned())), "{query}");
    }

    #[test]
    fn relative_expressions_are_calendar_units_before_today() {
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
    fn units_ago_is_the_whole_calendar_unit() {
        names("bug of 3 days ago", "3 days ago", "2026-11-18..2026-11-19");
        names("two weeks ago", "two weeks ago", "2026-11-02..2026-11-09");
        names("a month ago", "a month ago", "2026-10-01..2026-11-01");
        names("1 year ago", "1 year ago", "2025-01-01..2026-01-01");
    }

    #[test]
    fn weekday_is_latest_and_last_weekday_before_today() {
        names("what was said on Friday", "Friday", "2026-11-20..2026-11-21");
        names("saturday", "saturday", "2026-11-21..2026-11-22");
        names("last saturday", "last saturday", "2026-11-14..2026-11-15");
        names("since monday", "monday", "2026-11-16..2026-11-22");
    }

    #[test]
    fn months_and_dates_are_the_latest_begun() {
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
        names("since 2027-05-01", "2027-05-01", "2027-05-01..2027-05-02");
    }

    #[test]
    fn similar_words_are_no_temporal_expression() {
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
            assert_eq!(parsed(query), None, "{query}");
        }
    }

    #[test]
    fn relative_expression_is_not_part_of_subject() {
        let subject = |query: &str| window(query, NOW).unwrap().subject(query).into_owned();
        assert_eq!(subject("what broke last week in billing"), "what broke   in billing");
        assert_eq!(subject("notes of 2026-03-05"), "notes of 2026-03-05");
        assert_eq!(subject("the March budget, in March"), "the March budget, in March");
    }

    #[test]
    fn some_queries_ask_for_a_time_only() {
        let is_all = |query: &str| window(query, NOW).unwrap().is_all_of(query);
        for query in ["What did I do last Tuesday?", "what happened on 3 November", "yesterday"] {
            assert!(is_all(query), "{query}");
        }
        for query in ["what broke last week", "the budget of March 2025", "trip in december"] {
            assert!(!is_all(query), "{query}");
        }
    }

    #[test]
    fn distance_counts_days_from_either_end() {
        let window = window("yesterday", NOW).unwrap();
        let day = Timestamp::DAY_MICROS;
        assert_eq!(window.days_outside(Timestamp(window.start.0 + 5)), 0.0);
        assert_eq!(window.days_outside(Timestamp(window.start.0 - day)), 1.0);
        assert_eq!(window.days_outside(Timestamp(window.end.0 + 3 * day)), 3.0);
    }

    proptest! {
        #[test]
        fn any_text_at_any_time_parses_safely(
            text in "((last|this|in|since|5|0|31|2026-02|ago|days|march|monday|\\PC)[ -]?){0,8}",
            now: i64,
        ) {
            if let Some(window) = window(&text, Timestamp(now)) {
                prop_assert!(window.start < window.end && text.contains(&window.reference));
            }
        }
    }
}
