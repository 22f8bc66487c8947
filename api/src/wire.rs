//! The wire format: memories as JSON, and the words of the interface with the
//! aliases that published clients send.

use serde_json::{Value, json};
use storage::model::id::Timestamp;
use storage::model::memory::{DecayClass, MemoryRecord, MemoryType, Tier};
use storage::model::score::rounded;
use storage::model::temporal::Window;
use storage::{Hit, Overview, Signal, TierFilter};

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
    let signals = [Signal::Relevant, Signal::Irrelevant, Signal::Outdated, Signal::Wrong];
    signals.into_iter().find(|signal| signal.name() == name)
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

/// A memory as every client reads it: both names of heat, both names of the text.
pub(crate) fn memory(record: &MemoryRecord) -> Value {
    let memory = &record.memory;
    let heat = rounded(record.heat);
    json!({
        "id": record.id.to_string(),
        "label": memory.label,
        "pointer_summary": memory.label,
        "memory_type": memory.memory_type.name(),
        "namespace": memory.namespace,
        "current_heat": heat,
        "heat": heat,
        "base_utility": 0.0,
        "stability": rounded(f64::from(record.anchor.stability)),
        "is_pinned": memory.is_pinned,
        "is_locked": memory.is_locked,
        "flagged_for_review": memory.is_flagged,
        "decay_class": memory.decay_class.name(),
        "min_heat": rounded(f64::from(memory.min_heat)),
        "modality": "text",
        "key_points": memory.key_points,
        "recall_count": record.anchor.recall_count,
        "last_recalled_at": record.anchor.last_recall.map(timestamp),
        "tier": match memory.tier() { Tier::Hot => "hot", Tier::Cold => "cold" },
        "archived_at": memory.archived_at.map(timestamp),
        "created_at": timestamp(memory.created_at),
        "updated_at": timestamp(memory.updated_at),
    })
}

/// A memory with the score it was found by.
pub(crate) fn scored(record: &MemoryRecord, score: f64) -> Value {
    let mut value = memory(record);
    value["score"] = score.into();
    value
}

/// A search result; `explain` adds every factor of its score, with the time that the
/// query names.
pub(crate) fn hit(hit: &Hit, explain: Option<Option<&Window>>) -> Value {
    let mut value = scored(&hit.record, hit.score);
    if hit.via.is_some() {
        value["source"] = "graph_traversal".into();
    }
    if let Some(window) = explain {
        value["explain"] = explained(hit, window);
    }
    value
}

fn explained(hit: &Hit, window: Option<&Window>) -> Value {
    let weights = &hit.weights;
    let mut explained = match &hit.factors {
        None => json!({}),
        Some(factors) => json!({
            "similarity": factors.similarity,
            "cosine_distance": 1.0 - factors.similarity,
            "similarity_weight": weights.similarity_weight,
            "heat": factors.heat,
            "heat_weight": weights.heat_weight,
            "base_score": factors.base(weights),
            "keyword_overlap": factors.keyword_overlap,
            "keyword_weight": weights.keyword_weight,
            "keyword_factor": 1.0 + weights.keyword_weight * factors.keyword_overlap,
            "temporal_boost": factors.temporal_boost,
            "temporal_factor": 1.0 + factors.temporal_boost,
            "namespace_boost": factors.namespace_boost,
            "namespace_factor": 1.0 + factors.namespace_boost,
        }),
    };
    explained["fused_score"] = hit.score.into();
    explained["temporal_window"] = window.map_or(Value::Null, |window| {
        json!({
            "reference": window.reference,
            "start": timestamp(window.start),
            "end": timestamp(window.end),
        })
    });
    // Then these multiply to the score, not the factors above.
    explained["graph"] = hit.via.map_or(Value::Null, |via| {
        json!({
            "seed_id": via.seed.to_string(),
            "seed_score": via.seed_score,
            "edge_weight": via.edge_weight,
            "damping": via.damping,
        })
    });
    explained
}

/// Memories of each type, as published clients read them.
pub(crate) fn type_counts(overview: &Overview) -> Value {
    let counts = MemoryType::ALL.into_iter().zip(overview.types);
    counts.map(|(name, count)| json!({ "type": name.name(), "count": count })).collect()
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
