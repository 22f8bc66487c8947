//! Values in looser forms than those of JSON bodies: the texts of query strings and headers, and the
//! arguments of tools, where agents write texts in place of numbers, lists and objects.

use serde::de::value::{self, MapDeserializer, SeqDeserializer};
use serde::de::{Error as _, IntoDeserializer, Visitor};
use serde::{Deserializer, forward_to_deserialize_any};
use serde_json::Value;

/// The texts of a query parameter or header: a list has all of them, and any other type the last one, from
/// which numbers and booleans are parsed.
pub(super) struct Parameter(pub(super) Vec<String>);

impl Parameter {
    fn last(mut self) -> String {
        self.0.pop().unwrap_or_default()
    }
}

impl<'de> Deserializer<'de> for Parameter {
    type Error = value::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, value::Error> {
        visitor.visit_string(self.last())
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, value::Error> {
        visitor.visit_some(self)
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, value::Error> {
        let parsed =
            self.last().parse().map_err(|_| value::Error::custom("must be true or false"))?;
        visitor.visit_bool(parsed)
    }

    // All types of numbers ask for this one: see `Numeric`.
    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, value::Error> {
        let text = self.last();
        match (text.parse(), text.parse()) {
            (Ok(whole), _) => visitor.visit_u64(whole),
            (_, Ok(number)) => visitor.visit_f64(number),
            _ => Err(value::Error::custom("must be a number")),
        }
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, value::Error> {
        let items = self.0.into_iter().map(|text| Self(vec![text]));
        visitor.visit_seq(SeqDeserializer::new(items))
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 char str string bytes byte_buf unit
        unit_struct newtype_struct tuple tuple_struct map struct enum identifier ignored_any
    }
}

impl<'de> IntoDeserializer<'de> for Parameter {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

/// An argument of a tool. Where a number, a boolean, a list or an object is due, a text may contain it; a
/// list of one may be its item; an empty text is an absent argument.
pub(super) struct Argument(pub(super) Value);

impl Argument {
    /// The argument, with the JSON of a text in its place if `is_due` accepts it.
    fn unquoted(self, is_due: impl Fn(&Value) -> bool) -> Value {
        let text = self.0.as_str().filter(|text| text.trim_start().starts_with(['[', '{']));
        let parsed = text.and_then(|text| serde_json::from_str(text).ok());
        parsed.filter(is_due).unwrap_or(self.0)
    }
}

impl<'de> Deserializer<'de> for Argument {
    type Error = value::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, value::Error> {
        match self.0 {
            Value::Null => visitor.visit_unit(),
            Value::Bool(is_true) => visitor.visit_bool(is_true),
            Value::Number(number) => match (number.as_u64(), number.as_i64(), number.as_f64()) {
                (Some(number), ..) => visitor.visit_u64(number),
                (_, Some(number), _) => visitor.visit_i64(number),
                (_, _, number) => visitor.visit_f64(number.unwrap_or(f64::NAN)),
            },
            Value::String(text) => visitor.visit_string(text),
            Value::Array(items) => {
                visitor.visit_seq(SeqDeserializer::new(items.into_iter().map(Self)))
            }
            Value::Object(fields) => {
                let fields = fields.into_iter().map(|(name, field)| (name, Self(field)));
                visitor.visit_map(MapDeserializer::new(fields))
            }
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, value::Error> {
        match &self.0 {
            Value::Null => visitor.visit_none(),
            Value::String(text) if text.is_empty() => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, value::Error> {
        match self.0 {
            Value::String(text) => {
                Parameter(vec![text.trim().to_lowercase()]).deserialize_bool(visitor)
            }
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, value::Error> {
        match self.0 {
            Value::String(text) => Parameter(vec![text.trim().to_owned()]).deserialize_f64(visitor),
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, value::Error> {
        match self.0 {
            Value::Number(number) => visitor.visit_string(number.to_string()),
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, value::Error> {
        self.deserialize_str(visitor)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, value::Error> {
        let list = match self.unquoted(Value::is_array) {
            item @ (Value::String(_) | Value::Object(_)) => Value::Array(vec![item]),
            list => list,
        };
        Self(list).deserialize_any(visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, value::Error> {
        Self(self.unquoted(Value::is_object)).deserialize_any(visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, value::Error> {
        self.deserialize_map(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, value::Error> {
        match name.starts_with('$') {
            // A type of serde_json, such as JSON that stays as it is.
            true => {
                let typed = self.0.deserialize_newtype_struct(name, visitor);
                typed.map_err(value::Error::custom)
            }
            false => visitor.visit_newtype_struct(self),
        }
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 char bytes byte_buf unit unit_struct
        tuple tuple_struct enum identifier ignored_any
    }
}

impl<'de> IntoDeserializer<'de> for Argument {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::*;
    use crate::requests::fields::{KeyPoints, WholeNumber};
    use crate::requests::parse_arguments;
    use crate::requests::values::JsonObject;

    #[derive(Debug, Default, Deserialize)]
    #[serde(default)]
    struct Arguments {
        count: Option<WholeNumber>,
        is_on: Option<bool>,
        text: Option<String>,
        list: Option<KeyPoints>,
        object: Option<JsonObject<Inner>>,
    }

    #[derive(Debug, Default, Deserialize)]
    struct Inner {
        count: Option<WholeNumber>,
    }

    fn parsed(arguments: Value) -> Result<Arguments, String> {
        let Value::Object(arguments) = arguments else { return Err("no object".to_owned()) };
        parse_arguments(arguments).map_err(|error| format!("{:?} {}", error.field, error.message))
    }

    #[test]
    fn texts_stand_for_what_is_due() {
        for number in [json!(7), json!("7"), json!(" 7 "), json!(7.0)] {
            assert_eq!(parsed(json!({"count": number})).unwrap().count.unwrap().0, 7);
        }
        for is_on in [json!(true), json!("true"), json!("True")] {
            assert_eq!(parsed(json!({"is_on": is_on})).unwrap().is_on, Some(true));
        }
        for text in [json!("2026"), json!(2026)] {
            assert_eq!(parsed(json!({"text": text})).unwrap().text.unwrap(), "2026");
        }
        for list in [json!(["a"]), json!("[\"a\"]"), json!("a")] {
            assert_eq!(parsed(json!({"list": list})).unwrap().list.unwrap().0, ["a"]);
        }
        for object in [json!({"count": "7"}), json!("{\"count\": 7}")] {
            let object = parsed(json!({"object": object})).unwrap().object.unwrap();
            assert_eq!(object.0.count.unwrap().0, 7);
        }
        // A text that only looks like JSON is one.
        let list = parsed(json!({"list": "[draft] a"})).unwrap().list.unwrap();
        assert_eq!(list.0, ["[draft] a"]);
        let none = parsed(json!({"count": "", "is_on": "", "list": "", "object": null})).unwrap();
        assert!(none.count.is_none() && none.is_on.is_none() && none.list.is_none());
    }

    #[test]
    fn errors_name_the_argument() {
        for (wrong, expected) in [
            (json!({"count": "seven"}), "Some(\"count\") must be a number"),
            (json!({"is_on": "maybe"}), "Some(\"is_on\") must be true or false"),
            (json!({"object": {"count": "x"}}), "Some(\"object.count\") must be a number"),
            (json!({"object": "x"}), "Some(\"object\") must be an object"),
        ] {
            assert_eq!(parsed(wrong).unwrap_err(), expected);
        }
    }
}
