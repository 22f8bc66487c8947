//! Turns a query into the tokens that [`crate::time_grammar`] reads: words of times, by the table of the query's
//! language ([`crate::time_tables`]), numbers and dates.
//!
//! Many words of times have other meanings. So a month, a weekday or a date without a year is one only after a word
//! that announces it ("in March", "on Friday"), which [`Tokens::expects`] notes. Articles between the words of an
//! expression are left out.

use std::ops::Range;

use jiff::civil::{Date, Time};

use crate::calendar::Unit;
use crate::folding::fold_word;
use crate::time_chinese::{CHINESE_TABLE, chinese_number};
use crate::time_tables::Token::{self, *};
use crate::time_tables::{Language, PHRASE_WORDS_MAX};
use crate::tokenizer::is_unspaced;

/// Most tokens of a query that are read.
const TOKENS_MAX: usize = 128;
/// Longest text of a date or a time.
const NUMERIC_BYTES_MAX: usize = 24;

/// What a word announces.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Expects {
    pub month: bool,
    pub day: bool,
}

const BOTH: Expects = Expects { month: true, day: true };

/// The tokens of a query, without fillers.
#[derive(Debug, Default)]
pub struct Tokens {
    pub tokens: Vec<Token>,
    /// The bytes of each token in the query.
    pub ranges: Vec<Range<usize>>,
    /// What the word before each token announces.
    pub expects: Vec<Expects>,
    /// As [`Language::last_follows`].
    pub last_follows: bool,
    /// What the last word announces.
    announced: Expects,
    /// Whether the next number is an hour.
    expects_hour: bool,
    /// Whether the last word is Chinese, which has one word for "in" and "on".
    is_chinese: bool,
}

/// A word of a query: lower-case, without accents, and its bytes.
struct Word<'q> {
    text: &'q str,
    folded: String,
    start: usize,
}

impl Tokens {
    /// Reads a query.
    pub fn of(query: &str) -> Self {
        // Every part is a slice of `query`, so the distance of their addresses is its offset.
        let offset = |part: &str| part.as_ptr().addr() - query.as_ptr().addr();
        let fold = fold_word;
        let mut words: Vec<Word<'_>> = Vec::new();
        for chunk in query.split_whitespace() {
            let trimmed = chunk.trim_matches(|c: char| !c.is_alphanumeric());
            if is_code(chunk) {
                words.push(Word { text: "", folded: String::new(), start: offset(chunk) });
                continue;
            }
            if words.len() >= TOKENS_MAX {
                break;
            }
            let has_point = day_and_month(chunk).is_some();
            let parts: Vec<_> = match has_point || numeric(trimmed).is_some() {
                true => vec![trimmed],
                false => trimmed.split(|c: char| !c.is_alphanumeric()).collect(),
            };
            for text in parts.into_iter().filter(|text| !text.is_empty()).take(TOKENS_MAX) {
                words.push(Word { text, folded: fold(text), start: offset(text) });
            }
        }
        words.truncate(TOKENS_MAX);
        let folded: Vec<_> = words.iter().map(|word| word.folded.clone()).collect();
        let language = Language::of(&folded);
        let mut all = Self { last_follows: language.last_follows, ..Self::default() };
        let mut at = 0;
        while at < words.len() && all.tokens.len() < TOKENS_MAX {
            at += all.read(&words[at..], &folded[at..], language);
        }
        all
    }

    /// Reads the first of some words, or a phrase. Returns the number of words.
    fn read(&mut self, words: &[Word<'_>], folded: &[String], language: &Language) -> usize {
        let Word { text, start, .. } = words[0];
        self.is_chinese = text.contains(is_unspaced);
        if self.is_chinese {
            self.read_chinese(text, start);
            return 1;
        }
        // "am 3.11.": without a point after it, 3.11 is a version.
        if let Some(date) = day_and_month(&format!("{text}."))
            && self.announced.day
        {
            self.push_all(&date, start..start + text.len());
            return 1;
        }
        if let Some(tokens) = numeric(&folded[0]).or_else(|| numeric(text)) {
            self.push_all(&tokens, start..start + text.len());
            return 1;
        }
        for count in (1..=PHRASE_WORDS_MAX.min(words.len())).rev() {
            if let Some(tokens) = language.phrases.get(&folded[..count].join(" ")) {
                let last = &words[count - 1];
                self.push_all(tokens, start..last.start + last.text.len());
                return count;
            }
        }
        self.push(Other, start..start + text.len());
        1
    }

    /// Reads text without spaces, in which numbers may be digits.
    fn read_chinese(&mut self, text: &str, start: usize) {
        let mut rest = text;
        while let Some(first) = rest.chars().next().filter(|_| self.tokens.len() < TOKENS_MAX) {
            let at = start + text.len() - rest.len();
            let is_adjacent = self.ranges.last().is_some_and(|range| range.end == at);
            let last = self.tokens.last().copied().filter(|_| is_adjacent);
            let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
            let length = if digits > 0 {
                self.push_all(&numeric(&rest[..digits]).unwrap_or(vec![Other]), at..at + digits);
                digits
            } else if let Some((length, tokens)) = CHINESE_TABLE.phrase(rest, last) {
                self.push_all(tokens, at..at + length);
                length
            } else if let Some((length, number)) = chinese_number(rest) {
                self.push(number.map_or(Other, Number), at..at + length);
                length
            } else {
                let word = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
                let length = word.max(first.len_utf8());
                self.push(Other, at..at + length);
                length
            };
            rest = &rest[length..];
        }
    }

    fn push_all(&mut self, tokens: &[Token], range: Range<usize>) {
        for token in tokens {
            self.push(*token, range.clone());
        }
    }

    fn push(&mut self, token: Token, range: Range<usize>) {
        let last = self.tokens.last().copied();
        let token = match (last, token) {
            (_, Filler) => return,
            (Some(Year(_)), Unit(Unit::Year)) => return self.extend(range.end),
            (Some(DayPart(_) | Clock(_)), Joiner) => {
                self.announced = Expects { month: false, day: true };
                return;
            }
            (Some(Ordinal(_) | Number(_) | Weekday(_)), Joiner) => return,
            (_, Joiner) => Other,
            (_, In) => return self.announced = Expects { month: true, day: false },
            (_, On) => return self.announced = Expects { month: self.is_chinese, day: true },
            (_, AtHour) => return self.expects_hour = true,
            (Some(Last | Past), Units(_)) => token,
            (_, Units(unit)) => Unit(unit),
            (_, Number(hour @ 0..=23) | Count(hour @ 0..=12)) if self.expects_hour => {
                clock(hour, 0)
            }
            (Some(Number(hour @ 0..=23)), Hours) => return self.replace(clock(hour, 0), range.end),
            (Some(Number(hour @ 1..=12)), HalfDay(later)) => {
                return self.replace(clock(hour % 12 + i64::from(later), 0), range.end);
            }
            (Some(Number(month @ 1..=12)), MonthSuffix) => {
                return self.replace(Month(month as i8), range.end);
            }
            (Some(Number(day @ 1..=31)), DaySuffix) => {
                return self.replace(Ordinal(day), range.end);
            }
            (_, Hours | HalfDay(_) | MonthSuffix | DaySuffix) => Other,
            _ => token,
        };
        self.expects_hour = false;
        self.tokens.push(token);
        self.ranges.push(range);
        self.expects.push(self.announced);
        self.announced = match token {
            Since | Until | Before | After | AgoFirst => BOTH,
            // "From Jan about the budget" is no month; "from Jan to May" is a pair.
            From | Between => Expects { month: false, day: true },
            _ => Expects::default(),
        };
    }

    /// Another token in place of the last one, which ends here.
    fn replace(&mut self, token: Token, end: usize) {
        if let Some(last) = self.tokens.last_mut() {
            *last = token;
        }
        self.extend(end);
    }

    fn extend(&mut self, end: usize) {
        if let Some(range) = self.ranges.last_mut() {
            range.end = end;
        }
    }
}

/// Whether a text is code or an address, whose parts are no words: `may_table`, `date.today()`.
fn is_code(text: &str) -> bool {
    let bytes = text.as_bytes();
    let has_inner_point = bytes.windows(3).any(|three| {
        three[1] == b'.' && three[0].is_ascii_alphabetic() && three[2].is_ascii_alphabetic()
    });
    has_inner_point || text.contains(['_', '{', '=']) || text.contains("()") || text.contains("::")
}

/// The tokens of a text that begins with a digit: a date, a time of the day, a number, or two
/// numbers as in "3-5".
fn numeric(text: &str) -> Option<Vec<Token>> {
    if text.len() > NUMERIC_BYTES_MAX {
        return None;
    }
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    if let Some((day, time)) = text.split_once('T') {
        return Some([numeric(day)?, numeric(time)?].concat());
    }
    let separator = rest.chars().next();
    let parts = || {
        let parts = text.split(separator.unwrap_or(' '));
        parts.map(number).collect::<Option<Vec<_>>>()
    };
    Some(vec![match (separator, rest) {
        (None, _) => year(digits).map_or(Number(number(digits)?), Year),
        (_, "st" | "nd" | "rd" | "th" | "er" | "e") => {
            Ordinal(number(digits).filter(|day| (1..=31).contains(day))?)
        }
        (_, "am") => clock(number(digits).filter(|hour| (1..=12).contains(hour))? % 12, 0),
        (_, "pm") => clock(number(digits).filter(|hour| (1..=12).contains(hour))? % 12 + 12, 0),
        (_, "h") => clock(number(digits)?, 0),
        (Some(':' | 'h'), _) => match parts()?.as_slice() {
            [hour @ 0..=23, minute @ 0..=59] => clock(*hour, *minute),
            _ => return None,
        },
        (Some('-' | '.' | '/'), _) => match (text.len(), parts()?.as_slice()) {
            (_, [_, month, day]) if let Some(year) = year(digits) => date(year, *month, *day)?,
            (7, [_, month @ 1..=12]) if let Some(year) = year(digits) => {
                YearMonth(year, *month as i8)
            }
            // "3/11/2026" is March or November.
            (_, [1..=12, 1..=12, _]) if separator == Some('/') => return None,
            (_, [first, second, _]) => {
                let year = year(text.rsplit(separator?).next()?)?;
                let is_month_first = separator == Some('/') && *second > 12;
                let (day, month) = if is_month_first { (second, first) } else { (first, second) };
                date(year, *month, *day)?
            }
            (_, [first @ 1..=31, last @ 1..=31]) if separator == Some('-') => {
                return Some(vec![Number(*first), To, Number(*last)]);
            }
            _ => return None,
        },
        _ => return None,
    }])
}

/// The day and month of a German date without a year: "3.11.".
fn day_and_month(text: &str) -> Option<Vec<Token>> {
    let text = text.trim_end_matches([',', ';', ':', '?', '!']);
    let (day, month) = text.strip_suffix('.')?.split_once('.')?;
    let (day, month) = (number(day)?, number(month)?);
    let is_date = (1..=31).contains(&day) && (1..=12).contains(&month);
    is_date.then(|| vec![Number(day), Month(month as i8)])
}

fn clock(hour: i64, minute: i64) -> Token {
    let part = |number: i64| i8::try_from(number).ok();
    let time =
        part(hour).zip(part(minute)).and_then(|(hour, minute)| Time::new(hour, minute, 0, 0).ok());
    time.map_or(Other, Clock)
}

fn date(year: i16, month: i64, day: i64) -> Option<Token> {
    Date::new(year, month.try_into().ok()?, day.try_into().ok()?).ok().map(Date)
}

/// A year from 1900 to 2199.
fn year(digits: &str) -> Option<i16> {
    let year = digits.parse().ok().filter(|_| digits.len() == 4)?;
    (1900..=2199).contains(&year).then_some(year)
}

/// A number of up to four digits.
fn number(digits: &str) -> Option<i64> {
    let is_number = (1..=4).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
    digits.parse().ok().filter(|_| is_number)
}
