//! The texts that a memory had before, each with its author and its time. They go with the memory.

use serde::{Deserialize, Serialize};

use crate::bounded::bounded;
use crate::id::Timestamp;
use crate::memory::Editor;

/// Most texts of a memory that are kept beside the present one.
pub const VERSIONS_MAX: usize = 10;
/// Most bytes of them together.
pub const VERSIONS_BYTES_MAX: usize = 64 << 10;

/// A text that a memory had.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version {
    /// The text.
    pub label: String,
    /// Who wrote it; `None` is who stored the memory.
    pub author: Option<Editor>,
    /// Since when the memory had it, and until when.
    pub from: Timestamp,
    pub until: Timestamp,
}

/// The past texts of a memory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Versions {
    /// The oldest first.
    #[serde(deserialize_with = "bounded::<VERSIONS_MAX, _, _>")]
    pub past: Vec<Version>,
    /// Who wrote the present text; `None` is who stored the memory.
    pub author: Option<Editor>,
    /// Since when the memory has it, once it was changed.
    pub since: Option<Timestamp>,
}

impl Versions {
    /// A text that the memory had since its creation, or the last change, ends at `now`.
    pub fn replace(
        &mut self,
        label: &str,
        created_at: Timestamp,
        author: Option<Editor>,
        now: Timestamp,
    ) {
        let from = self.since.unwrap_or(created_at);
        let author = std::mem::replace(&mut self.author, author);
        self.past.push(Version { label: label.to_owned(), author, from, until: now });
        self.since = Some(now);
        let bytes = |past: &[Version]| past.iter().map(|it| it.label.len()).sum::<usize>();
        while self.past.len() > VERSIONS_MAX || bytes(&self.past) > VERSIONS_BYTES_MAX {
            self.past.remove(0);
        }
    }

    /// The text at a time before the present one, if it is kept.
    pub fn at(&self, time: Timestamp) -> Option<&Version> {
        self.past.iter().find(|version| (version.from..version.until).contains(&time))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oldest_texts_are_dropped() {
        let mut versions = Versions::default();
        for at in 1..=13 {
            versions.replace(&format!("text {at}"), Timestamp(0), None, Timestamp(at));
        }
        assert_eq!(versions.past.len(), VERSIONS_MAX);
        assert_eq!(versions.at(Timestamp(5)).unwrap().label, "text 6");
        assert_eq!((versions.at(Timestamp(2)), versions.at(Timestamp(13))), (None, None));
        let long = "x".repeat(VERSIONS_BYTES_MAX / 2 + 1);
        for at in [20, 30] {
            versions.replace(&long, Timestamp(0), None, Timestamp(at));
        }
        assert_eq!(versions.past.len(), 1);
    }
}
