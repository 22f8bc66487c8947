//! Feedback moves heat and stability as the interface says, and `wrong` flags.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tests::Cluster;

use crate::options;

async fn stored(cluster: &Cluster, heat: f64) -> String {
    let memory = json!({"label": "x", "initial_heat": heat, "decay_class": "permanent"});
    cluster.create(&memory).await["id"].as_str().unwrap().to_owned()
}

async fn said(cluster: &Cluster, id: &str, signal: &str) -> Value {
    let ask = cluster.ask(Method::POST, "/feedback");
    ask.json(&json!({"node_id": id, "signal": signal})).send().await.ok()
}

fn near(value: &Value, expected: f64) {
    assert!((value.as_f64().unwrap() - expected).abs() < 1e-5, "{value} is not {expected}");
}

#[tokio::test]
async fn each_signal_does_what_it_says_and_tells_before_and_after() {
    let cluster = options().start();
    for (signal, heat, stability) in [
        ("relevant", 0.6, 1.25),
        ("irrelevant", 0.15, 1.0),
        ("outdated", 0.01, 1.0),
        ("wrong", 0.5, 1.0),
    ] {
        let id = stored(&cluster, 0.5).await;
        let done = said(&cluster, &id, signal).await;
        assert_eq!((&done["ok"], &done["node_id"]), (&json!(true), &json!(id)));
        near(&done["heat_before"], 0.5);
        near(&done["heat_after"], heat);
        near(&done["stability_before"], 1.0);
        near(&done["stability_after"], stability);
        let found = cluster.ask(Method::GET, &format!("/agent/nodes/{id}")).send().await.ok();
        near(&found["heat"], heat);
        near(&found["stability"], stability);
        assert_eq!(found["flagged_for_review"], signal == "wrong");
        assert!(found["updated_at"].as_str() > found["created_at"].as_str());
    }
    let flagged = cluster.ask(Method::GET, "/agent/nodes?flagged=true").send().await.ok();
    assert_eq!(flagged["total"], 1);
}

#[tokio::test]
async fn bad_feedback_is_refused_by_name() {
    let cluster = options().start();
    let id = stored(&cluster, 0.5).await;
    for (body, field) in [
        (json!({"signal": "relevant"}), "node_id"),
        (json!({"node_id": "x", "signal": "relevant"}), "node_id"),
        (json!({"node_id": id}), "signal"),
        (json!({"node_id": id, "signal": "boring"}), "signal"),
    ] {
        let refused = cluster.ask(Method::POST, "/feedback").json(&body).send().await;
        assert_eq!(
            (refused.status, &refused.body["field"]),
            (StatusCode::BAD_REQUEST, &json!(field))
        );
    }
    let nobody = json!({"node_id": "01936d5e-0000-7000-8000-000000000000", "signal": "wrong"});
    let missing = cluster.ask(Method::POST, "/feedback").json(&nobody).send().await;
    assert_eq!(missing.status, StatusCode::NOT_FOUND);
    let in_path = format!("/agent/nodes/{id}/feedback");
    cluster.ask(Method::POST, &in_path).json(&json!({"signal": "relevant"})).send().await.ok();
}
