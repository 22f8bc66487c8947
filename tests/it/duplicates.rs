//! A text that is stored twice is one memory, if the request or the tenant says so: also if two nodes
//! receive it at the same moment. Texts that differ in a fact are two.

use super::*;

async fn create(node: &Node, label: &str, on_duplicate: &str) -> Response {
    let body = json!({"label": label, "on_duplicate": on_duplicate, "initial_heat": 0.5});
    node.send(Method::POST, "/agent/nodes", &body).await
}

#[tokio::test]
async fn same_text_at_two_nodes_is_one_memory() {
    let cluster = options().nodes(3).start();
    let [leader, rest] = cluster.leader_first().await;
    for round in 0..20 {
        let label = format!("The user prefers tea {round} times a day");
        let upper = label.to_uppercase();
        let (first, second) =
            tokio::join!(create(leader, &label, "merge"), create(rest, &upper, "merge"),);
        assert_eq!(id(&first.body), id(&second.body), "round {round}");
        let mut statuses = [first.status.as_u16(), second.status.as_u16()];
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 201]);
        let merged = if first.status == 200 { first } else { second };
        assert_fields(&merged.body, json!({"duplicate_of": id(&merged.body), "recall_count": 1}));
        assert_near(&merged.body["heat"], 0.55);
    }
    assert_eq!(cluster.get("/agent/nodes").await["total"], 20);
    let rejected = create(rest, "the user prefers tea 7 times a day", "reject").await;
    rejected.assert_error(409, "duplicate");
    converged(&cluster).await;
    assert_equal_states(leader).await;
}

#[tokio::test]
async fn batch_merges_what_it_repeats() {
    let cluster = options().start();
    let labels = ["red fox", "blue sea", "Red  fox"];
    let nodes = labels.map(|label| json!({"label": label, "on_duplicate": "merge"}));
    let batch = cluster.post("/agent/nodes/batch", &json!({"nodes": nodes})).await;
    let results = array(&batch["results"]);
    let statuses: Vec<_> = results.iter().map(|item| string(&item["status"])).collect();
    assert_eq!(statuses, ["created", "created", "duplicate"]);
    assert_eq!(results[2]["id"], results[0]["id"]);
    assert_eq!(cluster.get("/agent/nodes").await["total"], 2);
    let nodes = labels.map(|label| json!({"label": label, "on_duplicate": "reject"}));
    let request = cluster.request(Method::POST, "/agent/nodes/batch");
    let rejected = request.json(&json!({"nodes": nodes})).send().await;
    assert_eq!(rejected.body["duplicate_of"], results[0]["id"]);
    assert!(rejected.body.to_string().contains("nodes[0]: "), "{}", rejected.body);
    rejected.assert_error(409, "duplicate");
}

#[tokio::test]
async fn same_words_are_merged_unless_one_differs() {
    let cluster = options().start();
    let patch = json!({"duplicates": {"on_duplicate": "merge"}});
    let settings = cluster.patch("/settings/thermo", &patch).await;
    assert_eq!(settings["config"]["duplicates"]["on_duplicate"], "merge");
    let store = async |label: &str| cluster.store(&json!({"label": label})).await;
    let port = "the staging database of the billing team listens on port 5432";
    let first = store(port).await;
    for near in ["The staging database of the billing team listens on port 5432!", port] {
        assert_eq!(store(near).await, first, "{near}");
    }
    for (other, on_duplicate) in [
        ("the staging database of the billing team listens on port 5433", None),
        ("the staging database of the billing team never listens on port 5432", None),
        (port, Some("allow")),
    ] {
        let body = json!({"label": other, "on_duplicate": on_duplicate});
        assert_ne!(cluster.store(&body).await, first, "{other}");
    }
    let wrong = json!({"duplicates": {"on_duplicate": "drop"}});
    let request = cluster.request(Method::PATCH, "/settings/thermo").json(&wrong);
    request.send().await.assert_invalid("duplicates.on_duplicate");
}

#[tokio::test]
async fn corrections_and_opposites_are_two_memories() {
    let cluster = options().real_embedder().start();
    for (first, second) in [
        (
            "The weekly sync of the platform team takes place on Tuesday in room Alpha",
            "The weekly sync of the platform team takes place on Thursday in room Alpha",
        ),
        ("Anna pays Ben for the concert", "Ben pays Anna for the concert"),
        ("Move the backup from Paris to London", "Move the backup from London to Paris"),
        (
            "Increase the timeout of the payment service when the queue is long",
            "Decrease the timeout of the payment service when the queue is long",
        ),
        ("The oven in the kitchen works", "The oven in the kitchen doesn’t work"),
    ] {
        assert_eq!(create(&cluster, first, "reject").await.status, 201, "{first}");
        assert_eq!(create(&cluster, second, "reject").await.status, 201, "{second}");
        create(&cluster, &format!("{}.", second.to_uppercase()), "reject")
            .await
            .assert_error(409, "duplicate");
    }
}

#[tokio::test]
async fn replaced_text_may_hold_again() {
    let cluster = options().start();
    let store = async |label: &str, old: Option<&str>| {
        let body = json!({"label": label, "supersedes": old, "on_duplicate": "merge"});
        let response = cluster.send(Method::POST, "/agent/nodes", &body).await;
        assert_eq!(response.status, 201, "{}", response.body);
        id(&response.body).to_owned()
    };
    let first = store("the port is 5432", None).await;
    let second = store("the port is 9090", Some(&first)).await;
    let third = store("the port is 5432", Some(&second)).await;
    let found = cluster.post("/agent/search", &json!({"query": "the port is"})).await;
    assert_eq!(id(&found[0]), third);
}

/// However many texts are similar, those with the same words are found: by creations, echoes, hygiene and
/// consolidation. The model does not decide: `use tabs.` and `use tabs` are less alike to it than many other pairs.
#[tokio::test]
async fn similar_texts_do_not_hide_duplicates() {
    let cluster = options().start();
    let first = cluster.store(&json!({"label": "use tabs in the source files."})).await;
    let second = create(&cluster, "use tabs in the source files", "allow").await.body;
    assert_ne!(id(&second), first);
    for first in (0..1_500).step_by(50) {
        let notes =
            (first..first + 50).map(|number| json!({"label": format!("use tabs {number}")}));
        let notes: Vec<_> = notes.collect();
        cluster.post("/agent/nodes/batch", &json!({"nodes": notes})).await;
    }
    create(&cluster, "Use “tabs” in the source files!", "reject")
        .await
        .assert_error(409, "duplicate");
    assert_eq!(
        id(&create(&cluster, "use the tabs in source files", "merge").await.body),
        first,
        "the oldest"
    );
    let hygiene = cluster.get("/admin/hygiene").await;
    let exact = json!({"defect": "exact_duplicates", "count": 1});
    assert_fields(&hygiene["defects"][0], exact);
    let found = cluster.get("/agent/consolidation/candidates?limit=100").await;
    let groups = array(&found["groups"]).iter();
    let groups = groups.filter(|group| group["reason"] == "duplicates").map(|it| &it["memories"]);
    let ids: Vec<_> = groups.map(|group| array(group).iter().map(id).collect::<Vec<_>>()).collect();
    assert_eq!(ids, [[first.as_str(), id(&second)]]);
    let search = json!({"query": "use tabs in source files", "limit": 1});
    let recalled = string(&cluster.post("/agent/search", &search).await[0]["id"]).to_owned();
    let path = format!("/agent/nodes/{recalled}");
    let read = async || cluster.get(&path).await;
    let before = read().await["recall_count"].as_u64().unwrap();
    cluster.post("/agent/search", &search).await;
    eventually("it is recalled", read, |it| it["recall_count"].as_u64() > Some(before)).await;
    assert_eq!(
        create(&cluster, "USE TABS IN THE SOURCE FILES!", "allow").await.body["echo_of"],
        recalled.as_str()
    );
}

#[tokio::test]
async fn namespaces_do_not_hide_duplicates() {
    let cluster = options().start();
    let notes = (0..150).map(|number| {
        json!({"label": "the user likes tea", "namespace": format!("customer{number}"),
            "on_duplicate": "merge"})
    });
    let nodes: Vec<_> = notes.collect();
    for nodes in nodes.chunks(50).chain(nodes.chunks(50)) {
        cluster.post("/agent/nodes/batch", &json!({"nodes": nodes})).await;
    }
    assert_eq!(cluster.get("/agent/nodes?namespace=*").await["total"], 150);
}

#[tokio::test]
async fn repeated_merge_returns_its_first_status() {
    let cluster = options().start();
    let merge = async |key: &'static str| {
        let request = cluster.request(Method::POST, "/agent/nodes").header("Idempotency-Key", key);
        let body = json!({"label": "the user likes tea", "on_duplicate": "merge"});
        request.json(&body).send().await
    };
    for (key, status) in [("one", 201), ("two", 200), ("one", 201), ("two", 200)] {
        let response = merge(key).await;
        assert_eq!(response.status, status, "{key}: {}", response.body);
    }
}
