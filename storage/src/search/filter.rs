//! Filters: which memories a search, a list or a count includes.
//!
//! A filter compiles to parts that a scan tests cheaply: a mask over packed attributes, a set of
//! slots from the inverted index, a list of denied namespaces, and a span of time.
//!
//! The bound of the text in one result. JSON may take twelve times as many bytes: it contains the
//! label twice, and a control character takes six bytes.

use std::collections::HashSet;
use std::ops::Range;

use index::attributes::AttributeMask;
use index::data::IndexData;
use index::inverted_index::{InvertedIndex, QUERY_WORDS_MAX};
use model::access::{Access, is_below};
use model::details::{DETAILS_BYTES_MAX, Details};
use model::edge::SUPERSEDED_MAX;
use model::id::Timestamp;
use model::memory::Origin;
use model::memory::{KEY_POINT_BYTES_MAX, KEY_POINTS_MAX, LABEL_BYTES_MAX, Memory, MemoryType};
use roaring::RoaringBitmap;
use text::term::TermHash;
use text::tokenizer::document_words;

use crate::search::condition::{CompiledCondition, Condition};

/// Tiers that a filter includes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TierFilter {
    /// Memories that are not archived.
    #[default]
    Hot,
    /// Archived memories.
    Cold,
    /// Both tiers.
    All,
}

impl TierFilter {
    /// Whether memories must be archived, or must not be.
    fn archived(self) -> Option<bool> {
        match self {
            Self::Hot => Some(false),
            Self::Cold => Some(true),
            Self::All => None,
        }
    }
}

/// Which memories a filter includes of those in quarantine and of all others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum QuarantineFilter {
    /// The others.
    #[default]
    Without,
    /// Those in quarantine.
    Only,
    /// All.
    With,
}

impl QuarantineFilter {
    /// Whether memories must be in quarantine, or must not be.
    fn quarantined(self) -> Option<bool> {
        match self {
            Self::Without => Some(false),
            Self::Only => Some(true),
            Self::With => None,
        }
    }

    fn includes(self, memory: &Memory) -> bool {
        self.quarantined().is_none_or(|required| required == memory.guard.is_quarantined())
    }
}

/// Conditions on memories. All must hold. `None` is no condition.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// The memory has this type.
    pub memory_type: Option<MemoryType>,
    /// The memory is in this namespace.
    pub namespace: Option<String>,
    /// The memory is in this namespace or below it.
    pub namespace_prefix: Option<String>,
    /// The memory is in a namespace that this access allows.
    pub access: Access,
    /// The memory is pinned, or is not.
    pub pinned: Option<bool>,
    /// The memory is flagged for review, or is not.
    pub flagged: Option<bool>,
    /// The memory waits in quarantine, or does not.
    pub quarantine: QuarantineFilter,
    /// The memory is in this tier.
    pub tier: TierFilter,
    /// The memory happened in this time.
    pub happened: Option<Range<Timestamp>>,
    /// The memory holds at this time.
    pub valid_at: Option<Timestamp>,
    /// The memory is indexed under all of these words, as tokenized by `text::tokenizer`. Only the
    /// first `QUERY_WORDS_MAX` are used.
    pub words: Option<Vec<String>>,
    /// The memory comes from there, as far as parts are named.
    pub origin: Origin,
    /// This holds of the memory.
    pub condition: Option<Condition>,
    /// The time of the heats in it.
    pub now: Timestamp,
    /// The memory has all of these tags, and all of these entries in its metadata.
    pub details: Details,
}

/// A filter compiled for the index of one tenant.
pub(crate) struct CompiledFilter {
    pub(crate) mask: AttributeMask,
    /// Only these slots can match. `None` is all slots.
    pub(crate) slots: Option<RoaringBitmap>,
    /// Numbers of denied namespaces, sorted.
    pub(crate) denied_namespaces: Vec<u32>,
    pub(crate) happened: Option<Range<Timestamp>>,
    pub(crate) valid_at: Option<Timestamp>,
    pub(crate) condition: Option<CompiledCondition>,
}

impl Filter {
    /// Whether a memory read from the state matches. Needed after a scan: between scan and
    /// read, the memory may have changed, or its slot may belong to another memory.
    pub(crate) fn matches(&self, memory: &Memory) -> bool {
        self.memory_type.is_none_or(|required| required == memory.memory_type)
            && self.namespace.as_ref().is_none_or(|required| *required == memory.namespace)
            && self.namespace_prefix.as_ref().is_none_or(|it| is_below(&memory.namespace, it))
            && self.access.allows(&memory.namespace)
            && self.pinned.is_none_or(|required| required == memory.is_pinned)
            && self.flagged.is_none_or(|required| required == memory.is_flagged)
            && self.quarantine.includes(memory)
            && self.tier.archived().is_none_or(|required| required == memory.archived_at.is_some())
            && self.happened.as_ref().is_none_or(|time| time.contains(&memory.happened_at()))
            && self.valid_at.is_none_or(|at| memory.validity().contains(&at))
            && self.condition.as_ref().is_none_or(|condition| condition.matches(memory))
            && memory.origin.has(&self.origin)
            && (self.details == Details::default()
                || memory.details.as_ref().is_some_and(|details| details.have(&self.details)))
            && self.words().is_none_or(|required| {
                let words: HashSet<_> = document_words(memory.texts()).into_iter().collect();
                required.iter().all(|word| words.contains(&TermHash::of(word)))
            })
    }

    fn words(&self) -> Option<&[String]> {
        let words = self.words.as_ref()?;
        Some(&words[..words.len().min(QUERY_WORDS_MAX)])
    }

    /// Compiles the filter. `None` if no memory can match, since the namespace contains no memories.
    pub(crate) fn compile(&self, data: &IndexData) -> Option<CompiledFilter> {
        let namespace = match &self.namespace {
            Some(name) => Some(data.namespaces.number(name)?),
            None => None,
        };
        let mask = AttributeMask::LIVE.in_namespace(namespace).of_type(self.memory_type);
        let mask = mask.with_flags(
            self.pinned,
            self.flagged,
            self.tier.archived(),
            self.quarantine.quarantined(),
        );
        let with_all = |index: &InvertedIndex, words: &[String]| {
            index.intersection(words.iter().map(|word| TermHash::of(word)))
        };
        let with_words = self.words().map(|words| with_all(&data.words, words));
        let facets = [self.origin.named(), self.details.terms()].concat();
        let with_facets = (!facets.is_empty()).then(|| with_all(&data.facets, &facets));
        let below = self.namespace_prefix.as_ref().map(|prefix| data.namespaces.below(prefix));
        let sets = [with_words, with_facets, below];
        let slots = sets.into_iter().flatten().reduce(|left, right| left & right);
        let denied_namespaces = data.namespaces.denied(&self.access);
        let happened = self.happened.clone();
        let valid_at = self.valid_at;
        let condition = self.condition.as_ref().map(|it| it.compile(data, self.now));
        Some(CompiledFilter { mask, slots, denied_namespaces, happened, valid_at, condition })
    }
}

/// Most bytes of labels, key points, tags and metadata in a result. It ends before the memory that exceeds them.
/// Pages of a list are exempt: clients take a short page for the last one.
pub const TEXT_BYTES_MAX: usize = 4 << 20;

const _: () = assert!(
    SUPERSEDED_MAX * (LABEL_BYTES_MAX + KEY_POINTS_MAX * KEY_POINT_BYTES_MAX + DETAILS_BYTES_MAX)
        <= TEXT_BYTES_MAX,
    "the first memory always fits, and so does the first group that can be folded"
);

/// Text that a result may still take, in bytes.
pub(crate) struct TextRoom(pub(crate) usize);

impl TextRoom {
    /// Takes the texts of a memory. Returns whether they fit.
    pub(crate) fn take(&mut self, memory: &Memory) -> bool {
        let rest = self.0.checked_sub(memory.stored_bytes() as usize);
        self.0 = rest.unwrap_or(0);
        rest.is_some()
    }
}

impl Default for TextRoom {
    fn default() -> Self {
        Self(TEXT_BYTES_MAX)
    }
}
