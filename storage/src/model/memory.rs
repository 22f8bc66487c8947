//! A memory's text row: what it says and how it is kept. Its heat is in the
//! anchor and its vector in the vector row, so that warming never rewrites text.

use serde::{Deserialize, Serialize};

use crate::codec::Record;
use crate::model::heat::Anchor;
use crate::model::id::{MemoryId, Timestamp};

/// Longest label in bytes. The model reads the first 256 tokens; words index all of it.
pub const LABEL_BYTES_MAX: usize = 64 << 10;
/// Most key points of a memory.
pub const KEY_POINTS_MAX: usize = 32;
/// Longest key point in bytes.
pub const KEY_POINT_BYTES_MAX: usize = 256;
/// Longest namespace in bytes.
pub const NAMESPACE_BYTES_MAX: usize = 128;
/// Where a memory goes when nobody says.
pub const NAMESPACE_DEFAULT: &str = "default";

/// What kind of knowledge a memory is; decides half-life, floor and gain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum MemoryType {
    /// Something that happened.
    Episodic,
    /// A concept or relation.
    Semantic,
    /// What somebody likes.
    Preference,
    /// How something is done.
    Procedural,
    /// A durable truth.
    Fact,
    /// A passing impression.
    Moment,
}

impl MemoryType {
    /// All types, in the order of their stored numbers.
    pub const ALL: [Self; 6] = [
        Self::Episodic,
        Self::Semantic,
        Self::Preference,
        Self::Procedural,
        Self::Fact,
        Self::Moment,
    ];

    /// The name used in JSON, metrics and docs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Episodic => "episodic",
            Self::Semantic => "semantic",
            Self::Preference => "preference",
            Self::Procedural => "procedural",
            Self::Fact => "fact",
            Self::Moment => "moment",
        }
    }
}

/// Multiplier class of the half-life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum DecayClass {
    /// Half the half-life.
    Volatile,
    /// The half-life of the type.
    Normal,
    /// Twice the half-life.
    Persistent,
    /// Never cools.
    Permanent,
}

impl DecayClass {
    /// All classes, in the order of their stored numbers.
    pub const ALL: [Self; 4] = [Self::Volatile, Self::Normal, Self::Persistent, Self::Permanent];

    /// The name used in JSON and docs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Volatile => "volatile",
            Self::Normal => "normal",
            Self::Persistent => "persistent",
            Self::Permanent => "permanent",
        }
    }
}

/// Where a memory is searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Tier {
    /// Not archived.
    Hot,
    /// Archived: kept, findable on request, no longer cooling.
    Cold,
}

/// The text row of a memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Memory {
    /// The content, Markdown allowed, 1 to [`LABEL_BYTES_MAX`] bytes.
    pub label: String,
    /// Kind of knowledge.
    pub memory_type: MemoryType,
    /// Where it belongs, 1 to [`NAMESPACE_BYTES_MAX`] bytes.
    pub namespace: String,
    /// Class of its half-life.
    pub decay_class: DecayClass,
    /// Does not cool.
    pub is_pinned: bool,
    /// Cannot be deleted.
    pub is_locked: bool,
    /// Feedback `wrong` was given and not yet cleared.
    pub is_flagged: bool,
    /// Its own floor, 0 to 1.
    pub min_heat: f32,
    /// Extra words to be found by.
    pub key_points: Vec<String>,
    /// When it was stored.
    pub created_at: Timestamp,
    /// Last change by somebody; recalls and ticks do not count.
    pub updated_at: Timestamp,
    /// When it moved to the cold tier, if it did.
    pub archived_at: Option<Timestamp>,
}

impl Record for Memory {
    const FORMAT: u8 = 1;
    const NAME: &'static str = "memory";
}

impl Memory {
    /// Hot or cold.
    pub fn tier(&self) -> Tier {
        if self.archived_at.is_some() { Tier::Cold } else { Tier::Hot }
    }

    /// Every text that the word index reads.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.label.as_str()).chain(self.key_points.iter().map(String::as_str))
    }

    /// Its key points as memories that share them are found by.
    pub fn shared_key_points(&self) -> Vec<String> {
        self.key_points.iter().map(|key_point| shared_key_point(key_point)).collect()
    }

    #[cfg(test)]
    pub(crate) fn example(label: &str) -> Self {
        Self {
            label: label.into(),
            memory_type: MemoryType::Episodic,
            namespace: NAMESPACE_DEFAULT.into(),
            decay_class: DecayClass::Normal,
            is_pinned: false,
            is_locked: false,
            is_flagged: false,
            min_heat: 0.0,
            key_points: Vec::new(),
            created_at: Timestamp(0),
            updated_at: Timestamp(0),
            archived_at: None,
        }
    }
}

/// A key point as memories that share it are found by: case and space around do not count.
pub fn shared_key_point(key_point: &str) -> String {
    key_point.trim().to_lowercase()
}

/// A memory as of an instant: its row, its anchor, and its heat then.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MemoryRecord {
    /// Which memory.
    pub id: MemoryId,
    /// Its text row.
    pub memory: Memory,
    /// Its anchor.
    pub anchor: Anchor,
    /// Its heat at the instant asked for, 0 to 1.
    pub heat: f64,
}
