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
