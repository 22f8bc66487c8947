//! Tags and metadata in requests, queries and responses.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;
use storage::model::details::{
    Details, MEMORY_TAG_BYTES_MAX, METADATA_BYTES_MAX, METADATA_ENTRIES_MAX,
    METADATA_TERM_BYTES_MAX, MetadataEntry, TAGS_MAX, is_found,
};
use storage::text::folding::nfc;
use utoipa::openapi::schema::{ArrayBuilder, Type};

use crate::requests::values::{Items, NonBlank, object, schema, value};

/// Longest list of tags or entries in a query, in characters.
const LIST_CHARS_MAX: usize = 512;
/// Largest integer that every reader of JSON reads as it is.
const INTEGER_MAX: u64 = 1 << 53;
const TOO_LARGE: &str = "must have no integer beyond 2^53: write it as a text";
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
            Ok(Self(tags.map(|tag| nfc(tag).into_owned()).collect()))
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
        let entries = Entries::<Box<RawValue>>::deserialize(deserializer)?;
        Self::new(entries.0).map_err(D::Error::custom)
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
            let exact: Exact =
                serde_json::from_str(value.get()).map_err(|error| message_of(&error))?;
            Ok((name, exact.0.to_string()))
        };
        entries.into_iter().map(entry).collect::<Result<_, String>>().map(Self)
    }
}

/// What is wrong with a JSON value, without its place in it.
fn message_of(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.starts_with("recursion limit exceeded") {
        true => "must have objects and arrays at 127 levels at most".to_owned(),
        false => text.split(" at line ").next().unwrap_or_default().to_owned(),
    }
}

/// JSON with one form for what is equal: texts are in NFC, and 1.0 is 1. No name of an object occurs twice, and no
/// integer is rounded.
#[derive(Debug)]
pub(crate) struct Exact(pub(crate) Value);

/// The entries of an object whose names differ.
struct Entries<T>(BTreeMap<String, T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Entries<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Object<T> {
            type Value = Entries<T>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries<T>, A::Error> {
                entries(&mut map).map(Entries)
            }
        }

        deserializer.deserialize_map(Object(PhantomData))
    }
}

fn entries<'de, T: Deserialize<'de>, A: MapAccess<'de>>(
    map: &mut A,
) -> Result<BTreeMap<String, T>, A::Error> {
    let mut entries = BTreeMap::new();
    while let Some((name, value)) = map.next_entry::<String, T>()? {
        let name = nfc(&name).into_owned();
        if entries.contains_key(&name) {
            return Err(A::Error::custom(format!("has {name:?} twice")));
        }
        entries.insert(name, value);
    }
    Ok(entries)
}

impl<'de> Deserialize<'de> for Exact {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;

        impl<'de> Visitor<'de> for Any {
            type Value = Exact;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("JSON")
            }

            fn visit_unit<E: serde::de::Error>(self) -> Result<Exact, E> {
                Ok(Exact(Value::Null))
            }

            fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<Exact, E> {
                Ok(Exact(value.into()))
            }

            fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<Exact, E> {
                Ok(Exact(nfc(value).into()))
            }

            fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Exact, E> {
                if value > INTEGER_MAX {
                    Err(E::custom(TOO_LARGE))
                } else {
                    Ok(Exact(value.into()))
                }
            }

            fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<Exact, E> {
                let is_exact = value.unsigned_abs() <= INTEGER_MAX;
                if is_exact { Ok(Exact(value.into())) } else { Err(E::custom(TOO_LARGE)) }
            }

            fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Exact, E> {
                // Integers beyond those of 64 bits arrive here.
                match value.fract() == 0.0 {
                    true if value.abs() > INTEGER_MAX as f64 => Err(E::custom(TOO_LARGE)),
                    true => Ok(Exact((value as i64).into())),
                    false => Ok(Exact(value.into())),
                }
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Exact, A::Error> {
                let mut all = Vec::new();
                while let Some(Exact(item)) = items.next_element()? {
                    all.push(item);
                }
                Ok(Exact(all.into()))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Exact, A::Error> {
                let all = entries::<Exact, A>(&mut map)?.into_iter();
                Ok(Exact(Value::Object(all.map(|(name, Exact(value))| (name, value)).collect())))
            }
        }

        deserializer.deserialize_any(Any)
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
            let (name, value) = part
                .split_once('=')
                .filter(|(name, _)| !name.is_empty())
                .ok_or("must be name=value, with commas between them")?;
            let is_json = serde_json::from_str::<IgnoredAny>(value).is_ok();
            let json = match serde_json::from_str(value) {
                Ok(Exact(json)) => json,
                Err(error) if is_json => return Err(message_of(&error)),
                Err(_) => nfc(value).into(),
            };
            Ok((nfc(name).into_owned(), json.to_string()))
        };
        let entries = text.split(',').filter(|part| !part.is_empty()).map(entry);
        entries.collect::<Result<_, String>>().map(Self)
    }
);

/// The details of a new memory.
pub(crate) fn details(tags: Option<Tags>, metadata: Option<Metadata>) -> Option<Box<Details>> {
    let (tags, metadata) = (tags.unwrap_or_default().0, metadata.unwrap_or_default().0);
    Details { tags, metadata }.some()
}
