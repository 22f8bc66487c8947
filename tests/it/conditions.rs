//! Writes that happen only while a resource is as it was read; ids that clients give; filters with and, or and
//! not; namespaces that are paths.

use super::*;

fn tag(response: &Response) -> String {
    response.headers["etag"].to_str().unwrap().to_owned()
}

#[tokio::test]
async fn second_of_two_editors_is_rejected() {
    let cluster = options().nodes(3).start();
    let id = cluster.store(&labelled("first")).await;
    let path = format!("/agent/nodes/{id}");
    let read = cluster.request(Method::GET, &path).send().await;
    let change = async |at: usize, tag: &str, label: &str| {
        let request = cluster.at(at).request(Method::PATCH, &path).header("If-Match", tag);
        request.json(&labelled(label)).send().await
    };
    let first = tag(&read);
    let done = change(1, &first, "second").await;
    let second = tag(&done);
    assert_ne!(first, second);
    change(2, &first, "lost").await.assert_error(412, "condition_failed");
    assert_eq!(cluster.get(&path).await["label"], "second");
    assert_eq!(change(2, &format!("{first}, {second}"), "third").await.ok()["label"], "third");
    assert_eq!(change(0, "*", "fourth").await.ok()["label"], "fourth");
    change(0, "third", "lost").await.assert_error(412, "condition_failed");
    // Heat is none of its parts: a recall in between rejects no editor.
    let before = tag(&cluster.request(Method::GET, &path).send().await);
    let recalls = async || cluster.get(&path).await["recall_count"].clone();
    cluster.post("/agent/search", &json!({"query": "fourth"})).await;
    eventually("the recall counts", recalls, |count| *count == 1).await;
    let delete = cluster.request(Method::DELETE, &path).header("If-Match", &before);
    delete.send().await.ok();
    change(0, "*", "lost").await.assert_error(412, "condition_failed");
}

/// Of two creates with one id of the client, one is done, and a replacement requires what was read.
#[tokio::test]
async fn named_memory_is_created_once() {
    let cluster = options().nodes(3).start();
    let put = async |at: usize, header: (&str, &str), label: &str| {
        let body = json!({"label": label, "external_id": "notes/plan.md"});
        let request = cluster.at(at).request(Method::POST, "/agent/nodes");
        request.header(header.0, header.1).json(&body).send().await
    };
    let once = ("If-None-Match", "*");
    let created = put(1, once, "first").await;
    assert_eq!(created.status, 201);
    put(2, once, "lost").await.assert_error(412, "condition_failed");
    let replaced = put(0, ("If-Match", &tag(&created)), "second").await;
    put(1, ("If-Match", &tag(&created)), "lost").await.assert_error(412, "condition_failed");
    assert_ne!(tag(&replaced), tag(&created));
    assert_eq!(replaced.ok()["label"], "second");
    // A fold returns one memory too.
    let ids = cluster.store_each(["one", "two"].map(labelled)).await;
    let fold = json!({"ids": ids, "label": "one and two"});
    let folded = cluster.send(Method::POST, "/agent/consolidation/fold", &fold).await;
    assert_eq!((folded.status.as_u16(), tag(&folded).len()), (201, 18));
    put(2, ("If-None-Match", "\"a\""), "lost").await.assert_error(412, "condition_failed");
}

#[tokio::test]
async fn every_resource_has_a_tag() {
    let node = options().start();
    let trigger = json!({"event": "on_store", "action": "notify", "name": "a"});
    let trigger = format!("/triggers/{}", id(&node.post("/triggers", &trigger).await));
    let rule = json!({"agent": "helper", "namespace": "team", "policy": "deny"});
    for (read, write, method, bodies) in [
        (
            trigger.as_str(),
            trigger.as_str(),
            Method::PATCH,
            [json!({"name": "b"}), json!({"name": "c"})],
        ),
        (
            "/settings/thermo",
            "/settings/thermo",
            Method::PATCH,
            [json!({"tick": {"interval": 120}}), json!({"tick": {"interval": 180}})],
        ),
        ("/org", "/org", Method::PATCH, [json!({"name": "one"}), json!({"name": "two"})]),
        (
            "/settings/retention",
            "/settings/retention",
            Method::PUT,
            [json!({"rules": [{"action": "archive", "after_days": 9}]}), json!({"rules": []})],
        ),
        (
            "/settings/guard",
            "/settings/guard",
            Method::PUT,
            [json!({"rules": [{"secrets": "block"}]}), json!({"rules": []})],
        ),
        (
            "/namespaces/acl",
            "/namespaces/acl",
            Method::POST,
            [
                rule,
                json!({"agent": "other",
            "namespace": "team", "policy": "deny"}),
            ],
        ),
    ] {
        let before = tag(&node.request(Method::GET, read).send().await);
        for (body, is_done) in bodies.iter().zip([true, false]) {
            let request = node.request(method.clone(), write).header("If-Match", &before);
            let response = request.json(body).send().await;
            match is_done {
                true => drop(response.ok()),
                false => response.assert_error(412, "condition_failed"),
            }
        }
    }
    // What has no tag fulfils no condition.
    let create = node.request(Method::POST, "/agent/nodes").header("If-Match", "*");
    create.json(&labelled("x")).send().await.assert_error(412, "condition_failed");
    assert_eq!(node.get("/agent/nodes").await["total"], 0);
}

#[tokio::test]
async fn external_ids_are_upserted() {
    let cluster = options().nodes(3).start();
    let put = async |at: usize, namespace: &str, label: &str| {
        let body = json!({"label": label, "external_id": "crm:17", "namespace": namespace,
            "tags": ["crm"]});
        cluster.at(at).request(Method::POST, "/agent/nodes").json(&body).send().await
    };
    let created = put(0, "sales", "Ms Li leads the project").await;
    assert_eq!(created.status, StatusCode::CREATED);
    let replaced = put(1, "sales", "Mr Yun leads the project").await;
    assert_eq!(replaced.status, StatusCode::OK);
    assert_eq!(replaced.body["id"], created.body["id"]);
    let other = put(2, "support", "the same id elsewhere").await;
    assert_ne!(other.body["id"], created.body["id"]);
    converged(&cluster).await;
    let read = "/agent/nodes?external_id=crm:17&namespace=sales";
    let found = cluster.at(2).get(read).await;
    assert_eq!(found["total"], 1);
    assert_fields(
        &found["items"][0],
        json!({"label": "Mr Yun leads the project",
        "external_id": "crm:17", "tags": ["crm"]}),
    );
    let none = cluster.get("/agent/nodes?external_id=crm:18&namespace=sales").await;
    assert_eq!(none["total"], 0);
    let path = format!("/agent/nodes/{}", id(&created.body));
    let versions = cluster.get(&format!("{path}/versions")).await["versions"].clone();
    assert_eq!(versions[1]["label"], "Ms Li leads the project");
    let moved = cluster.request(Method::PATCH, &path).json(&json!({"namespace": "support"}));
    moved.send().await.assert_error(409, "wrong_state");
    // Many writers of one id create one memory.
    let writes = (0..12).map(|number| put(number % 3, "race", "one"));
    let ids: std::collections::BTreeSet<_> = futures::future::join_all(writes)
        .await
        .iter()
        .map(|response| string(&response.body["id"]).to_owned())
        .collect();
    assert_eq!(ids.len(), 1);
}

#[tokio::test]
async fn tags_are_added_and_removed() {
    let node = options().start();
    let id = node.store(&json!({"label": "x", "tags": ["a", "b"]})).await;
    let path = format!("/agent/nodes/{id}");
    let change = json!({"add_tags": ["c", "a"], "remove_tags": ["b", "d"]});
    assert_eq!(node.patch(&path, &change).await["tags"], json!(["a", "c"]));
    // Two that add at the same time lose nothing.
    let add = |tag: String| {
        let path = path.clone();
        let node = &node;
        async move { node.patch(&path, &json!({"add_tags": [tag]})).await }
    };
    futures::future::join_all((0..10).map(|number| add(format!("t{number}")))).await;
    assert_eq!(array(&node.get(&path).await["tags"]).len(), 12);
}

#[tokio::test]
async fn filters_combine_conditions() {
    let node = options().start();
    for (label, memory) in [
        (
            "one",
            json!({"tags": ["a"], "metadata": {"size": 1, "team": "x"}, "memory_type": "fact"}),
        ),
        ("two", json!({"tags": ["a", "b"], "metadata": {"size": 2.5}, "is_pinned": true})),
        ("three", json!({"tags": ["b"], "metadata": {"size": -3, "team": null}})),
        ("four", json!({"occurred_at": "2020-02-02", "initial_heat": 0.2})),
    ] {
        let mut memory = memory;
        memory["label"] = label.into();
        node.store(&memory).await;
    }
    for (filter, expected) in [
        (json!({"tags": "a"}), vec!["one", "two"]),
        (json!({"tags": {"in": ["a", "b"]}}), vec!["one", "three", "two"]),
        (json!({"not": {"tags": "a"}}), vec!["four", "three"]),
        (json!({"tags": "a", "not": {"tags": "b"}}), vec!["one"]),
        (
            json!({"or": [{"metadata.team": "x"}, {"metadata.size": {"lt": 0}}]}),
            vec!["one", "three"],
        ),
        (json!({"metadata.size": {"gt": 1, "lte": 2.5}}), vec!["two"]),
        (json!({"metadata.size": {"gte": 1, "lt": 2.5}}), vec!["one"]),
        (json!({"metadata.team": null}), vec!["three"]),
        (json!({"memory_type": {"in": ["fact", "moment"]}}), vec!["one"]),
        (json!({"is_pinned": true}), vec!["two"]),
        (json!({"heat": {"lt": 0.5}}), vec!["four"]),
        (json!({"occurred_at": {"lt": "2021-01-01"}}), vec!["four"]),
        (json!({"occurred_at": "2020-02-02"}), vec!["four"]),
        (
            json!({"created_at": {"gte": "2026-01-01"}, "and": [{"tags": "b"}]}),
            vec!["three", "two"],
        ),
        (json!({"not": {"heat": {"gte": 0.5}}}), vec!["four"]),
    ] {
        let list = node.request(Method::GET, "/agent/nodes").0;
        let list = Request(list.query(&[("filter", filter.to_string())])).send().await.ok();
        let mut labels: Vec<_> =
            array(&list["items"]).iter().map(|it| string(&it["label"])).collect();
        labels.sort_unstable();
        assert_eq!(
            (labels, &list["total"]),
            (expected.clone(), &json!(expected.len())),
            "{filter}"
        );
        let search = json!({"query": "one two three four", "filter": filter, "tier": "all"});
        let found = node.post("/agent/search", &search).await;
        let mut labels: Vec<_> = array(&found).iter().map(|it| string(&it["label"])).collect();
        labels.sort_unstable();
        assert_eq!(labels, expected, "{filter}");
    }
    let deep = (0..9).fold(json!({"tags": "a"}), |inner, _| json!({"not": inner}));
    let many = json!({"tags": {"in": vec!["a"; 65]}});
    for wrong in [
        json!([]),
        json!({}),
        json!({"colour": "red"}),
        json!({"heat": 1}),
        json!({"heat": {"gt": "1"}}),
        json!({"tags": {"gt": 1}}),
        json!({"tags": 1}),
        json!({"memory_type": "thought"}),
        json!({"and": {"tags": "a"}}),
        json!({"occurred_at": {"gt": "soon"}}),
        json!({"metadata.list": [1]}),
        deep,
        many,
    ] {
        let search = json!({"query": "x", "filter": wrong});
        node.assert_rejected("/agent/search", &search, "filter").await;
    }
}

#[tokio::test]
async fn namespaces_are_paths() {
    let node = options().start();
    for namespace in ["team", "team/a", "team/a/b", "teams", "other"] {
        node.store(&json!({"label": format!("note of {namespace}"), "namespace": namespace})).await;
    }
    let below = async |node: &Node, key: Option<&Value>, prefix: &str| {
        let path = format!("/agent/nodes?namespace_prefix={prefix}&namespace=*");
        let request = match key {
            Some(key) => node.request_as(key, Method::GET, &path),
            None => node.request(Method::GET, &path),
        };
        let list = request.send().await.ok();
        let mut all: Vec<_> =
            array(&list["items"]).iter().map(|it| string(&it["namespace"]).to_owned()).collect();
        all.sort_unstable();
        all
    };
    assert_eq!(below(&node, None, "team").await, ["team", "team/a", "team/a/b"]);
    assert_eq!(below(&node, None, "team/a").await, ["team/a", "team/a/b"]);
    assert_eq!(below(&node, None, "tea").await, Vec::<String>::new());
    let search = json!({"query": "note", "namespace_prefix": "team/a", "namespace": "*"});
    assert_eq!(array(&node.post("/agent/search", &search).await).len(), 2);
    // A key may be bound to a namespace and all below it, and rules close parts of it.
    let bound = json!({"name": "helper", "role": "agent", "namespaces": ["team/*"]});
    let bound = node.post("/keys", &bound).await;
    assert_eq!(below(&node, Some(&bound), "team").await, ["team", "team/a", "team/a/b"]);
    assert_eq!(below(&node, Some(&bound), "other").await, Vec::<String>::new());
    let rule = json!({"agent": "helper", "namespace": "team/a/*", "policy": "deny"});
    node.post("/namespaces/acl", &rule).await;
    assert_eq!(below(&node, Some(&bound), "team").await, ["team"]);
    let store = node.request_as(&bound, Method::POST, "/agent/nodes");
    let store = store.json(&json!({"label": "x", "namespace": "team/a/c"})).send().await;
    store.assert_error(403, "namespace_forbidden");
}
