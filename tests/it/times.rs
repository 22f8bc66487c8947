//! The times of what a memory says: when it happened, in which time it holds, and when it ends. And the texts
//! that it had before.

use super::*;

async fn search(node: &Node, body: Value) -> Vec<String> {
    let found = node.post("/agent/search", &body).await;
    array(&found).iter().map(|it| string(&it["label"]).to_owned()).collect()
}

/// An agent stores today what happened long ago.
#[tokio::test]
async fn windows_find_memories_by_when_they_happened() {
    let node = options().start();
    let store = async |label: &str, occurred_at: &str| {
        node.store(&json!({"label": label, "occurred_at": occurred_at})).await
    };
    store("meeting about the budget", "2024-03-05").await;
    store("another meeting about the budget", "1969-07-20T20:17:00Z").await;
    node.store(&labelled("a third meeting about the budget")).await;
    for (from, to, expected) in [
        ("2024-03-01", "2024-03-31", vec!["meeting about the budget"]),
        ("1969-07-20", "1969-07-20", vec!["another meeting about the budget"]),
        ("2026-01-01", "2100-01-01", vec!["a third meeting about the budget"]),
        ("1970-01-01", "2024-03-04", vec![]),
    ] {
        let window = json!({"query": "meeting budget", "time_from": from, "time_to": to});
        assert_eq!(search(&node, window).await, expected, "{from} to {to}");
        let list = node.get(&format!("/agent/nodes?time_from={from}&time_to={to}")).await;
        assert_eq!(list["total"], expected.len(), "{list}");
    }
    // The words of the query name the time.
    let words = json!({"query": "what was on 5 March 2024?"});
    let found = node.post("/agent/search", &words).await;
    let expected = json!({"label": "meeting about the budget", "ranks_first": true});
    assert_fields(&found[0], expected);
    assert_eq!(array(&found).iter().filter(|it| it["ranks_first"] == true).count(), 1, "{found}");
    let params = json!({"label": "x", "occurred_at": "some day"});
    node.assert_rejected("/agent/nodes", &params, "occurred_at").await;
}

#[tokio::test]
async fn facts_hold_in_their_time() {
    let node = options().start();
    let old = json!({"label": "the office is in Bonn", "valid_from": "2020-01-01"});
    let old = node.store(&old).await;
    let new = json!({"label": "the office is in Hamburg", "valid_from": "2023-06-01T00:00:00Z",
        "supersedes": old});
    let new = node.store(&new).await;
    let limited = json!({"label": "the office is closed", "valid_from": "2022-12-24",
        "valid_until": "2022-12-26"});
    node.store(&limited).await;
    let read = async |id: &str| node.get(&format!("/agent/nodes/{id}")).await;
    // The old window ends where the new one begins.
    assert_eq!(read(&old).await["valid_until"], "2023-06-01T00:00:00Z");
    assert_eq!(read(&new).await["valid_until"], Value::Null);
    for (at, expected) in [
        ("2019-12-31", vec![]),
        ("2021-01-01", vec!["the office is in Bonn"]),
        ("2022-12-26", vec!["the office is closed", "the office is in Bonn"]),
        ("2022-12-27", vec!["the office is in Bonn"]),
        ("2023-06-01", vec!["the office is in Hamburg"]),
    ] {
        let mut found = search(&node, json!({"query": "office", "as_of": at, "tier": "all"})).await;
        found.sort_unstable();
        assert_eq!(found, expected, "{at}");
        let list = node.get(&format!("/agent/nodes?as_of={at}")).await;
        assert_eq!(list["total"], expected.len(), "{at}: {list}");
    }
    // What holds no more ranks as what is replaced.
    let now = search(&node, json!({"query": "the office", "explain": true})).await;
    assert_eq!(now[0], "the office is in Hamburg");
    // An edge that ends opens the window again.
    let edge = format!("/agent/graph/relate?source_id={new}&target_id={old}&relation=supersedes");
    node.delete(&edge).await;
    assert_eq!(read(&old).await["valid_until"], Value::Null);
    let changed = json!({"valid_until": "2024-01-01T00:00:00Z"});
    let changed = node.patch(&format!("/agent/nodes/{old}"), &changed).await;
    assert_eq!(changed["valid_until"], "2024-01-01T00:00:00Z");
    let removed = node.patch(&format!("/agent/nodes/{old}"), &json!({"valid_until": ""})).await;
    assert_eq!(removed["valid_until"], Value::Null);
}

#[tokio::test]
async fn past_texts_are_kept_with_authors() {
    let cluster = options().nodes(3).start();
    let key = cluster.post("/keys", &json!({"name": "editor", "role": "agent"})).await;
    let id = cluster.store(&labelled("first text")).await;
    let path = format!("/agent/nodes/{id}");
    let before = cluster.get(&path).await["updated_at"].clone();
    let change = cluster.request_as(&key, Method::PATCH, &path);
    let second = change.json(&labelled("second text")).send().await.ok()["updated_at"].clone();
    for number in 3..14 {
        cluster.patch(&path, &labelled(format!("text {number}"))).await;
    }
    converged(&cluster).await;
    let versions = cluster.at(2).get(&format!("{path}/versions")).await["versions"].clone();
    let labels: Vec<_> = array(&versions).iter().map(|it| string(&it["label"])).collect();
    assert_eq!((labels.len(), labels[0], labels[10]), (11, "text 13", "text 3"));
    assert_eq!(versions[0]["until"], Value::Null);
    assert!(array(&versions).windows(2).all(|pair| pair[0]["from"] == pair[1]["until"]));
    let of = async |at: &Value| {
        let at = string(at).replace('+', "%2B");
        cluster.request(Method::GET, &format!("{path}?as_of={at}")).send().await
    };
    let from = &versions[9]["from"];
    assert_eq!(of(from).await.ok()["label"], versions[9]["label"]);
    assert_eq!(of(&json!("2100-01-01")).await.ok()["label"], "text 13");
    // The first texts are dropped.
    of(&before).await.assert_error(404, "no_such_version");
    of(&second).await.assert_error(404, "no_such_version");
    let other = cluster.store(&labelled("stored by admin")).await;
    let path = format!("/agent/nodes/{other}");
    let change = cluster.request_as(&key, Method::PATCH, &path);
    change.json(&labelled("changed by editor")).send().await.ok();
    let versions = cluster.get(&format!("{path}/versions")).await["versions"].clone();
    let authors: Vec<_> = array(&versions).iter().map(|it| string(&it["agent"])).collect();
    assert_eq!(authors, ["editor", "admin"]);
    // They go with the memory.
    cluster.delete(&path).await;
    let gone = cluster.request(Method::GET, &format!("{path}/versions")).send().await;
    gone.assert_error(404, "not_found");
}

#[tokio::test]
async fn memories_expire_once_and_in_the_journal() {
    let cluster = options().nodes(3).start();
    let tick = json!({"tick": {"interval": 1}});
    cluster.patch("/settings/thermo", &tick).await;
    let short = cluster.store(&json!({"label": "code 4711", "ttl_seconds": 1})).await;
    let at = json!({"label": "closed before", "expires_at": "2020-01-01"});
    let past = cluster.store(&at).await;
    let long = cluster.store(&json!({"label": "kept for an hour", "ttl": 3600})).await;
    let locked = json!({"label": "locked", "ttl_seconds": 1});
    let locked = cluster.store(&locked).await;
    cluster.patch(&format!("/agent/nodes/{locked}"), &json!({"is_locked": true})).await;
    let left = async || cluster.get("/agent/nodes?consistency=linearizable").await["total"].clone();
    eventually("two have expired", left, |total| *total == 2).await;
    let kept = cluster.get(&format!("/agent/nodes/{long}")).await;
    assert!(kept["expires_at"].is_string(), "{kept}");
    let archived = async || cluster.get(&format!("/agent/nodes/{locked}")).await["tier"].clone();
    eventually("a locked one is archived", archived, |tier| *tier == "cold").await;
    let journal = cluster.get("/activity?limit=100").await["items"].clone();
    let deleted = array(&journal).iter().filter(|event| event["action"] == "memory.delete");
    let mut deleted: Vec<_> = deleted.map(|event| string(&event["target_id"])).collect();
    deleted.sort_unstable();
    let mut expected = [short.as_str(), past.as_str()];
    expected.sort_unstable();
    assert_eq!(deleted, expected);
}

#[tokio::test]
async fn recalls_put_off_the_end() {
    let node = options().start();
    let memory = json!({"label": "the code word is heron", "ttl_seconds": 1000,
        "refresh_on_read": true});
    let id = node.store(&memory).await;
    let fixed = json!({"label": "another code word is crane", "ttl_seconds": 1000});
    let fixed = node.store(&fixed).await;
    let end = async |id: &str| node.get(&format!("/agent/nodes/{id}")).await["expires_at"].clone();
    let (before, fixed_before) = (end(&id).await, end(&fixed).await);
    search(&node, json!({"query": "code word"})).await;
    let refreshed = eventually("it ends later", || end(&id), |end| *end != before).await;
    assert!(string(&refreshed) > string(&before), "{refreshed}");
    assert_eq!(end(&fixed).await, fixed_before);
    // A recall is no update.
    let memory = node.get(&format!("/agent/nodes/{id}")).await;
    assert_eq!(memory["updated_at"], memory["created_at"]);
}
