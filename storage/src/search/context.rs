//! The results of a search: the best memories, and those that were created next to them. In a conversation that
//! is stored message by message, the answer often follows the message with the words of the question.
//!
//! Each of the best memories passes a share of its score on to its neighbours in the order of
//! creation within its namespace ([`ScoreContext`]). A memory gets the largest of these shares. Both also get
//! words: those that they lack, and that one of the three memories before them has.
//!
//! Upper bounds of both decide which neighbours are scored, and of which the likeness is computed.

use std::cell::LazyCell;
use std::collections::HashMap;

use index::Slot;
use index::attributes::Age;
use index::data::IndexData;
use model::id::MemoryId;
use model::score::{Factors, Passed, RecallWeights, ScoreContext, rounded};
use roaring::RoaringBitmap;
use text::Step;

use crate::search::best::Best;
use crate::search::query::SearchPlan;
use crate::search::top_k::{TopK, by_score, f64_from_ordered};
use crate::span::child;

/// Memories that pass context on: the best before context. A constant, so that a search with a
/// lower limit returns the first results of one with a higher limit. Twice as many answer 0.4 %
/// more of the questions of `make eval` at most, and make a search a fifth slower.
const SOURCES: usize = 50;

/// Neighbours on each side that get context.
const NEIGHBOURS: usize = ScoreContext::DAMPING.len();

/// Exceeds the error of a rounded score.
const ROUNDING: f64 = 1e-6;

/// A source or a neighbour of one: what it gets.
struct Receiver {
    slot: Slot,
    context: Option<ScoreContext>,
    /// Factor of its form.
    form: f64,
    /// The words of the query that it has, a bit each.
    own: u128,
    /// Memories before it that have others: these words, and how much they count at most.
    before: Vec<(MemoryId, Slot, u128, f64)>,
    /// An upper bound of the overlap of these words.
    words_max: f64,
}

impl Receiver {
    fn context_added(&self) -> f64 {
        self.context.map_or(0.0, |context| context.added())
    }

    /// An upper bound of what it gets, if its score before is at most `score`.
    fn added_max(&self, score: f64, weights: &RecallWeights) -> f64 {
        score.max(0.0) * weights.keyword_weight * self.words_max + self.context_added() + ROUNDING
    }
}

type Receivers = HashMap<MemoryId, Receiver, ahash::RandomState>;

/// What a search found.
pub(super) struct Ran {
    /// The best memories, best first.
    pub(super) best: Vec<(MemoryId, Found)>,
    /// See [`Best`].
    pub(super) archived: TopK<Factors>,
    pub(super) used_graph: bool,
}

/// The composition of a result's score.
pub(super) struct Found {
    pub(super) factors: Factors,
    pub(super) passed: Passed,
}

impl SearchPlan<'_> {
    /// The best memories, best first, and what was found beside them. The graph is used only if more than
    /// `exact_max` memories match.
    pub(super) fn run(&self, exact_max: usize) -> Ran {
        let found = self.best(SOURCES.max(self.request.limit), exact_max);
        let Best { memories: best, archived, used_graph } = found;
        let rest_max = best.threshold().map(|[threshold, ..]| f64_from_ordered(threshold));
        let best: Vec<_> = best.into_sorted().collect();
        let _passing_on = child("context").entered();
        let mut receivers = self.receivers(&best[..best.len().min(SOURCES)]);
        let mut results = TopK::new(self.request.limit);
        for (id, factors) in best {
            self.push(&mut results, receivers.remove(&id), id, factors);
        }
        // `best` has all matching memories, or any other has at most the score of its last one
        // before context.
        if let Some(rest_max) = rest_max {
            let slots = receivers.values().filter(|receiver| {
                let highest = rest_max + receiver.added_max(rest_max, &self.weights);
                !results.rejects(by_score(highest))
            });
            let slots: RoaringBitmap = slots.map(|receiver| receiver.slot).collect();
            for (id, factors) in self.scores_of(&slots).into_sorted() {
                self.push(&mut results, receivers.remove(&id), id, factors);
            }
        }
        Ran { best: results.into_sorted().collect(), archived, used_graph }
    }

    /// Adds a memory to the results, with what it gets.
    fn push(
        &self,
        results: &mut TopK<Found>,
        receiver: Option<Receiver>,
        id: MemoryId,
        alone: Factors,
    ) {
        let mut passed = Passed::default();
        if let Some(receiver) = receiver {
            let score = alone.unrounded(&self.weights);
            if rounded(score) <= 0.0 {
                return results.push(by_score(alone.fused(&self.weights)), id, || Found {
                    factors: alone,
                    passed,
                });
            }
            let highest = score + receiver.added_max(score, &self.weights);
            if results.rejects(by_score(highest)) {
                return;
            }
            let words_before = self.words_before(id, &receiver);
            passed = Passed { context: receiver.context, words_before };
        }
        let factors = alone.with_passed(&passed, &self.weights);
        results.push(by_score(factors.fused(&self.weights)), id, || Found { factors, passed });
    }

    /// The overlap of the words that a receiver gets: each with the largest share that one of the memories
    /// before gives.
    fn words_before(&self, id: MemoryId, receiver: &Receiver) -> f64 {
        if receiver.before.is_empty() {
            return 0.0;
        }
        let data = self.index.read();
        // Since the receivers were found, a memory may be deleted, and its slot be that of another.
        let is_there = |id: MemoryId, slot| data.slot(id) == Some(slot);
        if !is_there(id, receiver.slot) {
            return 0.0;
        }
        let (_, vector) = data.vector_of(receiver.slot);
        let vector = vector.components();
        let likeness = |slot| ScoreContext::likeness(data.vector_of(slot).1.cosine(&vector));
        let before = receiver.before.iter().filter(|(id, slot, ..)| is_there(*id, *slot));
        let before: Vec<_> =
            before.map(|(_, slot, words, most)| (*words, most * likeness(*slot))).collect();
        self.terms.words.overlap_before(receiver.own, &before) * receiver.form
    }

    /// The sources and their neighbours, with what they get.
    fn receivers(&self, sources: &[(MemoryId, Factors)]) -> Receivers {
        let mut receivers = Receivers::default();
        let RecallWeights { context_weight, keyword_weight, .. } = self.weights;
        if context_weight == 0.0 || keyword_weight == 0.0 {
            return receivers;
        }
        let data = self.index.read();
        let found = data.words.found_words(&self.terms.words);
        for (id, factors) in sources {
            let source_score = factors.without_heat(&self.weights);
            let Some((near, at)) =
                data.around(*id, NEIGHBOURS + ScoreContext::WORDS.len(), NEIGHBOURS)
            else {
                continue;
            };
            let ((created_at, _), slot) = near[at];
            let vector = LazyCell::new(|| data.vector_of(slot).1.components());
            let is_question = data.is_question(slot);
            let words: Vec<_> = near.iter().map(|(_, slot)| found.in_slot(*slot)).collect();
            for other in at.saturating_sub(NEIGHBOURS)..near.len() {
                let ((time, neighbour), other_slot) = near[other];
                if !ScoreContext::is_near(created_at, time) {
                    continue;
                }
                let receiver = receivers
                    .entry(neighbour)
                    .or_insert_with(|| self.receiver(&data, &near[..=other], &words[..=other]));
                if other == at || source_score <= 0.0 {
                    continue;
                }
                let is_answer = is_question && other == at + 1;
                let factor = if is_answer { ScoreContext::ANSWER_FACTOR } else { 1.0 };
                let damping = ScoreContext::DAMPING[other.abs_diff(at) - 1];
                let share = context_weight * damping * factor * receiver.form;
                let full = ScoreContext { id: *id, source_score, share };
                // Sources come best first: of equal contexts, the first one stays.
                if full.added() <= receiver.context_added() {
                    continue;
                }
                let likeness = ScoreContext::likeness(data.vector_of(other_slot).1.cosine(&vector));
                let context = ScoreContext { share: share * likeness, ..full };
                if context.added() > receiver.context_added() {
                    receiver.context = Some(context);
                }
            }
        }
        receivers
    }

    /// The last of some memories in the order of creation, with the words that it gets from those before.
    fn receiver(&self, data: &IndexData, near: &[(Age, Slot)], words: &[u128]) -> Receiver {
        let last = near.len() - 1;
        let (((created_at, _), slot), own) = (near[last], words[last]);
        let older = near[..last].iter().zip(words).rev().zip(ScoreContext::WORDS);
        let before = older.filter_map(|((((time, id), slot), words), most)| {
            let gives = Step::WordsBefore.is_on()
                && words & !own != 0
                && ScoreContext::is_near(created_at, *time);
            gives.then_some((*id, *slot, words & !own, most))
        });
        let before: Vec<_> = before.collect();
        let form = data.form(&self.terms, slot);
        let words_max = match before[..] {
            [] => 0.0,
            _ => {
                let most: Vec<_> =
                    before.iter().map(|(_, _, words, most)| (*words, *most)).collect();
                self.terms.words.overlap_before(own, &most) * form
            }
        };
        Receiver { slot, context: None, form, own, before, words_max }
    }
}
