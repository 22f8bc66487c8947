//! Conditions on memories, combined by and, or and not. Those on tags and metadata are sets of slots of the
//! index; those on columns are tested row by row.

use std::ops::{Range, RangeInclusive};

use index::Slot;
use index::chunk::RowRef;
use index::data::IndexData;
use model::access::is_below;
use model::details::{Details, MetadataEntry, is_found};
use model::guard::Trust;
use model::id::Timestamp;
use model::memory::{Memory, MemoryType};
use roaring::RoaringBitmap;
use text::term::TermHash;

/// Deepest nesting of conditions, and most of them in one filter.
pub const CONDITION_DEPTH_MAX: usize = 8;
pub const CONDITIONS_MAX: usize = 64;

/// A time of a memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeOf {
    /// When it happened.
    Occurrence,
    /// When it was created.
    Creation,
    /// When a client or trigger changed it last.
    Change,
}

/// A condition.
#[derive(Debug, Clone)]
pub enum Condition {
    /// All of them hold.
    All(Vec<Self>),
    /// One of them holds.
    Any(Vec<Self>),
    /// It does not hold.
    Not(Box<Self>),
    /// The memory has this tag.
    Tag(String),
    /// Its metadata have this entry.
    Entry(MetadataEntry),
    /// Its metadata have a number of this range under this name.
    Number(String, RangeInclusive<f64>),
    /// It has this type.
    Type(MemoryType),
    /// It is in this namespace, or below it.
    Below(String),
    /// It is pinned.
    Pinned,
    /// It can be relied on so far.
    Trust(Trust),
    /// Its heat now is in this range.
    Heat(RangeInclusive<f64>),
    /// A time of it is in this range.
    Time(TimeOf, Range<Timestamp>),
}

/// A condition compiled for an index.
pub(crate) enum CompiledCondition {
    All(Vec<Self>),
    Any(Vec<Self>),
    Not(Box<Self>),
    Slots(RoaringBitmap),
    Type(MemoryType),
    Pinned,
    Trust(Trust),
    Heat(RangeInclusive<f64>, Timestamp),
    Time(TimeOf, Range<Timestamp>),
}

impl Condition {
    /// Compiles it for an index; heats are those of `now`.
    pub(crate) fn compile(&self, data: &IndexData, now: Timestamp) -> CompiledCondition {
        let each = |all: &[Self]| all.iter().map(|it| it.compile(data, now)).collect();
        let facets = |tags, metadata| {
            let terms = Details { tags, metadata }.terms();
            data.facets.intersection(terms.iter().map(|term| TermHash::of(term)))
        };
        match self {
            Self::All(all) => CompiledCondition::All(each(all)),
            Self::Any(all) => CompiledCondition::Any(each(all)),
            Self::Not(one) => CompiledCondition::Not(Box::new(one.compile(data, now))),
            Self::Tag(tag) => CompiledCondition::Slots(facets(vec![tag.clone()], Vec::new())),
            Self::Entry(entry) if is_found(entry) => {
                CompiledCondition::Slots(facets(Vec::new(), vec![entry.clone()]))
            }
            // Filters find no list and no long value.
            Self::Entry(_) => CompiledCondition::Slots(RoaringBitmap::new()),
            Self::Number(name, range) => {
                CompiledCondition::Slots(data.numbers.within(name, range.clone()))
            }
            Self::Type(memory_type) => CompiledCondition::Type(*memory_type),
            Self::Below(prefix) => CompiledCondition::Slots(data.namespaces.below(prefix)),
            Self::Pinned => CompiledCondition::Pinned,
            Self::Trust(trust) => CompiledCondition::Trust(*trust),
            Self::Heat(range) => CompiledCondition::Heat(range.clone(), now),
            Self::Time(of, range) => CompiledCondition::Time(*of, range.clone()),
        }
    }

    /// Whether a memory read from the state passes, but for its heat.
    pub(crate) fn matches(&self, memory: &Memory) -> bool {
        let details = memory.details.as_deref();
        match self {
            Self::All(all) => all.iter().all(|it| it.matches(memory)),
            Self::Any(all) => all.iter().any(|it| it.matches(memory)),
            Self::Not(one) => one.depends_on_heat() || !one.matches(memory),
            Self::Tag(tag) => details.is_some_and(|details| details.tags.contains(tag)),
            Self::Entry(entry) => details.is_some_and(|details| details.metadata.contains(entry)),
            Self::Number(name, range) => details.is_some_and(|details| {
                let value = details.metadata.iter().find(|(of, _)| of == name);
                let number = value.and_then(|(_, value)| value.parse().ok());
                number.is_some_and(|number: f64| range.contains(&number))
            }),
            Self::Type(memory_type) => memory.memory_type == *memory_type,
            Self::Below(prefix) => is_below(&memory.namespace, prefix),
            Self::Pinned => memory.is_pinned,
            Self::Trust(trust) => memory.trust() == *trust,
            Self::Heat(_) => true,
            Self::Time(of, range) => range.contains(&match of {
                TimeOf::Occurrence => memory.happened_at(),
                TimeOf::Creation => memory.created_at,
                TimeOf::Change => memory.updated_at,
            }),
        }
    }

    fn depends_on_heat(&self) -> bool {
        match self {
            Self::All(all) | Self::Any(all) => all.iter().any(Self::depends_on_heat),
            Self::Not(one) => one.depends_on_heat(),
            Self::Heat(_) => true,
            _ => false,
        }
    }
}

impl CompiledCondition {
    pub(crate) fn holds(&self, slot: Slot, row: RowRef<'_>) -> bool {
        match self {
            Self::All(all) => all.iter().all(|it| it.holds(slot, row)),
            Self::Any(all) => all.iter().any(|it| it.holds(slot, row)),
            Self::Not(one) => !one.holds(slot, row),
            Self::Slots(slots) => slots.contains(slot),
            Self::Type(memory_type) => row.attributes().memory_type() == *memory_type,
            Self::Pinned => row.attributes().is_pinned(),
            Self::Trust(trust) => row.attributes().trust() == *trust,
            Self::Heat(range, now) => range.contains(&model::score::rounded(row.heat(*now))),
            Self::Time(of, range) => range.contains(&match of {
                TimeOf::Occurrence => row.happened_at(),
                TimeOf::Creation => row.created_at(),
                TimeOf::Change => row.updated_at(),
            }),
        }
    }
}
