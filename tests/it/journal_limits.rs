//! The journal is bounded in bytes. What it loses are not the firings of triggers.

use super::*;

#[tokio::test]
async fn activities_do_not_push_out_firings() {
    if cfg!(not(feature = "failpoints")) {
        return;
    }
    let cluster = options().env("FAILPOINTS", "journal-bytes-max=return(4000)").start();
    let trigger = json!({
        "event": "on_store", "action": "boost", "action_config": {"boost": 0.1},
        "filter_label_pattern": "rare",
    });
    cluster.post("/triggers", &trigger).await;
    cluster.store(&labelled("a rare memory")).await;
    for number in 0..40 {
        let activity = json!({"action": "thought", "target_label": "x".repeat(200 + number)});
        cluster.post("/activity", &activity).await;
    }
    let activities = async || array(&cluster.get("/activity?limit=100").await["items"]).len();
    // The journal is trimmed once per minute.
    within(2 * PATIENCE, "the journal is trimmed", activities, |count| *count < 25).await;
    assert!(activities().await > 5);
    let history = cluster.get("/triggers/history").await;
    assert_eq!(array(&history["items"]).len(), 1, "{history}");
}

/// A purge empties events. What they no longer need is free for the history of others.
#[tokio::test]
async fn purged_events_leave_room() {
    if cfg!(not(feature = "failpoints")) {
        return;
    }
    let cluster = options().env("FAILPOINTS", "journal-bytes-max=return(20000)").start();
    let key = cluster.post("/keys", &json!({"name": "leaver", "role": "agent"})).await;
    let activity = json!({"action": "thought", "target_label": "x".repeat(250)});
    for _ in 0..50 {
        let request = cluster.request_as(&key, Method::POST, "/activity");
        request.json(&activity).send().await.ok();
    }
    cluster.post("/admin/purge", &json!({"agent": "leaver"})).await;
    for _ in 0..30 {
        cluster.post("/activity", &activity).await;
    }
    let message = "x".repeat(400);
    let trigger = json!({
        "event": "on_store", "action": "notify", "action_config": {"message": message},
    });
    cluster.post("/triggers", &trigger).await;
    cluster.store_each((0..70).map(labelled)).await;
    // The journal is trimmed once per minute, each part for itself.
    let firings = async || array(&cluster.get("/triggers/history?limit=200").await["items"]).len();
    within(2 * PATIENCE, "the firings are trimmed", firings, |count| *count < 70).await;
    let (mut live, mut cursor) = (0, String::new());
    loop {
        let page = cluster.get(&format!("/activity?limit=100{cursor}")).await;
        live += array(&page["items"]).iter().filter(|it| it["action"] == "thought").count();
        let Some(next) = page["next_cursor"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    assert_eq!(live, 30);
}
