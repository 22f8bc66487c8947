//! What a source has: memories that were found, what is no memory, and what could not be read.

use std::collections::{BTreeMap, HashSet};
use std::io::Write;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use serde_json::{Map, Value, json};
use storage::model::id::MemoryId;
use storage::model::memory::LABEL_BYTES_MAX;

use crate::client::foreign::read::Reject;
use crate::error::text;
use crate::failure::Failure;

/// What became of the entries of a file, before the import.
#[derive(Default)]
pub(crate) struct Conversion {
    /// The place of each line.
    pub(crate) places: Vec<String>,
    /// Entries with the id of one before.
    pub(crate) merged: usize,
    /// Entries that are no memories, by the reason.
    pub(crate) skipped: BTreeMap<&'static str, usize>,
    pub(crate) rejects: Vec<Reject>,
    ids: HashSet<MemoryId>,
}

/// A memory that is not of a Hearth export.
#[derive(Default)]
pub(super) struct Found {
    /// What distinguishes it from all others of its source.
    pub(super) key: Vec<String>,
    pub(super) label: String,
    pub(super) memory_type: &'static str,
    pub(super) namespace: Option<String>,
    pub(super) tags: Vec<String>,
    pub(super) metadata: Map<String, Value>,
    pub(super) created_at: Option<String>,
}

/// What the source says of an entry.
pub(super) enum Read {
    Memory(Found),
    /// It is no memory.
    Skip(&'static str),
}

/// What was read of each entry, by its place.
pub(super) type Entries = Vec<(String, Result<Read, String>)>;

impl Conversion {
    /// Writes what was read of an entry, or counts it.
    pub(super) fn add(
        &mut self,
        read: Result<Read, String>,
        place: &str,
        entry: Value,
        namespace: &str,
        out: &mut impl Write,
    ) -> Result<(), Failure> {
        match read {
            Ok(Read::Memory(found)) => {
                let lines = found.into_lines(namespace);
                if lines.is_empty() {
                    self.skip("without text");
                }
                lines.into_iter().try_for_each(|(id, memory)| self.write(id, memory, place, out))
            }
            Ok(Read::Skip(reason)) => {
                self.skip(reason);
                Ok(())
            }
            Err(reason) => {
                self.reject(place.to_owned(), reason, entry);
                Ok(())
            }
        }
    }

    fn skip(&mut self, reason: &'static str) {
        *self.skipped.entry(reason).or_default() += 1;
    }

    pub(super) fn reject(&mut self, place: String, reason: impl Into<String>, entry: Value) {
        self.rejects.push(Reject { place, reason: reason.into(), entry });
    }

    /// Writes the line of a memory, unless its id was written before.
    pub(super) fn write(
        &mut self,
        id: MemoryId,
        memory: Value,
        place: &str,
        out: &mut impl Write,
    ) -> Result<(), Failure> {
        if !self.ids.insert(id) {
            self.merged += 1;
            return Ok(());
        }
        self.places.push(place.to_owned());
        Ok(writeln!(out, "{}", json!({ "memory": memory })).map_err(text)?)
    }
}

impl Found {
    /// The memory with its id: several memories, if its text is too long for one.
    fn into_lines(self, namespace: &str) -> Vec<(MemoryId, Value)> {
        let namespace = self.namespace.as_deref().unwrap_or(namespace);
        let line = |(part, label): (usize, &str)| {
            let part = part.to_string();
            let key = [namespace].into_iter().chain(self.key.iter().map(String::as_str));
            let id = MemoryId::of_parts(key.chain([part.as_str()]));
            let mut memory = json!({
                "id": id.to_string(), "label": label, "memory_type": self.memory_type,
                "namespace": namespace, "tags": self.tags, "metadata": self.metadata,
            });
            if let Some(time) = &self.created_at {
                memory["created_at"] = time.as_str().into();
            }
            (id, memory)
        };
        split(&self.label).into_iter().enumerate().map(line).collect()
    }
}

/// Parts of a text that are not longer than a memory may be, and not blank.
pub(super) fn split(label: &str) -> Vec<&str> {
    let (mut parts, mut rest) = (Vec::new(), label.trim());
    while rest.len() > LABEL_BYTES_MAX {
        let (part, others) = rest.split_at(rest.floor_char_boundary(LABEL_BYTES_MAX));
        parts.push(part);
        rest = others;
    }
    parts.push(rest);
    parts.retain(|part| !part.trim().is_empty());
    parts
}

pub(super) fn string(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned).filter(|text| !text.is_empty())
}

/// A time as text, with or without a zone (then UTC), or as seconds, milliseconds or microseconds since 1970.
///
/// # Errors
/// It is there, and no time.
pub(super) fn time(value: &Value) -> Result<Option<String>, String> {
    /// From this number on, a number is one of milliseconds, and 1,000 times it, of microseconds.
    const MILLIS_MIN: f64 = 1e11;
    let of_number = |number: f64| {
        let micros = match number.abs() {
            size if size < MILLIS_MIN => number * 1e6,
            size if size < MILLIS_MIN * 1e3 => number * 1e3,
            _ => number,
        };
        Timestamp::from_microsecond(micros as i64).ok()
    };
    let found = match value {
        Value::Null => return Ok(None),
        Value::String(text) if text.trim().is_empty() => return Ok(None),
        Value::Number(number) => number.as_f64().and_then(of_number),
        Value::String(text) => {
            let text = text.trim();
            let of_civil =
                |civil: DateTime| civil.to_zoned(TimeZone::UTC).map(|it| it.timestamp()).ok();
            let with_zone = text.parse::<Timestamp>().ok();
            let number = || text.parse().ok().and_then(of_number);
            with_zone.or_else(number).or_else(|| text.parse().ok().and_then(of_civil))
        }
        _ => None,
    };
    found.map(|time| Some(time.to_string())).ok_or_else(|| format!("{value} is no time"))
}
