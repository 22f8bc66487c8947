//! The configuration of a tenant is shown with its defaults, changed per setting, previewed, and
//! in force on every node at the index of the change.

use super::*;

async fn config(node: &Node, index: u64) -> Value {
    let request = node.request(Method::GET, "/settings/thermo");
    request.header("X-Hearth-Min-Index", &index.to_string()).send().await.ok()
}

#[tokio::test]
async fn configuration_shows_defaults_and_merges_changes() {
    let cluster = options().start();
    let before = config(&cluster, 0).await;
    assert_eq!(before["custom"], false);
    assert_eq!(before["config"], before["defaults"]);
    assert_eq!(before["config"]["decay_profiles"]["fact"]["half_life"], 31_536_000);
    assert_eq!(before["config"]["decay_classes"]["permanent"], Value::Null);
    assert_eq!(before["config"]["recall"]["heat_weight"], 0.3);

    let patch = json!({
        "recall": {"heat_weight": 0.5},
        "recall.keyword_weight": 0.2,
        "half_lives": {"episodic": 3600},
        "decay_profiles": {"fact": {"reinforce_on_recall": false}},
        "tick": {"mode": "hybrid"},
    });
    let changed = cluster.patch("/settings/thermo", &patch).await;
    assert_fields(&changed, json!({"ok": true, "ignored": ["tick.mode"]}));
    let after = config(&cluster, 0).await;
    assert_fields(&after, json!({"custom": true, "config": changed["config"]}));
    // An omitted setting is unchanged.
    let recall = json!({"heat_weight": 0.5, "similarity_weight": 0.7});
    assert_fields(&after["config"]["recall"], recall);
    assert_eq!(after["config"]["decay_profiles"]["episodic"]["half_life"], 3600);
    assert_eq!(after["config"]["decay_profiles"]["fact"]["reinforce_on_recall"], false);

    let back = json!({
        "recall": {"heat_weight": null, "keyword_weight": null},
        "half_lives": {"episodic": null},
        "decay_profiles": {"fact": {"reinforce_on_recall": null}},
    });
    cluster.patch("/settings/thermo", &back).await;
    assert_eq!(config(&cluster, 0).await["custom"], false, "null is the default");
    // An absent body changes nothing.
    cluster.request(Method::PATCH, "/settings/thermo").send().await.ok();
}

#[tokio::test]
async fn invalid_settings_are_rejected_without_effect() {
    let cluster = options().start();
    for (patch, field) in [
        (json!({"recall": {"heat_weight": -1}}), "recall.heat_weight"),
        (json!({"recall.heat_weight": "much"}), "recall.heat_weight"),
        (json!({"resonance": {"depth": 1.5}}), "resonance.depth"),
        (json!({"half_lives": {"fact": 0}}), "half_lives.fact"),
        (json!({"decay_classes": {"permanent": 3}}), "decay_classes.permanent"),
        (json!({"recall": {"keyword_weight": 0.5, "heat_weight": 11}}), "recall.heat_weight"),
        (json!({"consolidation": {"cold_threshold": true}}), "consolidation.cold_threshold"),
    ] {
        for (method, path) in
            [(Method::PATCH, "/settings/thermo"), (Method::POST, "/settings/thermo/preview")]
        {
            cluster.send(method, path, &patch).await.assert_invalid(field);
        }
    }
    assert_eq!(config(&cluster, 0).await["custom"], false);
}

#[tokio::test]
async fn change_applies_on_every_node_at_its_index() {
    let cluster = options().nodes(3).start();
    let label = json!({"label": "red fox", "initial_heat": 0.5, "decay_class": "permanent"});
    cluster.create(&label).await;
    for (node, weight) in cluster.nodes().zip([0.1, 0.2, 0.9]) {
        let patch = json!({"recall": {"heat_weight": weight, "similarity_weight": 0}});
        let changed = node.send(Method::PATCH, "/settings/thermo", &patch).await;
        let index = changed.number("x-hearth-index");
        changed.ok();
        for reader in cluster.nodes() {
            let shown = config(reader, index).await;
            assert_eq!(shown["config"]["recall"]["heat_weight"], weight);
            let search = reader.request(Method::POST, "/agent/search");
            let search = search.header("X-Hearth-Min-Index", &index.to_string());
            let hits = search.json(&json!({"query": "", "explain": true})).send().await.ok();
            assert_eq!(hits[0]["explain"]["heat_weight"], weight);
            let (heat, score) = (float(&hits[0]["heat"]), float(&hits[0]["score"]));
            assert!((score - heat * weight).abs() < 1e-5, "{score} {heat}");
        }
    }
}

#[tokio::test]
async fn preview_counts_cold_memories_without_effect() {
    let cluster = options().start();
    cluster.store_each(vec![json!({"label": "x", "memory_type": "episodic"}); 3]).await;
    cluster.store_each(vec![json!({"label": "x", "memory_type": "fact"}); 2]).await;
    cluster.create(&json!({"label": "x", "memory_type": "episodic", "is_pinned": true})).await;
    let proposed = json!({"half_lives": {"fact": 86400}, "decay_profiles": {"fact": {"floor": 0}}});
    let preview = cluster.post("/settings/thermo/preview", &proposed).await;
    assert_eq!(preview["days"], json!([0, 1, 7, 30, 90]));
    let of = |name: &str| {
        let types = array(&preview["types"]);
        types.iter().find(|of_type| of_type["memory_type"] == name).unwrap().clone()
    };
    // An episodic memory of heat 1 is below 0.1 after 3.32 days; a fact stays above its floor.
    assert_fields(&of("episodic"), json!({"total": 4, "cold": [0, 0, 3, 3, 3]}));
    let fact = json!({"cold": [0, 0, 2, 2, 2], "cold_as_configured": [0, 0, 0, 0, 0]});
    assert_fields(&of("fact"), fact);
    assert_fields(&preview, json!({"archived": 0, "archived_as_configured": 0}));
    let at_once = json!({"cold_threshold": 1, "archive_after_days": 0, "active_index_max": 4});
    let proposed = json!({"consolidation": at_once, "half_lives": {"fact": 1, "episodic": 1}});
    let archived = async || cluster.post("/settings/thermo/preview", &proposed).await;
    // Five may be archived, and the hot tier has two above its maximum.
    let all = |preview: &Value| preview["archived"] == 2;
    eventually("all but the pinned one are cold", archived, all).await;
    assert_eq!(config(&cluster, 0).await["custom"], false);
}
