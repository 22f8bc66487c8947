//! Callers attach tags and metadata to memories: every node returns them, lists and searches filter by
//! them, and they survive what the text survives.

use std::collections::BTreeMap;

use super::*;

/// Percent-encodes the characters that metadata has in a query.
fn list(query: &str) -> String {
    format!("/agent/nodes?{}", query.replace('"', "%22").replace('{', "%7B").replace('}', "%7D"))
}

fn details(memory: &Value) -> (Value, Value) {
    (memory["tags"].clone(), memory["metadata"].clone())
}

#[tokio::test]
async fn tags_and_metadata_are_stored_and_filtered() {
    let cluster = options().nodes(3).start();
    let [leader, follower, _] = cluster.leader_first().await;
    let metadata = json!({"source": "wiki", "page": 3, "nested": {"b": [1, 2.50], "a": null}});
    let new =
        json!({"label": "red fox", "tags": ["animal", "red", "animal"], "metadata": metadata});
    let request = || {
        let request = follower.request(Method::POST, "/agent/nodes");
        request.header("Idempotency-Key", "once").json(&new)
    };
    let created = request().send().await.ok();
    let stored = json!({"source": "wiki", "page": 3, "nested": {"a": null, "b": [1, 2.5]}});
    let expected = (json!(["animal", "red"]), stored);
    assert_eq!(details(&created), expected);
    assert_eq!(details(&request().send().await.ok()), expected, "a repetition");
    let other = json!({"label": "blue fox", "tags": ["animal"], "metadata": {"source": "book"}});
    follower.create(&other).await;
    leader.create(&json!({"label": "green tree"})).await;
    converged(&cluster).await;
    let path = format!("/agent/nodes/{}", id(&created));
    for node in cluster.nodes() {
        assert_eq!(details(&node.get(&path).await), expected);
        for (query, total) in [
            ("tags=animal", 2),
            ("tags=animal,red", 1),
            ("tags=tree", 0),
            ("metadata=source=wiki", 1),
            ("metadata=source=wiki,page=3", 1),
            ("metadata=source=\"wiki\"", 1),
            ("metadata=source=wiki,page=4", 0),
            ("tags=red&metadata=source=book", 0),
        ] {
            assert_eq!(node.get(&list(query)).await["total"], total, "{query}");
        }
        let search = json!({"query": "fox", "tags": ["animal"], "metadata": {"source": "book"}});
        let found = node.post("/agent/search", &search).await;
        assert_eq!((array(&found).len(), &found[0]["label"]), (1, &json!("blue fox")));
    }
    let none = leader.get("/agent/nodes?search=tree").await["items"][0].take();
    assert_eq!(details(&none), (json!([]), json!({})));
}

#[tokio::test]
async fn changes_replace_tags_and_metadata() {
    let cluster = options().start();
    let new = json!({"label": "red fox", "tags": ["a"], "metadata": {"k": 1}});
    let path = format!("/agent/nodes/{}", cluster.store(&new).await);
    let changes = [
        (json!({"tags": ["b", "c"]}), (json!(["b", "c"]), json!({"k": 1}))),
        (json!({"label": "blue fox"}), (json!(["b", "c"]), json!({"k": 1}))),
        (json!({"is_pinned": true}), (json!(["b", "c"]), json!({"k": 1}))),
        (json!({"metadata": {"z": "x"}, "tags": null}), (json!(["b", "c"]), json!({"z": "x"}))),
        (json!({"metadata": {}, "tags": []}), (json!([]), json!({}))),
        (json!({"tags": ["last"]}), (json!(["last"]), json!({}))),
    ];
    for (change, expected) in changes {
        assert_eq!(details(&cluster.patch(&path, &change).await), expected, "{change}");
    }
    let bulk = json!({"ids": [path.rsplit('/').next()], "metadata": {"bulk": true}});
    assert_eq!(cluster.post("/agent/nodes/bulk-patch", &bulk).await["updated"], 1);
    let total = async |query: &str| cluster.get(&list(query)).await["total"].take();
    assert_eq!(total("tags=last&metadata=bulk=true").await, 1);
    for gone in ["tags=a", "tags=b", "metadata=k=1", "metadata=z=x"] {
        assert_eq!(total(gone).await, 0, "{gone}");
    }
    cluster.kill();
    cluster.start();
    cluster.ready().await;
    assert_eq!(total("tags=last&metadata=bulk=true").await, 1);
    let expected = (json!(["last"]), json!({"bulk": true}));
    assert_eq!(details(&cluster.get(&path).await), expected);
}

#[tokio::test]
async fn tags_and_metadata_are_bounded() {
    let cluster = options().start();
    let many: Vec<_> = (0..33).map(|number| number.to_string()).collect();
    let entries: BTreeMap<_, _> = (0..65).map(|number| (number.to_string(), number)).collect();
    for (field, value) in [
        ("tags", json!(many)),
        ("tags", json!(["x".repeat(65)])),
        ("tags", json!([" "])),
        ("tags", json!("red")),
        ("metadata", json!({"long": "x".repeat(16 << 10)})),
        ("metadata", json!(entries)),
        ("metadata", json!([1])),
    ] {
        let new = json!({"label": "x", field: value});
        let response = cluster.send(Method::POST, "/agent/nodes", &new).await;
        let named = response.body["field"].as_str().unwrap_or_default();
        assert!(response.status == 400 && named.starts_with(field), "{}", response.body);
    }
    let search = json!({"query": "x", "metadata": {"list": [1]}});
    cluster.assert_rejected("/agent/search", &search, "metadata").await;
    assert_eq!(cluster.metric("hearth_memories").await, 0.0);
}

/// What JSON readers would change is rejected, not changed.
#[tokio::test]
async fn metadata_is_stored_as_it_was_sent() {
    let cluster = options().start();
    let send = |metadata: &str| {
        let body = format!(r#"{{"label": "x {}", "metadata": {metadata}}}"#, metadata.len());
        cluster.request(Method::POST, "/agent/nodes").raw(body).send()
    };
    let deep = |levels: usize| format!("{{\"a\": {}1{}}}", "[".repeat(levels), "]".repeat(levels));
    for (metadata, reason) in [
        (r#"{"a": 9007199254740993}"#, "2^53"),
        (r#"{"a": {"b": [-9007199254740993]}}"#, "2^53"),
        (r#"{"a": 123456789012345678901234567890}"#, "2^53"),
        (r#"{"a": 1, "a": 2}"#, "twice"),
        (r#"{"a": {"b": 1, "b": 1}}"#, "twice"),
        (&deep(200), "levels"),
    ] {
        let activity = format!(r#"{{"action": "x", "metadata": {metadata}}}"#);
        let activity = cluster.request(Method::POST, "/activity").raw(activity).send().await;
        for response in [send(metadata).await, activity] {
            assert_eq!(response.status, 400, "{metadata}: {}", response.body);
            assert!(string(&response.body["message"]).contains(reason), "{}", response.body);
        }
    }
    for metadata in [r#"{"a": 9007199254740992, "b": -0.125, "c": 1e-7}"#, &deep(100)] {
        let stored = send(metadata).await.ok();
        let sent: Value = serde_json::from_str(metadata).unwrap();
        assert_eq!(stored["metadata"], sent);
    }
}

/// Names that look alike are one name, however they are written. Labels stay as they are.
#[tokio::test]
async fn names_that_look_alike_are_one() {
    let cluster = options().start();
    let (composed, decomposed) = ("M\u{fc}ller", "Mu\u{308}ller");
    let new = |name: &str, number: u32| {
        json!({"label": format!("note {number} of {name}"), "namespace": name, "tags": [name],
            "metadata": {name: name, "number": number}})
    };
    let first = cluster.create(&new(composed, 1)).await;
    let second = cluster.create(&new(decomposed, 1)).await;
    assert_eq!((&first["namespace"], details(&first)), (&second["namespace"], details(&second)));
    assert_eq!(second["label"], format!("note 1 of {decomposed}"));
    for name in [composed, decomposed] {
        let encoded = name.replace('\u{308}', "%CC%88").replace('\u{fc}', "%C3%BC");
        for query in [
            format!("namespace={encoded}"),
            format!("tags={encoded}"),
            format!("tag={encoded}"),
            format!("metadata={encoded}={encoded}"),
            format!("search={encoded}"),
        ] {
            assert_eq!(cluster.get(&list(&query)).await["total"], 2, "{query}");
        }
        let search = json!({"query": name, "metadata": {"number": 1.0}});
        assert_eq!(array(&cluster.post("/agent/search", &search).await).len(), 2, "{name}");
        let both = json!({"label": "x", "metadata": {composed: 1, decomposed: 2}});
        cluster.assert_rejected("/agent/nodes", &both, "metadata").await;
    }
    let trigger = json!({"event": "on_store", "action": "notify",
        "filter_namespace": decomposed, "filter_label_pattern": decomposed});
    cluster.post("/triggers", &trigger).await;
    let fired = cluster.create(&new(composed, 2)).await;
    assert_eq!(array(&fired["trigger_notifications"]).len(), 1, "{fired}");
    let purged = cluster.post("/admin/purge", &json!({"namespace": decomposed})).await;
    assert_eq!(purged["memories"], 3, "{purged}");
    assert_eq!(cluster.get("/agent/nodes?namespace=*").await["total"], 0);
}

#[tokio::test]
async fn tags_may_have_commas() {
    let cluster = options().start();
    for tags in [["a,b", "c"], ["a", "b"]] {
        cluster.create(&json!({"label": "x", "tags": tags})).await;
    }
    for (query, total) in [
        ("tag=a,b", 1),
        ("tag=a,b&tag=c", 1),
        ("tag=a,b&tag=a", 0),
        ("tags=a,b", 1),
        ("tag=a&tags=b", 1),
    ] {
        assert_eq!(cluster.get(&list(query)).await["total"], total, "{query}");
    }
    for (query, total) in [("metadata=n=1", 0), ("metadata=n=1.0", 0)] {
        assert_eq!(cluster.get(&list(query)).await["total"], total, "{query}");
    }
    cluster.create(&json!({"label": "one", "metadata": {"n": 1.0}})).await;
    for query in ["metadata=n=1", "metadata=n=1.0", "metadata=n=1e0"] {
        assert_eq!(cluster.get(&list(query)).await["total"], 1, "{query}");
    }
    let large = cluster.request(Method::GET, "/agent/nodes?metadata=n=9007199254740993");
    large.send().await.assert_invalid("metadata");
}
