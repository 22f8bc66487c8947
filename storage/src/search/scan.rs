//! The one scan: every memory of a tenant that passes a filter, chunk by chunk.

use std::collections::HashSet;

use roaring::RoaringBitmap;

use crate::index::chunk::{CHUNK_ROWS, Chunk, Pattern, Properties, Slot};
use crate::index::tenant::{Inner, TenantIndex};
use crate::index::words::{QUERY_WORDS_MAX, QueryWords};
use crate::model::access::Access;
use crate::model::id::{MemoryId, Timestamp};
use crate::model::memory::{Memory, MemoryType, Tier};
use crate::model::thermo::Thermo;
use crate::model::words::held_words;

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
    /// In namespaces that are open to whoever asks.
    pub access: Access,
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
pub(crate) struct Resolved {
    pattern: Pattern,
    /// Nothing but these, if given.
    within: Option<RoaringBitmap>,
    /// Namespaces that are not open.
    closed: Vec<u32>,
}

impl Filter {
    /// Whether a memory that passed the scan passes as it is read now: it may have
    /// been changed, or its row given to another, in between.
    pub(crate) fn still_passes(&self, memory: &Memory) -> bool {
        self.memory_type.is_none_or(|wanted| wanted == memory.memory_type)
            && self.namespace.as_ref().is_none_or(|wanted| *wanted == memory.namespace)
            && self.access.allows(&memory.namespace)
            && self.pinned.is_none_or(|wanted| wanted == memory.is_pinned)
            && self.flagged.is_none_or(|wanted| wanted == memory.is_flagged)
            && self.tier.holds(memory.tier())
            && self.words().is_none_or(|wanted| {
                let held: HashSet<String> = held_words(memory.texts()).into_iter().collect();
                wanted.iter().all(|word| held.contains(word))
            })
    }

    fn words(&self) -> Option<&[String]> {
        let words = self.words.as_ref()?;
        Some(&words[..words.len().min(QUERY_WORDS_MAX)])
    }

    /// What the filter asks of rows, of those in `within` only if it is given. `None`
    /// when no memory can pass: the namespace was never used.
    fn resolve(&self, inner: &Inner, within: Option<&RoaringBitmap>) -> Option<Resolved> {
        let mut pattern = Pattern::LIVE;
        if let Some(name) = &self.namespace {
            pattern = pattern.in_namespace(inner.namespace(name)?);
        }
        pattern = self.memory_type.map_or(pattern, |wanted| pattern.of_type(wanted));
        pattern = self.pinned.map_or(pattern, |wanted| pattern.pinned(wanted));
        pattern = self.flagged.map_or(pattern, |wanted| pattern.flagged(wanted));
        pattern = match self.tier {
            TierFilter::Hot => pattern.in_tier(Tier::Hot),
            TierFilter::Cold => pattern.in_tier(Tier::Cold),
            TierFilter::All => pattern,
        };
        let holding = self.words().map(|words| inner.holding_all(words));
        let within = match (holding, within) {
            (Some(holding), Some(within)) => Some(holding & within),
            (holding, within) => holding.or_else(|| within.cloned()),
        };
        Some(Resolved { pattern, within, closed: inner.closed(&self.access) })
    }
}

/// A memory under the scan.
#[derive(Clone, Copy)]
pub(crate) struct RowRef<'a> {
    chunk: &'a Chunk,
    at: usize,
}

impl RowRef<'_> {
    pub(crate) fn id(&self) -> MemoryId {
        self.chunk.id(self.at)
    }

    pub(crate) fn properties(&self) -> Properties {
        self.chunk.properties(self.at)
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

    /// Bytes of its label and of its vector as it is stored.
    pub(crate) fn bytes(&self) -> u64 {
        self.chunk.bytes(self.at)
    }

    pub(crate) fn anchored_at(&self) -> Timestamp {
        self.chunk.anchored_at(self.at)
    }

    pub(crate) fn tick_heat(&self) -> f32 {
        self.chunk.tick_heat(self.at)
    }

    /// Heat at `now` if `thermo` were the configuration.
    pub(crate) fn heat_under(&self, thermo: &Thermo, now: Timestamp) -> f64 {
        self.chunk.heat_under(self.at, thermo, now)
    }

    #[inline]
    pub(crate) fn vector(&self) -> &[f32] {
        self.chunk.vector(self.at)
    }
}

/// The memories of one chunk that pass, and what is known of them at a candidates.
pub(crate) struct ChunkCandidates<'a> {
    pub(crate) chunk: &'a Chunk,
    pub(crate) number: usize,
    /// Rows of those that pass, the newest first; the visitor may exclude some off.
    pub(crate) rows: &'a mut Vec<u16>,
    /// Keyword overlap with the query by row, 0 without one.
    pub(crate) overlaps: &'a [f64; CHUNK_ROWS],
    /// What the heat is at most, by row.
    pub(crate) heat_upper_bounds: &'a [f32; CHUNK_ROWS],
}

impl<'a> ChunkCandidates<'a> {
    /// The memories in `rows`, with their rows.
    pub(crate) fn each(&self) -> impl Iterator<Item = (usize, RowRef<'a>)> {
        let chunk = self.chunk;
        self.rows.iter().map(|at| usize::from(*at)).map(move |at| (at, RowRef { chunk, at }))
    }

    /// Strikes off what is neither pinned nor may be as hot as `lowest`: computing a
    /// heat is what an order by heat costs.
    pub(crate) fn keep_hotter_or_pinned(&mut self, lowest: f32) {
        let hot = |at: usize| {
            self.heat_upper_bounds[at] >= lowest || self.chunk.properties(at).is_pinned()
        };
        self.rows.retain(|at| hot(usize::from(*at)));
    }

    /// Strikes off what is in `slots`.
    pub(crate) fn exclude(&mut self, slots: &RoaringBitmap) {
        let first = self.number * CHUNK_ROWS;
        self.rows.retain(|at| !slots.contains((first + usize::from(*at)) as Slot));
    }
}

/// Rows of a chunk up to which each is looked at by itself rather than all 1,024 at once.
pub(crate) const FEW_ROWS: usize = 32;
/// More than what rounding to f32 takes away.
const ROUNDED_UP: f32 = 1.0 + 2.0 * f32::EPSILON;

/// Calls `visit` with each chunk that holds memories that pass, roughly the newest
/// first: under most orders those rank high, and what follows is then dismissed at a
/// candidates. Looks at the slots in `within` only, if it is given.
pub(crate) fn scan(
    index: &TenantIndex,
    filter: &Filter,
    within: Option<&RoaringBitmap>,
    words: Option<&QueryWords>,
    now: Timestamp,
    mut visit: impl FnMut(ChunkCandidates<'_>),
) {
    let (mut overlaps, mut heat_upper_bounds) = ([0.0; CHUNK_ROWS], [0.0; CHUNK_ROWS]);
    each_chunk_passing(index, filter, within, |inner, number, chunk, rows| {
        if rows.len() > FEW_ROWS {
            chunk.heat_upper_bounds(now, &mut heat_upper_bounds);
        } else {
            for at in rows.iter().map(|at| usize::from(*at)) {
                heat_upper_bounds[at] = chunk.heat(at, now) as f32 * ROUNDED_UP;
            }
        }
        if let Some(words) = words {
            inner.overlaps(words, number, &mut overlaps);
        }
        let (overlaps, heat_upper_bounds) = (&overlaps, &heat_upper_bounds);
        visit(ChunkCandidates { chunk, number, rows, overlaps, heat_upper_bounds });
        true
    });
}

/// Whether more than `most` memories pass.
pub(crate) fn more_pass(index: &TenantIndex, filter: &Filter, most: usize) -> bool {
    let mut passing = 0;
    let resolved = filter.resolve(&index.read(), None);
    match resolved {
        // Counted without naming them, which takes longer.
        Some(Resolved { pattern, within: None, closed }) if closed.is_empty() => {
            index.each_chunk(|_, _, chunk| {
                passing += chunk.count(pattern);
                passing <= most
            });
        }
        _ => each_chunk_passing(index, filter, None, |_, _, _, rows| {
            passing += rows.len();
            passing <= most
        }),
    }
    passing > most
}

/// What every heat of a tenant is at most.
pub(crate) fn highest_heat(index: &TenantIndex, now: Timestamp) -> f64 {
    let mut highest = 0.0_f64;
    index.each_chunk(|_, _, chunk| {
        chunk.find_limit(now);
        highest = highest.max(chunk.limit(now).map_or(1.0, |(heat, _)| heat));
        highest < 1.0
    });
    highest
}

/// Calls `visit` with each chunk that holds memories that pass and their rows, until it
/// says false.
pub(crate) fn each_chunk_passing(
    index: &TenantIndex,
    filter: &Filter,
    within: Option<&RoaringBitmap>,
    mut visit: impl FnMut(&Inner, usize, &Chunk, &mut Vec<u16>) -> bool,
) {
    // Bound to a name first, so that the lock is released before the chunks' own.
    let resolved = filter.resolve(&index.read(), within);
    let Some(Resolved { pattern, within, closed }) = resolved else { return };
    let mut rows = Vec::new();
    // A memory that moves to another slot between two chunks was deleted and made
    // anew, with another id: no id is met twice.
    index.each_chunk(|inner, number, chunk| {
        let first = (number * CHUNK_ROWS) as Slot;
        let within = within.as_ref().map(|within| {
            let slots = within.range(first..=first + (CHUNK_ROWS as Slot - 1)).rev();
            slots.map(move |slot| (slot - first) as usize)
        });
        chunk.rows(pattern, within, &mut rows);
        if !closed.is_empty() {
            let is_open = |at: usize| closed.binary_search(&chunk.namespace(at)).is_err();
            rows.retain(|at| is_open(usize::from(*at)));
        }
        rows.is_empty() || visit(inner, number, chunk, &mut rows)
    });
}
