//! Context: finds memories that were created next to a good result. In a conversation that is
//! stored message by message, the answer often follows the message with the words of the question.
//!
//! Each of the best memories passes a share of its score on to its neighbours in the order of
//! creation within its namespace ([`Context`]). A memory gets the largest of these shares.

use std::collections::HashMap;

use roaring::RoaringBitmap;

use crate::search::plan::SearchPlan;
use crate::search::top_k::{TopK, by_score, f64_from_ordered};
use index::Slot;
use model::id::MemoryId;
use model::score::{Context, Factors};

/// Memories that pass context on: the best before context. A constant, so that a search with a
/// lower limit returns the first results of one with a higher limit. Twice as many answer 0.4 %
/// more of the questions of `make eval` at most, and make a search a fifth slower.
const SOURCES: usize = 50;

/// Exceeds the error of a rounded score.
const ROUNDING: f64 = 1e-6;

/// The largest context of each neighbour of a source, and the neighbour's slot.
type Contexts = HashMap<MemoryId, (Context, Slot)>;

/// The composition of a result's score.
pub(super) struct Found {
    pub(super) factors: Factors,
    pub(super) context: Option<Context>,
}

impl SearchPlan<'_> {
    /// The best memories, best first, and whether the graph was used. It is used only if more than
    /// `exact_max` memories match.
    pub(super) fn run(&self, exact_max: usize) -> (Vec<(MemoryId, Found)>, bool) {
        let (best, used_graph) = self.best(SOURCES.max(self.request.limit), exact_max);
        let rest_max = best.threshold().map(|[threshold, ..]| f64_from_ordered(threshold));
        let best: Vec<_> = best.into_sorted().collect();
        let mut contexts = self.contexts(&best[..best.len().min(SOURCES)]);
        let mut results = TopK::new(self.request.limit);
        let push = |results: &mut TopK<Found>, contexts: &mut Contexts, id, alone: Factors| {
            let context = contexts.remove(&id).map(|(context, _)| context);
            let with = |context: &Context| alone.with_context(context, &self.weights);
            let factors = context.as_ref().map_or(alone, with);
            results.push(by_score(factors.fused(&self.weights)), id, || Found { factors, context });
        };
        for (id, factors) in best {
            push(&mut results, &mut contexts, id, factors);
        }
        // `best` has all matching memories, or any other has at most the score of its last one
        // before context.
        if let Some(rest_max) = rest_max {
            let slots = contexts.values().filter(|(context, _)| {
                !results.rejects(by_score(rest_max + context.added() + ROUNDING))
            });
            let slots: RoaringBitmap = slots.map(|(_, slot)| *slot).collect();
            for (id, factors) in self.scores_of(&slots).into_sorted() {
                push(&mut results, &mut contexts, id, factors);
            }
        }
        (results.into_sorted().collect(), used_graph)
    }

    /// What the sources pass on.
    fn contexts(&self, sources: &[(MemoryId, Factors)]) -> Contexts {
        let mut contexts = Contexts::new();
        let data = self.index.read();
        for (id, factors) in sources {
            let source_score = factors.without_heat(&self.weights);
            if source_score <= 0.0 || self.weights.context_weight == 0.0 {
                continue;
            }
            data.visit_around(*id, |damping, (neighbour, slot), likeness| {
                let share = self.weights.context_weight * damping;
                let full = Context { id: *id, source_score, share };
                // Sources come best first: of equal contexts, the first one stays.
                let known = contexts.get(&neighbour).map_or(0.0, |(context, _)| context.added());
                if full.added() <= known {
                    return;
                }
                let context = Context { share: share * likeness(), ..full };
                if context.added() > known {
                    contexts.insert(neighbour, (context, slot));
                }
            });
        }
        contexts
    }
}
