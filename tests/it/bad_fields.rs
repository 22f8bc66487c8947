//! Each field of each operation in docs/openapi.json is rejected by its name when its type is
//! wrong or its value is out of range; an id in a path that is none is that of nothing. Rejected
//! requests change nothing.

use std::collections::BTreeMap;

use super::*;

/// Numbers that are moved into range, as published clients expect.
const CLAMPED: [&str; 6] = ["limit", "page", "page_size", "depth", "budget_chars", "token_budget"];

/// Invalid values for a property, each with the name of the invalid field.
fn faults(document: &Document, name: &str, schema: &Value, ids: &[String]) -> Vec<(String, Value)> {
    let schema = document.resolved(schema);
    let mut wrong = match kind(&schema) {
        "string" => vec![json!(7), json!(true), json!({}), json!(["x"])],
        "boolean" => vec![json!(7), json!("maybe"), json!({})],
        "number" => vec![json!("x"), json!(true), json!({})],
        "integer" => vec![json!("x"), json!(true), json!({}), json!(1.5)],
        "array" => vec![json!("x"), json!({}), json!(7)],
        "object" => vec![json!("x"), json!(7), json!([])],
        // Any JSON is valid.
        _ => return Vec::new(),
    };
    if !schema["enum"].is_null() {
        wrong.push("nonsense".into());
    }
    match schema["pattern"].as_str() {
        // A pattern of what a text must contain, or the form of an id.
        Some(pattern) if pattern.contains(r"\S") || pattern.contains(r"\s") => {
            wrong.push("  ".into());
        }
        Some(_) => wrong.push("not-an-id".into()),
        None if schema["format"] == "uuid" => wrong.push("not-an-id".into()),
        None => {}
    }
    if let Some(most) = schema["maxLength"].as_u64() {
        wrong.push("x".repeat(most as usize + 1).into());
    }
    if let Some(most) = schema["maxItems"].as_u64() {
        let item = document.sample(&schema["items"], &mut ids.iter());
        wrong.push(vec![item; most as usize + 1].into());
    }
    if schema["minItems"].as_u64() > Some(0) {
        wrong.push(json!([]));
    }
    if !CLAMPED.contains(&name) {
        wrong.extend(schema["minimum"].as_f64().map(|minimum| (minimum - 1.0).into()));
        wrong.extend(schema["maximum"].as_f64().map(|maximum| (maximum + 1.0).into()));
    }
    let mut wrong: Vec<_> = wrong.into_iter().map(|value| (name.to_owned(), value)).collect();
    for (inner, property) in properties(&schema) {
        for (field, value) in faults(document, &format!("{name}.{inner}"), property, ids) {
            wrong.push((field, json!({ inner: value })));
        }
    }
    let items = document.resolved(&schema["items"]);
    for (inner, property) in properties(&items) {
        for (field, value) in faults(document, &format!("{name}[0].{inner}"), property, ids) {
            let mut item = document.sample(&items, &mut ids.iter());
            item[inner] = value;
            wrong.push((field, vec![item].into()));
        }
    }
    if kind(&items) == "string" {
        wrong.push((format!("{name}[0]"), json!([7])));
    }
    wrong
}

fn properties(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    schema["properties"].as_object().into_iter().flatten()
}

/// All state that a request can change.
async fn state(cluster: &Cluster) -> BTreeMap<&'static str, Value> {
    let mut all = BTreeMap::new();
    // By age: the order of heats that are almost equal may change as they cool.
    let memories = ["/agent/nodes?sort=created_at", "/agent/archive", "/keys", "/namespaces/acl"];
    let others = ["/settings/thermo", "/triggers", "/triggers/deliveries", "/org"];
    for path in memories.into_iter().chain(others) {
        let mut body = cluster.get(path).await;
        // Heats cool meanwhile, and the use of a key is recorded.
        let list = if path == "/keys" { "keys" } else { "items" };
        for item in body[list].as_array_mut().into_iter().flatten() {
            for changing in ["heat", "current_heat", "last_used_at"] {
                item.as_object_mut().unwrap().remove(changing);
            }
        }
        all.insert(path, body);
    }
    let mut numbers = cluster.get("/metrics").await;
    for count in ["memories", "edges", "events"] {
        all.insert(count, numbers[count].take());
    }
    all
}

/// Creates related memories, a key, a rule and a trigger; returns ids for paths and bodies.
async fn fill(cluster: &Cluster) -> (Vec<String>, String, String) {
    let post = async |path: &str, body: Value| cluster.post(path, &body).await;
    let ids = cluster.store_each(["one", "two", "three"].map(labelled)).await;
    let edge = json!({ "source_id": ids[0], "target_id": ids[1], "relation": "something" });
    post("/agent/graph/relate", edge).await;
    let rule = json!({ "namespace": "closed", "policy": "deny" });
    post("/namespaces/acl", rule).await;
    let key = post("/keys", json!({ "name": "other" })).await;
    let trigger = post("/triggers", json!({ "event": "on_recall", "action": "pin" })).await;
    (ids, id(&key).to_owned(), id(&trigger).to_owned())
}

/// A request whose rejection names `field`; without one, its path names nothing.
#[derive(Debug, Clone)]
struct Case {
    method: Method,
    path: String,
    header: Option<(String, String)>,
    /// Null for none.
    body: Value,
    field: String,
}

impl Case {
    async fn assert_rejected(&self, cluster: &Cluster) {
        let Self { method, path, header, body, field } = self;
        let mut request = cluster.request(method.clone(), path.strip_prefix("/api/v1").unwrap());
        if let Some((name, value)) = header {
            request = request.header(name, value);
        }
        let response = request.json(body).send().await;
        let mut excerpt = format!("{self:?}");
        excerpt.truncate(excerpt.floor_char_boundary(300));
        if field.is_empty() {
            // The id of nothing.
            assert_eq!(response.status, 404, "{excerpt}: {}", response.body);
            return;
        }
        assert_eq!(response.status, 400, "{excerpt}: {field}: {}", response.body);
        assert_eq!(response.body["error"], "invalid_field", "{excerpt}: {}", response.body);
        let named = string(&response.body["field"]);
        // A header may be named without its prefix.
        let same = field.eq_ignore_ascii_case(named)
            || header.is_some() && field.to_lowercase().ends_with(&format!("-{named}"));
        assert!(same, "{excerpt}: {named} instead of {field}");
    }
}

/// A valid request with each parameter wrong in each way. `path` is its path with `{id}`.
fn wrong_parameters(
    document: &Document,
    valid: &Case,
    (path, parameters): (&str, &[Value]),
    ids: &[String],
) -> Vec<Case> {
    let mut cases = Vec::new();
    for parameter in parameters {
        let name = string(&parameter["name"]);
        for (field, value) in faults(document, name, &parameter["schema"], ids) {
            let text = match &value {
                // One text is a list.
                _ if kind(&parameter["schema"]) == "array" => continue,
                Value::String(text) => text.clone(),
                // Any text is valid.
                _ if kind(&parameter["schema"]) == "string" => continue,
                Value::Object(_) | Value::Array(_) => continue,
                other => other.to_string(),
            };
            let mut case = Case { field, ..valid.clone() };
            match string(&parameter["in"]) {
                "path" => {
                    (case.path, case.field) = (path.replace("{id}", &text), String::new());
                }
                "header" => case.header = Some((name.to_owned(), text)),
                _ => case.path += &format!("?{name}={}", text.replace(' ', "%20")),
            }
            let mut others = ids.iter();
            for other in parameters.iter().filter(|other| other["in"] == "query") {
                let other_name = string(&other["name"]);
                if other["required"] == true && other_name != name {
                    let sample = document.sample(&other["schema"], &mut others);
                    case.path += &format!("&{other_name}={}", string(&sample));
                }
            }
            cases.push(case);
        }
    }
    cases
}

/// A valid request with each property of its body wrong in each way, or missing if required.
fn wrong_bodies(document: &Document, valid: &Case, schema: &Value, ids: &[String]) -> Vec<Case> {
    let mut cases = Vec::new();
    let body = document.resolved(schema);
    for (name, property) in properties(&body) {
        let mut all = faults(document, name, property, ids);
        // Text is valid for these types in a query only.
        match kind(&document.resolved(property)) {
            "boolean" => all.push((name.clone(), "true".into())),
            "number" | "integer" => all.push((name.clone(), "1".into())),
            _ => {}
        }
        for (field, value) in all {
            let mut case = Case { field, ..valid.clone() };
            case.body[name] = value;
            cases.push(case);
        }
        if body["required"].as_array().is_some_and(|all| all.contains(&json!(name))) {
            let mut case = Case { field: name.clone(), ..valid.clone() };
            case.body.as_object_mut().unwrap().remove(name);
            cases.push(case);
        }
    }
    cases
}

#[tokio::test]
async fn invalid_fields_are_rejected_by_name_without_effect() {
    let cluster = options().start();
    let document = Document::committed();
    let (ids, key, trigger) = fill(&cluster).await;
    let before = state(&cluster).await;
    let mut cases = Vec::new();
    for (method, path, operation) in document.operations() {
        let in_path = match path {
            path if path.contains("/keys/") => &key,
            path if path.contains("/triggers/") => &trigger,
            _ => &ids[0],
        };
        let schema = document.body(operation);
        let body = match schema.is_null() {
            true => Value::Null,
            false => document.sample(schema, &mut ids.iter()),
        };
        let (header, field) = (None, String::new());
        let valid = Case { method, path: path.replace("{id}", in_path), header, body, field };
        let parameters = operation["parameters"].as_array().map_or(&[][..], Vec::as_slice);
        cases.extend(wrong_parameters(&document, &valid, (path, parameters), &ids));
        cases.extend(wrong_bodies(&document, &valid, schema, &ids));
    }
    assert!(cases.len() > 1_000, "{} requests", cases.len());
    for case in &cases {
        case.assert_rejected(&cluster).await;
    }
    assert_eq!(state(&cluster).await, before);
}

#[tokio::test]
async fn overridden_aliases_are_still_validated() {
    let cluster = options().start();
    for (body, field) in [
        (json!({ "label": 7, "pointer_summary": "x" }), "label"),
        (json!({ "label": "x", "initial_heat": 0.5, "heat": 5 }), "heat"),
    ] {
        cluster.assert_rejected("/agent/nodes", &body, field).await;
    }
    assert_eq!(cluster.metric("hearth_memories").await, 0.0);
}
