//! The one scan: every memory of a tenant that passes a filter, chunk by chunk.

use std::collections::HashSet;

use roaring::RoaringBitmap;

use crate::index::chunk::{CHUNK_ROWS, Chunk, Properties, Slot};
use crate::index::tenant::{Inner, TenantIndex};
use crate::index::words::{QUERY_WORDS_MAX, QueryWords};
use crate::model::id::{MemoryId, Timestamp};
use crate::model::memory::{Memory, MemoryType, Tier};
use crate::model::sq8::Code;
use crate::model::words::words;

/// Which tiers to look in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TierFilter {
    /// Not archived.
    #[default]
    Hot,
    /// Archived.
    Cold,
    /// Both.
    All,
}

impl TierFilter {
    fn holds(self, tier: Tier) -> bool {
        match self {
            Self::Hot => tier == Tier::Hot,
            Self::Cold => tier == Tier::Cold,
            Self::All => true,
        }
    }
}

/// Which memories to look at; `None` looks at all.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Of this type only.
    pub memory_type: Option<MemoryType>,
    /// In this namespace only.
    pub namespace: Option<String>,
    /// Pinned ones only, or unpinned ones only.
    pub pinned: Option<bool>,
    /// Flagged for review only, or the others only.
    pub flagged: Option<bool>,
    /// Which tiers.
    pub tier: TierFilter,
    /// Holding all of these words only (as `model::words` reads them), the first
    /// [`QUERY_WORDS_MAX`] of them.
    pub words: Option<Vec<String>>,
}

/// A filter with its names looked up in one tenant's index.
pub(crate) struct Resolved<'a> {
    filter: &'a Filter,
    namespace: Option<u32>,
    holding: Option<RoaringBitmap>,
}

impl Filter {
    /// Whether a memory that passed the scan passes as it is read now: it may have
    /// been changed, or its row given to another, in between.
    pub(crate) fn still_passes(&self, memory: &Memory) -> bool {
        self.memory_type.is_none_or(|wanted| wanted == memory.memory_type)
            && self.namespace.as_ref().is_none_or(|wanted| *wanted == memory.namespace)
            && self.pinned.is_none_or(|wanted| wanted == memory.is_pinned)
            && self.flagged.is_none_or(|wanted| wanted == memory.is_flagged)
            && self.tier.holds(memory.tier())
            && self.words().is_none_or(|wanted| {
                let held: HashSet<String> = words(memory.texts()).into_iter().collect();
                wanted.iter().all(|word| held.contains(word))
            })
    }

    fn words(&self) -> Option<&[String]> {
        let words = self.words.as_ref()?;
        Some(&words[..words.len().min(QUERY_WORDS_MAX)])
    }

    /// `None` when no memory can pass: the namespace was never used.
    pub(crate) fn resolve(&self, inner: &Inner) -> Option<Resolved<'_>> {
        let namespace = match &self.namespace {
            Some(name) => Some(inner.namespace(name)?),
            None => None,
        };
        let holding = self.words().map(|words| inner.holding_all(words));
        Some(Resolved { filter: self, namespace, holding })
    }
}

impl Resolved<'_> {
    fn passes(&self, row: Properties, slot: Slot) -> bool {
        let filter = self.filter;
        filter.memory_type.is_none_or(|wanted| wanted == row.memory_type)
            && self.namespace.is_none_or(|wanted| wanted == row.namespace)
            && filter.pinned.is_none_or(|wanted| wanted == row.is_pinned())
            && filter.flagged.is_none_or(|wanted| wanted == row.is_flagged())
            && filter.tier.holds(row.tier())
            && self.holding.as_ref().is_none_or(|holding| holding.contains(slot))
    }
}

/// A memory under the scan: its row, and what to compute on.
pub(crate) struct Seen<'a> {
    pub(crate) properties: Properties,
    /// Keyword overlap with the query, 0 without one.
    pub(crate) overlap: f64,
    /// What the similarity to the query is at most, 0 without one.
    pub(crate) similarity_ceiling: f32,
    /// What the heat is at most.
    pub(crate) heat_ceiling: f32,
    chunk: &'a Chunk,
    at: usize,
}

impl Seen<'_> {
    pub(crate) fn id(&self) -> MemoryId {
        self.chunk.id(self.at)
    }

    pub(crate) fn created_at(&self) -> Timestamp {
        self.chunk.created_at(self.at)
    }

    pub(crate) fn updated_at(&self) -> Timestamp {
        self.chunk.updated_at(self.at)
    }

    #[inline]
    pub(crate) fn heat(&self, now: Timestamp) -> f64 {
        self.chunk.heat(self.at, now)
    }

    #[inline]
    pub(crate) fn vector(&self) -> &[f32] {
        self.chunk.vector(self.at)
    }
}

/// What memories are compared with, if with anything.
#[derive(Clone, Copy, Default)]
pub(crate) struct Query<'a> {
    pub(crate) words: Option<&'a QueryWords>,
    pub(crate) code: Option<&'a Code>,
}

/// Calls `visit` with each memory that passes, roughly the newest first: under most
/// orders those rank high, and what follows is then dismissed at a glance.
pub(crate) fn scan(
    index: &TenantIndex,
    filter: &Filter,
    query: Query<'_>,
    now: Timestamp,
    mut visit: impl FnMut(Seen<'_>),
) {
    // Bound to a name first, so that the lock is released before the chunks' own.
    let resolved = filter.resolve(&index.read());
    let Some(resolved) = resolved else { return };
    let mut overlaps = vec![0.0; CHUNK_ROWS];
    let mut heat_ceilings = [0.0; CHUNK_ROWS];
    let (mut rows, mut dots, mut ceilings) = (Vec::new(), Vec::new(), Vec::new());
    // A memory that moves to another slot between two chunks was deleted and made
    // anew, with another id: no id is met twice.
    index.each_chunk(|inner, number, chunk| {
        let slot = |at: usize| (number * CHUNK_ROWS + at) as Slot;
        chunk.rows(|at, properties| resolved.passes(properties, slot(at)), &mut rows);
        if rows.is_empty() {
            return;
        }
        chunk.heat_ceilings(now, &mut heat_ceilings);
        if let Some(words) = query.words {
            inner.overlaps(words, number, &mut overlaps);
        }
        if let Some(code) = query.code {
            chunk.similarity_ceilings(code, &rows, &mut dots, &mut ceilings);
        }
        for (nth, at) in rows.iter().map(|at| usize::from(*at)).enumerate() {
            let similarity_ceiling = ceilings.get(nth).copied().unwrap_or(0.0);
            let (properties, overlap) = (chunk.properties(at), overlaps[at]);
            let heat_ceiling = heat_ceilings[at];
            visit(Seen { properties, overlap, similarity_ceiling, heat_ceiling, chunk, at });
        }
    });
}
