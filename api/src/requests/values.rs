//! Types of request fields: texts with a bound, words of a set, ids and cursors, arrays. Each
//! parses and validates itself. Its OpenAPI schema comes from the same constants.

use std::collections::HashSet;
use std::fmt::{self, Display};
use std::marker::PhantomData;
use std::str::FromStr;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use storage::model::cluster::{GROUP, GroupId};
use storage::model::id::{KeyId, MemoryId, Timestamp, TriggerId};
use storage::model::journal::Cursor;
use storage::model::trigger::DeliveryId;
use storage::text::folding::nfc;
use storage::{ListCursor, Order, Sort};
use utoipa::openapi::schema::{
    ArrayBuilder, KnownFormat, Object, ObjectBuilder, SchemaFormat, SchemaType, Type,
};

use crate::error::{ApiError, ApiResult};
use crate::requests::times::{TimeSpan, Zone};
use crate::service::bulk::BulkTargets;
use crate::words::Word;

/// Documents a type with the schema of its values. Without a name of its own, its name is its path, and
/// the document has the schema in place of references to it (see `openapi::simplify`).
macro_rules! schema {
    ([$($generics:tt)*] $type:ty, $schema:expr) => {
        schema!([$($generics)*] $type as std::any::type_name::<Self>(), $schema);
    };
    ([$($generics:tt)*] $type:ty as $name:expr, $schema:expr) => {
        impl<$($generics)*> utoipa::PartialSchema for $type {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
                $schema.into()
            }
        }

        impl<$($generics)*> utoipa::ToSchema for $type {
            fn name() -> std::borrow::Cow<'static, str> {
                $name.into()
            }
        }
    };
}

/// Defines a type of fields: how its values are made from those of another type, and its schema.
macro_rules! value {
    ([$($generics:tt)*] $type:ty $(as $name:expr)?, $schema:expr, from $source:ty: $parse:expr) => {
        impl<'de, $($generics)*> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let parse: fn($source) -> Result<Self, String> = $parse;
                parse(<$source>::deserialize(deserializer)?).map_err(D::Error::custom)
            }
        }

        schema!([$($generics)*] $type $(as $name)?, $schema);
    };
}

pub(crate) fn object(schema_type: Type) -> ObjectBuilder {
    ObjectBuilder::new().schema_type(SchemaType::Type(schema_type))
}

pub(crate) use {schema, value};

/// A text of at most `MAX` bytes, in NFC: two names that Unicode calls equal are one. An exact one stays as it
/// was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Text<const MAX: usize, const IS_EXACT: bool = false>(pub(crate) String);

value!([const MAX: usize, const IS_EXACT: bool] Text<MAX, IS_EXACT>,
    object(Type::String).max_length(Some(MAX)).build(),
    from String: |text| {
        let text = if IS_EXACT { text } else { nfc(&text).into_owned() };
        match text.len() <= MAX {
            true => Ok(Self(text)),
            false => Err(format!("must have at most {MAX} bytes")),
        }
    }
);

/// A text of 1 to `MAX` bytes that is not only white space.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NonBlank<const MAX: usize, const IS_EXACT: bool = false>(pub(crate) String);

value!([const MAX: usize, const IS_EXACT: bool] NonBlank<MAX, IS_EXACT>, non_blank(MAX),
    from Text<MAX, IS_EXACT>: |Text(text)| {
    match text.trim().is_empty() {
        true => Err("must not be empty".to_owned()),
        false => Ok(Self(text)),
    }
});

/// Schemas do not count U+0085 as white space.
pub(crate) const SOME_TEXT: &str = r"[^\s\u0085]";

fn non_blank(max: usize) -> Object {
    let text = object(Type::String).min_length(Some(1)).max_length(Some(max));
    text.pattern(Some(SOME_TEXT)).build()
}

/// As [`NonBlank`], with an empty text for an absent one, as published clients send it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TextOrEmpty<const MAX: usize, const IS_EXACT: bool = false>(
    pub(crate) Option<String>,
);

value!([const MAX: usize, const IS_EXACT: bool] TextOrEmpty<MAX, IS_EXACT>, non_blank(MAX),
    from Text<MAX, IS_EXACT>: |Text(text)| {
    match text.trim().is_empty() {
        _ if text.is_empty() => Ok(Self(None)),
        true => Err("must not be empty".to_owned()),
        false => Ok(Self(Some(text))),
    }
});

/// The first of two aliases that is present and not empty.
pub(crate) fn first_text<const MAX: usize, const IS_EXACT: bool>(
    first: Option<&TextOrEmpty<MAX, IS_EXACT>>,
    second: Option<&TextOrEmpty<MAX, IS_EXACT>>,
) -> Option<String> {
    [first, second].into_iter().flatten().find_map(|text| text.0.clone())
}

/// A text that may be empty where clients send an empty one for an absent one.
pub(crate) fn non_empty<const MAX: usize, const IS_EXACT: bool>(
    text: Option<Text<MAX, IS_EXACT>>,
) -> Option<String> {
    text.map(|text| text.0).filter(|text| !text.is_empty())
}

/// The first alias that has a value. All values are validated: an error names its alias.
pub(crate) fn first_non_blank<const MAX: usize, const IS_EXACT: bool>(
    aliases: [(&str, Option<Text<MAX, IS_EXACT>>); 3],
) -> ApiResult<Option<String>> {
    let mut found = None;
    for (name, text) in aliases {
        let Some(text) = non_empty(text) else { continue };
        if text.trim().is_empty() {
            return Err(ApiError::invalid(name, "must not be empty"));
        }
        found = found.or(Some(text));
    }
    Ok(found)
}

/// A word of a set, by its name or a published alias.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OneOf<T>(pub(crate) T);

impl<'de, T: Word> Deserialize<'de> for OneOf<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Words<T>(PhantomData<T>);

        impl<T: Word> Visitor<'_> for Words<T> {
            type Value = OneOf<T>;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(out, "one of {}", T::names().join(", "))
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<OneOf<T>, E> {
                let names = || T::names().join(", ");
                let word = T::parse(text).map(OneOf);
                word.ok_or_else(|| E::custom(format_args!("must be one of {}", names())))
            }
        }

        deserializer.deserialize_str(Words(PhantomData))
    }
}

impl<T: Word> Serialize for OneOf<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.name())
    }
}

schema!([T: Word] OneOf<T> as T::NAME, object(Type::String).enum_values(Some(T::names())).build());

/// A word of a set, or an empty text for an absent one, as published clients send it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OneOfOrEmpty<T>(pub(crate) Option<T>);

value!([T: Word] OneOfOrEmpty<T>, object(Type::String).enum_values(Some(T::names())).build(),
    from String: |text| match T::parse(&text) {
        _ if text.is_empty() => Ok(Self(None)),
        Some(word) => Ok(Self(Some(word))),
        None => Err(format!("must be one of {}", T::names().join(", "))),
    }
);

/// A word where unknown ones are accepted too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AnyWord(pub(crate) String);

value!([] AnyWord, object(Type::String).build(), from String: |text| Ok(Self(text)));

/// A value by its text form: an id, or a cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Id<T>(pub(crate) T);

/// A value with a text form.
pub(crate) trait TextForm: FromStr {
    /// Its name in the OpenAPI document.
    const NAME: &'static str;

    /// What the text must be.
    const EXPECTED: &'static str;

    fn schema() -> ObjectBuilder;
}

macro_rules! text_forms {
    ($($type:ty: $expected:literal, $schema:expr;)+) => {
        $(impl TextForm for $type {
            const NAME: &'static str = stringify!($type);
            const EXPECTED: &'static str = concat!("must be ", $expected);

            fn schema() -> ObjectBuilder {
                $schema
            }
        })+
    };
}

text_forms! {
    MemoryId: "the id of a memory, a UUID", uuid();
    TriggerId: "the id of a trigger, a UUID", uuid();
    KeyId: "the id of a key", pattern("^[0-9a-fA-F]{16}$");
    DeliveryId: "the id of a delivery", pattern(r"^msg_[0-9a-f]{32}_[0-9]{1,18}$");
    PageCursor: "the next_cursor of a page", pattern(r"^[0-9]{1,18}\.[0-9]{1,9}$");
    MemoryCursor: "the next_cursor of a page",
        pattern(r"^[a-z_]{4,11}\.(asc|desc)\.[0-9]{1,20}\.[0-9]{1,19}\.[0-9a-f-]{36}$");
    Zone: "the name of a time zone such as Europe/Berlin",
        object(Type::String).enum_values(Some(Zone::names()));
    TimeSpan: "a time such as 2026-03-05T14:30:00Z, or a day such as 2026-03-05",
        object(Type::String).format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)));
    EventId: "the id of an event of this stream",
        pattern(r"^[0-9a-f]{32}\.[0-9]{1,10}\.[0-9]{1,18}\.[0-9]{1,10}$");
}

fn uuid() -> ObjectBuilder {
    object(Type::String).format(Some(SchemaFormat::KnownFormat(KnownFormat::Uuid)))
}

fn pattern(pattern: &str) -> ObjectBuilder {
    object(Type::String).pattern(Some(pattern))
}

value!([T: TextForm] Id<T> as T::NAME, T::schema().build(), from String: |text| {
    text.parse().map(Self).map_err(|_| T::EXPECTED.to_owned())
});

impl<T: Display> Serialize for Id<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

/// A secret of at most `MAX` bytes. Its debug form hides it.
#[derive(Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct SecretText<const MAX: usize>(pub(crate) Text<MAX, true>);

impl<const MAX: usize> fmt::Debug for SecretText<MAX> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("SecretText")
    }
}

/// A JSON object. Derived types alone would accept an array of their fields, too.
#[derive(Debug, Clone, Default)]
pub(crate) struct JsonObject<T>(pub(crate) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for JsonObject<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Fields<T> {
            type Value = T;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<T, A::Error> {
                T::deserialize(MapAccessDeserializer::new(fields))
            }
        }

        deserializer.deserialize_map(Fields(PhantomData)).map(Self)
    }
}

/// Texts of at most `BYTES` bytes each, at most `COUNT` of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Texts<const COUNT: usize, const BYTES: usize>(pub(crate) Vec<String>);

value!([const COUNT: usize, const BYTES: usize] Texts<COUNT, BYTES>, ArrayBuilder::new()
        .items(object(Type::String).max_length(Some(BYTES))).max_items(Some(COUNT)).build(),
    from Items<Text<BYTES>, 0, COUNT>: |Items(items)| {
        Ok(Self(items.into_iter().map(|text| text.0).collect()))
    }
);

/// `MIN` to `MAX` items.
#[derive(Debug, Clone)]
pub(crate) struct Items<T, const MIN: usize, const MAX: usize>(pub(crate) Vec<T>);

impl<'de, T: Deserialize<'de>, const MIN: usize, const MAX: usize> Deserialize<'de>
    for Items<T, MIN, MAX>
{
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Sequence<T, const MAX: usize>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>, const MAX: usize> Visitor<'de> for Sequence<T, MAX> {
            type Value = Vec<T>;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(out, "an array of at most {MAX} items")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Vec<T>, A::Error> {
                let mut all = Vec::new();
                while let Some(item) = items.next_element()? {
                    if all.len() == MAX {
                        let message = format_args!("must have at most {MAX} items");
                        return Err(A::Error::custom(message));
                    }
                    all.push(item);
                }
                Ok(all)
            }
        }

        let all = deserializer.deserialize_seq(Sequence::<T, MAX>(PhantomData))?;
        match all.len() >= MIN {
            true => Ok(Self(all)),
            false => Err(D::Error::custom(format_args!("must have at least {MIN} items"))),
        }
    }
}

/// Ids of memories, 1 to `MAX`, each once, in the order of their first appearance.
#[derive(Debug, Clone, Default)]
pub(crate) struct MemoryIds<const MAX: usize>(pub(crate) BulkTargets);

/// Characters of a malformed id that a response repeats.
const UNKNOWN_ID_CHARS: usize = 64;

value!([const MAX: usize] MemoryIds<MAX>, ArrayBuilder::new()
        .items(uuid()).min_items(Some(1)).max_items(Some(MAX)).build(),
    from Items<String, 1, MAX>: |Items(texts)| {
        let (mut seen, mut targets) = (HashSet::new(), BulkTargets::default());
        for text in texts {
            match text.parse() {
                Ok(id) if seen.insert(id) => targets.ids.push_back(id),
                Ok(_) => {}
                Err(_) => targets.unknown.push(text.chars().take(UNKNOWN_ID_CHARS).collect()),
            }
        }
        Ok(Self(targets))
    }
);

/// For `deserialize_with`: distinguishes an absent field (`None`) from `null` (`Some(None)`).
pub(crate) fn nullable<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Option<T>>, D::Error> {
    Option::<T>::deserialize(deserializer).map(Some)
}

/// The `next_cursor` of a page of events: index and ordinal. It needs no group: a page is of one
/// tenant, and a tenant belongs to one Raft group.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PageCursor(pub(crate) Cursor);

impl FromStr for PageCursor {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (index, ordinal) = text.split_once('.').ok_or(())?;
        Ok(Self(Cursor::new(index.parse().map_err(drop)?, ordinal.parse().map_err(drop)?)))
    }
}

impl fmt::Display for PageCursor {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}.{}", self.0.index, self.0.ordinal)
    }
}

/// The `next_cursor` of a page of memories: the order, and the place in it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MemoryCursor(pub(crate) ListCursor);

impl FromStr for MemoryCursor {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let parts: Vec<_> = text.split('.').collect();
        let [sort, order, key, at, id] = parts[..] else { return Err(()) };
        Ok(Self(ListCursor {
            sort: Sort::parse(sort).ok_or(())?,
            order: Order::parse(order).ok_or(())?,
            key: key.parse().map_err(drop)?,
            // A negative time would be one before all memories.
            at: Timestamp(i64::try_from(at.parse::<u64>().map_err(drop)?).map_err(drop)?),
            id: id.parse().map_err(drop)?,
        }))
    }
}

impl fmt::Display for MemoryCursor {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ListCursor { sort, order, key, id, at } = self.0;
        write!(out, "{}.{}.{key}.{}.{id}", sort.name(), order.name(), at.0)
    }
}

/// The id of an event of the stream: cluster, Raft group, index, ordinal.
#[derive(Debug, Clone)]
pub(crate) struct EventId {
    pub(crate) cluster: String,
    pub(crate) cursor: Cursor,
}

/// Hexadecimal digits of a cluster's id.
const CLUSTER_DIGITS: usize = 32;

impl FromStr for EventId {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let parts: Vec<_> = text.trim().split('.').collect();
        let [cluster, group, index, ordinal] = parts[..] else { return Err(()) };
        let group = GroupId(group.parse().map_err(drop)?);
        let cursor = Cursor {
            group,
            index: index.parse().map_err(drop)?,
            ordinal: ordinal.parse().map_err(drop)?,
        };
        let is_ours = cluster.len() == CLUSTER_DIGITS && group == GROUP;
        is_ours.then(|| Self { cluster: cluster.to_owned(), cursor }).ok_or(())
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Cursor { group, index, ordinal } = self.cursor;
        write!(out, "{}.{}.{index}.{ordinal}", self.cluster, group.0)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn objects_are_not_read_from_arrays() {
        #[derive(Debug, Deserialize)]
        struct One {
            number: u8,
        }
        let object: JsonObject<One> = serde_json::from_value(json!({"number": 7})).unwrap();
        assert_eq!(object.0.number, 7);
        assert!(serde_json::from_value::<JsonObject<One>>(json!([7])).is_err());
    }

    #[test]
    fn ids_are_deduplicated_in_order() {
        let (one, two) = ("01".repeat(16), "02".repeat(16));
        let ids: MemoryIds<4> = serde_json::from_value(json!([two, one, two, "x"])).unwrap();
        assert_eq!(ids.0.ids, [MemoryId([2; 16]), MemoryId([1; 16])]);
        assert_eq!(ids.0.unknown, ["x"]);
        assert!(serde_json::from_value::<MemoryIds<1>>(json!([one, two])).is_err());
        assert!(serde_json::from_value::<MemoryIds<1>>(json!([])).is_err());
    }
}
