//! A tenant's configuration: shown beside the defaults, changed setting by setting, tried
//! out beforehand, and in force on every node at once.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tests::At;

use crate::options;

async fn config(node: &At<'_>, index: u64) -> Value {
    let ask = node.ask(Method::GET, "/settings/thermo");
    ask.header("X-Hearth-Min-Index", &index.to_string()).send().await.ok()
}

#[tokio::test]
async fn the_configuration_is_shown_with_its_defaults_and_changed_deeply() {
    let cluster = options().start();
    let before = config(&cluster.at(0), 0).await;
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
    let changed = cluster.ask(Method::PATCH, "/settings/thermo").json(&patch).send().await.ok();
    assert_eq!((&changed["ok"], &changed["ignored"]), (&json!(true), &json!(["tick.mode"])));
    let after = config(&cluster.at(0), 0).await;
    assert_eq!(after["custom"], true);
    assert_eq!(after["config"], changed["config"]);
    assert_eq!(after["config"]["recall"]["heat_weight"], 0.5);
    assert_eq!(after["config"]["recall"]["similarity_weight"], 0.7, "what is not named stays");
    assert_eq!(after["config"]["decay_profiles"]["episodic"]["half_life"], 3600);
    assert_eq!(after["config"]["decay_profiles"]["fact"]["reinforce_on_recall"], false);

    let back = json!({
        "recall": {"heat_weight": null, "keyword_weight": null},
        "half_lives": {"episodic": null},
        "decay_profiles": {"fact": {"reinforce_on_recall": null}},
    });
    cluster.ask(Method::PATCH, "/settings/thermo").json(&back).send().await.ok();
    assert_eq!(config(&cluster.at(0), 0).await["custom"], false, "null is the default");
    // An absent body changes nothing.
    cluster.ask(Method::PATCH, "/settings/thermo").send().await.ok();
}

#[tokio::test]
async fn what_is_out_of_range_is_refused_by_its_name_and_nothing_is_changed() {
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
            let refused = cluster.ask(method, path).json(&patch).send().await;
            assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{patch}");
            assert_eq!(refused.body["field"], field, "{}", refused.body);
        }
    }
    assert_eq!(config(&cluster.at(0), 0).await["custom"], false);
}

#[tokio::test]
async fn a_change_is_in_force_on_every_node_at_its_index() {
    let cluster = options().nodes(3).start();
    let label = json!({"label": "red fox", "initial_heat": 0.5, "decay_class": "permanent"});
    cluster.create(&label).await;
    for (node, weight) in cluster.nodes().zip([0.1, 0.2, 0.9]) {
        let patch = json!({"recall": {"heat_weight": weight, "similarity_weight": 0}});
        let changed = node.ask(Method::PATCH, "/settings/thermo").json(&patch).send().await;
        let index = changed.number("x-hearth-index");
        changed.ok();
        for reader in cluster.nodes() {
            let shown = config(&reader, index).await;
            assert_eq!(shown["config"]["recall"]["heat_weight"], weight);
            let search = reader.ask(Method::POST, "/agent/search");
            let search = search.header("X-Hearth-Min-Index", &index.to_string());
            let hits = search.json(&json!({"query": "", "explain": true})).send().await.ok();
            assert_eq!(hits[0]["explain"]["heat_weight"], weight);
            let heat = hits[0]["heat"].as_f64().unwrap();
            let score = hits[0]["score"].as_f64().unwrap();
            assert!((score - heat * weight).abs() < 1e-5, "{score} {heat}");
        }
    }
}

#[tokio::test]
async fn a_preview_counts_what_would_be_cold_and_changes_nothing() {
    let cluster = options().start();
    for (memory_type, count) in [("episodic", 3), ("fact", 2)] {
        for _ in 0..count {
            cluster.create(&json!({"label": "x", "memory_type": memory_type})).await;
        }
    }
    let pinned = json!({"label": "x", "memory_type": "episodic", "is_pinned": true});
    cluster.create(&pinned).await;
    let preview = cluster.ask(Method::POST, "/settings/thermo/preview");
    let proposed = json!({"half_lives": {"fact": 86400}, "decay_profiles": {"fact": {"floor": 0}}});
    let preview = preview.json(&proposed).send().await.ok();
    assert_eq!(preview["days"], json!([0, 1, 7, 30, 90]));
    let of = |name: &str| {
        let types = preview["types"].as_array().unwrap();
        types.iter().find(|of_type| of_type["memory_type"] == name).unwrap().clone()
    };
    // An episodic memory of heat 1 is below 0.1 after 3.32 days; a fact stays above its floor.
    let episodic = json!([0, 0, 3, 3, 3]);
    assert_eq!((&of("episodic")["total"], &of("episodic")["cold"]), (&json!(4), &episodic));
    assert_eq!(of("fact")["cold"], json!([0, 0, 2, 2, 2]));
    assert_eq!(of("fact")["cold_as_configured"], json!([0, 0, 0, 0, 0]));
    assert_eq!(config(&cluster.at(0), 0).await["custom"], false);
}
