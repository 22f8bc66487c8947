//! Words of times in English, German, French, Spanish and Chinese: turns a query into the tokens
//! that the grammar of `model::temporal` reads.
//!
//! A word counts in each of these languages, except where its meanings differ. Articles between the
//! words of an expression are left out.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::LazyLock;

use jiff::civil::{Date, Time, Weekday};

use crate::ascii_folding::fold_to_ascii;
use crate::calendar::{DayPart, Unit};
use crate::term::is_stop_word;
use crate::tokenizer::is_unspaced;

/// Most tokens of a query that are read.
const TOKENS_MAX: usize = 128;
/// A word of a time, or another word.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Token {
    /// Days from today.
    Day(i64),
    DayPart(DayPart),
    Unit(Unit),
    Weekday(Weekday),
    Month(i8),
    Weekend,
    Number(i64),
    /// Some: two to seven.
    Few,
    Year(i16),
    Date(Date),
    YearMonth(i16, i8),
    Clock(Time),
    /// The latest whole one.
    Last,
    /// The one before that.
    BeforeLast,
    /// A time that ends now.
    Past,
    This,
    /// After a count of units.
    Ago,
    /// Before a count of units; before other times it is [`Self::Before`].
    AgoFirst,
    Before,
    /// Before, but after its time.
    BeforeSuffix,
    After,
    Since,
    Until,
    Between,
    From,
    To,
    And,
    /// A word with which a month or a year alone is a time: "in March".
    In,
    /// An article, or what else does not count.
    Filler,
    /// The number before it is an hour.
    Hours,
    /// The number before it, up to 12, is an hour; this many hours later if it is below 12.
    HalfDay(i8),
    /// The number before it is a month; without one, a unit.
    MonthSuffix,
    Other,
}

use Token::*;

/// The tokens of a query, without fillers.
#[derive(Debug, Default)]
pub struct Tokens {
    pub tokens: Vec<Token>,
    /// The bytes of each token in the query.
    pub ranges: Vec<Range<usize>>,
    /// Whether the word before each token lets a month or a year alone be a time.
    pub is_expected: Vec<bool>,
    /// Whether the last word was such.
    expects: bool,
    /// Whether the next number is an hour.
    expects_hour: bool,
    /// The last two words.
    previous: [String; 2],
}

const VOCABULARY: &[(&[Token], &str)] = &[
    (&[Day(0)], "today heute aujourd hoy"),
    (&[Day(-1)], "yesterday gestern hier ayer"),
    (&[Day(-2)], "vorgestern avant-hier anteayer antier"),
    (&[Day(0), DayPart(DayPart::Night)], "tonight"),
    (&[Day(-1), DayPart(DayPart::Night)], "anoche"),
    (&[DayPart(DayPart::Morning)], "morning morgen vormittag fruh matin manana"),
    (&[DayPart(DayPart::Noon)], "noon mittag midi mediodia"),
    (&[DayPart(DayPart::Afternoon)], "afternoon nachmittag apres-midi tarde"),
    (&[DayPart(DayPart::Evening)], "evening abend soir soiree"),
    (&[DayPart(DayPart::Night)], "night nacht nuit noche"),
    (&[Unit(Unit::Minute)], "minute minutes min mins minuten minuto minutos"),
    (&[Unit(Unit::Hour)], "hour hours stunde stunden heure heures hora horas"),
    (&[Unit(Unit::Day)], "day days tag tage tagen jour jours dia dias"),
    (&[Unit(Unit::Week)], "week weeks woche wochen semaine semaines semana semanas"),
    (&[Unit(Unit::Month)], "month months monat monate monaten monats mois mes meses"),
    (&[Unit(Unit::Year)], "year years jahr jahre jahren jahres ans annee annees ano anos"),
    (&[Weekend], "weekend weekends wochenende wochenenden week-end finde findes"),
    (
        &[Last],
        "last previous letzte letzten letzter letztes letztem vorige vorigen voriger voriges",
    ),
    (&[Last], "vergangene vergangenen vergangener vergangenes dernier derniere derniers dernieres"),
    (&[Last], "passe passee pasado pasada pasados pasadas ultimo ultima ultimos ultimas"),
    (&[BeforeLast], "vorletzte vorletzten vorletzter vorletztes"),
    (&[Past], "past"),
    (&[This], "this diese diesen dieser dieses diesem ce cet cette este esta"),
    (&[Ago], "ago"),
    (&[AgoFirst], "vor hace"),
    (&[Before], "before avant antes"),
    (&[After], "after nach apres despues"),
    (&[Since], "since seit depuis desde"),
    (&[Until], "until till bis hasta"),
    (&[Between], "between zwischen entre"),
    (&[From], "from von vom"),
    (&[To], "to through au al"),
    (&[And], "and und et y"),
    (&[In], "in im en during wahrend pendant durante of de d du early mid late on over am"),
    (&[Filler], "the s o hui der den dem des das die la le les l el los las del par por at um"),
    (&[Few], "few couple paar einigen einige wenigen quelques unos unas algunos algunas pocos"),
    (&[Number(14)], "fourteen vierzehn quatorze catorce"),
    (&[Number(15)], "fifteen funfzehn quinze quince"),
    (&[Number(20)], "twenty zwanzig vingt veinte"),
    (&[Hours], "uhr clock"),
    (&[HalfDay(12)], "pm"),
];

/// Names in order, from 1 on, one list per language.
const NUMBERS: &[&str] = &[
    "one two three four five six seven eight nine ten eleven twelve",
    "ein zwei drei vier funf sechs sieben acht neun zehn elf zwolf",
    "un deux trois quatre cinq six sept huit neuf dix onze douze",
    "uno dos tres cuatro cinco seis siete ocho nueve diez once doce",
    "a",
    "an",
    "eine",
    "einem",
    "einer",
    "einen",
    "une",
    "una",
];
const MONTHS: &[&str] = &[
    "january february march april may june july august september october november december",
    "jan feb mar apr may jun jul aug sep oct nov dec",
    "januar februar marz april mai juni juli august september oktober november dezember",
    "janvier fevrier mars avril mai juin juillet aout septembre octobre novembre decembre",
    "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
];
const WEEKDAYS: &[&str] = &[
    "monday tuesday wednesday thursday friday saturday sunday",
    "montag dienstag mittwoch donnerstag freitag samstag sonntag",
    "lundi mardi mercredi jeudi vendredi samedi dimanche",
    "lunes martes miercoles jueves viernes sabado domingo",
];
/// Words by which a query is French: only there, "hier" is yesterday. In German it is here.
const FRENCH: [&str; 33] = [
    "j", "je", "ai", "nous", "on", "avons", "a", "le", "la", "les", "l", "d", "du", "que", "quoi",
    "qu", "qui", "est", "c", "ce", "s", "ete", "etait", "soir", "matin", "midi", "fait", "dit",
    "avec", "pour", "dans", "avant", "reunion",
];
/// Plurals: "the last days" are several.
const PLURALS: [&str; 21] = [
    "minutes", "hours", "days", "weeks", "months", "years", "tage", "tagen", "wochen", "monate",
    "monaten", "jahre", "jahren", "stunden", "jours", "semaines", "heures", "annees", "dias",
    "semanas", "meses",
];
/// Words before a German date without a year: "am 3.11.".
const BEFORE_DATES: [&str; 7] = ["am", "vom", "bis", "zum", "seit", "dem", "den"];

/// The words of scripts without spaces. The longest one counts.
const UNSPACED: &[(&[Token], &str)] = &[
    (&[Day(-3)], "大前天"),
    (&[Day(-2)], "前天"),
    (&[Day(-1)], "昨天 昨日"),
    (&[Day(0)], "今天 今日"),
    (&[Day(-1), DayPart(DayPart::Night)], "昨晚"),
    (&[Day(0), DayPart(DayPart::Night)], "今晚"),
    (&[Day(0), DayPart(DayPart::Morning)], "今早"),
    (&[DayPart(DayPart::Morning)], "早上 早晨 上午"),
    (&[DayPart(DayPart::Noon)], "中午"),
    (&[DayPart(DayPart::Afternoon)], "下午"),
    (&[DayPart(DayPart::Evening)], "晚上"),
    (&[DayPart(DayPart::Night)], "夜里"),
    (&[Last, Unit(Unit::Year)], "去年"),
    (&[BeforeLast, Unit(Unit::Year)], "前年"),
    (&[This, Unit(Unit::Year)], "今年"),
    (&[BeforeLast], "上上"),
    (&[Last], "上 上个"),
    (&[This], "这 这个 本"),
    (&[Past], "最近 过去"),
    (&[Weekend], "周末"),
    (&[Unit(Unit::Minute)], "分钟"),
    (&[Unit(Unit::Hour)], "小时 个小时"),
    (&[Unit(Unit::Day)], "天"),
    (&[Unit(Unit::Week)], "周 星期 礼拜"),
    (&[Unit(Unit::Month)], "个月"),
    (&[MonthSuffix], "月"),
    (&[Unit(Unit::Year)], "年"),
    (&[BeforeSuffix], "之前 以前"),
    (&[Ago], "前"),
    (&[Hours], "点"),
    (&[Filler], "日 号 的"),
    (&[In], "在"),
    (&[From], "从"),
    (&[Until], "到 至"),
    (&[And], "和"),
];
/// Numbers from 1 on.
const UNSPACED_NUMBERS: &str = "一 二 三 四 五 六 七 八 九 十 十一 十二";
/// Characters of the longest such word.
const CHARS_MAX: usize = 3;
/// Characters that name a weekday after the word for week, Monday first.
const WEEKDAY_CHARS: &str = "一二三四五六日";

static WORDS: LazyLock<HashMap<&str, Vec<Token>>> = LazyLock::new(|| {
    let mut words: HashMap<&str, Vec<Token>> = HashMap::from([("两", vec![Number(2)])]);
    let mut add = |lists: &[&'static str], token: &dyn Fn(usize) -> Vec<Token>| {
        for (at, name) in lists.iter().flat_map(|list| list.split(' ').enumerate()) {
            words.insert(name, token(at));
        }
    };
    for (tokens, names) in VOCABULARY.iter().chain(UNSPACED) {
        add(&[names], &|_| tokens.to_vec());
    }
    add(NUMBERS, &|at| vec![Number(at as i64 + 1)]);
    add(&[UNSPACED_NUMBERS], &|at| vec![Number(at as i64 + 1)]);
    add(MONTHS, &|at| vec![Month(at as i8 + 1)]);
    let weekday = |at| Weekday::from_monday_zero_offset(at as i8);
    add(WEEKDAYS, &|at| weekday(at).map(Weekday).into_iter().collect());
    words
});

impl Tokens {
    /// Reads a query.
    pub fn of(query: &str) -> Self {
        let mut all = Self::default();
        let mut is_french = query.trim().eq_ignore_ascii_case("hier");
        for word in query.split(|c: char| !c.is_alphanumeric()) {
            is_french |= FRENCH.contains(&&*fold_to_ascii(&word.to_lowercase()));
        }
        // Every part is a slice of `query`, so the distance of their addresses is its offset.
        let offset = |part: &str| part.as_ptr().addr() - query.as_ptr().addr();
        for chunk in query.split_whitespace() {
            let is_after_word = BEFORE_DATES.contains(&&*all.previous[1]);
            let day_and_month = german_date(chunk).filter(|_| is_after_word);
            let chunk = chunk.trim_matches(|c: char| !c.is_alphanumeric());
            if let Some(tokens) = day_and_month.or_else(|| numeric(chunk)) {
                all.push(&tokens, offset(chunk), chunk.len());
                all.remember(String::new());
                continue;
            }
            for part in chunk.split(|c: char| !c.is_alphanumeric() && c != '-') {
                let part = part.trim_matches('-');
                if all.tokens.len() >= TOKENS_MAX {
                    return all;
                }
                if part.contains(is_unspaced) {
                    all.push_unspaced(part, offset(part));
                } else if !part.is_empty() {
                    all.push_word(part, offset(part), is_french);
                }
            }
        }
        all
    }

    fn push_word(&mut self, word: &str, start: usize, is_french: bool) {
        let folded = fold_to_ascii(&word.to_lowercase());
        let is_after_number = matches!(self.tokens.last(), Some(Number(1..=12)));
        let follows = |words: [&str; 2]| self.previous == words;
        let is_plural = PLURALS.contains(&&*folded);
        match WORDS.get(folded.as_str()) {
            _ if word == "à" => self.expects_hour = true,
            // "a las 3", "a la una".
            _ if matches!(&*folded, "la" | "las")
                && self.previous[1] == "a"
                && self.tokens.last() == Some(&Number(1)) =>
            {
                self.pop();
                self.expects_hour = true;
            }
            _ if folded == "semana" && follows(["fin", "de"]) => {
                let first = self.pop().map_or(start, |it| it.start);
                self.push(&[Weekend], first, start + word.len() - first);
            }
            _ if folded == "an" && matches!(&*self.previous[1], "un" | "l") => {
                self.push(&[Unit(Unit::Year)], start, word.len());
            }
            Some(tokens) if is_plural && matches!(self.tokens.last(), Some(Last | Past)) => {
                self.push(&[&[Few], tokens.as_slice()].concat(), start, word.len());
            }
            _ if folded == "a" && self.previous == ["il", "y"] => {
                let first = self.pop().map_or(start, |_| self.pop().map_or(start, |it| it.start));
                self.push(&[AgoFirst], first, start + word.len() - first);
            }
            _ if folded == "am" && is_after_number => self.push(&[HalfDay(0)], start, word.len()),
            Some(_) if folded == "hier" && !is_french => self.push(&[Other], start, word.len()),
            Some(tokens) => self.push(tokens, start, word.len()),
            None => {
                let tokens = numeric(&folded).unwrap_or(vec![Other]);
                self.count_of_things(&folded, start);
                self.push(&tokens, start, word.len());
            }
        }
        self.remember(folded);
    }

    fn remember(&mut self, word: String) {
        self.previous.swap(0, 1);
        self.previous[1] = word;
    }

    /// "A list of 2000 items" names no year.
    fn count_of_things(&mut self, word: &str, start: usize) {
        let is_adjacent = self.ranges.last().is_some_and(|range| range.end + 1 == start);
        let is_counted = self.previous[0] == "of" && is_adjacent && !is_stop_word(word);
        if let Some(last) = self.tokens.last_mut().filter(|_| is_counted)
            && matches!(last, Year(_))
        {
            *last = Other;
        }
    }

    /// Reads text without spaces, in which numbers may be digits.
    fn push_unspaced(&mut self, text: &str, start: usize) {
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let at = start + text.len() - rest.len();
            let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
            let weekday =
                WEEKDAY_CHARS.chars().position(|c| c == first || c == '日' && first == '天');
            let is_after_week = self.tokens.last() == Some(&Unit(Unit::Week))
                && self.ranges.last().is_some_and(|range| range.end == at);
            let length = if digits > 0 {
                self.push(&numeric(&rest[..digits]).unwrap_or(vec![Other]), at, digits);
                digits
            } else if let Some(weekday) = weekday.filter(|_| is_after_week) {
                self.push_weekday(weekday, at, first.len_utf8());
                first.len_utf8()
            } else {
                let ends = rest.char_indices().map(|(at, c)| at + c.len_utf8()).take(CHARS_MAX);
                let known = |end| WORDS.get(&rest[..end]).map(|tokens| (end, tokens.as_slice()));
                let longest = ends.filter_map(known).last();
                let (length, tokens) = longest.unwrap_or((first.len_utf8(), &[Other]));
                self.push(tokens, at, length);
                length
            };
            rest = &rest[length..];
        }
    }

    /// A weekday of the week that the last token names, as in "last week Tuesday", or a weekday.
    fn push_weekday(&mut self, weekday: usize, at: usize, length: usize) {
        let Ok(weekday) = Weekday::from_monday_zero_offset(weekday as i8) else { return };
        let is_of_week = matches!(self.tokens.iter().nth_back(1), Some(Last | This | BeforeLast));
        let week = if is_of_week { None } else { self.pop() };
        let start = week.map_or(at, |week| week.start);
        self.push(&[Weekday(weekday)], start, at + length - start);
    }

    fn push(&mut self, tokens: &[Token], start: usize, length: usize) {
        for token in tokens {
            let is_hour = std::mem::take(&mut self.expects_hour);
            let token = match *token {
                Number(hour @ 0..=23) if is_hour => clock(hour, 0),
                token => token,
            };
            self.push_one(token, start..start + length);
        }
    }

    fn push_one(&mut self, token: Token, range: Range<usize>) {
        // "Sept 5" is a date; "sept jours" are seven days.
        if self.previous[1] == "sept"
            && let (Some(last @ Number(7)), Number(1..=31)) = (self.tokens.last_mut(), token)
        {
            *last = Month(9);
        }
        let last = self.tokens.last().copied();
        let (token, replaces) = match (last, token) {
            (_, Filler) | (Some(Year(_)), Unit(Unit::Year)) => return,
            (_, In) => {
                self.expects = true;
                return;
            }
            (Some(Number(hour @ 0..=23)), Hours) => (clock(hour, 0), true),
            (Some(Number(hour @ 1..=12)), HalfDay(later)) => {
                (clock(hour % 12 + i64::from(later), 0), true)
            }
            (Some(Number(month @ 1..=12)), MonthSuffix) => (Month(month as i8), true),
            (_, MonthSuffix) => (Unit(Unit::Month), false),
            _ => (token, false),
        };
        let before = if replaces { self.pop() } else { None };
        self.tokens.push(token);
        self.ranges.push(before.map_or(range.start, |before| before.start)..range.end);
        self.is_expected.push(self.expects);
        self.expects = match token {
            From | To | Since | Until | Between | Before | After => true,
            And => self.tokens.contains(&Between),
            _ => false,
        };
    }

    fn pop(&mut self) -> Option<Range<usize>> {
        self.tokens.pop();
        self.expects = self.is_expected.pop()?;
        self.ranges.pop()
    }
}

/// The tokens of a text that begins with a digit: a date, a time of the day, a number, or two
/// numbers as in "3-5".
fn numeric(text: &str) -> Option<Vec<Token>> {
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
        (_, "st" | "nd" | "rd" | "th" | "er" | "e") => Number(number(digits)?),
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
fn german_date(text: &str) -> Option<Vec<Token>> {
    let text = text.trim_end_matches([',', ';', ':', '?', '!']);
    let (day, month) = text.strip_suffix('.')?.split_once('.')?;
    let (day, month) = (number(day)?, number(month)?);
    let is_date = (1..=31).contains(&day) && (1..=12).contains(&month);
    is_date.then(|| vec![Number(day), Month(month as i8)])
}

fn clock(hour: i64, minute: i64) -> Token {
    Time::new(hour as i8, minute as i8, 0, 0).map_or(Other, Clock)
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
