//! The wire format: the words of the interface with the aliases that published
//! clients send, and its times. [`memory`] is a memory as JSON, [`trigger`] a trigger,
//! [`schema`] what OpenAPI is told of all that.

pub(crate) mod memory;
pub(crate) mod requests;
pub(crate) mod schema;
pub(crate) mod trigger;
pub(crate) mod trigger_requests;

use serde::Serialize;
use storage::model::id::Timestamp;
use storage::model::memory::{DecayClass, MemoryType};
use storage::{Overview, Signal, TierFilter};
use utoipa::ToSchema;

/// The types, for messages.
pub(crate) const MEMORY_TYPES: &str = "episodic, semantic, preference, procedural, fact, moment";
/// The classes, for messages.
pub(crate) const DECAY_CLASSES: &str = "volatile, normal, persistent, permanent";

/// A type by its name, or by a published alias.
pub(crate) fn memory_type(name: &str) -> Option<MemoryType> {
    match name {
        "synthesis" => Some(MemoryType::Semantic),
        _ => MemoryType::ALL.into_iter().find(|memory_type| memory_type.name() == name),
    }
}

/// A class by its name, or by a published alias. `glacial` was a half-life of
/// some 30 days, so it is not `permanent`.
pub(crate) fn decay_class(name: &str) -> Option<DecayClass> {
    match name {
        "fast" => Some(DecayClass::Volatile),
        "slow" | "glacial" => Some(DecayClass::Persistent),
        _ => DecayClass::ALL.into_iter().find(|class| class.name() == name),
    }
}

/// The signals of feedback, for messages.
pub(crate) const SIGNALS: &str = "relevant, irrelevant, outdated, wrong";

/// A signal of feedback by its name.
pub(crate) fn signal(name: &str) -> Option<Signal> {
    Signal::ALL.into_iter().find(|signal| signal.name() == name)
}

/// Which tiers a search looks in.
pub(crate) fn tier(name: &str) -> Option<TierFilter> {
    match name {
        "hot" => Some(TierFilter::Hot),
        "cold" => Some(TierFilter::Cold),
        "all" => Some(TierFilter::All),
        _ => None,
    }
}

/// How many memories are of a type.
#[derive(Serialize, ToSchema)]
pub(crate) struct TypeCount {
    #[schema(schema_with = schema::memory_type)]
    r#type: &'static str,
    count: u64,
}

/// Memories of each type, as published clients read them.
pub(crate) fn type_counts(overview: &Overview) -> Vec<TypeCount> {
    let counts = MemoryType::ALL.into_iter().zip(overview.types);
    counts.map(|(memory_type, count)| TypeCount { r#type: memory_type.name(), count }).collect()
}

/// First and last day of a month (see `Timestamp::month`), as YYYY-MM-DD.
pub(crate) fn days_of(month: u32) -> (String, String) {
    let (year, number) = ((month / 12) as i16, (month % 12 + 1) as i8);
    let first = jiff::civil::Date::new(year, number, 1).unwrap_or_default();
    (first.to_string(), first.last_of_month().to_string())
}

/// An instant as ISO 8601 in UTC.
pub(crate) fn timestamp(at: Timestamp) -> String {
    jiff::Timestamp::from_microsecond(at.0).unwrap_or(jiff::Timestamp::UNIX_EPOCH).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_aliases_are_understood_and_nothing_else() {
        assert_eq!(memory_type("synthesis"), Some(MemoryType::Semantic));
        assert_eq!(memory_type("moment"), Some(MemoryType::Moment));
        assert_eq!(memory_type("Moment"), None);
        assert_eq!(decay_class("fast"), Some(DecayClass::Volatile));
        assert_eq!(decay_class("glacial"), Some(DecayClass::Persistent));
        assert_eq!(decay_class("never"), None);
    }

    #[test]
    fn a_month_has_its_first_and_last_day() {
        let (first, last) = days_of(Timestamp(1_709_251_200_000_000).month());
        assert_eq!((first.as_str(), last.as_str()), ("2024-03-01", "2024-03-31"));
    }

    #[test]
    fn times_are_iso_8601_in_utc() {
        assert_eq!(timestamp(Timestamp(1_500_000)), "1970-01-01T00:00:01.5Z");
    }
}
