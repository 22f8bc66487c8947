//! Tenants share nothing, and keys that are bound to namespaces reach no other one: every operation
//! of docs/openapi.json responds to the ids of others as to ids that do not exist. Ended keys reach
//! no operation.

use std::time::{Duration, Instant};

use super::*;

const UNKNOWN: &str = "0192d3a4-5b6c-7def-8123-456789abcdef";
const UNKNOWN_KEY: &str = "0192d3a45b6c7def";

/// The ids of the things of a tenant.
struct Ids {
    memories: Vec<String>,
    trigger: String,
    key: String,
    rule: String,
}

impl Ids {
    fn unknown() -> Self {
        let [memory, trigger, key] = [UNKNOWN, UNKNOWN, UNKNOWN_KEY].map(str::to_owned);
        let memories = (0..4).map(|last| format!("{}{last}", &memory[..35])).collect();
        Self { memories, trigger, key, rule: "999".into() }
    }

    /// The id in the path of an operation.
    fn in_path(&self, path: &str) -> &str {
        match path {
            _ if path.starts_with("/triggers") => &self.trigger,
            _ if path.starts_with("/keys") => &self.key,
            _ if path.starts_with("/namespaces/acl") => &self.rule,
            _ => &self.memories[0],
        }
    }

    /// Its ids in the query of an operation.
    fn query(&self, operation: &Value) -> String {
        let parameters = operation["parameters"].as_array().into_iter().flatten();
        let of_query = parameters.filter(|parameter| parameter["in"] == "query");
        let named = of_query.filter_map(|parameter| {
            let name = parameter["name"].as_str()?;
            let value = match name {
                "trigger_id" => &self.trigger,
                "key_id" => &self.key,
                "after" if parameter["schema"]["format"] == "uuid" => &self.memories[0],
                _ => return None,
            };
            Some(format!("{name}={value}"))
        });
        named.collect::<Vec<_>>().join("&")
    }

    /// A response without what names the request: its id, and these ids.
    fn neutral(&self, response: &Response) -> String {
        let mut body = response.body.clone();
        if let Some(object) = body.as_object_mut() {
            object.remove("request_id");
        }
        let mut text = format!("{} {body}", response.status);
        let all = self.memories.iter().chain([&self.trigger, &self.key]);
        for id in all {
            text = text.replace(id, "ID");
        }
        text
    }
}

/// Fills a tenant, and returns the ids of what it has.
async fn fill(cluster: &Cluster, tenant: &Value, namespace: &str) -> Ids {
    let post = async |path: &str, body: Value| {
        cluster.request_as(tenant, Method::POST, path).json(&body).send().await.ok()
    };
    let mut memories = Vec::new();
    for number in 0..4 {
        let label = format!("Zanzibar {number} keeps the treasure");
        let body = json!({"label": label, "namespace": namespace});
        memories.push(id(&post("/agent/nodes", body).await).to_owned());
    }
    let edge = json!({"source_id": memories[0], "target_id": memories[1]});
    post("/agent/graph/relate", edge).await;
    let trigger = post("/triggers", json!({"event": "on_boost", "action": "pin"})).await;
    let key = post("/keys", json!({"name": "helper"})).await;
    let rule = json!({"agent_id": "helper", "namespace": "closed", "policy": "deny"});
    let rule = post("/namespaces/acl", rule).await;
    let rule = rule["id"].as_str().map_or_else(|| rule["id"].to_string(), str::to_owned);
    Ids { memories, trigger: id(&trigger).into(), key: id(&key).into(), rule }
}

/// The memories of a namespace, without the heats that cool.
async fn memories(cluster: &Cluster, tenant: &Value, namespace: &str) -> String {
    let path = format!("/agent/nodes?sort=created_at&namespace={namespace}");
    let list = cluster.request_as(tenant, Method::GET, &path);
    let mut items = array(&list.send().await.ok()["items"]).clone();
    for item in &mut items {
        for cooling in ["heat", "current_heat"] {
            item.as_object_mut().unwrap().remove(cooling);
        }
    }
    Value::from(items).to_string()
}

/// Asserts that every operation responds to `foreign` ids as to unknown ones.
async fn assert_unknown(cluster: &Cluster, caller: &Value, foreign: &Ids) {
    let (document, unknown, mut tried) = (Document::committed(), Ids::unknown(), 0);
    for (method, path, operation) in document.operations() {
        let Some(path) = path.strip_prefix("/api/v1") else { continue };
        let schema = document.body(operation);
        let body = |ids: &Ids| match schema.is_null() {
            true => Value::Null,
            false => document.sample(schema, &mut ids.memories.iter()),
        };
        let has_ids = body(foreign) != body(&unknown) || path.contains("{id}");
        let has_ids = has_ids || !foreign.query(operation).is_empty();
        // The event stream has no end, and names no ids.
        if !has_ids || path == "/events" {
            continue;
        }
        tried += 1;
        let node = cluster.at(tried % cluster.nodes().len());
        let mut responses = Vec::new();
        for ids in [foreign, &unknown] {
            let path =
                format!("{}?{}", path.replace("{id}", ids.in_path(path)), ids.query(operation));
            let request = node.request_as(caller, method.clone(), &path).json(&body(ids));
            let response = request.send().await;
            assert!(!response.body.to_string().contains("Zanzibar"), "{method} {path}");
            assert!(response.status != StatusCode::INTERNAL_SERVER_ERROR, "{method} {path}");
            responses.push(ids.neutral(&response));
        }
        assert_eq!(responses[0], responses[1], "{method} {path}");
    }
    assert!(tried >= 20, "{tried} operations name ids");
}

/// Asserts that no search or list returns a memory of others, whatever namespace it names.
async fn assert_not_found(cluster: &Cluster, caller: &Value, namespaces: &[&str]) {
    let document = Document::committed();
    for (method, path, operation) in document.operations() {
        let Some(path) = path.strip_prefix("/api/v1") else { continue };
        if path == "/events" || path.contains("{id}") {
            continue;
        }
        let schema = document.body(operation);
        for namespace in namespaces {
            let mut body = Value::Null;
            if !schema.is_null() {
                body = document.sample(schema, &mut vec![UNKNOWN.to_owned(); 9].iter());
                for (name, value) in [("query", "treasure"), ("namespace", namespace)] {
                    if !document.resolved(schema)["properties"][name].is_null() {
                        body[name] = value.into();
                    }
                }
            }
            let query = format!("?namespace={namespace}&search=treasure&consistency=linearizable");
            for path in [path.to_owned(), format!("{path}{query}")] {
                let request = cluster.request_as(caller, method.clone(), &path).json(&body);
                let text = request.send().await.body.to_string();
                assert!(!text.contains("Zanzibar"), "{method} {path} {body}: {text}");
            }
        }
    }
}

#[tokio::test]
async fn ids_of_another_tenant_do_not_exist() {
    let cluster = options().nodes(3).start();
    let [one, two] = ["one", "two"].map(|name| create_tenant(&cluster, json!({"name": name})));
    let (one, two) = (one.await, two.await);
    converged(&cluster).await;
    let foreign = fill(&cluster, &one, "default").await;
    converged(&cluster).await;
    let before = memories(&cluster, &one, "default").await;
    assert_unknown(&cluster, &two, &foreign).await;
    assert_eq!(memories(&cluster, &one, "default").await, before);
}

#[tokio::test]
async fn searches_and_lists_reach_no_other_tenant() {
    let cluster = options().start();
    let [one, two] = ["one", "two"].map(|name| create_tenant(&cluster, json!({"name": name})));
    let (one, two) = (one.await, two.await);
    fill(&cluster, &one, "default").await;
    assert_not_found(&cluster, &two, &["default", "*"]).await;
}

#[tokio::test]
async fn bound_key_reaches_no_other_namespace() {
    let cluster = options().start();
    let tenant = create_tenant(&cluster, json!({"name": "one"})).await;
    let foreign =
        Ids { memories: fill(&cluster, &tenant, "closed").await.memories, ..Ids::unknown() };
    let bound = json!({"name": "bound", "role": "agent", "namespaces": ["open"]});
    let bound = cluster.request_as(&tenant, Method::POST, "/keys").json(&bound).send().await.ok();
    let before = memories(&cluster, &tenant, "closed").await;
    assert!(before.contains("Zanzibar"));
    assert_unknown(&cluster, &bound, &foreign).await;
    assert_not_found(&cluster, &bound, &["closed", "open", "*"]).await;
    assert_eq!(memories(&cluster, &tenant, "closed").await, before);
}

#[tokio::test]
async fn ended_keys_reach_no_operation() {
    let cluster = options().env("FAILPOINTS", "authentication-delay=return").start();
    let admin = async |body: Value| cluster.post("/keys", &body).await;
    let deleted = admin(json!({"name": "deleted", "role": "admin"})).await;
    let ended = admin(json!({"name": "ended", "expires_in_seconds": 1, "role": "admin"})).await;
    let rotated = admin(json!({"name": "rotated", "role": "admin"})).await;
    cluster.delete(&format!("/keys/{}", id(&deleted))).await;
    cluster.post(&format!("/keys/{}/rotate", id(&rotated)), &json!({"overlap_seconds": 0})).await;
    let list = async || {
        let list = cluster.request_as(&ended, Method::GET, "/agent/nodes");
        list.send().await.status
    };
    eventually("the key has ended", list, |status| *status == 401).await;
    let document = Document::committed();
    for (method, path, _) in document.operations() {
        let Some(path) = path.strip_prefix("/api/v1") else { continue };
        if ["/status", "/openapi.json"].contains(&path) {
            continue;
        }
        let path = path.replace("{id}", UNKNOWN);
        for key in [&deleted, &ended, &rotated] {
            let response = cluster.request_as(key, method.clone(), &path).send().await;
            response.assert_error(401, "unauthorized");
        }
    }
}

/// As far as a test can tell: the medians of 200 reads in turns are alike.
#[tokio::test]
async fn times_do_not_tell_foreign_ids_apart() {
    let cluster = options().start();
    let [one, two] = ["one", "two"].map(|name| create_tenant(&cluster, json!({"name": name})));
    let (one, two) = (one.await, two.await);
    let foreign = fill(&cluster, &one, "default").await;
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..200 {
        for (of, id) in times.iter_mut().zip([foreign.memories[0].as_str(), UNKNOWN]) {
            let sent = Instant::now();
            let get = cluster.request_as(&two, Method::GET, &format!("/agent/nodes/{id}"));
            get.send().await.assert_error(404, "not_found");
            of.push(sent.elapsed());
        }
    }
    let [foreign, unknown] = times.map(|mut times| {
        times.sort_unstable();
        times[times.len() / 2]
    });
    let difference = foreign.abs_diff(unknown);
    let alike = (foreign.min(unknown) / 4).max(Duration::from_micros(300));
    assert!(difference <= alike, "{foreign:?} and {unknown:?}");
}
