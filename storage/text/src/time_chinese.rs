//! The words of times in Chinese, which has no spaces: phrases, longest first, words that end or begin as a time does,
//! and numerals. Simplified and traditional characters.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::calendar::{DayPart, Unit};
use crate::time_tables::Token::{self, *};
use crate::time_tables::{Names, weekday};

/// Chinese phrases.
const CHINESE: &[(&[Token], Names)] = &[
    (&[Day(-3)], "大前天"),
    (&[Day(-2)], "前天,前日"),
    (&[Day(-1)], "昨天,昨日"),
    (&[Day(0)], "今天,今日"),
    (&[Day(-1), DayPart(DayPart::Night)], "昨晚"),
    (&[Day(0), DayPart(DayPart::Night)], "今晚"),
    (&[Day(0), DayPart(DayPart::Morning)], "今早"),
    (&[DayPart(DayPart::Morning)], "早上,早晨,上午"),
    (&[DayPart(DayPart::Noon)], "中午"),
    (&[DayPart(DayPart::Afternoon)], "下午"),
    (&[DayPart(DayPart::Evening)], "晚上"),
    (&[DayPart(DayPart::Night)], "夜里,夜裡"),
    (&[Last, Unit(Unit::Year)], "去年"),
    (&[BeforeLast, Unit(Unit::Year)], "前年"),
    (&[This, Unit(Unit::Year)], "今年"),
    (&[Next], "明年,后年,明天,后天,每周,每週,每天,每月,每年"),
    (&[Weekend], "周末,週末"),
    (&[Last, Weekend], "上周末,上週末,上个周末,上個週末"),
    (&[Past], "最近,过去,過去"),
    (&[BeforeSuffix], "之前,以前"),
    (&[Few], "几,幾"),
    (&[On], "在,于,於,自"),
    (&[From], "从,從"),
    (&[Until], "到,至"),
    (&[And], "和,与,與"),
    (&[Filler], "的"),
];
/// What may follow a number at once, longest first.
const CHINESE_AFTER_NUMBERS: &[(&[Token], Names)] = &[
    (&[Unit(Unit::Minute)], "分钟,分鐘"),
    (&[Unit(Unit::Hour)], "个小时,個小時,小时,小時"),
    (&[Unit(Unit::Week)], "个星期,個星期,个礼拜,個禮拜,星期,周,週"),
    (&[Unit(Unit::Month)], "个月,個月"),
    (&[Unit(Unit::Day)], "天"),
    (&[Unit(Unit::Year)], "年"),
    (&[MonthSuffix], "月份,月"),
    (&[DaySuffix], "日,号,號"),
    (&[Hours], "点,點"),
];
/// What may follow a unit at once.
const CHINESE_AGO: &[&str] = &["之前", "以前", "前"];
/// Words that end or begin as a time does: "目前", "日本", "周期".
const CHINESE_OTHERS: Names = "日本,版本,目前,基本,根本,成本,样本,樣本,笔记本,账本,楼上,身上,书本,書本,课本,剧本,文本,脚本,腳本,资本,副本,标本,原本,当前,當前,\
    先前,提前,眼前,面前,从前,空前,事前,会前,课前,睡前,餐前,饭前,马上,以上,网上,线上,路上,一周年,一天到晚,第一,第二,第三,唯一,统一,\
    一些,一起,一样,一次,一下,一般,一定,一直";
/// Characters after which these words are no times: "本周期" is a period.
const CHINESE_CONTINUED: Names = "周期,周年,周围,周边,周到,周转,周密,周报,天气,天空,天然,天才,天津,天使,年级,年龄,年代,年轻,年薪,年终,年报,月亮,月饼,月薪,月球";
/// Phrases that no other word continues.
const CHINESE_SURE: [&str; 4] = ["今天", "昨天", "今日", "昨日"];

/// Chinese: phrases, and the number of characters of the longest one.
pub struct Chinese {
    phrases: HashMap<String, Vec<Token>>,
    longest: usize,
}

/// The table of Chinese.
pub static CHINESE_TABLE: LazyLock<Chinese> = LazyLock::new(|| {
    let mut phrases: HashMap<String, Vec<Token>> = HashMap::new();
    for (tokens, names) in CHINESE {
        phrases.extend(names.split(',').map(|name| (name.to_owned(), tokens.to_vec())));
    }
    phrases.extend(CHINESE_OTHERS.split(',').map(|name| (name.to_owned(), vec![Other])));
    let which = [
        ("上上个", BeforeLast),
        ("上上", BeforeLast),
        ("上", Last),
        ("上个", Last),
        ("上個", Last),
    ];
    let which = which.into_iter().chain([
        ("这", This),
        ("這", This),
        ("这个", This),
        ("這個", This),
        ("本", This),
    ]);
    let which: Vec<_> = which.chain([("下", Next), ("下个", Next), ("下個", Next)]).collect();
    for week in ["周", "週", "星期", "礼拜", "禮拜"] {
        for (day, name) in "一,二,三,四,五,六,日".split(',').chain(["天"]).enumerate() {
            let Some(weekday) = weekday(day.min(6)) else { continue };
            phrases.insert(format!("{week}{name}"), vec![weekday]);
            for (prefix, token) in &which {
                let tokens = vec![*token, Unit(Unit::Week), weekday];
                phrases.insert(format!("{prefix}{week}{name}"), tokens);
            }
        }
        for (prefix, token) in &which {
            phrases.insert(format!("{prefix}{week}"), vec![*token, Unit(Unit::Week)]);
        }
    }
    for (prefix, token) in &which {
        for month in ["月", "个月", "個月"] {
            phrases.insert(format!("{prefix}{month}"), vec![*token, Unit(Unit::Month)]);
        }
    }
    let longest = phrases.keys().map(|phrase| phrase.chars().count()).max().unwrap_or(0);
    Chinese { phrases, longest }
});

impl Chinese {
    /// The longest phrase at the beginning of a text: its bytes and its meaning. `last` is the token just before it.
    pub fn phrase(&self, text: &str, last: Option<Token>) -> Option<(usize, &[Token])> {
        let begins = |names: Names| names.split(',').find(|name| text.starts_with(name));
        match last {
            Some(Number(_) | Count(_) | Few | Year(_)) => {
                let after = CHINESE_AFTER_NUMBERS.iter();
                let found =
                    after.filter_map(|(tokens, names)| Some((begins(names)?.len(), *tokens)));
                if let Some(found) = found.max_by_key(|(length, _)| *length) {
                    return Some(found);
                }
            }
            Some(Unit(_)) => {
                if let Some(ago) = CHINESE_AGO.iter().find(|ago| text.starts_with(**ago)) {
                    // "前端" is a front end.
                    let is_continued =
                        text[ago.len()..].starts_with(['端', '后', '進', '进', '景', '期']);
                    return Some((ago.len(), if is_continued { &[Other] } else { &[Ago] }));
                }
            }
            _ => {}
        }
        let ends = text.char_indices().map(|(at, c)| at + c.len_utf8()).take(self.longest);
        let known = |end: usize| Some((end, self.phrases.get(&text[..end])?.as_slice()));
        let (end, tokens) = ends.filter_map(known).last()?;
        if CHINESE_SURE.contains(&&text[..end]) {
            return Some((end, tokens));
        }
        let last = text[..end].char_indices().last().map_or(0, |(at, _)| at);
        let is_continued = CHINESE_CONTINUED.split(',').any(|name| text[last..].starts_with(name));
        Some((end, if is_continued { &[Other] } else { tokens }))
    }
}

/// The number at the beginning of a text in Chinese numerals, up to 9,999: its bytes and its value.
pub fn chinese_number(text: &str) -> Option<(usize, Option<i64>)> {
    let (mut total, mut digit, mut length, mut is_number) = (0, None, 0, true);
    for c in text.chars() {
        let value = match c {
            '零' | '〇' => 0,
            '两' | '兩' => 2,
            _ => match "一二三四五六七八九".chars().position(|known| known == c) {
                Some(at) => at as i64 + 1,
                None => {
                    let Some(scale) = [('十', 10), ('百', 100), ('千', 1_000)]
                        .iter()
                        .find(|(name, _)| *name == c)
                    else {
                        break;
                    };
                    is_number &= total == 0 || total % (scale.1 * 10) == 0;
                    total += digit.take().unwrap_or(1) * scale.1;
                    length += c.len_utf8();
                    continue;
                }
            },
        };
        // Digits one after the other are no such number.
        is_number &= digit.is_none_or(|digit| digit == 0);
        digit = Some(value);
        length += c.len_utf8();
    }
    (length > 0).then(|| (length, is_number.then(|| total + digit.unwrap_or(0))))
}
