//! Every field that docs/openapi.json names, of every operation, is refused by its name when
//! it is of the wrong type or out of range, and then nothing changes.

use std::collections::BTreeMap;

use reqwest::Method;
use serde_json::{Map, Value, json};
use tests::Cluster;

use crate::options;

/// Numbers that are moved into range, as published clients expect.
const CLAMPED: [&str; 5] = ["limit", "page", "page_size", "depth", "budget_chars"];

/// The document, with references looked up.
struct Document(Value);

impl Document {
    fn committed() -> Self {
        let text = include_str!("../../docs/openapi.json");
        Self(serde_json::from_str(text).unwrap())
    }

    /// A schema without references; the parts of an `allOf` as one object.
    fn resolved(&self, schema: &Value) -> Value {
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
    fn sample(&self, schema: &Value, ids: &mut std::slice::Iter<'_, String>) -> Value {
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

    /// What a property must not be, each with the name of the field at fault.
    fn wrong(&self, name: &str, schema: &Value, ids: &[String]) -> Vec<(String, Value)> {
        let schema = self.resolved(schema);
        let mut wrong = match kind(&schema) {
            "string" => vec![json!(7), json!(true), json!({}), json!(["x"])],
            "boolean" => vec![json!(7), json!("maybe"), json!({})],
            "number" => vec![json!("x"), json!(true), json!({})],
            "integer" => vec![json!("x"), json!(true), json!({}), json!(1.5)],
            "array" => vec![json!("x"), json!({}), json!(7)],
            "object" => vec![json!("x"), json!(7), json!([])],
            // Any JSON is right.
            _ => return Vec::new(),
        };
        if !schema["enum"].is_null() {
            wrong.push("nonsense".into());
        }
        match schema["pattern"].as_str() {
            Some(pattern) if pattern.contains(r"\S") => wrong.push("  ".into()),
            Some(_) => wrong.push("not-an-id".into()),
            None if schema["format"] == "uuid" => wrong.push("not-an-id".into()),
            None => {}
        }
        if let Some(most) = schema["maxLength"].as_u64() {
            wrong.push("x".repeat(most as usize + 1).into());
        }
        if let Some(most) = schema["maxItems"].as_u64() {
            let item = self.sample(&schema["items"], &mut ids.iter());
            wrong.push(vec![item; most as usize + 1].into());
        }
        if schema["minItems"] == 1 {
            wrong.push(json!([]));
        }
        if !CLAMPED.contains(&name) {
            wrong.extend(schema["minimum"].as_f64().map(|least| (least - 1.0).into()));
            wrong.extend(schema["maximum"].as_f64().map(|most| (most + 1.0).into()));
        }
        let mut wrong: Vec<_> = wrong.into_iter().map(|value| (name.to_owned(), value)).collect();
        for (inner, property) in schema["properties"].as_object().into_iter().flatten() {
            for (field, value) in self.wrong(&format!("{name}.{inner}"), property, ids) {
                wrong.push((field, json!({ inner: value })));
            }
        }
        let items = self.resolved(&schema["items"]);
        for (inner, property) in items["properties"].as_object().into_iter().flatten() {
            for (field, value) in self.wrong(&format!("{name}[0].{inner}"), property, ids) {
                let mut item = self.sample(&items, &mut ids.iter());
                item[inner] = value;
                wrong.push((field, vec![item].into()));
            }
        }
        if kind(&items) == "string" {
            let format = &items["format"];
            let field = if format == "uuid" { format!("{name}[0]") } else { name.to_owned() };
            wrong.push((field, json!([7])));
        }
        wrong
    }
}

/// The type that a schema names beside null.
fn kind(schema: &Value) -> &str {
    let named = match &schema["type"] {
        Value::Array(types) => types.iter().find(|name| *name != "null").unwrap_or(&Value::Null),
        name => name,
    };
    named.as_str().unwrap_or_default()
}

/// Everything that a request could have changed.
async fn everything(cluster: &Cluster) -> BTreeMap<&'static str, Value> {
    let mut all = BTreeMap::new();
    for path in ["/agent/nodes", "/agent/archive", "/keys", "/namespaces/acl", "/settings/thermo"] {
        let mut body = cluster.ask(Method::GET, path).send().await.ok();
        // Heats cool meanwhile, and using a key is noted.
        let list = if path == "/keys" { "keys" } else { "items" };
        for item in body[list].as_array_mut().into_iter().flatten() {
            for changing in ["heat", "current_heat", "last_used_at"] {
                item.as_object_mut().unwrap().remove(changing);
            }
        }
        all.insert(path, body);
    }
    let mut numbers = cluster.ask(Method::GET, "/metrics").send().await.ok();
    for count in ["memories", "edges", "events"] {
        all.insert(count, numbers[count].take());
    }
    all.insert("/org", cluster.ask(Method::GET, "/org").send().await.ok());
    all
}

/// Two memories that are related, a key and a rule: what paths and bodies may name.
async fn fill(cluster: &Cluster) -> (Vec<String>, String) {
    let post = async |path: &str, body: Value| {
        cluster.ask(Method::POST, path).json(&body).send().await.ok()
    };
    let mut ids = Vec::new();
    for label in ["one", "two", "three"] {
        let memory = post("/agent/nodes", json!({ "label": label })).await;
        ids.push(memory["id"].as_str().unwrap().to_owned());
    }
    let edge = json!({ "source_id": ids[0], "target_id": ids[1], "relation": "something" });
    post("/agent/graph/relate", edge).await;
    let rule = json!({ "namespace": "place", "policy": "deny" });
    post("/namespaces/acl", rule).await;
    let key = post("/keys", json!({ "name": "other" })).await;
    (ids, key["id"].as_str().unwrap().to_owned())
}

/// Sends one request and expects the refusal to name `field`.
async fn refused(
    cluster: &Cluster,
    (method, path): (&Method, &str),
    header: Option<(&str, &str)>,
    body: Option<&Value>,
    field: &str,
) {
    let path = path.strip_prefix("/api/v1").unwrap();
    let mut ask = cluster.ask(method.clone(), path);
    if let Some((name, value)) = header {
        ask = ask.header(name, value);
    }
    if let Some(body) = body {
        ask = ask.json(body);
    }
    let answer = ask.send().await;
    let mut shown = format!("{method} {path} {header:?} {}", body.unwrap_or(&Value::Null));
    shown.truncate(shown.floor_char_boundary(300));
    assert_eq!(answer.status, 400, "{shown}: {field}: {}", answer.body);
    assert_eq!(answer.body["error"], "invalid_field", "{shown}: {}", answer.body);
    let named = answer.body["field"].as_str().unwrap();
    // A header may be named without its prefix.
    let same = field.eq_ignore_ascii_case(named)
        || header.is_some() && field.to_lowercase().ends_with(&format!("-{named}"));
    assert!(same, "{shown}: {named} instead of {field}");
}

#[tokio::test]
async fn every_field_of_every_operation_is_refused_by_its_name_and_nothing_changes() {
    let cluster = options().start();
    let document = Document::committed();
    let (ids, key) = fill(&cluster).await;
    let before = everything(&cluster).await;
    let (mut fields, mut requests) = (0, 0);
    for (path, item) in document.0["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let method: Method = method.to_uppercase().parse().unwrap();
            let parameters = operation["parameters"].as_array().into_iter().flatten();
            let in_path = if path.contains("/keys/") { &key } else { &ids[0] };
            let right = path.replace("{id}", in_path);
            let content = &operation["requestBody"]["content"]["application/json"]["schema"];
            let valid = (!content.is_null()).then(|| document.sample(content, &mut ids.iter()));
            let queries: Vec<_> = parameters.clone().filter(|p| p["in"] == "query").collect();
            for parameter in parameters {
                let name = parameter["name"].as_str().unwrap();
                fields += 1;
                for (field, value) in document.wrong(name, &parameter["schema"], &ids) {
                    let text = match &value {
                        Value::String(text) => text.clone(),
                        // Any text is a text here.
                        _ if kind(&parameter["schema"]) == "string" => continue,
                        Value::Object(_) | Value::Array(_) => continue,
                        other => other.to_string(),
                    };
                    requests += 1;
                    match parameter["in"].as_str().unwrap() {
                        "path" => {
                            let wrong = path.replace("{id}", &text);
                            refused(&cluster, (&method, &wrong), None, valid.as_ref(), &field)
                                .await;
                        }
                        "header" => {
                            let header = Some((name, text.as_str()));
                            refused(&cluster, (&method, &right), header, valid.as_ref(), &field)
                                .await;
                        }
                        _ => {
                            let mut others = ids.iter();
                            let mut asked = format!("{right}?{name}={}", text.replace(' ', "%20"));
                            for other in &queries {
                                let other_name = other["name"].as_str().unwrap();
                                if other["required"] == true && other_name != name {
                                    let sample = document.sample(&other["schema"], &mut others);
                                    asked += &format!("&{other_name}={}", sample.as_str().unwrap());
                                }
                            }
                            refused(&cluster, (&method, &asked), None, valid.as_ref(), &field)
                                .await;
                        }
                    }
                }
            }
            let body = document.resolved(content);
            for (name, property) in body["properties"].as_object().into_iter().flatten() {
                fields += 1;
                for (field, value) in document.wrong(name, property, &ids) {
                    requests += 1;
                    let mut wrong = valid.clone().unwrap();
                    wrong[name] = value;
                    refused(&cluster, (&method, &right), None, Some(&wrong), &field).await;
                }
                let is_required =
                    body["required"].as_array().is_some_and(|all| all.contains(&json!(name)));
                if is_required {
                    requests += 1;
                    let mut wrong = valid.clone().unwrap();
                    wrong.as_object_mut().unwrap().remove(name);
                    refused(&cluster, (&method, &right), None, Some(&wrong), name).await;
                }
            }
        }
    }
    assert!(fields > 150 && requests > 800, "{fields} fields, {requests} requests");
    assert_eq!(everything(&cluster).await, before);
}
