//! Calendar arithmetic for `model::temporal`, in one time zone.

use jiff::civil::{Date, DateTime, Time, Weekday};
use jiff::{Span, ToSpan};

/// From the first instant up to, and not including, the second.
pub type TimeRange = (DateTime, DateTime);

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Unit {
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Year,
}

/// A part of a day. The night is that after the day.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum DayPart {
    Morning,
    Noon,
    Afternoon,
    Evening,
    Night,
}

/// `count` units.
fn span(count: i64, unit: Unit) -> Span {
    match unit {
        Unit::Minute => count.minutes(),
        Unit::Hour => count.hours(),
        Unit::Day => count.days(),
        Unit::Week => count.weeks(),
        Unit::Month => count.months(),
        Unit::Year => count.years(),
    }
}

/// The time `count` units before `time`.
pub fn units_before(time: DateTime, count: i64, unit: Unit) -> Option<DateTime> {
    time.checked_sub(span(count, unit)).ok()
}

/// The calendar unit that contains `time`. Weeks begin on Monday. What happened minutes ago
/// happened up to ten minutes earlier or later, and an hour ago up to half an hour.
pub fn unit_containing(time: DateTime, unit: Unit) -> Option<TimeRange> {
    let date = time.date();
    let first = match unit {
        Unit::Minute => return around(time, 10),
        Unit::Hour => return around(time, 30),
        Unit::Day => date,
        Unit::Week => latest_weekday(date, Weekday::Monday)?,
        Unit::Month => date.first_of_month(),
        Unit::Year => date.first_of_year(),
    };
    Some((midnight(first), midnight(first.checked_add(span(1, unit)).ok()?)))
}

/// From `minutes` before `time` to as many after it.
pub fn around(time: DateTime, minutes: i64) -> Option<TimeRange> {
    let width = minutes.minutes();
    Some((time.checked_sub(width).ok()?, time.checked_add(width).ok()?))
}

pub fn single_day(date: Date) -> Option<TimeRange> {
    unit_containing(midnight(date), Unit::Day)
}

/// Saturday and Sunday of the week of `date`.
pub fn weekend_of(date: Date) -> Option<TimeRange> {
    let (_, monday) = unit_containing(midnight(date), Unit::Week)?;
    Some((monday.checked_sub(2.days()).ok()?, monday))
}

/// A part of the day that begins at `day`.
pub fn part_of(day: DateTime, part: DayPart) -> Option<TimeRange> {
    let (first, last) = match part {
        DayPart::Morning => (5, 12),
        DayPart::Noon => (11, 14),
        DayPart::Afternoon => (12, 18),
        DayPart::Evening => (17, 24),
        DayPart::Night => (18, 30),
    };
    Some((day.checked_add(first.hours()).ok()?, day.checked_add(last.hours()).ok()?))
}

pub fn midnight(date: Date) -> DateTime {
    date.to_datetime(Time::midnight())
}

/// The latest such weekday on or before `date`.
pub fn latest_weekday(date: Date, weekday: Weekday) -> Option<Date> {
    date.checked_sub(i64::from(date.weekday().since(weekday)).days()).ok()
}

/// The latest such month that has begun by `date`.
pub fn latest_month(date: Date, month: i8) -> Option<TimeRange> {
    let year = if month <= date.month() { date.year() } else { date.year() - 1 };
    unit_containing(midnight(Date::new(year, month, 1).ok()?), Unit::Month)
}

/// The latest such day on or before `today`.
pub fn latest_date(today: Date, month: i8, day: i8) -> Option<Date> {
    let of = |year| Date::new(year, month, day).ok();
    of(today.year()).filter(|date| *date <= today).or_else(|| of(today.year() - 1))
}
