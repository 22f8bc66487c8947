//! Memories that are related: neighbours over edges, the view of the hottest memories with the
//! edges between them, and suggested edges for a new memory.
//!
//! Edges are suggested to memories that share a key point, and to memories with a similar
//! vector. Candidates come from rare words, never from a scan. Words and key points are counted in
//! the namespace of the new memory only: other memories may be closed to those who see the edges.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use index::Slot;
use index::data::IndexData;
use model::access::Access;
use model::edge::{
    Edge, SHARED_KEY_POINT_WEIGHT, SHARES_KEY_POINT, SIMILAR_COSINE, SIMILAR_TO, SUGGESTIONS_MAX,
    Suggestion,
};
use model::id::{MemoryId, TenantId};
use model::memory::{MemoryRecord, shared_key_point};
use model::sq8::Code;
use roaring::RoaringBitmap;
use text::term::TermHash;
use text::tokenizer::content_hashes;

use crate::error::Result;
use crate::reader::Reader;
use crate::search::filter::TextRoom;
use crate::search::list::HotRequest;
use crate::table::view::View;

/// Largest number of memories of a namespace that a key point relates.
const SHARING_MAX: u64 = 200;
/// Maximum number of words of a text whose memories are counted.
const WORDS_COUNTED_MAX: usize = 256;
/// Maximum number of words that yield candidates, rarest first.
const WORDS_MAX: usize = 16;
/// Maximum number of memories with these words that are counted, the newest of each word: a creation waits for it.
const COUNTED_MAX: usize = 2_000;
/// Maximum number of candidates from words.
const CANDIDATES_MAX: usize = 64;

/// A memory reached over edges.
#[derive(Debug, Clone)]
pub struct Neighbour {
    /// The memory.
    pub record: MemoryRecord,
    /// The last edge of the path to it.
    pub edge: Edge,
    /// Number of edges of the path, from 1.
    pub hops: u32,
}

/// The hottest memories with the edges between them.
#[derive(Debug, Clone, Default)]
pub struct GraphView {
    /// The hottest memories, hottest first.
    pub memories: Vec<MemoryRecord>,
    /// Edges with both ends in `memories`, ordered by source, target and relation.
    pub edges: Vec<Edge>,
    /// Number of memories that match the filter.
    pub total: usize,
}

impl Reader {
    /// Memories connected to `id` by breadth-first search, nearest first, then by edge weight.
    /// Each occurs once, with the shortest path over memories that `access` allows. The list ends
    /// when their texts do not fit. `None` if `id` does not exist.
    pub fn neighbours(
        &self,
        tenant: TenantId,
        id: MemoryId,
        access: &Access,
        depth: u32,
        limit: usize,
    ) -> Result<Option<Vec<Neighbour>>> {
        let engine = self.engine();
        let (now, thermo) = (engine.clock(), engine.thermo(tenant));
        let snapshot = engine.state.snapshot();
        if snapshot.memory(tenant, id)?.is_none() {
            return Ok(None);
        }
        let (mut found, mut room) = (Vec::new(), TextRoom::default());
        let mut visited = BTreeSet::from([id]);
        let mut queue = VecDeque::from([(id, 0)]);
        while let Some((from, hops)) = queue.pop_front().filter(|(_, hops)| *hops < depth) {
            for edge in snapshot.edges(tenant, from)? {
                let other = edge.other(from);
                if found.len() == limit {
                    return Ok(Some(found));
                }
                if !visited.insert(other) {
                    continue;
                }
                let record = snapshot.memory_record(tenant, other, &thermo, now)?;
                let is_allowed = |record: &MemoryRecord| access.allows_memory(&record.memory);
                if let Some(record) = record.filter(is_allowed) {
                    if !room.take(&record.memory) {
                        return Ok(Some(found));
                    }
                    found.push(Neighbour { record, edge, hops: hops + 1 });
                    queue.push_back((other, hops + 1));
                }
            }
        }
        Ok(Some(found))
    }

    /// The hottest memories and the edges between them.
    pub fn graph_view(&self, tenant: TenantId, request: &HotRequest) -> Result<GraphView> {
        let engine = self.engine();
        let page = self.hottest_page(tenant, request)?;
        let shown: BTreeSet<MemoryId> = page.memories.iter().map(|record| record.id).collect();
        let snapshot = engine.state.snapshot();
        let mut edges = BTreeMap::new();
        for id in &shown {
            for edge in snapshot.edges(tenant, *id)? {
                if edge.source == *id && shown.contains(&edge.target) {
                    edges.insert((edge.source, edge.target, edge.relation.clone()), edge);
                }
            }
        }
        let edges = edges.into_values().collect();
        Ok(GraphView { memories: page.memories, edges, total: page.total })
    }

    /// Edges that a new memory with this text, key points and unit vector should get. Similar
    /// memories come first, then memories that share a key point. All are of its namespace: edges
    /// to others would tell of memories that are closed to a key.
    pub fn suggestions(
        &self,
        tenant: TenantId,
        namespace: &str,
        label: &str,
        key_points: &[String],
        vector: &[f32],
    ) -> Vec<Suggestion> {
        let index = self.index(tenant).filter(|index| index.read().dimension() == vector.len());
        let Some(index) = index else { return Vec::new() };
        // Before the lock: a long label takes a millisecond.
        let (code, words) = (Code::of(vector), content_hashes(label));
        let data = index.read();
        let near = data.namespaces.visible(Some(namespace), &Access::default());
        let near = near.unwrap_or_default();
        let mut candidates = keyword_candidates(&data, words, &near);
        let same = data.with_same_words(namespace, label).into_iter().rev();
        candidates.extend(same.take(SUGGESTIONS_MAX).filter_map(|row| data.slot(row.id())));
        candidates.sort_unstable();
        candidates.dedup();
        let mut suggestions = similar(&data, &candidates, vector, &code);
        for key_point in key_points {
            suggest_sharing(&data, &shared_key_point(key_point), &near, &mut suggestions);
        }
        suggestions
    }
}

/// Adds the newest memories with a key point, up to [`SUGGESTIONS_MAX`] in all.
fn suggest_sharing(
    data: &IndexData,
    key_point: &str,
    near: &RoaringBitmap,
    suggestions: &mut Vec<Suggestion>,
) {
    if suggestions.len() >= SUGGESTIONS_MAX {
        return;
    }
    let word = TermHash::of(key_point);
    if data.key_points.frequency(word, Some(near)) > SHARING_MAX {
        return;
    }
    for slot in (data.key_points.slots(word).as_ref() & near).iter().rev() {
        if suggestions.len() >= SUGGESTIONS_MAX {
            break;
        }
        let (other, relation) = (data.row(slot).id(), SHARES_KEY_POINT.to_owned());
        let is_same =
            |known: &Suggestion| known.other == other && known.relation == SHARES_KEY_POINT;
        if !suggestions.iter().any(is_same) {
            suggestions.push(Suggestion { other, relation, weight: SHARED_KEY_POINT_WEIGHT });
        }
    }
}

/// The memories that share most of the rarest words.
fn keyword_candidates(data: &IndexData, words: Vec<TermHash>, near: &RoaringBitmap) -> Vec<Slot> {
    // All of the tenant: the numbers are known.
    let counted_in = (near.len() < data.live() as u64).then_some(near);
    let frequency = |word| data.words.frequency(word, counted_in);
    let counted_words = words.into_iter().take(WORDS_COUNTED_MAX);
    let frequencies = counted_words.map(|word| (frequency(word), word));
    let mut rare: Vec<_> = frequencies.filter(|(frequency, _)| *frequency > 0).collect();
    rare.sort_by_key(|(frequency, _)| *frequency);
    let mut slots = Vec::new();
    for (_, word) in rare.into_iter().take(WORDS_MAX) {
        let newest = (data.words.slots(word).as_ref() & near).into_iter().rev();
        slots.extend(newest.take(COUNTED_MAX - slots.len()));
    }
    slots.sort_unstable();
    let counts = slots.chunk_by(Slot::eq).map(|equal| (equal.len(), equal[0]));
    let mut candidates: Vec<_> = counts.collect();
    if candidates.len() > CANDIDATES_MAX {
        candidates.select_nth_unstable_by(CANDIDATES_MAX, |left, right| right.cmp(left));
        candidates.truncate(CANDIDATES_MAX);
    }
    candidates.into_iter().map(|(_, slot)| slot).collect()
}

/// The most similar memories of `slots`, best first, of equal ones the newest.
fn similar(data: &IndexData, slots: &[Slot], vector: &[f32], code: &Code) -> Vec<Suggestion> {
    let may_be = |slot: &&Slot| data.row(**slot).similarity_upper_bound(code) >= SIMILAR_COSINE;
    let cosine = |slot: &Slot| {
        let row = data.row(*slot);
        (row.vector().cosine(vector).clamp(-1.0, 1.0), row.id())
    };
    let mut similar: Vec<_> = slots
        .iter()
        .filter(may_be)
        .map(cosine)
        .filter(|(cosine, _)| *cosine >= SIMILAR_COSINE)
        .collect();
    similar.sort_by(|left, right| right.0.total_cmp(&left.0).then(right.1.cmp(&left.1)));
    let suggestion =
        |(weight, other)| Suggestion { other, relation: SIMILAR_TO.to_owned(), weight };
    similar.into_iter().take(SUGGESTIONS_MAX).map(suggestion).collect()
}
