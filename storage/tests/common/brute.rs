//! The whole score of every memory, as simply as can be said.

use std::collections::{BTreeMap, BTreeSet};

use storage::SearchRequest;
use storage::model::heat::{Anchor, Cooling, heat};
use storage::model::id::{MemoryId, Timestamp};
use storage::model::memory::Memory;
use storage::model::score::{Factors, KEYWORD_OVERLAP_MAX};
use storage::model::temporal::window;
use storage::model::thermo::Thermo;
use storage::model::vector::dot;
use storage::model::words::{subject_words, words};

/// Everything of a memory that counts in a search.
pub struct Known {
    memory: Memory,
    anchor: Anchor,
    vector: Vec<f32>,
    words: BTreeSet<String>,
}

impl Known {
    pub fn new(memory: Memory, anchor: Anchor, vector: Vec<f32>) -> Self {
        let words = words(memory.texts()).into_iter().collect();
        Self { memory, anchor, vector, words }
    }
}

/// All memories of a tenant.
#[derive(Default)]
pub struct Brute(pub BTreeMap<MemoryId, Known>);

impl Brute {
    /// Score and id of the best of those that `passes`, best first, ties by id.
    pub fn best(
        &self,
        request: &SearchRequest,
        thermo: &Thermo,
        now: Timestamp,
        passes: impl Fn(&Memory) -> bool,
    ) -> Vec<(f64, MemoryId)> {
        let weights = thermo.recall;
        let window = window(&request.query, now);
        let subject = window
            .as_ref()
            .map_or(request.query.as_str().into(), |window| window.subject(&request.query));
        let idf = |word: &String| {
            let holding = self.0.values().filter(|known| known.words.contains(word)).count() as f64;
            libm::log(1.0 + (self.0.len() as f64 - holding + 0.5) / (holding + 0.5))
        };
        let asked: Vec<(String, f64)> =
            subject_words(&subject).into_iter().map(|word| (word.clone(), idf(&word))).collect();
        let total: f64 = asked.iter().map(|(_, idf)| idf).sum();
        let score = |(id, known): (&MemoryId, &Known)| {
            let held = asked.iter().filter(|(word, _)| known.words.contains(word));
            let held: f64 = held.map(|(_, idf)| idf).sum();
            let at_home = request.home_namespace.as_ref() == Some(&known.memory.namespace);
            let similarity = request.vector.as_ref().map_or(0.0, |asked| dot(asked, &known.vector));
            let factors = Factors {
                similarity: f64::from(similarity.clamp(-1.0, 1.0)),
                heat: heat(&known.anchor, Cooling::of(&known.memory, thermo), now),
                keyword_overlap: if total > 0.0 { KEYWORD_OVERLAP_MAX * held / total } else { 0.0 },
                temporal_boost: window.as_ref().map_or(0.0, |window| {
                    let days = window.days_outside(known.memory.created_at);
                    weights.temporal_max_boost * libm::exp2(-days / weights.temporal_decay_days)
                }),
                namespace_boost: if at_home { weights.namespace_boost } else { 0.0 },
            };
            (factors.fused(&weights), *id)
        };
        let passing = self.0.iter().filter(|(_, known)| passes(&known.memory));
        let mut scores: Vec<_> = passing.map(score).collect();
        scores.sort_by(|l, r| r.0.total_cmp(&l.0).then(l.1.cmp(&r.1)));
        scores.truncate(request.limit);
        scores
    }
}

/// That a search found the same. Sums in another order may differ in the last digit that
/// counts, and turn two round that differ by less.
pub fn compare(found: &[storage::Hit], expected: &[(f64, MemoryId)], what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (hit, (score, id)) in found.iter().zip(expected) {
        let differ = (hit.score - score).abs();
        assert!(differ <= 2e-6, "{what}: {} {score}", hit.score);
        let known = expected.iter().any(|(_, id)| *id == hit.record.id);
        let last = expected.last().is_some_and(|(last, _)| (last - score).abs() < 2e-6);
        assert!(hit.record.id == *id || known || last, "{what}: {}", hit.record.id);
    }
}
