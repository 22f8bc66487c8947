//! A write that is repeated under the same `Idempotency-Key` is done once.

use super::*;

#[tokio::test]
async fn repeated_create_returns_the_first_memory() {
    let cluster = options().start();
    let create = |label: &str| {
        let request = cluster.request(Method::POST, "/agent/nodes");
        request.header("Idempotency-Key", "one").json(&json!({"label": label})).send()
    };
    let first = create("once").await;
    let second = create("once").await;
    assert_eq!((first.status, second.status), (StatusCode::CREATED, first.status));
    assert_eq!(first.body["id"], second.body["id"]);
    create("another").await.assert_error(422, "idempotency_key_reused");
    cluster.delete(&format!("/agent/nodes/{}", id(&first.body))).await;
    let after = create("once").await;
    assert_eq!(after.body, json!({"id": first.body["id"], "deleted": true}));
    assert_eq!(cluster.get("/agent/nodes").await["total"], 0);
}

#[tokio::test]
async fn repeated_trigger_is_created_once() {
    let cluster = options().start();
    let make = |name: &str| {
        let request = cluster.request(Method::POST, "/triggers").header("Idempotency-Key", "one");
        request.json(&json!({"event": "on_store", "action": "notify", "name": name})).send()
    };
    let first = make("greets").await;
    assert_eq!(first.status, 201);
    let stored = cluster.create(&json!({"label": "x"})).await;
    assert_eq!(array(&stored["trigger_notifications"]).len(), 1);
    cluster.crash().await;
    let second = make("greets").await;
    assert_eq!((second.status, &second.body["id"]), (first.status, &first.body["id"]));
    assert_eq!(second.body["fire_count"], 1, "its current state");
    let stored = cluster.create(&json!({"label": "y"})).await;
    assert_eq!(array(&stored["trigger_notifications"]).len(), 1);
    make("another").await.assert_error(422, "idempotency_key_reused");
    // A key identifies one request across all operations.
    let memory = cluster.request(Method::POST, "/agent/nodes").header("Idempotency-Key", "one");
    assert_eq!(memory.json(&json!({"label": "z"})).send().await.status, 422);
    let path = format!("/triggers/{}", id(&first.body));
    assert_eq!(cluster.request(Method::DELETE, &path).send().await.status, 204);
    assert_eq!(make("greets").await.body, json!({"id": first.body["id"], "deleted": true}));
    assert_eq!(cluster.get("/triggers").await["items"], json!([]));
}

#[tokio::test]
async fn repeated_writes_survive_a_restart() {
    let cluster = options().start();
    let memory = cluster.create(&json!({"label": "x"})).await;
    let path = format!("/agent/nodes/{}", id(&memory));
    let patch = || {
        let request = cluster.request(Method::PATCH, &path).header("Idempotency-Key", "patch");
        request.json(&json!({"is_pinned": true})).send()
    };
    let first = patch().await.ok();
    cluster.crash().await;
    let second = patch().await.ok();
    assert_eq!(first["updated_at"], second["updated_at"], "the second update has no effect");
    let delete = || cluster.request(Method::DELETE, &path).header("Idempotency-Key", "gone").send();
    assert_eq!(delete().await.status, 200);
    assert_eq!(delete().await.status, 200);
    assert_eq!(cluster.request(Method::DELETE, &path).send().await.status, 404);
}

#[tokio::test]
async fn idempotency_key_belongs_to_its_api_key() {
    let cluster = options().start();
    let other = cluster.post("/keys", &json!({"name": "other", "role": "agent"})).await;
    let create = |request: Request, label: &str| {
        let request = request.header("Idempotency-Key", "one");
        request.json(&json!({"label": label})).send()
    };
    let by_admin = || cluster.request(Method::POST, "/agent/nodes");
    let by_other = || cluster.request_as(&other, Method::POST, "/agent/nodes");
    let first = create(by_admin(), "of the admin").await;
    let second = create(by_other(), "of the other key").await;
    assert_eq!((first.status, second.status), (StatusCode::CREATED, StatusCode::CREATED));
    assert_eq!(second.body["label"], "of the other key");
    assert_eq!(create(by_admin(), "of the admin").await.body["id"], first.body["id"]);
    assert_eq!(create(by_other(), "of the other key").await.body["id"], second.body["id"]);
    assert_eq!(cluster.get("/agent/nodes").await["total"], 2);
}

/// The first response had room for these memories. Then their labels grew.
#[tokio::test]
async fn repetition_omits_texts_that_have_grown() {
    let cluster = options().start();
    let nodes: Vec<_> = (0..50).map(labelled).collect();
    let nodes = json!({ "nodes": nodes });
    let create = async || {
        let request = cluster.request(Method::POST, "/agent/nodes/batch").json(&nodes);
        request.header("Idempotency-Key", "grown").send().await.ok()
    };
    let created = create().await;
    let ids: Vec<_> = array(&created["results"]).iter().map(id).collect();
    let label = "\u{1}".repeat(65_000);
    for id in &ids {
        cluster.patch(&format!("/agent/nodes/{id}"), &json!({ "label": label })).await;
    }
    let repeated = create().await;
    let results = array(&repeated["results"]);
    let (whole, omitted) = results.split_at(8);
    assert!(whole.iter().all(|memory| memory["label"] == label));
    for (memory, id) in omitted.iter().zip(&ids[8..]) {
        assert_eq!(memory, &json!({ "id": id, "status": "created", "too_long": true }));
    }
    assert_eq!(results.len(), 50);
}

/// A result that is too large for a receipt. The repetition says that all is done, and does nothing.
#[tokio::test]
async fn large_result_is_done_once_and_not_returned() {
    let cluster = options().start();
    let key = denied_key(&cluster).await;
    let closed = "closed-".to_owned() + &"x".repeat(57);
    let rule = json!({"agent_id": "outsider", "namespace": closed, "policy": "deny"});
    cluster.post("/namespaces/acl", &rule).await;
    let ids = cluster.store_each((0..200).map(labelled)).await;
    let patch = json!({"ids": ids, "namespace": closed});
    let send = || {
        let request = cluster.request_as(&key, Method::POST, "/agent/nodes/bulk-patch");
        request.header("Idempotency-Key", "large").json(&patch).send()
    };
    let first = send().await.ok();
    assert_eq!(first["errors"].as_array().map(Vec::len), Some(200), "{first}");
    send().await.assert_error(409, "already_done");
}

/// The address of a request for a write of the document, and its body if that is not the example of the
/// document. It changes memories and rules of its own: none of them changes what another one found.
async fn sample(cluster: &Cluster, write: &str, ids: [&str; 2]) -> (String, Option<Value>) {
    let [one, two] = ids;
    let [memory, trigger, rule] = ["/agent/nodes", "/triggers", "/namespaces/acl"];
    let edge = json!({"source_id": one, "target_id": two, "relation": "near"});
    let trigger_of = json!({"event": "on_boost", "action": "notify", "name": write});
    let denied = json!({"agent_id": write, "namespace": "closed", "policy": "deny"});
    let made = async |path: &str, body: &Value| id(&cluster.post(path, body).await).to_owned();
    let of = |path: &str, id: &str, what: &str| format!("{path}/{id}{what}");
    let address = match write {
        "record_activity" => "/activity".into(),
        "boost_memories" => "/agent/boost-batch".into(),
        "fold_memories" => "/agent/consolidation/fold".into(),
        "unfold_memories" => {
            let both = json!({"ids": [one, two], "label": "both"});
            let folded = cluster.post("/agent/consolidation/fold", &both).await;
            return ("/agent/consolidation/unfold".into(), Some(json!({"id": folded["id"]})));
        }
        "create_edge" => "/agent/graph/relate".into(),
        "delete_edge" => {
            cluster.post("/agent/graph/relate", &edge).await;
            format!("/agent/graph/relate?source_id={one}&target_id={two}&relation=near")
        }
        "create_memory" => memory.into(),
        "create_memories" => "/agent/nodes/batch".into(),
        "delete_memories" => "/agent/nodes/bulk".into(),
        "update_memories" => "/agent/nodes/bulk-patch".into(),
        "restore_memories" => {
            // Only an import makes a cold memory at once.
            let cold = json!({"memory": {"id": one, "label": "cold", "heat": 0.01,
                "archived_at": "2026-01-01T00:00:00Z"}});
            cluster.delete(&of(memory, one, "")).await;
            cluster.post("/import", &cold).await;
            return ("/agent/restore".into(), Some(json!({"ids": [one]})));
        }
        "delete_memory" | "update_memory" => of(memory, one, ""),
        "boost_memory" => of(memory, one, "/boost"),
        "deprecate_memory" => of(memory, one, "/deprecate"),
        "give_memory_feedback" => of(memory, one, "/feedback"),
        "supersede_memory" => of(memory, one, "/supersede"),
        "give_feedback" => "/feedback".into(),
        "delete_key" => of("/keys", &made("/keys", &json!({"name": write})).await, ""),
        "set_access_rule" => rule.into(),
        "delete_access_rule" => of(rule, &made(rule, &denied).await, ""),
        "set_default_namespace" => "/namespaces/default".into(),
        "update_org" => "/org".into(),
        "set_retention" => "/settings/retention".into(),
        "set_guard" => "/settings/guard".into(),
        "update_settings" => "/settings/thermo".into(),
        "create_trigger" => trigger.into(),
        "update_trigger" | "delete_trigger" => of(trigger, &made(trigger, &trigger_of).await, ""),
        "replay_deliveries" => "/triggers/deliveries/replay".into(),
        other => panic!("{other} takes an idempotency key, and has no request here"),
    };
    (address, None)
}

/// What a tenant may read of its state: the lines of its export, which have no present heat, and pages
/// without what background work writes.
async fn state(cluster: &Cluster) -> Vec<String> {
    let export = cluster.request(Method::GET, "/export").0.send().await.unwrap();
    let export = export.text().await.unwrap();
    let is_content = |line: &&str| !line.starts_with("{\"hearth_export\"");
    let mut state: Vec<_> = export.lines().filter(is_content).map(str::to_owned).collect();
    for (path, list) in [
        ("/keys", "keys"),
        ("/activity", "items"),
        ("/admin/audit?chain=data", "items"),
        ("/admin/audit", "items"),
        ("/namespaces/acl", "items"),
    ] {
        let page = cluster.get(path).await;
        let is_own = |item: &&Value| item["action"] != "key.use";
        for item in array(&page[list]).iter().filter(is_own) {
            let mut item = item.clone();
            for of_background in ["last_used_at", "number", "hash", "previous_hash"] {
                item.as_object_mut().unwrap().remove(of_background);
            }
            state.push(format!("{path} {item}"));
        }
    }
    for path in ["/org", "/settings/thermo", "/settings/retention", "/settings/guard"] {
        state.push(format!("{path} {}", cluster.get(path).await));
    }
    state
}

/// A body without what time changes, and what only the first response has.
fn content(mut body: Value) -> Value {
    if let Some(fields) = body.as_object_mut() {
        fields.retain(|name, _| !["current_heat", "heat"].contains(&name.as_str()));
        fields.values_mut().for_each(|field| *field = content(field.take()));
    } else if let Some(items) = body.as_array_mut() {
        items.iter_mut().for_each(|item| *item = content(item.take()));
    }
    body
}

/// A new operation cannot be forgotten: each one of the document that takes an idempotency key is
/// sent twice under one, and then another request under the same.
#[tokio::test]
async fn each_write_of_the_document_is_done_once() {
    let cluster = options().start();
    let mut writes = 0;
    let document = Document::committed();
    for (method, path, operation) in document.operations() {
        let name = string(&operation["operationId"]).trim_end_matches("_alias");
        if operation["responses"].get("422").is_none() {
            continue;
        }
        writes += 1;
        let label = format!("one of {name}");
        let one = cluster.store(&json!({"label": label, "initial_heat": 0.5})).await;
        let two = cluster.store(&labelled(format!("two of {name}"))).await;
        let ids = [one.as_str(), two.as_str()];
        let (own, body) = sample(&cluster, name, ids).await;
        let body = body.unwrap_or_else(|| document.example(operation, &ids));
        let alias = path.strip_prefix("/api/v1").unwrap();
        let key = format!("{method} {path}");
        let send = |path: &str, body: &Value| {
            let request = cluster.request(method.clone(), path).header("Idempotency-Key", &key);
            if body.is_null() { request } else { request.json(body) }.send()
        };
        let address = match alias.contains('{') || own.contains('?') {
            true if alias.starts_with("/agent/memory") => own.replace("/nodes/", "/memory/"),
            true => own,
            false => alias.to_owned(),
        };
        let first = send(&address, &body).await;
        assert!(first.status.is_success(), "{key}: {}", first.body);
        let before = state(&cluster).await;
        let second = send(&address, &body).await;
        assert_eq!(second.status, first.status, "{key}: {}", second.body);
        assert_eq!(content(second.body), content(first.body), "{key}");
        let after = state(&cluster).await;
        let new: Vec<_> = after.iter().filter(|line| !before.contains(line)).collect();
        assert!(new.is_empty() && after.len() == before.len(), "{key}: {new:?}");
        let other = cluster.request(Method::POST, "/agent/nodes").header("Idempotency-Key", &key);
        let other = other.json(&labelled("another request")).send().await;
        assert_eq!(other.body["error"], "idempotency_key_reused", "{key}");
    }
    assert!(writes > 30, "{writes}");
}

/// What a receipt cannot repeat takes no key: a text that is kept nowhere, and what a request finds by
/// itself.
#[tokio::test]
async fn what_cannot_repeat_takes_no_idempotency_key() {
    let cluster = options().start();
    let memory = cluster.store(&labelled("kept")).await;
    let key = cluster.post("/keys", &json!({"name": "new"})).await;
    let rotate = format!("/keys/{}/rotate", id(&key));
    for (path, body) in [
        ("/keys", json!({"name": "another"})),
        (&rotate, json!({})),
        ("/agent/nodes/bulk", json!({"namespace": "default"})),
        ("/admin/purge", json!({"namespace": "default"})),
        ("/import", json!({"memory": {"id": memory, "label": "kept"}})),
    ] {
        let request = cluster.request(Method::POST, path).header("Idempotency-Key", "one");
        request.json(&body).send().await.assert_error(400, "idempotency_unsupported");
    }
    let tenant = cluster.ops_request(Method::POST, "/cluster/tenants").json(&json!({"name": "b"}));
    let tenant = tenant.header("Idempotency-Key", "one").send().await;
    tenant.assert_error(400, "idempotency_unsupported");
    assert_eq!(array(&cluster.get("/keys").await["keys"]).len(), 2);
    assert_eq!(cluster.get("/agent/nodes").await["total"], 1);
}

#[tokio::test]
async fn tools_are_done_once() {
    let cluster = options().start();
    // Clients number their messages.
    let remember = |id: u64, content: &str| {
        let params = json!({"name": "sulcus_remember", "arguments": {"content": content},
            "_meta": {"progressToken": id}});
        let call = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
        let request = cluster.client.post(format!("{}/mcp", cluster.url())).json(&call);
        Request(request.bearer_auth(&cluster.key)).header("Idempotency-Key", "tool").send()
    };
    let [first, second] =
        [remember(1, "once by a tool").await, remember(2, "once by a tool").await];
    let other = remember(3, "another text").await;
    let text = string(&other.body["result"]["content"][0]["text"]);
    assert!(text.starts_with("idempotency_key_reused: "), "{}", other.body);
    let id =
        |response: &Response| response.body["result"]["structuredContent"]["memory_id"].clone();
    assert!(id(&first).is_string(), "{}", first.body);
    assert_eq!(id(&first), id(&second));
    assert_eq!(cluster.get("/agent/nodes").await["total"], 1);
}

/// The document offers the header on each write but those that take no key. Hooks capture the same words once.
#[test]
fn document_has_the_header_on_every_write() {
    let document = Document::committed();
    let mut without = Vec::new();
    for (method, path, operation) in document.operations() {
        let has = |name: &str| {
            let mut parameters = operation["parameters"].as_array().into_iter().flatten();
            parameters.any(|parameter| parameter["name"] == name)
        };
        let is_write = operation["responses"].get("504").is_some();
        let is_read = method == Method::GET || has("X-Hearth-Consistency");
        assert_eq!(is_write, !is_read, "{method} {path}");
        if is_write && !has("Idempotency-Key") && !path.starts_with("/api/v1/hooks/") {
            without.push(string(&operation["operationId"]));
        }
    }
    without.sort_unstable();
    assert_eq!(without, ["create_key", "import_memories", "purge_memories", "rotate_key"]);
}
