//! Temporal expressions in queries: "last week", "3 days ago", "in March", "vor drei Tagen".
//!
//! The parser takes the first expression of a query and returns its time window, in the time zone
//! of the caller and relative to the cluster clock. It tries each word as the start of an expression
//! in a fixed grammar, whose words are those of `text::time_words`. `search` boosts memories created
//! in or near the window.

use std::collections::HashSet;
use std::sync::LazyLock;

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use text::time_grammar::Grammar;
use text::time_tables::Token;
use text::time_words::Tokens;
use text::tokenizer::content_words;

use crate::id::Timestamp;

/// The time window of a temporal expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    /// The expression, as in the query.
    pub reference: String,
    /// Its first byte in the query.
    at: usize,
    /// First instant of the window.
    pub start: Timestamp,
    /// First instant after the window.
    pub end: Timestamp,
    /// Whether the meaning depends on the current day.
    pub is_relative: bool,
}

/// Words that ask for anything, in the languages of `text::time_words`.
const ASKING: [&str; 9] = [
    "anything everything something things stuff happen happened going note notes memory memories",
    "remember new list show tell know stored saved noted recorded learned",
    "discuss discussed talk talked decide decided meet met say said work worked",
    "habe haben hast hatte gemacht getan passiert geschehen los gab war was ich wir mir du es ist am \
     an im um vom von der die das den dem alles zeig notizen erinnerungen gespeichert notiert gelernt",
    "qu'ai qu'est s'est qu que quoi est ce ai je j nous avons fait s il passe passé noté enregistré \
     appris notes souvenirs tout le la les l du de des d en au",
    "j'ai n'ai qu'avons qu'as besprochen entschieden gesagt gearbeitet getroffen wer wen",
    "qué hice hizo hicimos pasó paso he hemos hecho fue guardé anoté notas recuerdos todo el los las \
     del por",
    "我 我们 做了什么 我做了什么 我们做了什么",
    "发生了什么 干了什么 有什么",
];

/// The terms of these words.
static ASKING_TERMS: LazyLock<HashSet<String>> = LazyLock::new(|| {
    ASKING.into_iter().flat_map(|words| content_words(words, WORDS_MAX)).collect()
});

/// Words of a query that are parsed.
const WORDS_MAX: usize = 128;

impl Window {
    /// Words of `query` that only name a relative time, as search terms: "last" and "week" of "what broke last
    /// week". They say little about the memories that the query is about.
    pub fn words(&self, query: &str) -> Vec<String> {
        let Some((before, after)) = self.around(query).filter(|_| self.is_relative) else {
            return Vec::new();
        };
        let others = content_words(&format!("{before} {after}"), WORDS_MAX);
        let mut words = content_words(&self.reference, WORDS_MAX);
        words.retain(|word| !others.contains(word));
        words
    }

    /// The text before the expression, and after it.
    fn around<'q>(&self, query: &'q str) -> Option<(&'q str, &'q str)> {
        Some((query.get(..self.at)?, query.get(self.at + self.reference.len()..)?))
    }

    /// Whether `query` has no content words beside the expression: "what did I do last Tuesday?".
    pub fn is_all_of(&self, query: &str) -> bool {
        let Some((before, after)) = self.around(query) else { return false };
        // The Chinese "in" is no part of the expression.
        let before = before.trim_end_matches('在');
        let rest = content_words(&format!("{before} {after}"), WORDS_MAX);
        rest.iter().all(|word| ASKING_TERMS.contains(word))
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
pub fn window(query: &str, now: Timestamp, zone: &TimeZone) -> Option<Window> {
    let now = zone.to_datetime(jiff::Timestamp::from_microsecond(now.0).ok()?);
    let words = Tokens::of(query);
    let (at, length, (start, end)) = Grammar::new(&words, now).first()?;
    let instant = |time: DateTime| {
        let instant = zone.to_ambiguous_timestamp(time).compatible().ok()?;
        Some(Timestamp(instant.as_microsecond()))
    };
    let found = at..at + length;
    let is_date = |token: &Token| {
        matches!(token, Token::Month(_) | Token::Year(_) | Token::Date(_) | Token::YearMonth(..))
    };
    Some(Window {
        at: words.ranges[at].start,
        reference: query[words.ranges[at].start..words.ranges[found.end - 1].end].to_owned(),
        start: instant(start)?,
        end: instant(end)?,
        is_relative: !words.tokens[found].iter().any(is_date),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Saturday, 21 November 2026, 17:30 UTC.
    const NOW: Timestamp = Timestamp(1_795_282_200_000_000);

    fn parsed(query: &str) -> Option<(String, String)> {
        let window = window(query, NOW, &TimeZone::UTC)?;
        let text = |at: Timestamp| {
            let time = jiff::Timestamp::from_microsecond(at.0).unwrap().to_string();
            time.trim_end_matches("T00:00:00Z").trim_end_matches(":00Z").to_owned()
        };
        Some((window.reference, format!("{}..{}", text(window.start), text(window.end))))
    }

    #[track_caller]
    fn names(query: &str, reference: &str, days: &str) {
        assert_eq!(parsed(query), Some((reference.to_owned(), days.to_owned())), "{query}");
    }

    #[test]
    fn relative_expressions_are_calendar_units_before_today() {
        names("what did I do today?", "today", "2026-11-21..2026-11-22");
        names("Yesterday's meeting", "Yesterday", "2026-11-20..2026-11-21");
        names("the day before yesterday", "day before yesterday", "2026-11-19..2026-11-20");
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
        names("since monday", "since monday", "2026-11-16..2026-11-22");
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
        names("since 2024-02-29", "since 2024-02-29", "2024-02-29..2026-11-22");
        names("since 2027-05-01", "since 2027-05-01", "2027-05-01..2027-05-02");
    }

    #[test]
    fn hours_and_parts_of_days_are_read() {
        names("this morning", "this morning", "2026-11-21T05:00..2026-11-21T12:00");
        names("who called last night?", "last night", "2026-11-20T18:00..2026-11-21T06:00");
        names(
            "yesterday in the afternoon",
            "yesterday in the afternoon",
            "2026-11-20T12:00..2026-11-20T18:00",
        );
        names(
            "on the evening of 3 November",
            "evening of 3 November",
            "2026-11-03T17:00..2026-11-04",
        );
        names("yesterday at 3 pm", "yesterday at 3 pm", "2026-11-20T14:00..2026-11-20T16:00");
        names(
            "the call at 15:30 on friday",
            "15:30 on friday",
            "2026-11-20T14:30..2026-11-20T16:30",
        );
        names(
            "the morning of last tuesday",
            "morning of last tuesday",
            "2026-11-17T05:00..2026-11-17T12:00",
        );
        names("2 hours ago", "2 hours ago", "2026-11-21T15:00..2026-11-21T16:00");
        names("ten minutes ago", "ten minutes ago", "2026-11-21T17:10..2026-11-21T17:30");
        names("the last 3 hours", "last 3 hours", "2026-11-21T14:30..2026-11-22");
    }

    #[test]
    fn ranges_and_weekends_are_read() {
        names("last weekend", "last weekend", "2026-11-14..2026-11-16");
        names("what did we do on the weekend", "weekend", "2026-11-21..2026-11-23");
        names("between 3 and 5 November", "between 3 and 5 November", "2026-11-03..2026-11-06");
        names("from March 3 to 5, 2025", "from March 3 to 5, 2025", "2025-03-03..2025-03-06");
        names("the offsite on 3-5 November", "3-5 November", "2026-11-03..2026-11-06");
        names("between March and May", "between March and May", "2026-03-01..2026-06-01");
        names("from monday to wednesday", "from monday to wednesday", "2026-11-16..2026-11-19");
        names("the week before last", "week before last", "2026-11-02..2026-11-09");
        names("Friday last week", "Friday last week", "2026-11-13..2026-11-14");
        names("March last year", "March last year", "2025-03-01..2025-04-01");
        names("before yesterday", "before yesterday", "1970-01-01..2026-11-20");
        names("until March", "until March", "1970-01-01..2026-04-01");
        names("after 2026-11-03", "after 2026-11-03", "2026-11-04..2026-11-22");
        names("the 3rd of November", "3rd of November", "2026-11-03..2026-11-04");
        names("on Tuesday, 3 November", "Tuesday, 3 November", "2026-11-03..2026-11-04");
        names("am 03.11.2026", "03.11.2026", "2026-11-03..2026-11-04");
        names("3/15/2026", "3/15/2026", "2026-03-15..2026-03-16");
    }

    #[test]
    fn other_languages_are_read() {
        for (query, reference, days) in [
            ("was habe ich gestern gemacht", "gestern", "2026-11-20..2026-11-21"),
            ("die Besprechung von vorgestern", "vorgestern", "2026-11-19..2026-11-20"),
            ("vor drei Tagen", "vor drei Tagen", "2026-11-18..2026-11-19"),
            ("vor zwei Wochen", "vor zwei Wochen", "2026-11-02..2026-11-09"),
            ("letzte Woche", "letzte Woche", "2026-11-09..2026-11-16"),
            ("letzten Dienstag", "letzten Dienstag", "2026-11-17..2026-11-18"),
            ("in den letzten 3 Tagen", "letzten 3 Tagen", "2026-11-18..2026-11-22"),
            ("gestern Abend", "gestern Abend", "2026-11-20T17:00..2026-11-21"),
            ("heute um 15 Uhr", "heute um 15 Uhr", "2026-11-21T14:00..2026-11-21T16:00"),
            ("am 3. November", "3. November", "2026-11-03..2026-11-04"),
            ("vom 3. bis 5. November", "vom 3. bis 5. November", "2026-11-03..2026-11-06"),
            ("im März", "März", "2026-03-01..2026-04-01"),
            ("am Wochenende", "Wochenende", "2026-11-21..2026-11-23"),
            ("la réunion d'hier soir", "hier soir", "2026-11-20T17:00..2026-11-21"),
            ("avant-hier", "avant-hier", "2026-11-19..2026-11-20"),
            ("il y a 3 jours", "il y a 3 jours", "2026-11-18..2026-11-19"),
            ("la semaine dernière", "semaine dernière", "2026-11-09..2026-11-16"),
            ("mardi dernier", "mardi dernier", "2026-11-17..2026-11-18"),
            ("en août", "août", "2026-08-01..2026-09-01"),
            ("le 5 mars 2024", "5 mars 2024", "2024-03-05..2024-03-06"),
            (
                "¿qué hice ayer por la tarde?",
                "ayer por la tarde",
                "2026-11-20T12:00..2026-11-20T18:00",
            ),
            ("hace dos semanas", "hace dos semanas", "2026-11-02..2026-11-09"),
            ("el mes pasado", "mes pasado", "2026-10-01..2026-11-01"),
            ("el lunes pasado", "lunes pasado", "2026-11-16..2026-11-17"),
            ("5 de marzo de 2024", "5 de marzo de 2024", "2024-03-05..2024-03-06"),
            ("我昨天做了什么", "昨天", "2026-11-20..2026-11-21"),
            ("三天前的会议", "三天前", "2026-11-18..2026-11-19"),
            ("上周的决定", "上周", "2026-11-09..2026-11-16"),
            ("上周二", "上周二", "2026-11-10..2026-11-11"),
            ("周五", "周五", "2026-11-20..2026-11-21"),
            ("上个月", "上个月", "2026-10-01..2026-11-01"),
            ("去年", "去年", "2025-01-01..2026-01-01"),
            ("2024年3月5日", "2024年3月5日", "2024-03-05..2024-03-06"),
            ("11月3号", "11月3号", "2026-11-03..2026-11-04"),
            ("昨天下午3点", "昨天下午3点", "2026-11-20T14:00..2026-11-20T16:00"),
            ("最近3天", "最近3天", "2026-11-18..2026-11-22"),
        ] {
            names(query, reference, days);
        }
        for query in ["was steht hier über den Vertrag", "Wer arbeitet hier?", "Hier wohnt Peter"]
        {
            assert_eq!(parsed(query), None, "hier is here");
        }
        names("notes d'hier", "hier", "2026-11-20..2026-11-21");
        names("hier", "hier", "2026-11-20..2026-11-21");
    }

    #[test]
    fn less_usual_forms_are_read() {
        for (query, reference, days) in [
            (
                "between Monday and Wednesday last week",
                "between Monday and Wednesday last week",
                "2026-11-09..2026-11-12",
            ),
            ("in den letzten Tagen", "letzten Tagen", "2026-11-14..2026-11-22"),
            ("the past few weeks", "past few weeks", "2026-10-03..2026-11-22"),
            ("a few days ago", "a few days ago", "2026-11-14..2026-11-20"),
            ("el fin de semana pasado", "fin de semana pasado", "2026-11-14..2026-11-16"),
            (
                "ayer a las 3 de la tarde",
                "ayer a las 3 de la tarde",
                "2026-11-20T14:00..2026-11-20T16:00",
            ),
            ("hier à la maison", "hier", "2026-11-20..2026-11-21"),
            ("hier à 15h", "hier à 15h", "2026-11-20T14:00..2026-11-20T16:00"),
            ("am 3.11. im Büro", "3.11", "2026-11-03..2026-11-04"),
            ("on Sept 5", "Sept 5", "2026-09-05..2026-09-06"),
            ("il y a un an", "il y a un an", "2025-01-01..2026-01-01"),
            ("l'an dernier", "an dernier", "2025-01-01..2026-01-01"),
            ("il y a quinze jours", "il y a quinze jours", "2026-11-06..2026-11-07"),
            ("2026-11-03T15:00", "2026-11-03T15:00", "2026-11-03T14:00..2026-11-03T16:00"),
        ] {
            names(query, reference, days);
        }
    }

    #[test]
    fn whole_numbers_are_read() {
        for (query, reference, days) in [
            ("二十天前", "二十天前", "2026-11-01..2026-11-02"),
            ("一个月前", "一个月前", "2026-10-01..2026-11-01"),
            ("十分钟前", "十分钟前", "2026-11-21T17:10..2026-11-21T17:30"),
            ("in the year 2024", "2024", "2024-01-01..2025-01-01"),
            ("was geschah im Jahr 2024", "2024", "2024-01-01..2025-01-01"),
            ("from Jan to May", "from Jan to May", "2026-01-01..2026-06-01"),
            ("十五天前的会议", "十五天前", "2026-11-06..2026-11-07"),
            ("twenty one days ago", "twenty one days ago", "2026-10-31..2026-11-01"),
            ("twenty-one days ago", "twenty-one days ago", "2026-10-31..2026-11-01"),
            ("vor einundzwanzig Tagen", "vor einundzwanzig Tagen", "2026-10-31..2026-11-01"),
            ("il y a vingt et un jours", "il y a vingt et un jours", "2026-10-31..2026-11-01"),
            ("hace treinta y dos días", "hace treinta y dos días", "2026-10-20..2026-10-21"),
            ("thirty days ago", "thirty days ago", "2026-10-22..2026-10-23"),
            ("十一月二十三日", "十一月二十三日", "2025-11-23..2025-11-24"),
            (
                "two weeks and three days ago",
                "two weeks and three days ago",
                "2026-11-04..2026-11-05",
            ),
            (
                "vor zwei Wochen und drei Tagen",
                "vor zwei Wochen und drei Tagen",
                "2026-11-04..2026-11-05",
            ),
            ("上週的決定", "上週", "2026-11-09..2026-11-16"),
            ("兩天前", "兩天前", "2026-11-19..2026-11-20"),
            ("上個月", "上個月", "2026-10-01..2026-11-01"),
        ] {
            names(query, reference, days);
        }
        for query in
            ["one hundred and five days ago", "2.5 days ago", "half a year ago", "1 000 days ago"]
        {
            assert_eq!(parsed(query), None, "{query}");
        }
    }

    #[test]
    fn days_begin_at_midnight_of_the_zone() {
        let zone = TimeZone::get("America/Los_Angeles").unwrap();
        // It is 09:30 there, in winter: eight hours behind.
        let window = window("today", NOW, &zone).unwrap();
        let eight = 8 * 3_600 * Timestamp::SECOND_MICROS;
        assert_eq!(NOW.since(window.start), NOW.0 % Timestamp::DAY_MICROS - eight);
        let tokyo = TimeZone::fixed(jiff::tz::offset(9));
        let window = super::window("today", NOW, &tokyo).unwrap();
        assert!(window.start > Timestamp(NOW.0 - 3 * 3_600 * Timestamp::SECOND_MICROS));
    }

    #[test]
    fn similar_words_are_no_temporal_expression() {
        for query in [
            "",
            "may I march there",
            "order 2024 boxes",
            "list of 2000 items",
            "windows of 2019 server",
            "Python 3.11.",
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
    fn words_of_relative_expressions_are_known() {
        let words = |query: &str| window(query, NOW, &TimeZone::UTC).unwrap().words(query);
        assert_eq!(words("what broke last week in billing"), ["last", "week"]);
        assert_eq!(words("the last tag of last week"), ["week"], "one is also another word");
        assert!(words("notes of 2026-03-05").is_empty());
        assert!(words("the March budget, in March").is_empty());
    }

    #[test]
    fn some_queries_ask_for_a_time_only() {
        let is_all = |query: &str| window(query, NOW, &TimeZone::UTC).unwrap().is_all_of(query);
        for query in [
            "What did I do last Tuesday?",
            "what happened on 3 November",
            "yesterday",
            "Was habe ich gestern gemacht?",
            "qu'ai-je fait hier ?",
            "¿Qué hice ayer?",
            "我昨天做了什么？",
            "what did we discuss yesterday?",
            "who did I meet last Tuesday",
            "Was haben wir letzte Woche besprochen?",
            "Qu'est-ce que j'ai fait hier?",
            "Que s'est-il passé la semaine dernière ?",
            "我11月3日做了什么？",
            "2026年11月20日发生了什么",
        ] {
            assert!(is_all(query), "{query}");
        }
        for query in ["what broke last week", "the budget of March 2025", "trip in december"] {
            assert!(!is_all(query), "{query}");
        }
    }

    #[test]
    fn longest_queries_are_read_at_once() {
        let bytes = 65_536;
        for unit in ["1T", "人", "last ", "vor ", "a."] {
            let query = unit.repeat(bytes / unit.len());
            assert_eq!(parsed(&query), None, "{unit}");
        }
        assert_eq!(parsed("yesterday 270h").unwrap().0, "yesterday");
        let split = window("hierarchie notes d'hier", NOW, &TimeZone::UTC).unwrap();
        assert_eq!(split.words("hierarchie notes d'hier"), ["hier"]);
    }

    #[test]
    fn distance_counts_days_from_either_end() {
        let window = window("yesterday", NOW, &TimeZone::UTC).unwrap();
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
            if let Some(window) = window(&text, Timestamp(now), &TimeZone::UTC) {
                prop_assert!(window.start < window.end && text.contains(&window.reference));
            }
        }
    }
}
