//! Tags and metadata of a memory, of any form, by which filters find it.

use serde::{Deserialize, Serialize};
use text::term::TermHash;

use crate::bounded::bounded;

/// Most tags of a memory.
pub const TAGS_MAX: usize = 32;
/// Longest tag in bytes.
pub const MEMORY_TAG_BYTES_MAX: usize = 64;
/// Most entries of the metadata of a memory.
pub const METADATA_ENTRIES_MAX: usize = 64;
/// Most bytes of the metadata of a memory, as JSON.
pub const METADATA_BYTES_MAX: usize = 16 << 10;
/// Most bytes of tags and metadata together.
pub const DETAILS_BYTES_MAX: usize = TAGS_MAX * MEMORY_TAG_BYTES_MAX + METADATA_BYTES_MAX;
/// Most bytes of a name and its value by which filters find a memory. Lists and objects are not
/// found either.
pub const METADATA_TERM_BYTES_MAX: usize = 256;

/// A name, and its value as JSON without white space. Names are unique.
pub type MetadataEntry = (String, String);

/// Tags and metadata, of a memory or required by a filter.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Details {
    /// Distinct tags, in the order of the caller.
    #[serde(deserialize_with = "bounded::<TAGS_MAX, _, _>")]
    pub tags: Vec<String>,
    /// Entries of an object, in the order of their names.
    #[serde(deserialize_with = "bounded::<METADATA_ENTRIES_MAX, _, _>")]
    pub metadata: Vec<MetadataEntry>,
}

impl Details {
    /// These details; `None` if there are none.
    pub fn some(self) -> Option<Box<Self>> {
        (self != Self::default()).then(|| Box::new(self))
    }

    /// Bytes of all texts.
    pub fn size_bytes(&self) -> usize {
        let metadata = self.metadata.iter().map(|(name, value)| name.len() + value.len());
        self.tags.iter().map(String::len).sum::<usize>() + metadata.sum::<usize>()
    }

    /// Whether all parts of `required` are parts of these.
    pub fn have(&self, required: &Self) -> bool {
        required.tags.iter().all(|tag| self.tags.contains(tag))
            && required.metadata.iter().all(|entry| self.metadata.contains(entry))
    }

    /// One term of the facet index for each part by which filters find it.
    pub fn terms(&self) -> Vec<String> {
        let tags = self.tags.iter().map(|tag| format!("tag={tag}"));
        let metadata = self.metadata.iter().filter(|entry| is_found(entry));
        let metadata = metadata.map(|(name, value)| format!("metadata={name}={value}"));
        tags.chain(metadata).collect()
    }

    /// Hashes of [`terms`](Self::terms).
    pub fn hashes(&self) -> Vec<TermHash> {
        self.terms().iter().map(|term| TermHash::of(term)).collect()
    }
}

/// Whether filters find a memory by this entry.
pub fn is_found((name, value): &MetadataEntry) -> bool {
    !value.starts_with(['[', '{']) && name.len() + value.len() <= METADATA_TERM_BYTES_MAX
}

/// Changes of tags and metadata; `None` leaves them as they are.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DetailsPatch {
    /// All tags from now on.
    pub tags: Option<Vec<String>>,
    /// Tags that it gets, and tags that it loses, after that.
    #[serde(deserialize_with = "bounded::<TAGS_MAX, _, _>")]
    pub add_tags: Vec<String>,
    #[serde(deserialize_with = "bounded::<TAGS_MAX, _, _>")]
    pub remove_tags: Vec<String>,
    /// All metadata from now on.
    pub metadata: Option<Vec<MetadataEntry>>,
}

impl DetailsPatch {
    /// Whether it changes nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether it may change tags.
    pub fn changes_tags(&self) -> bool {
        self.tags.is_some() || !self.add_tags.is_empty() || !self.remove_tags.is_empty()
    }

    /// The details after the change.
    pub fn applied_to(&self, details: Option<&Details>) -> Option<Box<Details>> {
        let before = details.cloned().unwrap_or_default();
        let mut tags = self.tags.clone().unwrap_or(before.tags);
        tags.retain(|tag| !self.remove_tags.contains(tag));
        for tag in &self.add_tags {
            if !tags.contains(tag) {
                tags.push(tag.clone());
            }
        }
        let metadata = self.metadata.clone().unwrap_or(before.metadata);
        Details { tags, metadata }.some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patches_replace_what_they_name() {
        let tags = |tags: &[&str]| tags.iter().map(|tag| (*tag).to_owned()).collect::<Vec<_>>();
        let entry = ("source".to_owned(), "\"wiki\"".to_owned());
        let details = Details { tags: tags(&["a"]), metadata: vec![entry.clone()] };
        let of_tags = |tags| DetailsPatch { tags, ..DetailsPatch::default() };
        let patch = of_tags(Some(tags(&["b", "c"])));
        let patched = patch.applied_to(Some(&details)).unwrap();
        assert_eq!(*patched, Details { tags: tags(&["b", "c"]), metadata: vec![entry] });
        let (add_tags, remove_tags) = (tags(&["a", "d"]), tags(&["c", "e"]));
        let patch = DetailsPatch { add_tags, remove_tags, ..patch };
        assert_eq!(patch.applied_to(Some(&details)).unwrap().tags, tags(&["b", "a", "d"]));
        let empty = DetailsPatch { metadata: Some(Vec::new()), ..of_tags(Some(Vec::new())) };
        assert_eq!(empty.applied_to(Some(&details)), None);
        assert_eq!(DetailsPatch::default().applied_to(Some(&details)).as_deref(), Some(&details));
    }

    #[test]
    fn short_values_without_structure_are_found() {
        let entry = |value: &str| ("source".to_owned(), value.to_owned());
        assert!(is_found(&entry("\"wiki\"")) && is_found(&entry("7")));
        for value in ["[\"wiki\"]", "{}", &"7".repeat(METADATA_TERM_BYTES_MAX)] {
            assert!(!is_found(&entry(value)), "{value}");
        }
    }
}
