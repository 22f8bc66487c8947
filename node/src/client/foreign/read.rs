//! Reads files as people have them: with a byte order mark, in UTF-16, as an array or as lines, with half an emoji,
//! two objects on a line, or the last line cut.

use std::borrow::Cow;
use std::path::Path;

use serde::Serialize;
use serde_json::Value;

use crate::error::unusable;
use crate::failure::Failure;

/// Characters of an unreadable line that a report has.
const SHOWN_CHARS: usize = 200;

/// An entry that did not come in.
#[derive(Serialize)]
pub(crate) struct Reject {
    /// File, line or entry.
    pub(crate) place: String,
    pub(crate) reason: String,
    /// What was read, as far as it could be.
    pub(crate) entry: Value,
}

/// A value of a file.
pub(super) struct Entry {
    pub(super) place: String,
    pub(super) value: Value,
}

/// The text of a file, without a byte order mark.
pub(super) fn text_of_file(path: &Path) -> Result<String, Failure> {
    let bytes = std::fs::read(path).map_err(unusable(path))?;
    Ok(decoded(bytes).map_err(unusable(path))?)
}

/// Bytes in UTF-8, or in UTF-16 with a byte order mark.
pub(super) fn decoded(bytes: Vec<u8>) -> Result<String, &'static str> {
    let order: fn([u8; 2]) -> u16 = match bytes[..] {
        [0xff, 0xfe, ..] => u16::from_le_bytes,
        [0xfe, 0xff, ..] => u16::from_be_bytes,
        _ => {
            let text = String::from_utf8(bytes).map_err(|_| "it is neither UTF-8 nor UTF-16")?;
            return Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text));
        }
    };
    let units = bytes[2..].chunks_exact(2).map(|pair| order([pair[0], pair[1]]));
    Ok(char::decode_utf16(units).map(|it| it.unwrap_or(char::REPLACEMENT_CHARACTER)).collect())
}

/// The values of a text, and what is none. Elements of an array are values of their own.
pub(super) fn read_values(text: &str) -> (Vec<Entry>, Vec<Reject>) {
    let text = mended(text);
    let (mut values, mut unreadable) = (Vec::new(), Vec::new());
    let (mut at, mut line, mut counted, mut is_array) = (0, 1, 0, false);
    loop {
        let rest = &text[at..];
        let begin = rest.find(|char: char| !char.is_whitespace() && !"[],".contains(char));
        let Some(begin) = begin else { return (values, unreadable) };
        is_array |= rest[..begin].contains('[');
        at += begin;
        line += text[counted..at].matches('\n').count();
        counted = at;
        let place = match is_array {
            true => format!("entry {}, line {line}", values.len() + unreadable.len() + 1),
            false => format!("line {line}"),
        };
        let rest = &text[at..];
        let mut stream = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
        match stream.next() {
            Some(Ok(value)) if value.is_object() => {
                at += stream.byte_offset();
                values.push(Entry { place, value });
            }
            read => {
                // What follows in the line may belong to it.
                let end = rest.find('\n').unwrap_or(rest.len());
                let reason = match read {
                    Some(Err(error)) => format!("it is no JSON ({:?})", error.classify()),
                    _ => "it is no object".to_owned(),
                };
                let shown: String = rest[..end].chars().take(SHOWN_CHARS).collect();
                unreadable.push(Reject { place, reason, entry: shown.into() });
                at += end;
                // Of an object over several lines, the rest is passed over.
                while let Some(next) = text[at..].find(|char: char| !char.is_whitespace())
                    && !text[at + next..].starts_with(['{', '['])
                {
                    at += next + text[at + next..].find('\n').unwrap_or(text.len() - at - next);
                }
            }
        }
    }
}

/// Escaped halves of surrogate pairs that stand alone become U+FFFD: JSON has no other way to read the text.
fn mended(text: &str) -> Cow<'_, str> {
    if !text.contains("\\ud") && !text.contains("\\uD") {
        return text.into();
    }
    let unit = |at: usize| {
        let digits = text.get(at..at + 6)?.strip_prefix("\\u")?;
        u16::from_str_radix(digits, 16).ok()
    };
    let (mut mended, mut at) = (String::with_capacity(text.len()), 0);
    while let Some(next) = text[at..].find('\\') {
        mended += &text[at..at + next];
        at += next;
        let length = match (unit(at), unit(at + 6)) {
            (Some(0xd800..0xdc00), Some(0xdc00..0xe000)) => 12,
            (Some(0xd800..0xe000), _) => {
                mended += "\\ufffd";
                at += 6;
                continue;
            }
            (Some(_), _) => 6,
            // The escaped character has one byte, or belongs to what follows.
            (None, _) => 1 + text[at + 1..].chars().next().map_or(0, char::len_utf8),
        };
        mended += &text[at..at + length];
        at += length;
    }
    mended += &text[at..];
    mended.into()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(text: &str) -> (Vec<Value>, Vec<(String, String)>) {
        let (values, unreadable) = read_values(text);
        let reasons = unreadable.into_iter().map(|it| (it.place, it.reason));
        (values.into_iter().map(|it| it.value).collect(), reasons.collect())
    }

    #[test]
    fn values_are_read_in_all_shapes() {
        let both = vec![json!({"a": 1}), json!({"a": 2})];
        for text in [
            r#"[{"a": 1}, {"a": 2}]"#,
            "{\"a\": 1}\r\n\r\n{\"a\": 2}",
            r#"{"a": 1}{"a": 2}"#,
            "[\n{\"a\":\n1},\n{\"a\": 2}\n]\n",
        ] {
            assert_eq!(read(text), (both.clone(), vec![]), "{text}");
        }
        assert_eq!(read(" \n[]").0, Vec::<Value>::new());
    }

    #[test]
    fn what_cannot_be_read_is_named_alone() {
        let (values, reasons) = read("{\"a\": 1}\n{\"a\": oops}\n{\"a\": 2}\n3\n{\"a\": 3, \"b");
        assert_eq!(values, [json!({"a": 1}), json!({"a": 2})]);
        let places: Vec<_> = reasons.iter().map(|(place, _)| place.as_str()).collect();
        assert_eq!(places, ["line 2", "line 4", "line 5"], "{reasons:?}");
    }

    #[test]
    fn half_an_emoji_is_a_replacement_character() {
        let (values, reasons) = read(r#"{"a": "cut \ud83d", "b": "\ud83d\ude00 \\ud83d \udc00"}"#);
        assert_eq!(
            values,
            [json!({"a": "cut \u{fffd}", "b": "😀 \\ud83d \u{fffd}"})],
            "{reasons:?}"
        );
    }

    #[test]
    fn bytes_are_decoded_by_their_mark() {
        let wide = |order: fn(u16) -> [u8; 2]| {
            "\u{feff}né".encode_utf16().flat_map(order).collect::<Vec<_>>()
        };
        assert_eq!(decoded(wide(u16::to_le_bytes)).unwrap(), "né");
        assert_eq!(decoded(wide(u16::to_be_bytes)).unwrap(), "né");
        assert_eq!(decoded("\u{feff}né".into()).unwrap(), "né");
        assert!(decoded(b"caf\xe9".to_vec()).is_err());
    }
}
