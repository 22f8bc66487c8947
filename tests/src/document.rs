//! docs/openapi.json as tests read it: every operation, and sample requests that it permits.

use serde_json::Map;

use crate::{Method, Value, json};

/// The document.
pub struct Document(pub Value);

impl Document {
    /// The committed one.
    pub fn committed() -> Self {
        let text = include_str!("../../docs/openapi.json");
        Self(serde_json::from_str(text).unwrap())
    }

    /// The committed one of the operator's listener.
    pub fn committed_operator() -> Self {
        let text = include_str!("../../docs/openapi-operator.json");
        Self(serde_json::from_str(text).unwrap())
    }

    /// A schema with references resolved, null apart, and the parts of an `allOf` merged.
    pub fn resolved(&self, schema: &Value) -> Value {
        if let Some(reference) = schema["$ref"].as_str() {
            return self.resolved(self.0.pointer(&reference[1..]).unwrap());
        }
        if let [value, null] = schema["oneOf"].as_array().map_or(&[][..], Vec::as_slice)
            && null["type"] == "null"
        {
            return self.resolved(value);
        }
        let Some(parts) = schema["allOf"].as_array() else { return schema.clone() };
        let mut whole = json!({ "type": "object", "properties": {}, "required": [] });
        for part in parts {
            let part = self.resolved(part);
            for (name, property) in part["properties"].as_object().into_iter().flatten() {
                whole["properties"][name] = property.clone();
            }
            let required = part["required"].as_array().into_iter().flatten().cloned();
            whole["required"].as_array_mut().unwrap().extend(required);
        }
        whole["example"] = schema["example"].clone();
        whole
    }

    /// The example of an operation's body, with the ids of memories in place of its own; null without a
    /// body.
    pub fn example(&self, operation: &Value, memories: &[&str]) -> Value {
        let example = self.resolved(self.body(operation))["example"].to_string();
        let with_ids = memories.iter().zip(1..).fold(example, |text, (id, number)| {
            text.replace(&format!("019a3c5e-7d40-7b21-9c0e-5f1d2a3b4c{number:02}"), id)
        });
        serde_json::from_str(&with_ids).unwrap()
    }

    /// A value that the schema permits.
    pub fn sample(&self, schema: &Value, ids: &mut std::slice::Iter<'_, String>) -> Value {
        let schema = self.resolved(schema);
        if let Some(value) = schema["enum"].get(0) {
            return value.clone();
        }
        match kind(&schema) {
            "string" if schema["format"] == "uuid" => ids.next().expect("an id").as_str().into(),
            "string" => "something".into(),
            "boolean" => true.into(),
            "integer" | "number" => schema["minimum"].clone(),
            "array" => {
                let least = schema["minItems"].as_u64().unwrap_or(1).max(1);
                (0..least).map(|_| self.sample(&schema["items"], ids)).collect()
            }
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

    /// Each operation, with its method and path.
    pub fn operations(&self) -> impl Iterator<Item = (Method, &str, &Value)> {
        let paths = self.0["paths"].as_object().unwrap().iter();
        paths.flat_map(|(path, item)| {
            item.as_object().unwrap().iter().map(|(method, operation)| {
                (method.to_uppercase().parse().unwrap(), path.as_str(), operation)
            })
        })
    }

    /// Schema of an operation's body; null without one.
    pub fn body<'a>(&self, operation: &'a Value) -> &'a Value {
        &operation["requestBody"]["content"]["application/json"]["schema"]
    }
}

/// The type of a schema, null apart.
pub fn kind(schema: &Value) -> &str {
    let named = match &schema["type"] {
        Value::Array(types) => types.iter().find(|name| *name != "null").unwrap_or(&Value::Null),
        name => name,
    };
    named.as_str().unwrap_or_default()
}
