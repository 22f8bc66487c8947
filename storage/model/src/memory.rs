//! A memory: content, type, namespace and flags. Heat and vector are in rows of their own, so a
//! change of heat never rewrites the text. What changes without the text goes to a row of its own
//! too, once it changes.
//!
//! Beside the content: tags and metadata of any form, by which filters find memories; the origin, which is
//! stamped from the request that created the memory, never from its text; and words of what can be improved.

use std::ops::Range;

use serde::{Deserialize, Serialize};
use text::folding::fold_name;
use text::term::TermHash;

use crate::details::Details;
use crate::guard::{GuardMark, Trust};
use crate::heat::Anchor;
use crate::id::{KeyId, MemoryId, Timestamp};
use crate::times::Times;

/// Longest label in bytes. The embedding model reads 256 tokens, the word index the first
/// [`MEMORY_WORDS_MAX`](text::tokenizer::MEMORY_WORDS_MAX) distinct words.
pub const LABEL_BYTES_MAX: usize = 64 << 10;
/// Maximum number of key points per memory.
pub const KEY_POINTS_MAX: usize = 32;
/// Longest key point in bytes.
pub const KEY_POINT_BYTES_MAX: usize = 256;
/// Longest namespace in bytes.
pub const NAMESPACE_BYTES_MAX: usize = 128;
/// Longest id that a client gives a memory, in bytes.
pub const EXTERNAL_ID_BYTES_MAX: usize = 256;
/// Namespace of memories created without one.
pub const NAMESPACE_DEFAULT: &str = "default";

named_enum! {
    /// Kind of knowledge. It determines half-life, floor and stability gain.
    #[derive(PartialOrd, Ord, Hash)]
    pub enum MemoryType {
        /// An event.
        Episodic = "episodic",
        /// A concept or relation.
        Semantic = "semantic",
        /// A preference of a person.
        Preference = "preference",
        /// A procedure.
        Procedural = "procedural",
        /// A durable fact.
        Fact = "fact",
        /// A passing impression.
        Moment = "moment",
    }
}

named_enum! {
    /// Decay class: a factor of the half-life.
    #[derive(Hash)]
    pub enum DecayClass {
        /// Half the half-life of the type.
        Volatile = "volatile",
        /// The half-life of the type.
        Normal = "normal",
        /// Twice the half-life of the type.
        Persistent = "persistent",
        /// No decay.
        Permanent = "permanent",
    }
}

named_enum! {
    /// A feedback signal: what a caller reports about the usefulness of a memory.
    pub enum Signal {
        /// It helped: raises heat and stability.
        Relevant = "relevant",
        /// It did not help: leaves 30 % of the heat.
        Irrelevant = "irrelevant",
        /// It no longer holds: removes the heat.
        Outdated = "outdated",
        /// It is wrong: flags the memory for review.
        Wrong = "wrong",
    }
}

/// Storage tier of a memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Tier {
    /// Not archived.
    Hot,
    /// Archived: excluded from searches by default, and without decay.
    Cold,
}

/// A memory as its text row has it, or with its present state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Memory {
    /// Content, 1 to [`LABEL_BYTES_MAX`] bytes. Markdown is allowed.
    pub label: String,
    /// Kind of knowledge.
    pub memory_type: MemoryType,
    /// Namespace, 1 to [`NAMESPACE_BYTES_MAX`] bytes.
    pub namespace: String,
    /// Decay class.
    pub decay_class: DecayClass,
    /// Pinned memories do not decay.
    pub is_pinned: bool,
    /// Locked memories cannot be deleted.
    pub is_locked: bool,
    /// Flagged for review by feedback `wrong` or by the guard, until cleared.
    pub is_flagged: bool,
    /// Floor of this memory, 0 to 1.
    pub min_heat: f32,
    /// Additional texts under which the memory is indexed.
    pub key_points: Vec<String>,
    /// Creation time.
    pub created_at: Timestamp,
    /// Last change by a client or trigger. Recalls and ticks do not count.
    pub updated_at: Timestamp,
    /// When the memory moved to the cold tier. `None` in the hot tier.
    pub archived_at: Option<Timestamp>,
    /// The memory that replaces this one, of the same namespace: the latest with an edge
    /// [`SUPERSEDES`](crate::edge::SUPERSEDES) to it.
    pub superseded_by: Option<MemoryId>,
    /// The memory that it repeats, which a search had recalled a moment before. While that one
    /// exists, recalls do not warm this one.
    pub echo_of: Option<MemoryId>,
    /// Where it comes from.
    pub origin: Origin,
    /// Who changed its text, its lock or its namespace last.
    pub changed_by: Option<Editor>,
    /// The key that locked it.
    pub locked_by: Option<KeyId>,
    /// The memories that it was folded from.
    pub folded_from: Vec<MemoryId>,
    /// Tags and metadata.
    pub details: Option<Box<Details>>,
    /// Times that are not those of its row.
    pub times: Option<Box<Times>>,
    /// The id that its client has given it, of which its own is made. It stays.
    pub external_id: Option<String>,
    /// What the guard has found in it.
    pub guard: GuardMark,
}

/// What changes of a memory while its text stays. Its row replaces these fields of the text row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MemoryState {
    pub decay_class: DecayClass,
    pub is_pinned: bool,
    pub is_locked: bool,
    pub is_flagged: bool,
    pub min_heat: f32,
    pub updated_at: Timestamp,
    pub archived_at: Option<Timestamp>,
    pub superseded_by: Option<MemoryId>,
    pub echo_of: Option<MemoryId>,
    pub changed_by: Option<Editor>,
    pub locked_by: Option<KeyId>,
    pub details: Option<Box<Details>>,
    pub times: Option<Box<Times>>,
    pub guard: GuardMark,
}

/// A key that has changed a memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Editor {
    /// The key.
    pub key: KeyId,
    /// The name that it had: the agent.
    pub agent: String,
}

impl Memory {
    /// Its state.
    pub fn state(&self) -> MemoryState {
        MemoryState {
            decay_class: self.decay_class,
            is_pinned: self.is_pinned,
            is_locked: self.is_locked,
            is_flagged: self.is_flagged,
            min_heat: self.min_heat,
            updated_at: self.updated_at,
            archived_at: self.archived_at,
            superseded_by: self.superseded_by,
            echo_of: self.echo_of,
            changed_by: self.changed_by.clone(),
            locked_by: self.locked_by,
            details: self.details.clone(),
            times: self.times.clone(),
            guard: self.guard,
        }
    }

    /// The memory in another state.
    #[must_use]
    pub fn with(self, state: &MemoryState) -> Self {
        Self {
            decay_class: state.decay_class,
            is_pinned: state.is_pinned,
            is_locked: state.is_locked,
            is_flagged: state.is_flagged,
            min_heat: state.min_heat,
            updated_at: state.updated_at,
            archived_at: state.archived_at,
            superseded_by: state.superseded_by,
            echo_of: state.echo_of,
            changed_by: state.changed_by.clone(),
            locked_by: state.locked_by,
            details: state.details.clone(),
            times: state.times.clone(),
            guard: state.guard,
            ..self
        }
    }

    /// Tier of the memory.
    pub fn tier(&self) -> Tier {
        if self.archived_at.is_some() { Tier::Cold } else { Tier::Hot }
    }

    fn known_times(&self) -> Times {
        self.times.as_deref().copied().unwrap_or_default()
    }

    /// When it happened, as far as that is known.
    pub fn happened_at(&self) -> Timestamp {
        self.known_times().occurred_at.unwrap_or(self.created_at)
    }

    /// The time in which it holds: by default since it happened, and since its creation if that is to come.
    pub fn validity(&self) -> Range<Timestamp> {
        let times = self.known_times();
        let ends = [times.valid_until, times.superseded_at].into_iter().flatten();
        times.valid_from.unwrap_or_else(|| self.happened_at().min(self.created_at))
            ..ends.min().unwrap_or(Timestamp(i64::MAX))
    }

    /// How far it can be relied on.
    pub fn trust(&self) -> Trust {
        match (self.is_flagged, self.guard.is_reviewed()) {
            (true, _) => Trust::Suspect,
            (false, true) => Trust::Reviewed,
            (false, false) => Trust::Normal,
        }
    }

    /// When a tick deletes it.
    pub fn expires_at(&self) -> Option<Timestamp> {
        self.known_times().expires_at
    }

    /// Its times after a change of them.
    pub fn times_with(&self, change: impl FnOnce(&mut Times)) -> Option<Box<Times>> {
        let mut times = self.known_times();
        change(&mut times);
        times.some()
    }

    /// All texts that the word index reads. Key points come first: a long label does not
    /// displace their words.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        let key_points = self.key_points.iter().map(String::as_str);
        key_points.chain(std::iter::once(self.label.as_str()))
    }

    /// Bytes of its label and its key points.
    pub fn text_bytes(&self) -> u64 {
        self.texts().map(|text| text.len() as u64).sum()
    }

    /// Bytes of its label, its key points, its tags and its metadata.
    pub fn stored_bytes(&self) -> u64 {
        self.text_bytes() + self.details.as_ref().map_or(0, |details| details.size_bytes() as u64)
    }

    /// Key points in the normalised form of the key-point index.
    pub fn shared_key_points(&self) -> Vec<TermHash> {
        let key_points = self.key_points.iter();
        key_points.map(|key_point| TermHash::of(&shared_key_point(key_point))).collect()
    }

    #[cfg(any(test, feature = "fuzzing"))]
    pub fn example(label: &str) -> Self {
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
            superseded_by: None,
            echo_of: None,
            origin: Origin::default(),
            changed_by: None,
            locked_by: None,
            folded_from: Vec::new(),
            details: None,
            times: None,
            external_id: None,
            guard: GuardMark::default(),
        }
    }
}

/// Normalises a key point: lower case, without surrounding white space.
pub fn shared_key_point(key_point: &str) -> String {
    fold_name(key_point.trim())
}

/// A memory at one instant: text row, anchor, and heat.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MemoryRecord {
    /// Id of the memory.
    pub id: MemoryId,
    /// Text row.
    pub memory: Memory,
    /// Anchor.
    pub anchor: Anchor,
    /// Heat at that instant, 0 to 1.
    pub heat: f64,
}

named_enum! {
    /// Why memories can be folded.
    pub enum FoldReason {
        /// They say the same.
        Duplicates = "duplicates",
        /// They are cold, and similar or share a key point.
        Cold = "cold",
    }
}

named_enum! {
    /// What can be wrong with a memory.
    pub enum Defect {
        /// Its text is that of an older one of the namespace.
        ExactDuplicate = "exact_duplicates",
        /// Its text is near to that of an older one of the namespace.
        NearDuplicate = "near_duplicates",
        /// It repeats what a search had returned.
        Echo = "echoes",
        /// Feedback said that it is wrong.
        Contradicted = "contradicted",
        /// It is older than 30 days, and was never recalled.
        NeverRecalled = "never_recalled",
        /// It is older than 30 days, was not recalled for as long, and has no edge.
        Orphan = "orphans",
    }
}

/// Most bytes of the name of a client and of a tool.
pub const ORIGIN_BYTES_MAX: usize = 64;

/// Where a memory comes from, or parts of it that a filter requires.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The key of the request.
    pub key: Option<KeyId>,
    /// The name that this key had: the agent.
    pub agent: Option<String>,
    /// The program that sent the request, as its `User-Agent` begins: a name, and maybe `/version`.
    pub client: Option<String>,
    /// The tool by which the agent stored it, as the request says.
    pub tool: Option<String>,
}

impl Origin {
    /// Whether all parts of `required` are those of this origin. A client is also named without its
    /// version.
    pub fn has(&self, required: &Self) -> bool {
        let terms = self.terms();
        required.named().iter().all(|term| terms.contains(term))
    }

    /// Its parts as terms of an index.
    pub fn terms(&self) -> Vec<String> {
        let mut terms = self.named();
        if let Some((name, _)) = self.client.as_deref().and_then(|client| client.split_once('/')) {
            terms.push(term("client", name));
        }
        terms
    }

    /// Hashes of [`terms`](Self::terms).
    pub fn hashes(&self) -> Vec<TermHash> {
        self.terms().iter().map(|term| TermHash::of(term)).collect()
    }

    /// One term for each part.
    pub fn named(&self) -> Vec<String> {
        let key = self.key.map(|key| key.to_string());
        let parts = [
            ("key", key.as_ref()),
            ("agent", self.agent.as_ref()),
            ("client", self.client.as_ref()),
            ("tool", self.tool.as_ref()),
        ];
        parts.into_iter().filter_map(|(part, value)| Some(term(part, value?))).collect()
    }
}

fn term(part: &str, value: &str) -> String {
    format!("{part}={value}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn client_is_named_with_and_without_version() {
        let client = |client: &str| Origin { client: Some(client.into()), ..Origin::default() };
        let origin = Origin { agent: Some("helper".into()), ..client("notes/1.2") };
        for required in [client("notes/1.2"), client("notes"), Origin::default(), origin.clone()] {
            assert!(origin.has(&required), "{required:?}");
        }
        let other = Origin { agent: Some("notes".into()), ..Origin::default() };
        for required in [client("notes/1"), client("1.2"), client("helper"), other] {
            assert!(!origin.has(&required), "{required:?}");
        }
    }

    fn memory(times: Times) -> Memory {
        Memory { created_at: Timestamp(50), times: times.some(), ..Memory::example("x") }
    }

    #[test]
    fn validity_has_the_first_of_its_ends() {
        let end = Timestamp(i64::MAX);
        let at = |at| Some(Timestamp(at));
        for (times, expected) in [
            (Times::default(), Timestamp(50)..end),
            (Times { occurred_at: at(7), ..Times::default() }, Timestamp(7)..end),
            (
                Times {
                    occurred_at: at(7),
                    valid_from: at(9),
                    valid_until: at(20),
                    ..Times::default()
                },
                Timestamp(9)..Timestamp(20),
            ),
            (
                Times { valid_until: at(80), superseded_at: at(60), ..Times::default() },
                Timestamp(50)..Timestamp(60),
            ),
        ] {
            assert_eq!(memory(times).validity(), expected, "{times:?}");
        }
    }

    #[test]
    fn state_is_what_it_is_set_to() {
        let details = Details { tags: vec!["a".into()], metadata: Vec::new() };
        let id = MemoryId([9; 16]);
        let state = MemoryState {
            decay_class: DecayClass::Permanent,
            is_pinned: true,
            is_locked: true,
            is_flagged: true,
            min_heat: 0.25,
            updated_at: Timestamp(8),
            archived_at: Some(Timestamp(9)),
            superseded_by: Some(id),
            echo_of: Some(id),
            changed_by: Some(Editor { key: KeyId([3; 8]), agent: "helper".into() }),
            locked_by: Some(KeyId([4; 8])),
            details: Some(Box::new(details)),
            times: Times { occurred_at: Some(Timestamp(5)), ..Times::default() }.some(),
            guard: GuardMark::of([], true, false),
        };
        let memory = Memory::example("x");
        assert_eq!(memory.clone().with(&state).state(), state);
        assert_eq!(memory.clone().with(&state).with(&memory.state()), memory);
    }
}
