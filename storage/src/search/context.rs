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
use index::inverted_index::FoundWords;
use model::id::MemoryId;
use model::score::{Factors, Passed, RecallWeights, ScoreContext, rounded};
use text::Step;

use crate::search::best::Best;
use crate::search::query::SearchPlan;
use crate::search::scan::heat_upper_bound;
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

/// A source or a neighbour of one: what it may get.
struct Receiver {
    slot: Slot,
    /// Factor of its form.
    form: f64,
    /// Of each source, the best first, if all of its share is passed on.
    contexts: Vec<(Slot, ScoreContext)>,
    /// The largest of `contexts`.
    context_max: f64,
    /// The words of the query that it has, a bit each.
    words: u128,
    /// An upper bound of the overlap of words that it gets from those before.
    words_max: f64,
}

impl Receiver {
    /// An upper bound of the score, if it is at most `score` before.
    fn score_max(&self, score: f64, weights: &RecallWeights) -> f64 {
        let words = score.max(0.0) * weights.keyword_weight * self.words_max;
        score + words + self.context_max + ROUNDING
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
        let found = self.best(SOURCES.max(self.request.found_max()), exact_max);
        let Best { memories: best, archived, used_graph } = found;
        // The threshold is a rounded score.
        let rest_max = best.threshold().map(|[it, ..]| f64_from_ordered(it) + ROUNDING);
        let best: Vec<_> = best.into_sorted().collect();
        let _passing_on = child("context").entered();
        let mut results = TopK::new(self.request.found_max());
        let data = self.index.read();
        let stage = ContextStage::new(self, &data);
        let mut receivers = stage.receivers(&best[..best.len().min(SOURCES)]);
        for (id, factors) in best {
            stage.push(&mut results, receivers.remove(&id), id, factors);
        }
        // `best` has all matching memories, or any other has at most the score of its last one
        // before context.
        if let Some(rest_max) = rest_max {
            receivers.retain(|_, receiver| {
                let rejects =
                    |score| results.rejects(by_score(receiver.score_max(score, &self.weights)));
                !rejects(rest_max) && !rejects(stage.score_max(receiver))
            });
            drop(data);
            let slots = receivers.values().map(|receiver| receiver.slot).collect();
            let scores = self.scores_of(&slots);
            let data = self.index.read();
            let stage = ContextStage::new(self, &data);
            for (id, factors) in scores.into_sorted() {
                stage.push(&mut results, receivers.remove(&id), id, factors);
            }
        }
        Ran { best: results.into_sorted().collect(), archived, used_graph }
    }
}

/// What memories of an index pass on to their neighbours.
struct ContextStage<'a> {
    plan: &'a SearchPlan<'a>,
    data: &'a IndexData,
    /// The slots that contain the words of the query.
    found: FoundWords<'a>,
}

impl<'a> ContextStage<'a> {
    fn new(plan: &'a SearchPlan<'a>, data: &'a IndexData) -> Self {
        Self { plan, data, found: data.words.found_words(&plan.terms.words) }
    }

    /// An upper bound of the score of a receiver before it gets anything.
    fn score_max(&self, receiver: &Receiver) -> f64 {
        let Self { plan, data, .. } = self;
        let row = data.row(receiver.slot);
        let similarity = plan.code.as_ref().map_or(0.0, |code| row.similarity_upper_bound(code));
        let factors = Factors {
            similarity: similarity.min(1.0).into(),
            heat: heat_upper_bound(row, plan.now).into(),
            own: plan.terms.words.overlap_of(receiver.words) * receiver.form,
            ..plan.factors(row)
        };
        factors.unrounded(&plan.weights)
    }

    /// Adds a memory to the results, with what it gets.
    fn push(
        &self,
        results: &mut TopK<Found>,
        receiver: Option<Receiver>,
        id: MemoryId,
        alone: Factors,
    ) {
        let weights = &self.plan.weights;
        let score = alone.unrounded(weights);
        // A score of 0 or less stays.
        let passed = match receiver.filter(|_| rounded(score) > 0.0) {
            Some(receiver) => {
                if results.rejects(by_score(receiver.score_max(score, weights))) {
                    return;
                }
                self.passed(id, &receiver)
            }
            None => Passed::default(),
        };
        let factors = alone.with_passed(&passed, weights);
        results.push(by_score(factors.fused(weights)), id, || Found { factors, passed });
    }

    /// What a memory gets: the largest share of a source, and words of those before, each with the largest
    /// share that one of them gives.
    fn passed(&self, id: MemoryId, receiver: &Receiver) -> Passed {
        let Self { plan, data, found } = self;
        let mut passed = Passed::default();
        // Since the receivers were found, a memory may be deleted, and its slot be that of another.
        let is_there = |id: MemoryId, slot| data.slot(id) == Some(slot);
        if !is_there(id, receiver.slot) {
            return passed;
        }
        let vector = LazyCell::new(|| data.row(receiver.slot).vector().components());
        let likeness = |slot| ScoreContext::likeness(data.row(slot).vector().cosine(&vector));
        for (slot, full) in &receiver.contexts {
            // Of equal contexts, that of the better source stays.
            if full.added() > passed.added() && is_there(full.id, *slot) {
                let context = ScoreContext { share: full.share * likeness(*slot), ..*full };
                if context.added() > passed.added() {
                    passed.context = Some(context);
                }
            }
        }
        if receiver.words_max > 0.0
            && let Some((near, _)) = data.around(id, ScoreContext::WORDS.len(), 0)
        {
            let words: Vec<_> = near.iter().map(|(_, slot)| found.in_slot(*slot)).collect();
            let (own, mut before) = words_before(&near, &words);
            for ((_, share), (_, slot)) in before.iter_mut().zip(near.iter().rev().skip(1)) {
                if *share > 0.0 {
                    *share *= likeness(*slot);
                }
            }
            passed.words_before = plan.terms.words.overlap_before(own, &before) * receiver.form;
        }
        passed
    }

    /// The sources and their neighbours, with what they may get.
    fn receivers(&self, sources: &[(MemoryId, Factors)]) -> Receivers {
        let Self { plan, data, found } = self;
        let RecallWeights { context_weight, keyword_weight, .. } = plan.weights;
        if context_weight == 0.0 || keyword_weight == 0.0 {
            return Receivers::default();
        }
        let most = sources.len() * (2 * NEIGHBOURS + 1);
        let mut receivers = Receivers::with_capacity_and_hasher(most, ahash::RandomState::new());
        let mut words = Vec::new();
        for (id, factors) in sources {
            let source_score = factors.without_heat(&plan.weights);
            let Some((near, at)) =
                data.around(*id, NEIGHBOURS + ScoreContext::WORDS.len(), NEIGHBOURS)
            else {
                continue;
            };
            let ((created_at, _), slot) = near[at];
            let is_question = data.is_question(slot);
            words.clear();
            words.extend(near.iter().map(|(_, slot)| found.in_slot(*slot)));
            for other in at.saturating_sub(NEIGHBOURS)..near.len() {
                let ((time, neighbour), other_slot) = near[other];
                if !ScoreContext::is_near(created_at, time) {
                    continue;
                }
                let receiver = receivers.entry(neighbour).or_insert_with(|| {
                    let (own, before) = words_before(&near[..=other], &words[..=other]);
                    let form = data.form(&plan.terms, other_slot);
                    let words_max = plan.terms.words.overlap_before(own, &before) * form;
                    let (contexts, context_max) = (Vec::new(), 0.0);
                    Receiver {
                        slot: other_slot,
                        form,
                        contexts,
                        context_max,
                        words: own,
                        words_max,
                    }
                });
                if other == at || source_score <= 0.0 {
                    continue;
                }
                let is_answer = is_question && other == at + 1;
                let factor = if is_answer { ScoreContext::ANSWER_FACTOR } else { 1.0 };
                let damping = ScoreContext::DAMPING[other.abs_diff(at) - 1];
                let share = context_weight * damping * factor * receiver.form;
                let context = ScoreContext { id: *id, source_score, share };
                receiver.context_max = receiver.context_max.max(context.added());
                receiver.contexts.push((slot, context));
            }
        }
        receivers
    }
}

/// The words of the query that the last of some memories in the order of creation has, a bit each, and those
/// that it lacks and one of the three before it has, the nearest first, each with how much they count at most.
fn words_before(
    near: &[(Age, Slot)],
    words: &[u128],
) -> (u128, [(u128, f64); ScoreContext::WORDS.len()]) {
    let last = near.len() - 1;
    let ((created_at, _), own) = (near[last].0, words[last]);
    let mut before = [(0, 0.0); ScoreContext::WORDS.len()];
    if Step::WordsBefore.is_on() {
        for (at, older) in (0..last).rev().take(before.len()).enumerate() {
            let (time, _) = near[older].0;
            let others = words[older] & !own;
            if others != 0 && ScoreContext::is_near(created_at, time) {
                before[at] = (others, ScoreContext::WORDS[at]);
            }
        }
    }
    (own, before)
}
