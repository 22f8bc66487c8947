//! Each field of each operation in docs/openapi.json is rejected by its name when its type is
//! wrong or its value is out of range. Rejected requests change nothing.

use std::collections::BTreeMap;

use super::*;

/// Numbers that are moved into range, as published clients expect.
const CLAMPED: [&str; 5] = ["limit", "page", "page_size", "depth", "budget_chars"];

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
    if schema["minItems"] == 1 {
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
    let memories = ["/agent/nodes", "/agent/archive", "/keys", "/namespaces/acl"];
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
    let mut ids = Vec::new();
    for label in ["one", "two", "three"] {
        ids.push(cluster.store(&json!({ "label": label })).await);
    }
    let edge = json!({ "source_id": ids[0], "target_id": ids[1], "relation": "something" });
    post("/agent/graph/relate", edge).await;
    let rule = json!({ "namespace": "closed", "policy": "deny" });
    post("/namespaces/acl", rule).await;
    let key = post("/keys", json!({ "name": "other" })).await;
    let trigger = post("/triggers", json!({ "event": "on_recall", "action": "pin" })).await;
    (ids, id(&key).to_owned(), id(&trigger).to_owned())
}

/// Sends one request and expects the rejection to name `field`.
async fn rejected(
    cluster: &Cluster,
    (method, path): (&Method, &str),
    header: Option<(&str, &str)>,
    body: Option<&Value>,
    field: &str,
) {
    let path = path.strip_prefix("/api/v1").unwrap();
    let mut request = cluster.request(method.clone(), path);
    if let Some((name, value)) = header {
        request = request.header(name, value);
    }
    if let Some(body) = body {
        request = request.json(body);
    }
    let response = request.send().await;
    let mut excerpt = format!("{method} {path} {header:?} {}", body.unwrap_or(&Value::Null));
    excerpt.truncate(excerpt.floor_char_boundary(300));
    assert_eq!(response.status, 400, "{excerpt}: {field}: {}", response.body);
    assert_eq!(response.body["error"], "invalid_field", "{excerpt}: {}", response.body);
    let named = string(&response.body["field"]);
    // A header may be named without its prefix.
    let same = field.eq_ignore_ascii_case(named)
        || header.is_some() && field.to_lowercase().ends_with(&format!("-{named}"));
    assert!(same, "{excerpt}: {named} instead of {field}");
}

/// A valid request, of which a test changes one part.
struct Valid<'a> {
    method: &'a Method,
    /// With an existing id.
    path: String,
    body: Option<Value>,
}

/// Tests every parameter; returns the number of requests.
async fn test_parameters(
    cluster: &Cluster,
    document: &Document,
    valid: &Valid<'_>,
    (path, parameters): (&str, &[Value]),
    ids: &[String],
) -> usize {
    let mut requests = 0;
    for parameter in parameters {
        let name = string(&parameter["name"]);
        for (field, value) in faults(document, name, &parameter["schema"], ids) {
            let text = match &value {
                Value::String(text) => text.clone(),
                // Any text is valid.
                _ if kind(&parameter["schema"]) == "string" => continue,
                Value::Object(_) | Value::Array(_) => continue,
                other => other.to_string(),
            };
            let (mut target, mut header) = (valid.path.clone(), None);
            match string(&parameter["in"]) {
                "path" => target = path.replace("{id}", &text),
                "header" => header = Some((name, text.as_str())),
                _ => target += &format!("?{name}={}", text.replace(' ', "%20")),
            }
            let mut others = ids.iter();
            for other in parameters.iter().filter(|other| other["in"] == "query") {
                let other_name = string(&other["name"]);
                if other["required"] == true && other_name != name {
                    let sample = document.sample(&other["schema"], &mut others);
                    target += &format!("&{other_name}={}", sample.as_str().unwrap());
                }
            }
            requests += 1;
            rejected(cluster, (valid.method, &target), header, valid.body.as_ref(), &field).await;
        }
    }
    requests
}

/// Tests every property of the body; returns the number of requests.
async fn test_body(
    cluster: &Cluster,
    document: &Document,
    valid: &Valid<'_>,
    schema: &Value,
    ids: &[String],
) -> usize {
    let mut requests = 0;
    let rejected = async |body: &Value, field: &str| {
        rejected(cluster, (valid.method, &valid.path), None, Some(body), field).await;
    };
    let body = document.resolved(schema);
    for (name, property) in properties(&body) {
        let mut all = faults(document, name, property, ids);
        // Text is valid for these types in a query only.
        match kind(&document.resolved(property)) {
            "boolean" => all.push((name.clone(), "true".into())),
            "number" | "integer" => all.push((name.clone(), "1".into())),
            _ => {}
        }
        requests += all.len();
        for (field, value) in all {
            let mut wrong = valid.body.clone().unwrap();
            wrong[name] = value;
            rejected(&wrong, &field).await;
        }
        if body["required"].as_array().is_some_and(|all| all.contains(&json!(name))) {
            let mut wrong = valid.body.clone().unwrap();
            wrong.as_object_mut().unwrap().remove(name);
            requests += 1;
            rejected(&wrong, name).await;
        }
    }
    requests
}

#[tokio::test]
async fn invalid_fields_are_rejected_by_name_without_effect() {
    let cluster = options().start();
    let document = Document::committed();
    let (ids, key, trigger) = fill(&cluster).await;
    let before = state(&cluster).await;
    let mut requests = 0;
    for (method, path, operation) in document.operations() {
        let in_path = match path {
            path if path.contains("/keys/") => &key,
            path if path.contains("/triggers/") => &trigger,
            _ => &ids[0],
        };
        let schema = document.body(operation);
        let body = (!schema.is_null()).then(|| document.sample(schema, &mut ids.iter()));
        let valid = Valid { method: &method, path: path.replace("{id}", in_path), body };
        let parameters = operation["parameters"].as_array().map_or(&[][..], Vec::as_slice);
        requests += test_parameters(&cluster, &document, &valid, (path, parameters), &ids).await;
        requests += test_body(&cluster, &document, &valid, schema, &ids).await;
    }
    assert!(requests > 1_000, "{requests} requests");
    assert_eq!(state(&cluster).await, before);
}

#[tokio::test]
async fn overridden_aliases_are_still_validated() {
    let cluster = options().start();
    for (body, field) in [
        (json!({ "label": 7, "pointer_summary": "x" }), "label"),
        (json!({ "label": "x", "initial_heat": 0.5, "heat": 5 }), "heat"),
    ] {
        let path = "/api/v1/agent/nodes";
        rejected(&cluster, (&Method::POST, path), None, Some(&body), field).await;
    }
    assert_eq!(cluster.metric("hearth_memories").await, 0.0);
}
