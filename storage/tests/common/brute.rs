//! Brute force search: the complete score of every memory, by the formula.

use std::collections::{BTreeMap, BTreeSet};

use storage::model::decay::{Decay, heat};
use storage::model::heat::Anchor;
use storage::model::score::{Factors, KEYWORD_OVERLAP_MAX};
use storage::model::temporal::window;
use storage::model::words::{content_words, words};

use crate::common::*;

/// The properties of a memory that a search reads.
pub struct Candidate {
    memory: Memory,
    anchor: Anchor,
    vector: Vec<f32>,
    words: BTreeSet<String>,
}

impl Candidate {
    pub fn new(memory: Memory, anchor: Anchor, vector: Vec<f32>) -> Self {
        let words = words(memory.texts()).into_iter().collect();
        Self { memory, anchor, vector, words }
    }
}

/// A naive filter. Restricted access is to all namespaces but "garden".
pub fn passes(filter: &Filter, memory: &Memory) -> bool {
    let tier = match filter.tier {
        TierFilter::Hot => memory.tier() == Tier::Hot,
        TierFilter::Cold => memory.tier() == Tier::Cold,
        TierFilter::All => true,
    };
    let contained = words(memory.texts());
    tier && filter.memory_type.is_none_or(|value| value == memory.memory_type)
        && filter.namespace.as_ref().is_none_or(|value| *value == memory.namespace)
        && filter.pinned.is_none_or(|value| value == memory.is_pinned)
        && (filter.access.is_unrestricted() || memory.namespace != "garden")
        && filter.words.iter().flatten().all(|word| contained.contains(word))
}

/// All memories of a tenant.
#[derive(Default)]
pub struct BruteForce(pub BTreeMap<MemoryId, Candidate>);

impl BruteForce {
    /// Scores and ids of the best memories that pass the filter, best first, ties by id.
    pub fn best(
        &self,
        request: &SearchRequest,
        thermo: &Thermo,
        now: Timestamp,
    ) -> Vec<(f64, MemoryId)> {
        let weights = thermo.recall;
        let window = window(&request.query, now);
        let subject = window
            .as_ref()
            .map_or(request.query.as_str().into(), |window| window.subject(&request.query));
        let idf = |word: &String| {
            let holding =
                self.0.values().filter(|candidate| candidate.words.contains(word)).count() as f64;
            libm::log(1.0 + (self.0.len() as f64 - holding + 0.5) / (holding + 0.5))
        };
        let query_words: Vec<(String, f64)> = content_words(&subject, usize::MAX)
            .into_iter()
            .map(|word| (word.clone(), idf(&word)))
            .collect();
        let total: f64 = query_words.iter().map(|(_, idf)| idf).sum();
        let score = |(id, candidate): (&MemoryId, &Candidate)| {
            let matched = query_words.iter().filter(|(word, _)| candidate.words.contains(word));
            let matched: f64 = matched.map(|(_, idf)| idf).sum();
            let at_home = request.home_namespace.as_ref() == Some(&candidate.memory.namespace);
            let overlap = KEYWORD_OVERLAP_MAX * matched / total;
            let similarity =
                request.vector.as_ref().map_or(0.0, |query| dot(query, &candidate.vector));
            let factors = Factors {
                similarity: f64::from(similarity.clamp(-1.0, 1.0)),
                heat: heat(&candidate.anchor, Decay::of(&candidate.memory, thermo), now),
                keyword_overlap: if total > 0.0 { overlap } else { 0.0 },
                temporal_boost: window.as_ref().map_or(0.0, |window| {
                    let days = window.days_outside(candidate.memory.created_at);
                    weights.temporal_max_boost * libm::exp2(-days / weights.temporal_decay_days)
                }),
                namespace_boost: if at_home { weights.namespace_boost } else { 0.0 },
            };
            (factors.fused(&weights), *id)
        };
        let passing =
            self.0.iter().filter(|(_, candidate)| passes(&request.filter, &candidate.memory));
        let mut scores: Vec<_> = passing.map(score).collect();
        scores.sort_by(|l, r| r.0.total_cmp(&l.0).then(l.1.cmp(&r.1)));
        scores.truncate(request.limit);
        scores
    }
}

/// The ten first ids in the order of hot context: by pin, heat, time of the last change, and id.
pub fn hottest(mut all: Vec<(bool, f64, Timestamp, MemoryId)>) -> Vec<MemoryId> {
    all.sort_by(|l, r| {
        let by_heat = r.0.cmp(&l.0).then(r.1.total_cmp(&l.1));
        by_heat.then(r.2.cmp(&l.2)).then(l.3.cmp(&r.3))
    });
    all.into_iter().take(10).map(|(.., id)| id).collect()
}

/// Asserts that a search found the same memories. Sums in another order may differ in the last
/// digit. Two memories whose scores differ by less may change places.
pub fn compare(found: &[storage::Hit], expected: &[(f64, MemoryId)], case: &str) {
    assert_eq!(found.len(), expected.len(), "{case}");
    for (hit, (score, id)) in found.iter().zip(expected) {
        let differ = (hit.score - score).abs();
        assert!(differ <= 2e-6, "{case}: {} {score}", hit.score);
        let is_expected = expected.iter().any(|(_, id)| *id == hit.record.id);
        let is_last = expected.last().is_some_and(|(last, _)| (last - score).abs() < 2e-6);
        assert!(hit.record.id == *id || is_expected || is_last, "{case}: {}", hit.record.id);
    }
}
