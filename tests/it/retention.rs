//! Rules of retention are read, replaced and tried out over HTTP. storage/tests/retention.rs applies
//! them.

use super::*;

async fn put(node: &Node, rules: &Value) -> Response {
    node.send(Method::PUT, "/settings/retention", &json!({"rules": rules})).await
}

#[tokio::test]
async fn rules_are_replaced_and_previewed() {
    let cluster = options().nodes(3).start();
    let [leader, rest] = cluster.leader_first().await;
    assert_eq!(leader.get("/settings/retention").await, json!({"rules": []}));
    let rules = json!([
        {"namespace": "logs", "action": "delete", "after_days": 30},
        {"namespace": "*", "memory_type": "moment", "action": "archive", "after_days": 7},
    ]);
    let stored = json!([
        {"namespace": "logs", "memory_type": null, "action": "delete", "after_days": 30},
        {"namespace": null, "memory_type": "moment", "action": "archive", "after_days": 7},
    ]);
    leader.store(&json!({"label": "x", "namespace": "logs"})).await;
    let preview = json!({"rules": rules});
    let preview = leader.post("/settings/retention/preview", &preview).await;
    assert_fields(&preview["rules"][0], json!({"namespace": "logs", "due": 0}));
    assert_eq!(leader.get("/settings/retention").await, json!({"rules": []}));
    assert_eq!(put(rest, &rules).await.ok(), json!({"rules": stored}));
    converged(&cluster).await;
    for node in cluster.nodes() {
        assert_eq!(node.get("/settings/retention").await["rules"], stored);
    }
    assert_eq!(put(rest, &json!([])).await.ok(), json!({"rules": []}));
    converged(&cluster).await;
    assert_equal_states(leader).await;
}

#[tokio::test]
async fn invalid_rules_are_rejected() {
    let cluster = options().start();
    for (rule, field) in [
        (json!({"action": "delete"}), "rules[0].after_days"),
        (json!({"after_days": 3}), "rules[0].action"),
        (json!({"action": "hide", "after_days": 3}), "rules[0].action"),
        (json!({"action": "delete", "after_days": 0}), "rules[0].after_days"),
        (json!({"action": "delete", "after_days": 1, "namespace": " "}), "rules[0].namespace"),
    ] {
        put(&cluster, &json!([rule])).await.assert_invalid(field);
    }
    let rule = json!({"action": "archive", "after_days": 1});
    put(&cluster, &json!(vec![rule.clone(); 101])).await.assert_invalid("rules");
    let agent = cluster.post("/keys", &json!({"name": "agent", "role": "agent"})).await;
    let body = json!({"rules": [rule]});
    let request = cluster.request_as(&agent, Method::PUT, "/settings/retention").json(&body);
    request.send().await.assert_error(403, "forbidden");
}
