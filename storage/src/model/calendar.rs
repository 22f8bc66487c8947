//! Calendar arithmetic and English calendar words, for `model::temporal`.

use jiff::ToSpan;
use jiff::civil::{Date, Weekday};

/// Days from the first date up to, and not including, the second.
pub(super) type DayRange = (Date, Date);

/// Largest count in "N days ago".
const COUNT_MAX: i64 = 1_000;

#[derive(Debug, Clone, Copy)]
pub(super) enum Unit {
    Day,
    Week,
    Month,
    Year,
}

/// Parses "day", "weeks", and so on.
pub(super) fn parse_unit(word: &str) -> Option<Unit> {
    Some(match word.strip_suffix('s').unwrap_or(word) {
        "day" => Unit::Day,
        "week" => Unit::Week,
        "month" => Unit::Month,
        "year" => Unit::Year,
        _ => return None,
    })
}

pub(super) fn units_before(date: Date, count: i64, unit: Unit) -> Option<Date> {
    let span = match unit {
        Unit::Day => count.days(),
        Unit::Week => count.weeks(),
        Unit::Month => count.months(),
        Unit::Year => count.years(),
    };
    date.checked_sub(span).ok()
}

/// The calendar unit that contains `date`. Weeks begin on Monday.
pub(super) fn unit_containing(date: Date, unit: Unit) -> Option<DayRange> {
    let (first, length) = match unit {
        Unit::Day => (date, 1.day()),
        Unit::Week => (latest_weekday(date, Weekday::Monday)?, 1.week()),
        Unit::Month => (date.first_of_month(), 1.month()),
        Unit::Year => (date.first_of_year(), 1.year()),
    };
    Some((first, first.checked_add(length).ok()?))
}

pub(super) fn single_day(date: Date) -> Option<DayRange> {
    unit_containing(date, Unit::Day)
}

/// The latest such weekday on or before `date`.
pub(super) fn latest_weekday(date: Date, weekday: Weekday) -> Option<Date> {
    date.checked_sub(i64::from(date.weekday().since(weekday)).days()).ok()
}

/// The latest such month that has begun by `date`.
pub(super) fn latest_month(date: Date, month: i8) -> Option<DayRange> {
    let year = if month <= date.month() { date.year() } else { date.year() - 1 };
    unit_containing(Date::new(year, month, 1).ok()?, Unit::Month)
}

/// The latest such day on or before `today`.
pub(super) fn latest_date(today: Date, month: i8, day: i8) -> Option<Date> {
    let of = |year| Date::new(year, month, day).ok();
    of(today.year()).filter(|date| *date <= today).or_else(|| of(today.year() - 1))
}

/// Parses a lower-case weekday.
pub(super) fn parse_weekday(word: &str) -> Option<Weekday> {
    const NAMES: &str = "monday tuesday wednesday thursday friday saturday sunday";
    let at = NAMES.split(' ').position(|name| name == word)?;
    Weekday::from_monday_zero_offset(at as i8).ok()
}

/// Parses a lower-case month name, in full or its first three letters. January is 1.
pub(super) fn parse_month(word: &str) -> Option<i8> {
    const NAMES: &str = "january february march april may june july august september october \
                         november december";
    let is_month = |name: &str| name == word || word.len() == 3 && name.starts_with(word);
    NAMES.split(' ').position(is_month).map(|at| at as i8 + 1)
}

/// Parses a count as in "3 days ago": digits, a number word, or "a".
pub(super) fn parse_count(word: &str) -> Option<i64> {
    const NAMES: &str = "zero one two three four five six seven eight nine ten eleven twelve";
    let named = || NAMES.split(' ').position(|name| name == word).map(|at| at as i64);
    let one = || matches!(word, "a" | "an").then_some(1);
    let number = word.parse().ok().or_else(named).or_else(one)?;
    (0..=COUNT_MAX).contains(&number).then_some(number)
}

/// Parses a year from 1900 to 2199.
pub(super) fn parse_year(word: &str) -> Option<i16> {
    let digits = word.len() == 4 && word.bytes().all(|byte| byte.is_ascii_digit());
    word.parse().ok().filter(|year| digits && (1900..=2199).contains(year))
}

/// Parses a day of a month: "5", "05", "5th".
pub(super) fn parse_month_day(word: &str) -> Option<i8> {
    let digits = ["st", "nd", "rd", "th"].iter().find_map(|end| word.strip_suffix(end));
    parse_bounded(digits.unwrap_or(word), 31)
}

/// Parses a number of at most two digits, 1 to `max`.
pub(super) fn parse_bounded(word: &str, max: i8) -> Option<i8> {
    let digits = word.len() <= 2 && word.bytes().all(|byte| byte.is_ascii_digit());
    word.parse().ok().filter(|number| digits && (1..=max).contains(number))
}
