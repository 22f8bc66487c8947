//! Exports of other products as lines that an import reads. The id of a memory is a hash of where it comes from,
//! so the same export twice adds nothing.
//!
//! One rule holds for all of them: entries that can be read come in. The others are counted, and named with their
//! place and the reason. Nothing is left out in silence.

mod chats;
mod found;
mod graph;
mod markdown;
mod mem0;
mod read;

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;

use clap::ValueEnum;
use serde_json::Value;

pub(super) use crate::client::foreign::found::Conversion;
pub(super) use crate::client::foreign::read::Reject;
use crate::client::foreign::read::{Entry, read_values, text_of_file};
use crate::error::unusable;
use crate::failure::{Exit, Failure};

/// Bytes of the first line of a Hearth export.
const FIRST_BYTES: u64 = 4 << 10;

/// What a file holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(super) enum Source {
    /// A file of `hearth export`
    Hearth,
    /// Memories of mem0 or `OpenMemory`: an array, lines, or an object with `results` or `memories`
    Mem0,
    /// The file memory.jsonl of the reference memory server of MCP
    KnowledgeGraph,
    /// conversations.json of an export of ChatGPT: what the user wrote and said
    Chatgpt,
    /// conversations.json of an export of Claude: what the user wrote, and the texts of attachments
    Claude,
    /// A folder with Markdown files and subfolders, one memory for each file
    Markdown,
}

/// What a file holds, by its first entries.
///
/// # Errors
/// None of the formats has such entries.
pub(super) fn source_of(path: &Path) -> Result<Source, Failure> {
    if path.is_dir() {
        return Ok(Source::Markdown);
    }
    let mut first = Vec::new();
    let file = File::open(path).map_err(unusable(path))?.take(FIRST_BYTES);
    BufReader::new(file).read_until(b'\n', &mut first).map_err(unusable(path))?;
    if first.starts_with(b"{\"hearth_export\"") {
        return Ok(Source::Hearth);
    }
    let (values, unreadable) = read_values(&text_of_file(path)?);
    let has = |value: &Value, names: &[&str]| names.iter().any(|name| value.get(name).is_some());
    let source = values.iter().find_map(|Entry { value, .. }| match value {
        value if has(value, &["hearth_export", "edge", "trigger"]) => Some(Source::Hearth),
        value if value["memory"]["label"].is_string() => Some(Source::Hearth),
        value if has(value, &["mapping"]) => Some(Source::Chatgpt),
        value if has(value, &["chat_messages"]) => Some(Source::Claude),
        value if has(value, &["conversations"]) => {
            let is_claude = has(&value["conversations"][0], &["chat_messages"]);
            Some(if is_claude { Source::Claude } else { Source::Chatgpt })
        }
        value if has(value, &["entities", "entityType", "relationType", "observations"]) => {
            Some(Source::KnowledgeGraph)
        }
        value if has(value, &["results", "memories", "memory"]) => Some(Source::Mem0),
        value if has(value, &["content"]) && has(value, &["id"]) => Some(Source::Mem0),
        _ => None,
    });
    if values.is_empty() && unreadable.is_empty() {
        return Err(Failure::new(Exit::Rejected, format!("{} has no entries", path.display())));
    }
    source.ok_or_else(|| {
        let known = Source::value_variants().iter().filter_map(ValueEnum::to_possible_value);
        let known: Vec<_> = known.map(|value| value.get_name().to_owned()).collect();
        format!(
            "{}: the format is not known. --from names one of {}",
            path.display(),
            known.join(", ")
        )
        .into()
    })
}

/// Writes the memories of `source` as lines of an import, in `namespace` unless they name one.
pub(super) fn convert(
    source: Source,
    path: &Path,
    namespace: &str,
    out: &mut impl Write,
) -> Result<Conversion, Failure> {
    let mut conversion = Conversion::default();
    if source == Source::Markdown {
        for (place, read) in markdown::files(path)? {
            conversion.add(read, &place, Value::Null, namespace, out)?;
        }
        return Ok(conversion);
    }
    convert_text(source, &text_of_file(path)?, namespace, &mut conversion, out)?;
    Ok(conversion)
}

/// As [`convert`], of the text of a file.
fn convert_text(
    source: Source,
    text: &str,
    namespace: &str,
    conversion: &mut Conversion,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let (values, unreadable) = read_values(text);
    conversion.rejects = unreadable;
    match source {
        Source::Hearth | Source::Markdown => return Err("the file needs no conversion".into()),
        Source::KnowledgeGraph => graph::convert(values, namespace, conversion, out)?,
        Source::Mem0 => {
            for entry in mem0::entries(values) {
                let read = mem0::memory(&entry.value);
                conversion.add(read, &entry.place, entry.value, namespace, out)?;
            }
        }
        _ => {
            let messages = if source == Source::Claude { chats::claude } else { chats::chatgpt };
            for entry in chats::conversations(values) {
                match messages(&entry.value) {
                    Ok(all) => {
                        for (id, read) in all {
                            let place = format!("{}, message {id}", entry.place);
                            conversion.add(read, &place, Value::Null, namespace, out)?;
                        }
                    }
                    Err(reason) => conversion.reject(entry.place, reason, entry.value),
                }
            }
        }
    }
    Ok(())
}

/// The fuzz target of exports of other products: a byte that chooses the product, and a file.
#[cfg(feature = "fuzzing")]
pub(crate) fn fuzz(bytes: &[u8]) {
    let Some((product, file)) = bytes.split_first() else { return };
    let products = [Source::Mem0, Source::KnowledgeGraph, Source::Chatgpt, Source::Claude];
    let source = products[usize::from(*product) % products.len()];
    let Ok(text) = read::decoded(file.to_vec()) else { return };
    let (mut conversion, mut out) = (Conversion::default(), Vec::new());
    let converted = convert_text(source, &text, "n", &mut conversion, &mut out);
    assert!(converted.is_ok(), "memory takes any line");
    for line in out.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let line: Value = serde_json::from_slice(line).expect("a line of JSON");
        assert!(line.is_object(), "{line}");
    }
}
