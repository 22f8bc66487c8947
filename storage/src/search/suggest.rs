//! What a new memory should be related to: those that share a key point, and those that
//! say nearly the same. Looked for by words and by the graph, never by a scan.

use std::collections::HashMap;

use crate::engine::Reader;
use crate::index::chunk::Slot;
use crate::index::tenant::{Inner, TenantIndex};
use crate::model::edge::{
    SHARED_KEY_POINT_WEIGHT, SHARES_KEY_POINT, SIMILAR_COSINE, SIMILAR_TO, SUGGESTIONS_MAX,
    Suggestion,
};
use crate::model::id::TenantId;
use crate::model::memory::shared_key_point;
use crate::model::sq8::Code;
use crate::model::vector::dot;
use crate::model::words::subject_words;
use crate::search::plan::nearest;

/// Memories that may share a key point for it to relate them: beyond, it says little.
const SHARING_MAX: u64 = 200;
/// Memories that may hold a word for it to bring them in.
const HOLDING_MAX: u64 = 1_000;
/// Words that are looked at, the rarest ones.
const WORDS_MAX: usize = 16;
/// Memories whose vectors are compared.
const COMPARED_MAX: usize = 64;

impl Reader {
    /// Edges that a memory of this text, with these key points and this unit vector, should
    /// get when it is stored: similar ones first.
    pub fn suggestions(
        &self,
        tenant: TenantId,
        label: &str,
        key_points: &[String],
        vector: &[f32],
    ) -> Vec<Suggestion> {
        let Some(index) = self.engine().registry.tenant(tenant) else { return Vec::new() };
        let near = near(&index, vector);
        let inner = index.read();
        let mut compared = candidates(&inner, &subject_words(label));
        compared.extend(near);
        compared.sort_unstable();
        compared.dedup();
        let mut found = similar(&inner, &compared, vector);
        for key_point in key_points {
            let sharing = inner.few_sharing(&shared_key_point(key_point), SHARING_MAX);
            // The newest first.
            for slot in sharing.into_iter().flat_map(|slots| slots.iter().rev()) {
                if found.len() >= SUGGESTIONS_MAX {
                    break;
                }
                let (other, relation) = (inner.vector_of(slot).0, SHARES_KEY_POINT.to_owned());
                let known =
                    |known: &Suggestion| known.other == other && known.relation == SHARES_KEY_POINT;
                if !found.iter().any(known) {
                    found.push(Suggestion { other, relation, weight: SHARED_KEY_POINT_WEIGHT });
                }
            }
        }
        found
    }
}

/// The nearest that a graph names, if there is one.
fn near(index: &TenantIndex, vector: &[f32]) -> Vec<Slot> {
    let Some((graph, _)) = index.read().graph() else { return Vec::new() };
    let named = nearest(index, &graph, &Code::of(vector), SUGGESTIONS_MAX);
    named.into_iter().flatten().map(|(slot, _)| slot).collect()
}

/// Memories that share the rarest words.
fn candidates(inner: &Inner, words: &[String]) -> Vec<Slot> {
    let mut rare: Vec<_> =
        words.iter().filter_map(|word| inner.few_holding(word, HOLDING_MAX)).collect();
    rare.sort_by_key(|slots| slots.len());
    let mut shared: HashMap<Slot, u32> = HashMap::new();
    for slots in rare.into_iter().take(WORDS_MAX) {
        slots.iter().for_each(|slot| *shared.entry(slot).or_default() += 1);
    }
    let mut slots: Vec<(u32, Slot)> = shared.into_iter().map(|(slot, n)| (n, slot)).collect();
    slots.sort_unstable_by(|left, right| right.cmp(left));
    slots.into_iter().take(COMPARED_MAX).map(|(_, slot)| slot).collect()
}

fn similar(inner: &Inner, slots: &[Slot], vector: &[f32]) -> Vec<Suggestion> {
    let cosine = |slot: &Slot| {
        let (other, own) = inner.vector_of(*slot);
        (dot(own, vector).clamp(-1.0, 1.0), other)
    };
    let mut near: Vec<_> =
        slots.iter().map(cosine).filter(|(cosine, _)| *cosine >= SIMILAR_COSINE).collect();
    near.sort_by(|left, right| right.0.total_cmp(&left.0).then(left.1.cmp(&right.1)));
    let suggestion =
        |(weight, other)| Suggestion { other, relation: SIMILAR_TO.to_owned(), weight };
    near.into_iter().take(SUGGESTIONS_MAX).map(suggestion).collect()
}
