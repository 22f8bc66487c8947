//! Every field that docs/openapi.json names, of every operation, is refused by its name when
//! it is of the wrong type or out of range, and then nothing changes.

use std::collections::BTreeMap;

use reqwest::Method;
use serde_json::{Value, json};
use tests::Cluster;

use crate::document::{Document, kind};
use crate::options;

/// Numbers that are moved into range, as published clients expect.
const CLAMPED: [&str; 5] = ["limit", "page", "page_size", "depth", "budget_chars"];

/// What a property must not be, each with the name of the field at fault.
fn faults(document: &Document, name: &str, schema: &Value, ids: &[String]) -> Vec<(String, Value)> {
    let schema = document.resolved(schema);
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
        let item = document.sample(&schema["items"], &mut ids.iter());
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
        for (field, value) in faults(document, &format!("{name}.{inner}"), property, ids) {
            wrong.push((field, json!({ inner: value })));
        }
    }
    let items = document.resolved(&schema["items"]);
    for (inner, property) in items["properties"].as_object().into_iter().flatten() {
        for (field, value) in faults(document, &format!("{name}[0].{inner}"), property, ids) {
            let mut item = document.sample(&items, &mut ids.iter());
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

/// Everything that a request could have changed.
async fn everything(cluster: &Cluster) -> BTreeMap<&'static str, Value> {
    let mut all = BTreeMap::new();
    for path in [
        "/agent/nodes",
        "/agent/archive",
        "/keys",
        "/namespaces/acl",
        "/settings/thermo",
        "/triggers",
        "/triggers/deliveries",
    ] {
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

/// Two memories that are related, a key, a rule and a trigger: what paths and bodies may name.
async fn fill(cluster: &Cluster) -> (Vec<String>, String, String) {
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
    let trigger = post("/triggers", json!({ "event": "on_recall", "action": "pin" })).await;
    let id = |made: &Value| made["id"].as_str().unwrap().to_owned();
    (ids, id(&key), id(&trigger))
}

/// Sends one request and expects the rejection to name `field`.
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

/// A request that is right but for what a test makes of it.
struct Right<'a> {
    method: &'a Method,
    /// With the place of an id that is there.
    path: String,
    body: Option<Value>,
}

/// Tries every parameter; says how many requests that took.
async fn try_parameters(
    cluster: &Cluster,
    document: &Document,
    right: &Right<'_>,
    (path, parameters): (&str, &[Value]),
    ids: &[String],
) -> usize {
    let mut requests = 0;
    for parameter in parameters {
        let name = parameter["name"].as_str().unwrap();
        for (field, value) in faults(document, name, &parameter["schema"], ids) {
            let text = match &value {
                Value::String(text) => text.clone(),
                // Any text is a text here.
                _ if kind(&parameter["schema"]) == "string" => continue,
                Value::Object(_) | Value::Array(_) => continue,
                other => other.to_string(),
            };
            let (mut asked, mut header) = (right.path.clone(), None);
            match parameter["in"].as_str().unwrap() {
                "path" => asked = path.replace("{id}", &text),
                "header" => header = Some((name, text.as_str())),
                _ => asked += &format!("?{name}={}", text.replace(' ', "%20")),
            }
            let mut others = ids.iter();
            for other in parameters.iter().filter(|other| other["in"] == "query") {
                let other_name = other["name"].as_str().unwrap();
                if other["required"] == true && other_name != name {
                    let sample = document.sample(&other["schema"], &mut others);
                    asked += &format!("&{other_name}={}", sample.as_str().unwrap());
                }
            }
            requests += 1;
            refused(cluster, (right.method, &asked), header, right.body.as_ref(), &field).await;
        }
    }
    requests
}

/// Tries every property of the body; says how many requests that took.
async fn try_body(
    cluster: &Cluster,
    document: &Document,
    right: &Right<'_>,
    schema: &Value,
    ids: &[String],
) -> usize {
    let mut requests = 0;
    let refused = async |body: &Value, field: &str| {
        refused(cluster, (right.method, &right.path), None, Some(body), field).await;
    };
    let body = document.resolved(schema);
    for (name, property) in body["properties"].as_object().into_iter().flatten() {
        let mut all = faults(document, name, property, ids);
        // In a query these are what they say.
        match kind(&document.resolved(property)) {
            "boolean" => all.push((name.clone(), "true".into())),
            "number" | "integer" => all.push((name.clone(), "1".into())),
            _ => {}
        }
        requests += all.len();
        for (field, value) in all {
            let mut wrong = right.body.clone().unwrap();
            wrong[name] = value;
            refused(&wrong, &field).await;
        }
        if body["required"].as_array().is_some_and(|all| all.contains(&json!(name))) {
            let mut wrong = right.body.clone().unwrap();
            wrong.as_object_mut().unwrap().remove(name);
            requests += 1;
            refused(&wrong, name).await;
        }
    }
    requests
}

#[tokio::test]
async fn every_field_of_every_operation_is_refused_by_its_name_and_nothing_changes() {
    let cluster = options().start();
    let document = Document::committed();
    let (ids, key, trigger) = fill(&cluster).await;
    let before = everything(&cluster).await;
    let mut requests = 0;
    for (method, path, operation) in document.operations() {
        let in_path = match path {
            path if path.contains("/keys/") => &key,
            path if path.contains("/triggers/") => &trigger,
            _ => &ids[0],
        };
        let schema = document.body(operation);
        let body = (!schema.is_null()).then(|| document.sample(schema, &mut ids.iter()));
        let right = Right { method: &method, path: path.replace("{id}", in_path), body };
        let parameters = operation["parameters"].as_array().map_or(&[][..], Vec::as_slice);
        requests += try_parameters(&cluster, &document, &right, (path, parameters), &ids).await;
        requests += try_body(&cluster, &document, &right, schema, &ids).await;
    }
    assert!(requests > 1_000, "{requests} requests");
    assert_eq!(everything(&cluster).await, before);
}

#[tokio::test]
async fn nothing_wrong_passes_behind_an_alias() {
    let cluster = options().start();
    for (body, field) in [
        (json!({ "label": 7, "pointer_summary": "x" }), "label"),
        (json!({ "label": "x", "initial_heat": 0.5, "heat": 5 }), "heat"),
    ] {
        let path = "/api/v1/agent/nodes";
        refused(&cluster, (&Method::POST, path), None, Some(&body), field).await;
    }
    assert_eq!(cluster.metric("hearth_memories").await, 0.0);
}
