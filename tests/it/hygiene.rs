//! `hearth hygiene` and `GET /admin/hygiene` count what spoils memories, show examples, and say what
//! can be done about it.

use super::*;

#[tokio::test]
async fn defects_are_counted_with_remedies() {
    let cluster = options().nodes(3).start();
    let [leader, rest] = cluster.leader_first().await;
    let store = async |label: &str| leader.store(&json!({"label": label})).await;
    store("the port of staging is 5432").await;
    let [exact, near] =
        [store("The port of staging is 5432").await, store("5432 is the port of staging").await];
    store("the port of staging is 5433").await;
    let wrong = store("the moon is made of cheese").await;
    let feedback = json!({"node_id": wrong, "signal": "wrong"});
    leader.post("/feedback", &feedback).await;
    let fact = store("a red fox lives behind the barn").await;
    leader.post("/agent/search", &json!({"query": "red fox barn", "limit": 1})).await;
    let found = async || leader.get(&format!("/agent/nodes/{fact}")).await;
    eventually("the recall counts", found, |found| found["recall_count"] == 1).await;
    let echo = store("a red fox lives behind the barn.").await;
    converged(&cluster).await;
    let report = rest.get("/admin/hygiene").await;
    assert_fields(&report, json!({"examined": 7, "next_cursor": null}));
    let defects = array(&report["defects"]);
    let counts: Vec<_> = defects.iter().map(|it| (&it["defect"], it["count"].as_u64())).collect();
    let expected = [
        ("exact_duplicates", 2),
        ("near_duplicates", 1),
        ("echoes", 1),
        ("contradicted", 1),
        ("never_recalled", 0),
        ("orphans", 0),
    ];
    let named: Vec<_> = counts.iter().map(|(name, count)| (string(name), count.unwrap())).collect();
    assert_eq!(named, expected);
    let example = |at: usize| id(&defects[at]["examples"][0]).to_owned();
    assert_eq!([example(0), example(1), example(2), example(3)], [exact, near, echo, wrong]);
    let all = rest.get("/admin/hygiene?limit=1000").await;
    assert_eq!(array(&all["defects"][0]["examples"]).len(), 2);
    let reader = cluster.post("/keys", &json!({"name": "agent", "role": "agent"})).await;
    let forbidden = cluster.request_as(&reader, Method::GET, "/admin/hygiene").send().await;
    forbidden.assert_error(403, "forbidden");
}

#[tokio::test]
async fn command_prints_the_report_of_a_tenant() {
    let cluster = options().start();
    for label in ["red fox", "Red  fox"] {
        cluster.store(&json!({"label": label})).await;
    }
    let ca = cluster.folder().join("ca.pem");
    let key = cluster.folder().join("key");
    std::fs::write(&key, format!("{}\n", cluster.key)).unwrap();
    let [ca, key] = [&ca, &key].map(|path| path.to_str().unwrap());
    let arguments = ["hygiene", "--url", cluster.url(), "--ca", ca, "--key-file", key];
    let (succeeded, text) = cluster.run(&arguments).await;
    assert!(succeeded, "{text}");
    assert!(text.starts_with("2 memories\n       1  exact duplicates\n"), "{text}");
    assert!(text.contains("Red fox\n            remedy: GET /agent/consolidation"), "{text}");
    std::fs::write(key, "sk-hearth-wrong").unwrap();
    let (succeeded, text) = cluster.run(&arguments).await;
    assert!(!succeeded && text.contains("key"), "{text}");
    let (succeeded, text) = cluster.run(&["hygiene", "--url", "https://127.0.0.1:1"]).await;
    assert!(!succeeded && text.contains("HEARTH_API_KEY"), "{text}");
}
