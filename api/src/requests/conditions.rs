//! Filters as JSON: conditions on fields, combined by `and`, `or` and `not`.
//!
//! `{"tags": "billing"}` is one condition. `{"tags": {"in": ["a", "b"]}, "heat": {"gte": 0.5}}` are two, which
//! both must hold. `{"or": [{...}, {"not": {...}}]}` combines others. A range of times has instants or days, a
//! range of metadata has numbers.

use std::ops::{Range, RangeInclusive};

use jiff::tz::TimeZone;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use storage::model::details::{METADATA_TERM_BYTES_MAX, is_found};
use storage::model::guard::Trust;
use storage::model::id::Timestamp;
use storage::model::memory::MemoryType;
use storage::{CONDITION_DEPTH_MAX, CONDITIONS_MAX, Condition, TimeOf};
use utoipa::openapi::schema::Type;

use crate::error::{ApiError, ApiResult};
use crate::requests::details::Exact;
use crate::requests::times::TimeSpan;
use crate::requests::values::{object, schema};
use crate::words::Word;

/// Longest text of a filter in a query parameter.
pub(crate) const FILTER_BYTES_MAX: usize = 16 << 10;

/// A filter, whose days are those of a time zone that the headers name.
#[derive(Debug, Clone)]
pub(crate) struct FilterJson(Map<String, Value>);

schema!([] FilterJson as "Filter", object(Type::Object)
    .description(Some(
        "Conditions on fields, all of which must hold: `tags`, `metadata.NAME`, `memory_type`, `namespace` \
         (with all below it), `is_pinned`, `trust`, `heat`, `occurred_at`, `created_at`, `updated_at`. A condition is a \
         value, or `{\"in\": […]}`, or `{\"gt\", \"gte\", \"lt\", \"lte\"}` with a number or a time. `and` and \
         `or` have lists of filters, `not` has one.",
    ))
    .build());

impl<'de> Deserialize<'de> for FilterJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let error = <D::Error as serde::de::Error>::custom;
        let Exact(value) = Exact::deserialize(deserializer)?;
        // A query parameter is a text.
        let value = match value {
            Value::String(text) if text.len() > FILTER_BYTES_MAX => {
                return Err(error(format!("must have at most {FILTER_BYTES_MAX} bytes")));
            }
            Value::String(text) => match serde_json::from_str(&text) {
                Ok(Exact(value)) => value,
                Err(fault) => return Err(error(format!("must be JSON: {fault}"))),
            },
            value => value,
        };
        let Value::Object(fields) = value else {
            return Err(error("must be an object".to_owned()));
        };
        let filter = Self(fields);
        // What is wrong with it does not depend on the zone.
        filter.condition(&TimeZone::UTC).map_err(error)?;
        Ok(filter)
    }
}

impl FilterJson {
    /// The condition; days are those of `zone`.
    fn condition(&self, zone: &TimeZone) -> Result<Condition, String> {
        let mut parser = Parser { zone, left: CONDITIONS_MAX };
        parser.all(&self.0, 0)
    }
}

/// The condition of a filter, if there is one.
pub(crate) fn condition(
    filter: Option<&FilterJson>,
    zone: &TimeZone,
) -> ApiResult<Option<Condition>> {
    let parsed = filter.map(|filter| filter.condition(zone)).transpose();
    parsed.map_err(|fault| ApiError::invalid("filter", fault))
}

struct Parser<'a> {
    zone: &'a TimeZone,
    /// Conditions that the filter may still have.
    left: usize,
}

impl Parser<'_> {
    fn all(&mut self, fields: &Map<String, Value>, depth: usize) -> Result<Condition, String> {
        if depth > CONDITION_DEPTH_MAX {
            return Err(format!("is nested more than {CONDITION_DEPTH_MAX} times"));
        }
        let each = fields.iter().map(|(name, value)| self.one(name, value, depth));
        let mut all = each.collect::<Result<Vec<_>, _>>()?;
        if all.is_empty() {
            return Err("must name a field".to_owned());
        }
        Ok(if all.len() == 1 { all.remove(0) } else { Condition::All(all) })
    }

    fn one(&mut self, name: &str, value: &Value, depth: usize) -> Result<Condition, String> {
        self.left = self
            .left
            .checked_sub(1)
            .ok_or_else(|| format!("has more than {CONDITIONS_MAX} conditions"))?;
        match (name, value) {
            ("and", Value::Array(all)) => self.list(all, depth).map(Condition::All),
            ("or", Value::Array(all)) => self.list(all, depth).map(Condition::Any),
            ("not", Value::Object(one)) => {
                self.all(one, depth + 1).map(|one| Condition::Not(Box::new(one)))
            }
            ("and" | "or", _) => Err(format!("{name} must be a list of filters")),
            ("not", _) => Err("not must be a filter".to_owned()),
            (_, Value::Object(test)) => self.test(name, test),
            _ => self.equal(name, value),
        }
    }

    fn list(&mut self, all: &[Value], depth: usize) -> Result<Vec<Condition>, String> {
        let filter = |value: &Value| match value {
            Value::Object(fields) => self.all(fields, depth + 1),
            _ => Err("and, or: must have filters".to_owned()),
        };
        all.iter().map(filter).collect()
    }

    fn test(&mut self, name: &str, test: &Map<String, Value>) -> Result<Condition, String> {
        if let Some(values) = test.get("in") {
            let (Value::Array(values), 1) = (values, test.len()) else {
                return Err(format!("{name}.in must be a list, and the only test"));
            };
            self.left = self
                .left
                .checked_sub(values.len())
                .ok_or_else(|| format!("has more than {CONDITIONS_MAX} conditions"))?;
            let any = values.iter().map(|value| self.equal(name, value));
            return any.collect::<Result<_, _>>().map(Condition::Any);
        }
        if test.is_empty() || !test.keys().all(|test| ["gt", "gte", "lt", "lte"].contains(&&**test))
        {
            return Err(format!("{name} must have in, or some of gt, gte, lt and lte"));
        }
        if let Some(of) = time_of(name) {
            return self.times(name, test).map(|range| Condition::Time(of, range));
        }
        let range = numbers(name, test)?;
        match (name, name.strip_prefix("metadata.")) {
            ("heat", _) => Ok(Condition::Heat(range)),
            (_, Some(entry)) => Ok(Condition::Number(entry.to_owned(), range)),
            _ => Err(format!("{name} has no range")),
        }
    }

    fn equal(&self, name: &str, value: &Value) -> Result<Condition, String> {
        if let Some(entry) = name.strip_prefix("metadata.") {
            let entry = (entry.to_owned(), value.to_string());
            return match is_found(&entry) {
                true => Ok(Condition::Entry(entry)),
                false => Err(format!(
                    "{name} must be a text, a number, true, false or null of at most \
                     {METADATA_TERM_BYTES_MAX} bytes with its name"
                )),
            };
        }
        if let (Some(of), Some(text)) = (time_of(name), value.as_str()) {
            let span =
                TimeSpan::between(Some(time(name, text)?), Some(time(name, text)?), self.zone);
            return span.map(|span| Condition::Time(of, span)).ok_or_else(|| empty(name));
        }
        match (name, value) {
            ("tags", Value::String(tag)) => Ok(Condition::Tag(tag.clone())),
            ("memory_type", Value::String(word)) => match <MemoryType as Word>::parse(word) {
                Some(memory_type) => Ok(Condition::Type(memory_type)),
                None => Err(format!("{name} must be one of {}", MemoryType::names().join(", "))),
            },
            ("namespace", Value::String(prefix)) => Ok(Condition::Below(prefix.clone())),
            ("trust", Value::String(word)) => match <Trust as Word>::parse(word) {
                Some(trust) => Ok(Condition::Trust(trust)),
                None => Err(format!("{name} must be one of {}", Trust::names().join(", "))),
            },
            ("is_pinned", Value::Bool(true)) => Ok(Condition::Pinned),
            ("is_pinned", Value::Bool(false)) => Ok(Condition::Not(Box::new(Condition::Pinned))),
            ("tags" | "memory_type" | "namespace" | "trust", _) => {
                Err(format!("{name} must be a text"))
            }
            ("is_pinned", _) => Err(format!("{name} must be true or false")),
            ("heat" | "occurred_at" | "created_at" | "updated_at", _) => {
                Err(format!("{name} must have some of gt, gte, lt and lte"))
            }
            _ => Err(format!(
                "{name:?} is no field: tags, metadata.NAME, memory_type, namespace, is_pinned, trust, heat, \
                 occurred_at, created_at and updated_at are"
            )),
        }
    }

    fn times(&self, name: &str, test: &Map<String, Value>) -> Result<Range<Timestamp>, String> {
        let (mut start, mut end) = (Timestamp(i64::MIN), Timestamp(i64::MAX));
        for (test, value) in test {
            let text = value.as_str().ok_or_else(|| format!("{name}.{test} must be a time"))?;
            let span = time(name, text)?;
            let span = TimeSpan::between(Some(span), Some(span), self.zone);
            let span = span.ok_or_else(|| empty(name))?;
            match test.as_str() {
                "gt" => start = start.max(span.end),
                "gte" => start = start.max(span.start),
                "lt" => end = end.min(span.start),
                _ => end = end.min(span.end),
            }
        }
        Ok(start..end)
    }
}

fn time_of(name: &str) -> Option<TimeOf> {
    match name {
        "occurred_at" => Some(TimeOf::Occurrence),
        "created_at" => Some(TimeOf::Creation),
        "updated_at" => Some(TimeOf::Change),
        _ => None,
    }
}

fn time(name: &str, text: &str) -> Result<TimeSpan, String> {
    let parsed = text.parse().ok().filter(|time| *time != TimeSpan::All);
    parsed.ok_or_else(|| format!("{name} must have a time such as 2026-03-05T14:30:00Z, or a day"))
}

fn empty(name: &str) -> String {
    format!("{name} must have a time")
}

fn numbers(name: &str, test: &Map<String, Value>) -> Result<RangeInclusive<f64>, String> {
    let (mut start, mut end) = (f64::NEG_INFINITY, f64::INFINITY);
    for (test, value) in test {
        let number = value.as_f64().ok_or_else(|| format!("{name}.{test} must be a number"))?;
        match test.as_str() {
            "gt" => start = start.max(number.next_up()),
            "gte" => start = start.max(number),
            "lt" => end = end.min(number.next_down()),
            _ => end = end.min(number),
        }
    }
    Ok(start..=end)
}
