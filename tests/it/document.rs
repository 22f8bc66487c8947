//! docs/openapi.json as tests read it: every operation, and requests that it permits. Sends
//! nothing.

use reqwest::Method;
use serde_json::{Map, Value, json};

/// The document, with references looked up.
pub(crate) struct Document(pub(crate) Value);

impl Document {
    pub(crate) fn committed() -> Self {
        let text = include_str!("../../docs/openapi.json");
        Self(serde_json::from_str(text).unwrap())
    }

    /// A schema without references; the parts of an `allOf` as one object.
    pub(crate) fn resolved(&self, schema: &Value) -> Value {
        if let Some(reference) = schema["$ref"].as_str() {
            return self.resolved(self.0.pointer(&reference[1..]).unwrap());
        }
        let Some(parts) = schema["allOf"].as_array() else { return schema.clone() };
        let mut whole = json!({ "type": "object", "properties": {}, "required": [] });
        for part in parts {
            let part = self.resolved(part);
            for (name, property) in part["properties"].as_object().unwrap() {
                whole["properties"][name] = property.clone();
            }
            let required = part["required"].as_array().into_iter().flatten().cloned();
            whole["required"].as_array_mut().unwrap().extend(required);
        }
        whole
    }

    /// A value that the schema permits.
    pub(crate) fn sample(&self, schema: &Value, ids: &mut std::slice::Iter<'_, String>) -> Value {
        let schema = self.resolved(schema);
        if let Some(word) = schema["enum"].get(0) {
            return word.clone();
        }
        match kind(&schema) {
            "string" if schema["format"] == "uuid" => ids.next().unwrap().as_str().into(),
            "string" => "something".into(),
            "boolean" => true.into(),
            "integer" | "number" => schema["minimum"].clone(),
            "array" => vec![self.sample(&schema["items"], ids)].into(),
            _ => {
                let required = schema["required"].as_array().into_iter().flatten();
                let value = |name: &Value| {
                    let name = name.as_str().unwrap();
                    (name.to_owned(), self.sample(&schema["properties"][name], ids))
                };
                Value::Object(required.map(value).collect::<Map<_, _>>())
            }
        }
    }

    /// Each operation with its method and path.
    pub(crate) fn operations(&self) -> impl Iterator<Item = (Method, &str, &Value)> {
        let paths = self.0["paths"].as_object().unwrap().iter();
        paths.flat_map(|(path, item)| {
            item.as_object().unwrap().iter().map(|(method, operation)| {
                (method.to_uppercase().parse().unwrap(), path.as_str(), operation)
            })
        })
    }

    /// Schema of an operation's body; null without one.
    pub(crate) fn body<'a>(&self, operation: &'a Value) -> &'a Value {
        &operation["requestBody"]["content"]["application/json"]["schema"]
    }
}

/// The type that a schema names beside null.
pub(crate) fn kind(schema: &Value) -> &str {
    let named = match &schema["type"] {
        Value::Array(types) => types.iter().find(|name| *name != "null").unwrap_or(&Value::Null),
        name => name,
    };
    named.as_str().unwrap_or_default()
}
