//! Attacks with triggers: expensive patterns, and labels that almost contain them.

use futures::{StreamExt, stream};

use super::attacker::assert_creates_served;
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
    assert_creates_served(&cluster, 8, ("/agent/nodes/batch", &body)).await;
    // Evaluations beyond the limit of a command are counted.
    let activity = cluster.get("/activity?limit=100").await;
    let skipped = |item: &&Value| item["action"] == "trigger.skip";
    assert!(array(&activity["items"]).iter().any(|item| skipped(&item)), "{activity}");
}
