//! Brute force search: the complete score of every memory, by the formula.

use std::collections::{BTreeMap, BTreeSet};

use jiff::tz::TimeZone;
use storage::model::decay::{Decay, heat};
use storage::model::heat::Anchor;
use storage::model::score::{Factors, KEYWORD_OVERLAP_MAX, Passed, RecallWeights, ScoreContext};
use storage::model::temporal::window;
use storage::text::form::{TextForm, named_authors, question_term};
use storage::text::spelling::{COMMON, names};
use storage::text::term::TermHash;
use storage::text::tokenizer::{content_words, words};

use crate::common::*;

/// The side of the memories that were created before.
const BEFORE: bool = false;

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

    /// The factor of its keyword overlap.
    fn form(&self, authors: &[TermHash]) -> f64 {
        let TextForm { factor, terms } = TextForm::of(&self.memory.label);
        let is_named = authors.iter().any(|term| terms.contains(term));
        f64::from(factor) * if is_named { 1.2 } else { 1.0 }
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
    let details = memory.details.clone().unwrap_or_default();
    tier && filter.memory_type.is_none_or(|value| value == memory.memory_type)
        && filter.namespace.as_ref().is_none_or(|value| *value == memory.namespace)
        && filter.pinned.is_none_or(|value| value == memory.is_pinned)
        && filter.details.tags.iter().all(|tag| details.tags.contains(tag))
        && filter.details.metadata.iter().all(|entry| details.metadata.contains(entry))
        && (filter.access.is_unrestricted() || memory.namespace != "garden")
        && filter.words.iter().flatten().all(|word| contained.contains(word))
}

/// All memories of a tenant.
#[derive(Default)]
pub struct BruteForce(pub BTreeMap<MemoryId, Candidate>);

impl BruteForce {
    /// Scores and ids of the best memories that pass the filter, best first, of equal ones the
    /// newest first.
    pub fn best(
        &self,
        request: &SearchRequest,
        thermo: &Thermo,
        now: Timestamp,
    ) -> Vec<(f64, MemoryId)> {
        let mut weights = thermo.recall;
        weights.similarity_weight *= 1.0 - 0.9 * request.reading.unreadable;
        let window = window(&request.query, now, &TimeZone::UTC);
        let time_words = window.as_ref().map(|window| window.words(&request.query));
        let query_words = self.query_words(request, &time_words.unwrap_or_default());
        let total: f64 = query_words.iter().map(|(idf, ..)| idf).sum();
        let authors = named_authors(&request.query);
        let forms: BTreeMap<_, _> =
            self.0.iter().map(|(id, it)| (*id, it.form(&authors))).collect();
        let factors = |(id, candidate): (&MemoryId, &Candidate)| {
            let matched = query_words.iter().filter(|(.., word)| candidate.words.contains(word));
            let matched: f64 = matched.map(|(idf, share, _)| idf * share).sum();
            let at_home = request.home_namespace.as_ref() == Some(&candidate.memory.namespace);
            let overlap = KEYWORD_OVERLAP_MAX * matched / total;
            let similarity =
                request.vector.as_ref().map_or(0.0, |query| dot(query, &candidate.vector));
            let factors = Factors {
                similarity: f64::from(similarity.clamp(-1.0, 1.0)),
                heat: heat(&candidate.anchor, Decay::of(&candidate.memory, thermo), now),
                own: if total > 0.0 { overlap * forms[id] } else { 0.0 },
                neighbours: 0.0,
                temporal_boost: window.as_ref().map_or(0.0, |window| {
                    let days = window.days_outside(candidate.memory.created_at);
                    weights.temporal_max_boost * libm::exp2(-days / weights.temporal_decay_days)
                }),
                namespace_boost: if at_home { weights.namespace_boost } else { 0.0 },
                superseded_factor: match candidate.memory.superseded_by {
                    Some(_) => weights.superseded_factor,
                    None => 1.0,
                },
            };
            (*id, factors)
        };
        let passing =
            self.0.iter().filter(|(_, candidate)| passes(&request.filter, &candidate.memory));
        let mut scores: Vec<_> = passing.map(factors).collect();
        let fused = |(_, factors): &(_, Factors)| factors.fused(&weights);
        scores.sort_by(|l, r| fused(r).total_cmp(&fused(l)).then(r.0.cmp(&l.0)));
        let sources = &scores[..scores.len().min(50)];
        let around = self.around();
        let contexts = self.contexts(sources, &weights, &around, &forms);
        let total = |it: &(MemoryId, Factors)| {
            let Some(context) = contexts.get(&it.0).filter(|_| weights.keyword_weight > 0.0) else {
                return (fused(it), it.0);
            };
            let mut words_before = 0.0;
            for (idf, share, word) in &query_words {
                let part = |(side, step, other): &(bool, usize, MemoryId)| match step {
                    0..3 if *side == BEFORE && self.0[other].words.contains(word) => {
                        [0.3, 0.2, 0.1][*step] * self.likeness(it.0, *other)
                    }
                    _ => 0.0,
                };
                let parts = around[&it.0].iter().map(part).fold(0.0, f64::max);
                if !self.0[&it.0].words.contains(word) && total > 0.0 && fused(it) > 0.0 {
                    words_before += KEYWORD_OVERLAP_MAX * idf * share * parts / total;
                }
            }
            let words_before = words_before * forms[&it.0];
            let source = ScoreContext { id: it.0, source_score: *context, share: 1.0 };
            let passed = Passed { context: Some(source), words_before };
            (it.1.with_passed(&passed, &weights).fused(&weights), it.0)
        };
        let mut totals: Vec<_> = scores.iter().map(total).collect();
        totals.sort_by(|l, r| r.0.total_cmp(&l.0).then(r.1.cmp(&l.1)));
        totals.truncate(request.limit);
        totals
    }

    /// The memories next to each memory: the side, how many are between, and the id.
    fn around(&self) -> BTreeMap<MemoryId, Vec<(bool, usize, MemoryId)>> {
        let mut by_age: BTreeMap<&str, Vec<_>> = BTreeMap::new();
        for (id, candidate) in &self.0 {
            let memory = &candidate.memory;
            by_age.entry(&memory.namespace).or_default().push((memory.created_at, *id));
        }
        let mut around = BTreeMap::new();
        for ages in by_age.values_mut() {
            ages.sort_unstable();
            for (place, (at, id)) in ages.iter().enumerate() {
                let is_near = |(_, (other, _)): &(usize, &(Timestamp, MemoryId))| {
                    (at.0 - other.0).abs() <= 3_600_000_000
                };
                let (older, newer) = (ages[..place].iter().rev(), ages[place + 1..].iter());
                let older = older.take(5).enumerate().take_while(is_near);
                let newer = newer.take(5).enumerate().take_while(is_near);
                let older = older.map(|(step, (_, other))| (BEFORE, step, *other));
                let newer = newer.map(|(step, (_, other))| (!BEFORE, step, *other));
                around.insert(*id, older.chain(newer).collect());
            }
        }
        around
    }

    fn likeness(&self, one: MemoryId, other: MemoryId) -> f64 {
        let cosine = f64::from(dot(&self.0[&one].vector, &self.0[&other].vector));
        (cosine / 0.3).clamp(0.0, 1.0)
    }

    /// The words of a query, each with its weight and the share of it that counts.
    fn query_words(
        &self,
        request: &SearchRequest,
        time_words: &[String],
    ) -> Vec<(f64, f64, String)> {
        let is_visible = |candidate: &&Candidate| {
            let namespace = &candidate.memory.namespace;
            request.filter.namespace.as_ref().is_none_or(|named| named == namespace)
                && (request.filter.access.is_unrestricted() || namespace != "garden")
        };
        let visible: Vec<_> = self.0.values().filter(is_visible).collect();
        let frequency = |word: &str| {
            visible.iter().filter(|candidate| candidate.words.contains(word)).count() as f64
        };
        let idf = |word: &str| {
            let found = frequency(word);
            libm::log(1.0 + (visible.len() as f64 - found + 0.5) / (found + 0.5))
        };
        let names = names(&request.query);
        let known: BTreeSet<&String> = visible.iter().flat_map(|it| &it.words).collect();
        let term = |word: String| {
            if known.contains(&word) {
                return (idf(&word), 1.0, word);
            }
            let is_corrected = !time_words.contains(&word);
            let is_name = names.contains(&word);
            let near = known.iter().filter(|other| {
                is_corrected
                    && word.len() >= if is_name { 4 } else { 5 }
                    && !(is_name && COMMON.contains(other.as_str()))
                    && differ_by_one_error(&word, other)
            });
            // Of equal ones, the last one wins, so that it is the first in alphabetical order.
            let near = near.rev().max_by(|l, r| frequency(l).total_cmp(&frequency(r)));
            near.map_or((idf(&word), 0.0, word), |near| (idf(near), 0.5, (*near).clone()))
        };
        let weighted = |word: String| {
            let weight = if time_words.contains(&word) { 0.3 } else { 1.0 };
            let (idf, share, word) = term(word);
            // A word that counts little is not missed.
            let weight = if share == 0.0 && weight < 1.0 { 0.0 } else { weight };
            (idf * weight, share, word)
        };
        content_words(&request.query, usize::MAX).into_iter().map(weighted).collect()
    }

    /// What the sources add to the scores of the memories next to them; 0 for those that get words only.
    fn contexts(
        &self,
        sources: &[(MemoryId, Factors)],
        weights: &RecallWeights,
        around: &BTreeMap<MemoryId, Vec<(bool, usize, MemoryId)>>,
        forms: &BTreeMap<MemoryId, f64>,
    ) -> BTreeMap<MemoryId, f64> {
        let mut contexts = BTreeMap::new();
        if weights.context_weight == 0.0 {
            return contexts;
        }
        for (source, factors) in sources {
            contexts.entry(*source).or_insert(0.0);
            let meaning = Factors { heat: 0.0, ..*factors }.fused(weights);
            for (.., id) in &around[source] {
                contexts.entry(*id).or_insert(0.0);
            }
            let is_question =
                TextForm::of(&self.0[source].memory.label).terms.contains(&question_term());
            for (side, step, id) in around[source].iter().filter(|_| meaning > 0.0) {
                let answers = is_question && (*side, *step) == (!BEFORE, 0);
                let share = weights.context_weight * 0.8_f64.powi(*step as i32);
                let share = share * if answers { 1.5 } else { 1.0 };
                let share = share * self.likeness(*source, *id) * forms[id];
                let best: &mut f64 = contexts.entry(*id).or_default();
                *best = best.max(meaning * share);
            }
        }
        contexts
    }
}

/// Whether two words have the same first letter and differ by one letter
/// that is missing, added, wrong, or exchanged with the next one.
fn differ_by_one_error(word: &str, other: &str) -> bool {
    let (left, right): (Vec<_>, Vec<_>) = (word.chars().collect(), other.chars().collect());
    let is_plain = |word: &str| word.bytes().all(|byte| byte.is_ascii_lowercase());
    if !is_plain(word) || !is_plain(other) || left[0] != right[0] {
        return false;
    }
    let start = left.iter().zip(&right).take_while(|(l, r)| l == r).count();
    let (l, r) = (&left[start..], &right[start..]);
    match (l, r) {
        ([], [_]) | ([_], []) => true,
        ([a, b, l @ ..], [c, d, r @ ..]) if a == d && b == c && l == r => true,
        ([_, l @ ..], [_, r @ ..]) if l == r => true,
        ([_, l @ ..], r) if l == r => true,
        (l, [_, r @ ..]) => l == r,
        _ => false,
    }
}

/// The ten first ids in the order of hot context: by pin, heat, time of the last change, and id.
pub fn hottest(mut all: Vec<(bool, f64, Timestamp, MemoryId)>) -> Vec<MemoryId> {
    all.sort_by(|l, r| {
        let by_heat = r.0.cmp(&l.0).then(r.1.total_cmp(&l.1));
        by_heat.then(r.2.cmp(&l.2)).then(r.3.cmp(&l.3))
    });
    all.into_iter().take(10).map(|(.., id)| id).collect()
}

/// The score of a result by the formula of the interface, from its explanation.
fn by_the_interface(hit: &storage::Hit) -> f64 {
    let (weights, Some(factors)) = (&hit.weights, &hit.factors) else { return hit.score };
    let distance = 1.0 - factors.similarity;
    let base = (1.0 - distance) * weights.similarity_weight + factors.heat * weights.heat_weight;
    let fused = base
        * (1.0 + weights.keyword_weight * (factors.own + factors.neighbours))
        * (1.0 + factors.temporal_boost)
        * (1.0 + factors.namespace_boost);
    if fused > 0.0 { fused * factors.superseded_factor } else { fused }
}

/// Asserts that a search found the same memories. Sums in another order may differ in the last
/// digit, once for a memory and once for its context. Two memories whose scores differ by less may
/// change places.
pub fn compare(found: &[storage::Hit], expected: &[(f64, MemoryId)], case: &str) {
    assert_eq!(found.len(), expected.len(), "{case}");
    for (hit, (score, id)) in found.iter().zip(expected) {
        let recomputed = by_the_interface(hit);
        assert!((hit.score - recomputed).abs() <= 1e-6, "{case}: {} {recomputed}", hit.score);
        let differ = (hit.score - score).abs();
        assert!(differ <= 3e-6, "{case}: {} {score}", hit.score);
        let is_expected = expected.iter().any(|(_, id)| *id == hit.record.id);
        let is_last = expected.last().is_some_and(|(last, _)| (last - score).abs() < 3e-6);
        assert!(hit.record.id == *id || is_expected || is_last, "{case}: {}", hit.record.id);
    }
}
