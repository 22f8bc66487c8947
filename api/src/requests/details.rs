//! Tags and metadata in requests, queries and responses.

use std::collections::BTreeMap;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;
use storage::model::details::{
    Details, DetailsPatch, MEMORY_TAG_BYTES_MAX, METADATA_BYTES_MAX, METADATA_ENTRIES_MAX,
    METADATA_TERM_BYTES_MAX, MetadataEntry, TAGS_MAX, is_found,
};
use utoipa::openapi::schema::{ArrayBuilder, Type};

use crate::requests::values::{Items, NonBlank, object, schema, value};

/// Longest list of tags or entries in a query, in characters.
const LIST_CHARS_MAX: usize = 512;
/// Entries as `name=value`.
const ENTRIES: &str = "^[^=,]+=[^,]*(,[^=,]+=[^,]*)*$";

/// Distinct tags.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Tags(pub(crate) Vec<String>);

value!([] Tags, ArrayBuilder::new()
        .items(object(Type::String).min_length(Some(1)).max_length(Some(MEMORY_TAG_BYTES_MAX)))
        .max_items(Some(TAGS_MAX)).build(),
    from Items<NonBlank<MEMORY_TAG_BYTES_MAX>, 0, TAGS_MAX>: |Items(items)| {
        let mut tags: Vec<String> = Vec::new();
        for NonBlank(tag) in items {
            if !tags.contains(&tag) {
                tags.push(tag);
            }
        }
        Ok(Self(tags))
    }
);

/// Tags with commas between them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TagList(pub(crate) Vec<String>);

value!([] TagList, object(Type::String).max_length(Some(LIST_CHARS_MAX)).build(),
    from String: |text| match text.chars().count() <= LIST_CHARS_MAX {
        true => {
            let tags = text.split(',').map(str::trim).filter(|tag| !tag.is_empty());
            Ok(Self(tags.map(str::to_owned).collect()))
        }
        false => Err(format!("must have at most {LIST_CHARS_MAX} characters")),
    }
);

/// An object of any JSON. Its values are texts here: as trees they would be many times as large.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Metadata(pub(crate) Vec<MetadataEntry>);

schema!([] Metadata, object(Type::Object).build());

impl<'de> Deserialize<'de> for Metadata {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let entries = BTreeMap::<String, Box<RawValue>>::deserialize(deserializer)?;
        Self::new(entries).map_err(D::Error::custom)
    }
}

impl Metadata {
    fn new(entries: BTreeMap<String, Box<RawValue>>) -> Result<Self, String> {
        let names = entries.keys().map(String::len);
        let values = entries.values().map(|value| value.get().len());
        if names.chain(values).sum::<usize>() > METADATA_BYTES_MAX {
            return Err(format!("must have at most {METADATA_BYTES_MAX} bytes of JSON"));
        }
        if entries.len() > METADATA_ENTRIES_MAX {
            return Err(format!("must have at most {METADATA_ENTRIES_MAX} entries"));
        }
        // Equal values get equal texts.
        let entry = |(name, value): (String, Box<RawValue>)| {
            let value: Value = serde_json::from_str(value.get()).map_err(|_| "is no JSON")?;
            Ok((name, value.to_string()))
        };
        entries.into_iter().map(entry).collect::<Result<_, _>>().map(Self)
    }
}

/// Entries that metadata must have: texts, numbers, true, false or null.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RequiredMetadata(pub(crate) Vec<MetadataEntry>);

value!([] RequiredMetadata, object(Type::Object).build(), from Metadata: |Metadata(entries)| {
    match entries.iter().all(is_found) {
        true => Ok(Self(entries)),
        false => Err(format!(
            "must have texts, numbers, true, false or null, of at most {METADATA_TERM_BYTES_MAX} \
             bytes with their names"
        )),
    }
});

/// Entries that metadata must have, as `name=value`, with commas between them. A value that is no JSON
/// is a text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct MetadataList(pub(crate) Vec<MetadataEntry>);

value!([] MetadataList,
    object(Type::String).max_length(Some(LIST_CHARS_MAX)).pattern(Some(ENTRIES)).build(),
    from String: |text| {
        if text.chars().count() > LIST_CHARS_MAX {
            return Err(format!("must have at most {LIST_CHARS_MAX} characters"));
        }
        let entry = |part: &str| {
            let (name, value) = part.split_once('=').filter(|(name, _)| !name.is_empty())?;
            let json = serde_json::from_str(value).unwrap_or_else(|_| Value::from(value));
            Some((name.to_owned(), json.to_string()))
        };
        let entries = text.split(',').filter(|part| !part.is_empty()).map(entry);
        let entries = entries.collect::<Option<_>>();
        entries.map(Self).ok_or_else(|| "must be name=value, with commas between them".to_owned())
    }
);

/// The details of a new memory.
pub(crate) fn details(tags: Option<Tags>, metadata: Option<Metadata>) -> Option<Box<Details>> {
    let (tags, metadata) = (tags.unwrap_or_default().0, metadata.unwrap_or_default().0);
    Details { tags, metadata }.some()
}

/// The change of the details of a memory.
pub(crate) fn patch(tags: Option<Tags>, metadata: Option<Metadata>) -> DetailsPatch {
    DetailsPatch { tags: tags.map(|it| it.0), metadata: metadata.map(|it| it.0) }
}
