//! Feedback changes heat and stability as documented, and `wrong` flags the memory.

use super::*;

async fn stored(cluster: &Cluster, heat: f64) -> String {
    let memory = json!({"label": "x", "initial_heat": heat, "decay_class": "permanent"});
    cluster.store(&memory).await
}

#[tokio::test]
async fn each_signal_changes_heat_and_stability() {
    let cluster = options().start();
    for (signal, heat, stability) in [
        ("relevant", 0.6, 1.0),
        ("irrelevant", 0.15, 1.0),
        ("outdated", 0.01, 1.0),
        ("wrong", 0.5, 1.0),
    ] {
        let id = stored(&cluster, 0.5).await;
        let given = json!({"node_id": id, "signal": signal});
        let given = cluster.post("/feedback", &given).await;
        assert_fields(&given, json!({"ok": true, "node_id": id}));
        assert_near(&given["heat_before"], 0.5);
        assert_near(&given["heat_after"], heat);
        assert_near(&given["stability_before"], 1.0);
        assert_near(&given["stability_after"], stability);
        let found = cluster.get(&format!("/agent/nodes/{id}")).await;
        assert_near(&found["heat"], heat);
        assert_near(&found["stability"], stability);
        assert_eq!(found["flagged_for_review"], signal == "wrong");
        assert!(found["updated_at"].as_str() > found["created_at"].as_str());
    }
    let flagged = cluster.get("/agent/nodes?flagged=true").await;
    assert_eq!(flagged["total"], 1);
}

/// A use returns a memory from the cold tier. One that another memory replaces stays there, as warm as it is.
#[tokio::test]
async fn relevant_returns_what_is_archived() {
    let cluster = options().start();
    let at_once = json!({"archive_after_days": 0, "active_index_max": 0});
    let patch = json!({"tick": {"interval": 1}, "consolidation": at_once});
    cluster.patch("/settings/thermo", &patch).await;
    let store =
        async |label: &str| cluster.store(&json!({"label": label, "initial_heat": 0.05})).await;
    let (held, replaced) = (store("the port is 9090").await, store("the port is 5432").await);
    let new = json!({"label": "the port is 80", "initial_heat": 0.9, "supersedes": replaced});
    cluster.store(&new).await;
    let archive = async || cluster.get("/agent/archive").await;
    eventually("both are archived", archive, |archive| archive["total"] == 2).await;
    let patch = json!({"consolidation": {"archive_after_days": 30}});
    cluster.patch("/settings/thermo", &patch).await;
    let rate = async |id: &str, signal: &str| {
        cluster.post("/feedback", &json!({"node_id": id, "signal": signal})).await
    };
    for id in [&held, &replaced] {
        assert_eq!(rate(id, "irrelevant").await["tier"], "cold", "it stays");
    }
    let given = rate(&held, "relevant").await;
    assert_eq!(given["tier"], "hot");
    assert_near(&given["heat_after"], 0.44);
    let given = rate(&replaced, "relevant").await;
    assert_fields(&given, json!({"tier": "cold", "heat_after": given["heat_before"]}));
}

#[tokio::test]
async fn invalid_feedback_is_rejected_by_field() {
    let cluster = options().start();
    let id = stored(&cluster, 0.5).await;
    for (body, field) in [
        (json!({"signal": "relevant"}), "node_id"),
        (json!({"node_id": "x", "signal": "relevant"}), "node_id"),
        (json!({"node_id": id}), "signal"),
        (json!({"node_id": id, "signal": "boring"}), "signal"),
    ] {
        cluster.assert_rejected("/feedback", &body, field).await;
    }
    let absent = json!({"node_id": "01936d5e-0000-7000-8000-000000000000", "signal": "wrong"});
    cluster.send(Method::POST, "/feedback", &absent).await.assert_error(404, "not_found");
    let in_path = format!("/agent/nodes/{id}/feedback");
    cluster.post(&in_path, &json!({"signal": "relevant"})).await;
}
