//! The grammar of times in queries: recursive descent over the tokens of `time_words`.

use jiff::civil::{Date, DateTime, Time};

use crate::calendar::{
    DayPart, TimeRange, Unit, around, latest_date, latest_month, latest_weekday, midnight, part_of,
    single_day, unit_containing, units_before, weekend_of,
};
use crate::time_tables::Token;
use crate::time_words::{Expects, Tokens};

/// The grammar of expressions, at one time. Each method returns the number of tokens of an
/// expression that begins at a token, and its time.
pub struct Grammar<'w> {
    words: &'w Tokens,
    now: DateTime,
    today: Date,
    /// Whether a month, a weekday or a date without a year needs no word that announces it.
    is_bare: bool,
}

/// What "a few" means.
const FEW_MIN: i64 = 2;
const FEW_MAX: i64 = 7;

type Found = Option<(usize, TimeRange)>;

impl<'w> Grammar<'w> {
    pub fn new(words: &'w Tokens, now: DateTime) -> Self {
        Self { words, now, today: now.date(), is_bare: false }
    }

    /// The first expression of the query: its first token, the number of its tokens, and its time. A time that
    /// nothing announces is one only if it is all of the query.
    pub fn first(&self) -> Option<(usize, usize, TimeRange)> {
        let count = self.words.tokens.len();
        let bare = Self { is_bare: true, ..*self };
        if let Some((length, range)) = bare.expression(0).filter(|(length, _)| *length == count) {
            return Some((0, length, range));
        }
        (0..count).find_map(|at| self.expression(at).map(|(length, range)| (at, length, range)))
    }

    fn rest(&self, at: usize) -> &[Token] {
        &self.words.tokens[at.min(self.words.tokens.len())..]
    }

    /// Whether the word before this token announces a month or a year.
    fn expects_month(&self, at: usize) -> bool {
        self.is_bare || self.words.expects.get(at).is_some_and(|expects| expects.month)
    }

    /// Whether it announces a day.
    fn expects_day(&self, at: usize) -> bool {
        self.is_bare || self.words.expects.get(at).is_some_and(|expects| expects.day)
    }

    /// Whether the number at this token is only a part of one: "one hundred and five days ago".
    fn is_part_of_number(&self, at: usize) -> bool {
        use Token::{And, Count, Multiple, Number, Unit as Of};
        matches!(self.rest(at), [Number(_) | Count(_), ..])
            && matches!(
                self.words.tokens[..at],
                [.., Number(_) | Count(_) | Multiple]
                    | [.., Number(_) | Count(_) | Multiple | Of(_), And]
            )
    }

    fn tomorrow(&self) -> Option<DateTime> {
        Some(midnight(self.today.tomorrow().ok()?))
    }

    /// Times with words for before, after and between.
    fn expression(&self, at: usize) -> Found {
        if self.is_part_of_number(at) {
            return None;
        }
        let begin = midnight(Date::constant(1970, 1, 1));
        let after_first = || self.point(at + 1).map(|(length, range)| (length + 1, range));
        let (length, (start, end)) = match self.rest(at) {
            [Token::Between | Token::From, ..] => {
                let (length, range) = self.pair(at + 1)?;
                (length + 1, range)
            }
            [Token::Since, ..] => {
                let (length, (start, end)) = after_first()?;
                (length, (start, end.max(self.tomorrow()?)))
            }
            [Token::After, ..] => {
                let (length, (_, end)) = after_first()?;
                (length, (end, self.tomorrow()?))
            }
            [Token::Until, ..] => {
                let (length, (_, end)) = after_first()?;
                (length, (begin, end))
            }
            [Token::Before, ..] => {
                let (length, (start, _)) = after_first()?;
                (length, (begin, start))
            }
            [Token::AgoFirst, ..] if self.point(at).is_none() => {
                let (length, (start, _)) = after_first()?;
                (length, (begin, start))
            }
            _ => {
                let (length, range) = self.days_of_month(at).or_else(|| self.point(at))?;
                match self.rest(at + length) {
                    [Token::BeforeSuffix, ..] => (length + 1, (begin, range.0)),
                    _ => (length, range),
                }
            }
        };
        (start < end).then_some((length, (start, end)))
    }

    /// Two times, the second one after a word for "to". Each may be a month or a weekday alone.
    fn pair(&self, at: usize) -> Found {
        let bare = Self { is_bare: true, ..*self };
        self.days_of_month(at).or_else(|| self.days_of_last_week(at)).or_else(|| {
            let (first, (start, _)) = bare.point(at)?;
            let [Token::To | Token::Until | Token::And, ..] = self.rest(at + first) else {
                return None;
            };
            let (second, (_, end)) = bare.point(at + first + 1)?;
            Some((first + 1 + second, (start, end)))
        })
    }

    /// Two days of last week: "Monday and Wednesday last week".
    fn days_of_last_week(&self, at: usize) -> Found {
        use Token::{And, Last, To, Unit as Of, Until, Weekday};
        let [Weekday(first), To | Until | And, Weekday(last), rest @ ..] = self.rest(at) else {
            return None;
        };
        let ([Last, Of(Unit::Week), ..] | [Of(Unit::Week), Last, ..]) = rest else { return None };
        let before = units_before(self.now, 1, Unit::Week)?;
        let (_, monday) = unit_containing(before, Unit::Week)?;
        let sunday = monday.date().yesterday().ok()?;
        let (first, last) = (latest_weekday(sunday, *first)?, latest_weekday(sunday, *last)?);
        Some((5, (midnight(first), midnight(last.tomorrow().ok()?))))
    }

    /// Two days of one month: "3 to 5 November", "November 3 and 5, 2026".
    fn days_of_month(&self, at: usize) -> Found {
        use Token::{And, Month, Number, To, Until, Year};
        let is_expected = self.expects_day(at);
        let (length, month, first, last, year) = match *self.rest(at) {
            [Number(first), To | Until | And, Number(last), Month(month), Year(year), ..]
            | [Month(month), Number(first), To | Until | And, Number(last), Year(year), ..] => {
                (5, month, first, last, Some(year))
            }
            [Number(first), To | Until | And, Number(last), Month(month), ..]
            | [Month(month), Number(first), To | Until | And, Number(last), ..]
                if is_expected =>
            {
                (4, month, first, last, None)
            }
            _ => return None,
        };
        let (first, last) = (first.try_into().ok()?, last.try_into().ok()?);
        let first = match year {
            Some(year) => Date::new(year, month, first).ok()?,
            None => latest_date(self.today, month, first)?,
        };
        let last = Date::new(first.year(), month, last).ok()?;
        Some((length, (midnight(first), midnight(last.tomorrow().ok()?))))
    }

    /// One time, or a part of one day: "yesterday evening", "3 pm on 5 March".
    fn point(&self, at: usize) -> Found {
        use Token::{Clock, DayPart};
        let simple = |at| self.relative(at).or_else(|| self.date(at));
        let part = |(start, end): TimeRange, part| {
            let date = start.date();
            (single_day(date)? == (start, end)).then_some(())?;
            match part {
                (Some(part), None) => part_of(start, part),
                (None, Some(time)) => around(date.to_datetime(time), 60),
                (Some(part), Some(time)) => around(date.to_datetime(in_part(time, part)), 60),
                (None, None) => None,
            }
        };
        let Some((length, range)) = simple(at) else {
            let named = match *self.rest(at) {
                [DayPart(name), ..] => (Some(name), None),
                [Clock(time), ..] => (None, Some(time)),
                _ => return None,
            };
            let (length, range) = simple(at + 1)?;
            return Some((length + 1, part(range, named)?));
        };
        let (more, named) = match *self.rest(at + length) {
            [DayPart(name), Clock(time), ..] | [Clock(time), DayPart(name), ..] => {
                (2, (Some(name), Some(time)))
            }
            [DayPart(name), ..] => (1, (Some(name), None)),
            [Clock(time), ..] => (1, (None, Some(time))),
            _ => return Some((length, range)),
        };
        let with_part = part(range, named).map(|range| (length + more, range));
        with_part.or(Some((length, range)))
    }

    /// The last so many units, until the end of today.
    fn until_now(&self, count: i64, unit: Unit) -> Option<TimeRange> {
        let start = units_before(self.now, count, unit)?;
        let is_short = matches!(unit, Unit::Minute | Unit::Hour);
        let start = if is_short { start } else { midnight(start.date()) };
        Some((start, self.tomorrow()?))
    }

    /// Counts of units: "3 days ago", "the last few weeks".
    fn counted(&self, at: usize) -> Found {
        use Token::{
            Ago, AgoFirst, And, BeforeSuffix, Count, Few, Last, Number, Past, Unit as Of, Units,
        };
        let of = |count, unit| unit_containing(units_before(self.now, count, unit)?, unit);
        Some(match *self.rest(at) {
            [Last | Past, Number(count) | Count(count), Of(unit), ..]
            | [Number(count) | Count(count), Last | Past, Of(unit), ..] => {
                (3, self.until_now(count, unit)?)
            }
            // "Two weeks and three days ago".
            [
                Number(first) | Count(first),
                Of(larger),
                And,
                Number(count) | Count(count),
                Of(unit),
                Ago | BeforeSuffix,
                ..,
            ]
            | [
                AgoFirst,
                Number(first) | Count(first),
                Of(larger),
                And,
                Number(count) | Count(count),
                Of(unit),
                ..,
            ] => {
                let before = units_before(units_before(self.now, first, larger)?, count, unit)?;
                (6, unit_containing(before, unit)?)
            }
            [Number(count) | Count(count), Of(unit), Ago | BeforeSuffix, ..]
            | [AgoFirst, Number(count) | Count(count), Of(unit), ..] => (3, of(count, unit)?),
            [Last | Past, Few, Of(unit), ..] | [Few, Last | Past, Of(unit), ..] => {
                (3, self.until_now(FEW_MAX, unit)?)
            }
            // "The last days of Pompeii" are others.
            [Last | Past, Units(unit)] if unit != Unit::Minute => {
                (2, self.until_now(FEW_MAX, unit)?)
            }
            [Last | Past, Units(unit @ (Unit::Week | Unit::Month | Unit::Year)), ..] => {
                (2, self.until_now(FEW_MAX, unit)?)
            }
            [Few, Of(unit), Ago, ..] | [AgoFirst, Few, Of(unit), ..] => {
                (3, (of(FEW_MAX, unit)?.0, of(FEW_MIN, unit)?.1))
            }
            _ => return None,
        })
    }

    /// Times relative to now.
    fn relative(&self, at: usize) -> Found {
        use Token::{
            BeforeLast, Day, DayPart, Last, LastAfter, Month, Past, This, Unit as Of, Weekday,
            Weekend,
        };
        let follows = self.words.last_follows;
        let day = |days: i64| {
            let date = units_before(midnight(self.today), -days, Unit::Day)?;
            unit_containing(date, Unit::Day)
        };
        let of = |count, unit| unit_containing(units_before(self.now, count, unit)?, unit);
        let weekend = |weeks| weekend_of(units_before(self.now, weeks, Unit::Week)?.date());
        let weekday = |date: Date, weekday| single_day(latest_weekday(date, weekday)?);
        let counted = self.counted(at);
        if counted.is_some() {
            return counted;
        }
        Some(match *self.rest(at) {
            [BeforeLast, Of(unit), ..] => (2, of(2, unit)?),
            [Day(days), ..] => (1, day(days)?),
            // "The morning of last Tuesday", "que s'est-il passé la semaine dernière".
            [DayPart(_), Last, Weekday(_) | Of(_), ..] | [Last, Of(_), Last, ..] => return None,
            [Last, DayPart(part), ..] => (2, part_of(day(-1)?.0, part)?),
            [DayPart(part), Last, ..] if follows => (2, part_of(day(-1)?.0, part)?),
            [This, DayPart(part), ..] => (2, part_of(midnight(self.today), part)?),
            // "Last minute changes", "the last day of the course".
            [Last | This, Of(Unit::Minute | Unit::Day), ..] => return None,
            [Past, Of(unit), ..] => (2, self.until_now(1, unit)?),
            [This, Of(unit), ..] => (2, of(0, unit)?),
            [Last, Of(Unit::Week), Weekday(name), ..]
            | [Weekday(name), Last, Of(Unit::Week), ..] => {
                let (_, monday) = of(1, Unit::Week)?;
                (3, weekday(monday.date().yesterday().ok()?, name)?)
            }
            [Month(month), Last, Of(Unit::Year), ..] => {
                let (january, _) = of(1, Unit::Year)?;
                (3, latest_month(Date::new(january.year(), 12, 1).ok()?, month)?)
            }
            [Last, Of(unit), ..] => (2, of(1, unit)?),
            [Of(unit @ (Unit::Week | Unit::Month | Unit::Year)), Last | LastAfter, ..]
                if follows =>
            {
                (2, of(1, unit)?)
            }
            [Last, Weekend, ..] => (2, weekend(1)?),
            [Weekend, Last | LastAfter, ..] if follows => (2, weekend(1)?),
            [This, Weekend, ..] => (2, weekend(0)?),
            [Weekend, ..] if self.expects_month(at) || self.expects_day(at) => {
                let latest = weekend(0)?;
                (1, if latest.0 <= self.now { latest } else { weekend(1)? })
            }
            [Last, Weekday(name), ..] => (2, weekday(self.today.yesterday().ok()?, name)?),
            [Weekday(name), Last | LastAfter, ..] if follows => {
                (2, weekday(self.today.yesterday().ok()?, name)?)
            }
            [Last, Month(month), ..] => {
                (2, latest_month(self.today.first_of_month().yesterday().ok()?, month)?)
            }
            [Month(month), Last | LastAfter, ..] if follows => {
                (2, latest_month(self.today.first_of_month().yesterday().ok()?, month)?)
            }
            // "Tuesday, 3 November" is a date.
            [Weekday(name), ..] => match self.date_of(at + 1, true) {
                Some((length, range)) => (length + 1, range),
                None if self.expects_day(at) => (1, weekday(self.today, name)?),
                None => return None,
            },
            _ => return None,
        })
    }

    /// Dates, months and years. Without a year it is the latest one that has begun.
    fn date(&self, at: usize) -> Found {
        self.date_of(at, self.expects_day(at))
    }

    /// The same. `is_day`: something says that a day without a year is one.
    fn date_of(&self, at: usize, is_day: bool) -> Found {
        use Token::{Date as Known, Month, Number, Ordinal, Year, YearMonth};
        let of =
            |year, month, day: i64| single_day(Date::new(year, month, day.try_into().ok()?).ok()?);
        let latest =
            |month, day: i64| single_day(latest_date(self.today, month, day.try_into().ok()?)?);
        let month_of =
            |year, month| unit_containing(midnight(Date::new(year, month, 1).ok()?), Unit::Month);
        // "The 3 in June" is no date.
        let is_one = self.is_bare || self.words.expects.get(at + 1) == Some(&Expects::default());
        Some(match *self.rest(at) {
            [Known(date), ..] => (1, single_day(date)?),
            [YearMonth(year, month), ..] => (1, month_of(year, month)?),
            [Number(day) | Ordinal(day), Month(month), Year(year), ..]
            | [Month(month), Number(day) | Ordinal(day), Year(year), ..]
            | [Year(year), Month(month), Number(day) | Ordinal(day), ..] => {
                (3, of(year, month, day)?)
            }
            [Year(year), Month(month), ..] | [Month(month), Year(year), ..] => {
                (2, month_of(year, month)?)
            }
            [Ordinal(day), Month(month), ..] | [Month(month), Ordinal(day), ..] if is_one => {
                (2, latest(month, day)?)
            }
            [Number(day), Month(month), ..] | [Month(month), Number(day), ..]
                if is_one && is_day =>
            {
                (2, latest(month, day)?)
            }
            [Month(month), ..] if self.expects_month(at) => (1, latest_month(self.today, month)?),
            [Year(year), ..] if self.expects_month(at) => {
                (1, unit_containing(midnight(Date::new(year, 1, 1).ok()?), Unit::Year)?)
            }
            _ => return None,
        })
    }
}

/// "3" in the afternoon is 15.
fn in_part(time: Time, part: DayPart) -> Time {
    let is_late = matches!(part, DayPart::Afternoon | DayPart::Evening | DayPart::Night);
    let hours = if is_late && time.hour() < 12 { 12 } else { 0 };
    Time::new(time.hour() + hours, time.minute(), 0, 0).unwrap_or(time)
}
