//! Attacks with triggers: expensive patterns, and labels that almost contain them.

use std::time::{Duration, Instant};

use futures::{StreamExt, stream};

use super::attacker::{assert_creates_served, assert_served, latency};
use super::*;

/// Triggers whose patterns occur in no label, and are expensive to exclude.
const TRIGGERS: usize = 2_000;

#[tokio::test]
async fn expensive_patterns_delay_no_writes() {
    let cluster = options().start();
    // The label contains each group of bytes of a pattern, and 400 of its 450 pairs.
    let pattern = |at: usize| format!("{}c{}", "ab".repeat(450), "ab".repeat(1 + at % 40));
    let label = format!("{}c", "ab".repeat(400)).repeat(75);
    let triggers = (0..TRIGGERS).map(|at| {
        let trigger = json!({"name": format!("trigger {at}"), "event": "on_store",
            "filter_label_pattern": pattern(at), "action": "pin"});
        cluster.request(Method::POST, "/triggers").json(&trigger).send()
    });
    stream::iter(triggers).buffer_unordered(32).collect::<Vec<_>>().await;
    let nodes = vec![labelled(label); 8];
    let body = json!({"nodes": nodes});
    assert_creates_served(&cluster, 4, ("/agent/nodes/batch", &body)).await;
    // Evaluations beyond the limit of a command are counted.
    let activity = cluster.get("/activity?limit=100").await;
    let skipped = |item: &&Value| item["action"] == "trigger.skip";
    assert!(array(&activity["items"]).iter().any(|item| skipped(&item)), "{activity}");
}

/// Notifications in a response are bounded in bytes. All are in the trigger history.
#[tokio::test]
async fn long_notifications_do_not_delay_writes() {
    let cluster = options().start();
    let hostile = cluster.post("/keys", &json!({"name": "hostile", "role": "agent"})).await;
    let create = || cluster.request(Method::POST, "/agent/nodes").json(&labelled("honest"));
    let quiet = latency(create).await;
    let message = format!("{{label}}{}", "\u{1}".repeat(1_000));
    let triggers = (0..500).map(|at| {
        let trigger = json!({"name": format!("trigger {at}"), "event": "on_store",
            "action": "notify", "action_config": {"message": message}});
        cluster.request_as(&hostile, Method::POST, "/triggers").json(&trigger).send()
    });
    stream::iter(triggers).buffer_unordered(32).collect::<Vec<_>>().await;
    let created = create().send().await.ok();
    let notifications = array(&created["trigger_notifications"]).len();
    assert!((1..=65).contains(&notifications), "{notifications}");
    assert_served(quiet, latency(create).await);
}

/// Of the triggers of one key, some fire on an event. The label grows by their tags, and is indexed
/// once.
#[tokio::test]
async fn many_triggers_of_one_key_delay_no_writes() {
    let cluster = options().nodes(3).start();
    let hostile = cluster.post("/keys", &json!({"name": "hostile", "role": "agent"})).await;
    let create = || cluster.request(Method::POST, "/agent/nodes").json(&labelled("honest"));
    let quiet = latency(create).await;
    let triggers = (0..500).map(|at| {
        let trigger = json!({"event": "on_store", "action": "tag",
            "action_config": {"label": format!("tag{at}")}});
        cluster.request_as(&hostile, Method::POST, "/triggers").json(&trigger).send()
    });
    stream::iter(triggers).buffer_unordered(32).collect::<Vec<_>>().await;
    let created = create().send().await.ok();
    assert_eq!(string(&created["label"]).matches('#').count(), 32);
    assert_served(quiet, latency(create).await);
    let activity = cluster.get("/activity?limit=1").await;
    assert_fields(&activity["items"][0], json!({"action": "trigger.skip"}));
}

/// Searches of a key whose results fire many triggers wait for their firings, not those of others.
#[tokio::test]
async fn firings_of_one_key_delay_no_recalls() {
    let cluster = options().start();
    for at in 0..4 {
        let nodes: Vec<_> = (0..50).map(|i| labelled(format!("word {at} {i}"))).collect();
        cluster.post("/agent/nodes/batch", &json!({"nodes": nodes})).await;
    }
    let hostile = cluster.post("/keys", &json!({"name": "hostile", "role": "agent"})).await;
    let config = json!({"message": "{label}".repeat(500)});
    let trigger = json!({"event": "on_recall", "action": "notify", "action_config": config});
    for _ in 0..20 {
        cluster.request_as(&hostile, Method::POST, "/triggers").json(&trigger).send().await.ok();
    }
    // Each search would fire all of them.
    let one_more = cluster.request_as(&hostile, Method::POST, "/triggers").json(&trigger);
    one_more.send().await.assert_error(409, "too_many");
    let honest = json!({"event": "on_recall", "action": "notify", "filter_label_pattern": "tea"});
    let honest = create_trigger(&cluster, &honest).await;
    let tea = cluster.store(&labelled("tea")).await;
    for _ in 0..20 {
        let search = json!({"query": "word", "limit": 100});
        cluster.request_as(&hostile, Method::POST, "/agent/search").json(&search).send().await.ok();
    }
    // The hostile triggers fire for this result, too.
    let started = Instant::now();
    cluster.post("/agent/search", &json!({"query": "tea", "limit": 5})).await;
    let read = async || cluster.get(&format!("/agent/nodes/{tea}")).await["recall_count"].clone();
    eventually("the recall counts", read, |count| *count == 1).await;
    let fired = async || cluster.get("/triggers").await["items"].clone();
    let count = |items: &Value| {
        let found = array(items).iter().find(|it| it["id"] == honest["id"]).cloned();
        found.is_some_and(|it| it["fire_count"] == 1)
    };
    eventually("the honest trigger fires", fired, count).await;
    assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
}

/// A report of recalls has room for some firings. The rest waits for later reports.
#[tokio::test]
async fn firings_on_recall_do_not_delay_writes() {
    let cluster = options().start();
    for at in 0..20 {
        let nodes: Vec<_> = (0..50).map(|i| labelled(format!("word {at} {i}"))).collect();
        cluster.post("/agent/nodes/batch", &json!({"nodes": nodes})).await;
    }
    create_trigger(&cluster, &json!({"event": "on_recall", "action": "notify"})).await;
    let search = json!({"query": "word", "limit": 100});
    assert_creates_served(&cluster, 8, ("/agent/search", &search)).await;
    let history = async || cluster.get("/triggers/history").await;
    let has_fired = |history: &Value| !array(&history["items"]).is_empty();
    eventually("the trigger fires", history, has_fired).await;
}
