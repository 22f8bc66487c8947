//! Several memories become one with a text that a request gives. Nothing is lost: the old ones are in
//! the cold tier, and it can be undone.

use super::*;

async fn store(node: &Node, label: &str, heat: f64) -> String {
    let body = json!({"label": label, "initial_heat": heat, "decay_class": "permanent"});
    node.store(&body).await
}

async fn get(node: &Node, id: &str) -> Value {
    node.get(&format!("/agent/nodes/{id}")).await
}

async fn fold(node: &Node, body: &Value) -> Response {
    node.send(Method::POST, "/agent/consolidation/fold", body).await
}

async fn candidates(node: &Node, query: &str) -> Value {
    node.get(&format!("/agent/consolidation/candidates{query}")).await
}

/// Labels per group.
fn labels(found: &Value) -> Vec<Vec<&str>> {
    let groups = array(&found["groups"]).iter().map(|group| array(&group["memories"]));
    groups.map(|group| group.iter().map(|it| string(&it["label"])).collect()).collect()
}

#[tokio::test]
async fn fold_keeps_what_it_replaces() {
    let cluster = options().nodes(3).start();
    let [leader, rest] = cluster.leader_first().await;
    let monday = store(leader, "On Monday the red pump lost pressure", 0.5).await;
    let friday = store(leader, "On Friday the red pump lost pressure again", 0.9).await;
    let plan = store(leader, "The plan of the cellar", 0.4).await;
    let edge = json!({"source_id": plan, "target_id": monday, "relation": "shows"});
    leader.post("/agent/graph/relate", &edge).await;
    leader.patch(&format!("/agent/nodes/{monday}"), &json!({"is_pinned": true})).await;
    let text = "The red pump loses pressure each week";
    let folded = fold(rest, &json!({"ids": [monday, friday], "label": text})).await;
    assert_eq!(folded.status, 201);
    let folded = folded.body;
    let expected = json!({"label": text, "heat": 0.9, "is_pinned": true, "tier": "hot",
        "decay_class": "permanent", "folded_from": [monday, friday]});
    assert_fields(&folded, expected);
    let new = id(&folded);
    for old in [&monday, &friday] {
        assert_fields(&get(rest, old).await, json!({"tier": "cold", "superseded_by": new}));
    }
    let edges = rest.get(&format!("/agent/graph/neighbors/{new}")).await;
    let shown = array(&edges["neighbors"]).iter().find(|it| it["relation"] == "shows");
    assert_eq!(id(shown.expect("the edge moved")), plan);
    let search = json!({"query": "red pump pressure", "tier": "all"});
    let hits = rest.post("/agent/search", &search).await;
    let ids: Vec<_> = array(&hits).iter().map(id).collect();
    assert_eq!(ids[0], new);
    assert_eq!(ids.len(), 4, "all are found: {hits}");
    let hot = rest.post("/agent/hot-context", &json!({})).await;
    let hot: Vec<_> = array(&hot).iter().map(id).collect();
    assert_eq!(hot, [new, &plan]);
    // Undone, all is as before.
    let undone = rest.post("/agent/consolidation/unfold", &json!({"id": new})).await;
    let restored: Vec<_> = array(&undone["restored"]).iter().map(id).collect();
    assert_eq!(restored, [&monday, &friday]);
    let gone = rest.request(Method::GET, &format!("/agent/nodes/{new}")).send().await;
    assert_eq!(gone.status, 404);
    let expected = json!({"tier": "hot", "superseded_by": null, "heat": 0.5, "is_pinned": true});
    assert_fields(&get(rest, &monday).await, expected);
    assert_fields(&get(rest, &friday).await, json!({"tier": "hot", "heat": 0.9}));
    converged(&cluster).await;
    assert_equal_states(leader).await;
}

#[tokio::test]
async fn searches_leave_folded_memories_cold() {
    let cluster = options().start();
    let ids =
        cluster.store_each(["red fox", "red foxes"].map(|label| json!({"label": label}))).await;
    let folded = fold(&cluster, &json!({"ids": ids, "label": "a red fox lives here"})).await.body;
    let request = cluster.request(Method::POST, "/agent/search");
    let found = request.json(&json!({"query": "red fox"})).send().await;
    assert_eq!(found.number("x-hearth-cold-matches"), 0, "they are replaced");
    cluster.post("/agent/search", &json!({"query": "red fox", "tier": "all"})).await;
    let recalled = async || get(&cluster, id(&folded)).await;
    eventually("recalls are counted", recalled, |found| found["recall_count"] == 2).await;
    assert_fields(&get(&cluster, &ids[0]).await, json!({"tier": "cold", "recall_count": 0}));
}

#[tokio::test]
async fn candidates_are_duplicates_and_cold_fragments() {
    let cluster = options().nodes(3).start();
    let [leader, rest] = cluster.leader_first().await;
    for label in ["the port is 5432", "a green hill", "The port is 5432.", "the port is 5433"] {
        store(leader, label, 0.5).await;
    }
    store(leader, "The port is 5432!", 0.9).await;
    for label in ["pump checked on Monday", "pump checked on Tuesday", "tank checked"] {
        let key_points = json!(["cellar"]);
        let body = json!({"label": label, "initial_heat": 0.01, "key_points": key_points});
        leader.store(&body).await;
    }
    let body = json!({"label": "pump is new", "initial_heat": 0.9, "key_points": ["cellar"]});
    leader.store(&body).await;
    converged(&cluster).await;
    let found = candidates(rest, "").await;
    let expected = [
        vec!["the port is 5432", "The port is 5432.", "The port is 5432!"],
        vec!["pump checked on Monday", "pump checked on Tuesday", "tank checked"],
    ];
    let sorted = |mut groups: Vec<Vec<String>>| {
        groups.iter_mut().for_each(|group| group.sort());
        groups
    };
    let owned = |groups: &[Vec<&str>]| {
        groups.iter().map(|group| group.iter().map(ToString::to_string).collect()).collect()
    };
    assert_eq!(sorted(owned(&labels(&found))), sorted(owned(&expected)));
    let reasons: Vec<_> = array(&found["groups"]).iter().map(|it| &it["reason"]).collect();
    assert_eq!(reasons, ["duplicates", "cold"]);
    // The text of the hottest; for fragments, the agent writes one.
    assert_eq!(found["groups"][0]["label"], "The port is 5432!");
    assert_eq!((&found["groups"][1]["label"], &found["next_cursor"]), (&Value::Null, &Value::Null));
    assert_eq!(labels(&candidates(leader, "").await), labels(&found), "on every node");
    // Page by page.
    let first = candidates(rest, "?limit=1").await;
    let second =
        candidates(rest, &format!("?limit=5&cursor={}", string(&first["next_cursor"]))).await;
    assert_eq!(labels(&first), labels(&found)[..1]);
    assert_eq!(labels(&second), labels(&found)[1..]);
    // Folded memories are no candidates.
    let ids: Vec<_> = array(&found["groups"][0]["memories"]).iter().map(id).collect();
    fold(rest, &json!({"ids": ids, "label": "The port is 5432"})).await.ok();
    assert_eq!(labels(&candidates(rest, "").await), labels(&found)[1..]);
    assert_eq!(labels(&candidates(rest, "?namespace=other").await).len(), 0);
}

#[tokio::test]
async fn fold_needs_memories_of_one_namespace() {
    let cluster = options().start();
    let [first, second] =
        [store(&cluster, "red fox", 0.5).await, store(&cluster, "fox", 0.5).await];
    let other = cluster.store(&json!({"label": "red fox", "namespace": "other"})).await;
    let unknown = "0199aaaa-0000-7000-8000-000000000000";
    let rejected =
        async |ids: &[&str]| fold(&cluster, &json!({"ids": ids, "label": "foxes"})).await;
    rejected(&[&first]).await.assert_invalid("ids");
    rejected(&[&first, &first]).await.assert_invalid("ids");
    rejected(&[&first, unknown]).await.assert_error(404, "not_found");
    rejected(&[&first, &other]).await.assert_error(409, "wrong_state");
    assert_eq!(get(&cluster, &first).await["tier"], "hot", "all or nothing");
    let unfold = json!({"id": second});
    let request = cluster.send(Method::POST, "/agent/consolidation/unfold", &unfold).await;
    request.assert_error(409, "wrong_state");
    // Repeated with its idempotency key, it happens once.
    let body = json!({"ids": [first, second], "label": "foxes"});
    let once = || {
        let request = cluster.request(Method::POST, "/agent/consolidation/fold").json(&body);
        request.header("Idempotency-Key", "fold-1").send()
    };
    let (done, again) = (once().await.ok(), once().await.ok());
    assert_eq!(id(&done), id(&again));
}

#[tokio::test]
async fn fold_keeps_key_points_and_lock() {
    let cluster = options().start();
    let first = store(&cluster, "the router is a fritzbox", 0.5).await;
    let body = json!({"label": "its password is on the fridge", "key_points": ["router password"]});
    let second = cluster.store(&body).await;
    cluster.patch(&format!("/agent/nodes/{second}"), &json!({"is_locked": true})).await;
    let body =
        json!({"ids": [first, second], "label": "The router is a fritzbox, password on fridge"});
    let folded = fold(&cluster, &body).await.body;
    assert_fields(&folded, json!({"is_locked": true, "key_points": ["router password"]}));
    let unfold = json!({"id": id(&folded)});
    let locked = cluster.send(Method::POST, "/agent/consolidation/unfold", &unfold).await;
    locked.assert_error(409, "locked");
}

#[tokio::test]
async fn unfold_restores_what_is_left() {
    let cluster = options().start();
    let warm = store(&cluster, "the lake was warm", 0.5).await;
    let cool = store(&cluster, "the lake was cool", 0.05).await;
    let body = json!({"ids": [warm, cool], "label": "The lake is warm or cool"});
    let folded = fold(&cluster, &body).await.body;
    let moved = json!({"namespace": "elsewhere"});
    cluster.patch(&format!("/agent/nodes/{}", id(&folded)), &moved).await;
    let unfold = json!({"id": id(&folded)});
    let request = cluster.send(Method::POST, "/agent/consolidation/unfold", &unfold).await;
    request.assert_error(409, "wrong_state");
    let back = json!({"namespace": "default"});
    cluster.patch(&format!("/agent/nodes/{}", id(&folded)), &back).await;
    let undone = cluster.post("/agent/consolidation/unfold", &unfold).await;
    assert_eq!(array(&undone["restored"]).len(), 2);
    assert_fields(&get(&cluster, &warm).await, json!({"tier": "hot", "heat": 0.5}));
    let cool = get(&cluster, &cool).await;
    assert_eq!(cool["tier"], "hot");
    assert_near(&cool["heat"], 0.05);
}

#[tokio::test]
async fn pages_of_candidates_lose_no_group() {
    let cluster = options().start();
    let text = "abcdefgh ".repeat(7_000);
    // These are in no group, and take nothing of a page.
    for number in 0..62 {
        cluster.store(&json!({"label": format!("alone{number} {text}")})).await;
    }
    for group in 0..5 {
        for _ in 0..16 {
            cluster.store(&json!({"label": format!("{group}{group}{group} {text}")})).await;
        }
    }
    let (mut sizes, mut after) = (Vec::new(), String::new());
    loop {
        let page = candidates(&cluster, &format!("?limit=100{after}")).await;
        sizes.extend(labels(&page).iter().map(Vec::len));
        let Some(next) = page["next_cursor"].as_str() else { break };
        after = format!("&cursor={next}");
    }
    assert_eq!(sizes, [16; 5]);
}

#[tokio::test]
async fn command_folds_memories_with_the_same_words() {
    let cluster = options().start();
    for label in ["the port is 5432", "The port is 5432.", "the port is 5433", "a red fox"] {
        store(&cluster, label, 0.5).await;
    }
    let ca = cluster.folder().join("ca.pem");
    let key = cluster.folder().join("key");
    std::fs::write(&key, &cluster.key).unwrap();
    let [ca, key] = [&ca, &key].map(|path| path.to_str().unwrap());
    let counting = ["consolidate", "--url", cluster.url(), "--ca", ca, "--key-file", key];
    let (succeeded, text) = cluster.run(&counting).await;
    assert!(succeeded && text.contains(" 2  memories with the same words in 1 groups, would be"));
    assert_eq!(cluster.get("/agent/nodes").await["total"], 4, "nothing changed");
    let (succeeded, text) = cluster.run(&[&counting[..], &["--apply"]].concat()).await;
    assert!(succeeded && text.contains("in 1 groups, folded"), "{text}");
    let hot = cluster.get("/agent/nodes?tier=hot").await;
    assert_eq!(hot["total"], 3, "{hot}");
    let (_, text) = cluster.run(&counting).await;
    assert!(text.contains(" 0  memories with the same words"), "{text}");
}
