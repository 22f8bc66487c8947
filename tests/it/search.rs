//! Search ranks by the documented formula and explains it. Hot context and hot nodes have their
//! documented orders.

use super::*;

/// The results of a search, a bare array.
async fn search(cluster: &Cluster, body: Value) -> Vec<Value> {
    array(&cluster.post("/agent/search", &body).await).clone()
}

#[tokio::test]
async fn explained_factors_multiply_to_the_score() {
    let cluster = options().start();
    for (label, heat, namespace) in [
        ("the red fox jumps", 0.9, "den"),
        ("a red house", 0.4, "town"),
        ("nothing of the kind", 1.0, "town"),
    ] {
        cluster.create(&json!({"label": label, "heat": heat, "namespace": namespace})).await;
    }
    let request = cluster.request(Method::POST, "/agent/search").header("X-Namespace", "den");
    let body = json!({"query": "red fox", "explain": true, "namespace": "*"});
    let hits = request.json(&body).send().await.ok();
    let hits = array(&hits);
    assert_eq!(labels(hits), ["the red fox jumps", "a red house", "nothing of the kind"]);
    for hit in hits {
        let explain = &hit["explain"];
        let number = |name: &str| float(&explain[name]);
        let product = number("base_score")
            * number("keyword_factor")
            * number("temporal_factor")
            * number("namespace_factor");
        assert!((product - float(&hit["score"])).abs() < 1e-6, "{hit}");
        let base = number("similarity") * number("similarity_weight")
            + number("heat") * number("heat_weight");
        assert!((base - number("base_score")).abs() < 1e-9);
        assert_eq!(number("own") + number("neighbours"), number("keyword_overlap"));
    }
    assert_eq!(hits[0]["explain"]["namespace_boost"], 0.1);
    assert_eq!(hits[1]["explain"]["namespace_boost"], 0.0);
    // Both words, in a text of three that are no stop words.
    let own = 10.0 * (3.0_f64 / 8.0).powf(0.1);
    assert!((float(&hits[0]["explain"]["own"]) - own).abs() < 1e-4, "{}", hits[0]);
    assert_eq!(hits[2]["explain"]["own"], 0.0);
}

#[tokio::test]
async fn searches_leave_out_low_scores() {
    let cluster = options().start();
    for label in ["a red fox", "a blue sea"] {
        cluster.create(&json!({"label": label, "heat": 0.8})).await;
    }
    let all = search(&cluster, json!({"query": "red fox"})).await;
    assert_eq!(labels(&all), ["a red fox", "a blue sea"]);
    let lowest = float(&all[0]["score"]) - 0.1;
    let high = search(&cluster, json!({"query": "red fox", "min_score": lowest})).await;
    assert_eq!(labels(&high), ["a red fox"]);
    let none = search(&cluster, json!({"query": "quarterly tax", "min_score": lowest})).await;
    assert!(none.is_empty(), "{none:?}");
    let wrong = json!({"query": "fox", "min_score": "high"});
    let response = cluster.request(Method::POST, "/agent/search").json(&wrong).send().await;
    response.assert_invalid("min_score");
    assert_eq!(response.body["message"], "must be a number");
}

#[tokio::test]
async fn searches_are_restricted_to_a_time() {
    let cluster = options().start();
    let memory = cluster.create(&json!({"label": "a red fox"})).await;
    let created = string(&memory["created_at"]);
    let day = &created[..10];
    let found = async |from: &str, to: &str| {
        let body = json!({"query": "red fox", "time_from": from, "time_to": to});
        search(&cluster, body).await.len()
    };
    assert_eq!(found(created, created).await, 1);
    assert_eq!(found(day, day).await, 1, "the whole day");
    assert_eq!(found("2020-01-01", "2020-12-31T23:59:59+02:00").await, 0);
    assert_eq!(found(created, "2020-12-31").await, 0);
    let wrong = json!({"query": "fox", "time_from": "last week"});
    let request = cluster.request(Method::POST, "/agent/search");
    request.json(&wrong).send().await.assert_invalid("time_from");
    let today = json!({"query": "what happened today?", "explain": true});
    let hits = search(&cluster, today).await;
    assert_fields(&hits[0], json!({"ranks_first": true}));
    assert_eq!(hits[0]["explain"]["evidence"], "strong", "it was stored then");
    let nothing = search(&cluster, json!({"query": "what happened last year?"})).await;
    assert!(nothing[0].get("ranks_first").is_none(), "{nothing:?}");
    for (query, evidence) in [
        ("a red fox", Some("strong")),
        ("what happened last year?", Some("none")),
        ("quarterly tax returns of the subsidiary", Some("none")),
        (" ", None),
    ] {
        let request = cluster.request(Method::POST, "/agent/search");
        let response = request.json(&json!({"query": query})).send().await;
        let found = response.headers.get("x-hearth-evidence").and_then(|it| it.to_str().ok());
        assert_eq!(found, evidence, "{query}");
    }
}

#[tokio::test]
async fn searches_filter_and_clamp_their_limits() {
    let cluster = options().start();
    for at in 0..5 {
        let kind = if at < 2 { "fact" } else { "semantic" };
        let memory = json!({
            "label": format!("thing {at}"), "memory_type": kind, "heat": 0.1 * f64::from(at),
            "namespace": if at == 4 { "other" } else { "main" },
        });
        cluster.create(&memory).await;
    }
    let by_heat = search(&cluster, json!({"query": "", "limit": 2})).await;
    assert_eq!(labels(&by_heat), ["thing 4", "thing 3"]);
    assert_eq!(search(&cluster, json!({"query": "thing", "limit": 1000})).await.len(), 5);
    assert_eq!(search(&cluster, json!({"query": "thing", "memory_type": "fact"})).await.len(), 2);
    assert_eq!(search(&cluster, json!({"query": "thing", "namespace": "other"})).await.len(), 1);
    assert_eq!(search(&cluster, json!({"query": "thing", "tier": "cold"})).await.len(), 0);
    assert_eq!(search(&cluster, json!({"query": "thing", "tier": "all"})).await.len(), 5);
}

#[tokio::test]
async fn time_in_a_query_boosts_matching_memories() {
    let cluster = options().start();
    cluster.create(&json!({"label": "red fox"})).await;
    let explained = async |query: &str| {
        let hits = search(&cluster, json!({"query": query, "explain": true})).await;
        hits[0]["explain"].clone()
    };
    let today = explained("the red fox of today").await;
    assert_fields(&today, json!({"temporal_boost": 0.4, "temporal_factor": 1.4}));
    assert_eq!(today["temporal_window"]["reference"], "today");
    let before = explained("the red fox").await;
    assert_eq!(today["own"], before["own"], "a word of a time that no memory has is not missed");
    let before = explained("red fox, 7 days ago").await;
    let boost = float(&before["temporal_boost"]);
    // Some six to seven days after that day's end.
    assert!((0.19..0.23).contains(&boost), "{before}");
    assert_eq!(explained("red fox").await["temporal_window"], Value::Null);
}

#[tokio::test]
async fn days_begin_at_midnight_of_the_caller() {
    let cluster = options().start();
    cluster.create(&json!({"label": "red fox"})).await;
    let window = async |zone: &str| {
        let body = json!({"query": "the red fox of today", "explain": true});
        let request = cluster.request(Method::POST, "/agent/search").header("X-Timezone", zone);
        let hits = request.json(&body).send().await.ok();
        string(&hits[0]["explain"]["temporal_window"]["start"]).to_owned()
    };
    assert!(window("UTC").await.ends_with("T00:00:00Z"));
    assert!(window("Asia/Tokyo").await.ends_with("T15:00:00Z"));
    for path in ["/agent/search", "/agent/context"] {
        let request = cluster.request(Method::POST, path).header("X-Timezone", "Mars");
        request.json(&json!({"query": "fox"})).send().await.assert_invalid("X-Timezone");
    }
    let request = cluster.request(Method::GET, "/agent/nodes").header("X-Timezone", "Mars");
    request.send().await.assert_invalid("X-Timezone");
}

#[tokio::test]
async fn words_of_unspaced_scripts_are_found() {
    let cluster = options().start();
    let words = [
        ("京都", "東京都に住んでいます"),
        ("서울", "나는 서울에 살아요"),
        ("咖啡", "我喜欢编程和咖啡"),
        ("größe", "Größe zählt"),
    ];
    cluster.store_each(words.map(|(_, label)| labelled(label))).await;
    for (word, label) in words {
        let query = json!({"query": word, "limit": 1, "explain": true});
        let hits = search(&cluster, query).await;
        let overlap = float(&hits[0]["explain"]["own"]);
        assert_eq!((labels(&hits), overlap > 8.0), (vec![label], true), "{word}");
    }
}

#[tokio::test]
async fn hot_context_fits_its_budget_and_is_nonempty() {
    let cluster = options().start();
    for (label, heat) in [("four", 0.9), ("sixsix", 0.8), ("two", 0.7)] {
        cluster.create(&json!({"label": label, "heat": heat})).await;
    }
    let load = async |budget: u64| {
        let hot = cluster.post("/agent/hot-context", &json!({"budget_chars": budget})).await;
        labels(array(&hot)).len()
    };
    assert_eq!((load(1).await, load(4).await, load(9).await), (1, 1, 1));
    assert_eq!((load(10).await, load(13).await), (2, 3));
    let patch = json!({"active_index": {"context_budget_chars": 10, "max_nodes": 1}});
    cluster.patch("/settings/thermo", &patch).await;
    assert_eq!(load(100).await, 1, "the configuration limits the count");
}

#[tokio::test]
async fn hot_context_orders_by_pin_and_heat() {
    let cluster = options().start();
    for (label, heat, pinned) in
        [("cool pinned", 0.1, true), ("hot", 0.9, false), ("warm pinned", 0.5, true)]
    {
        cluster.create(&json!({"label": label, "heat": heat, "is_pinned": pinned})).await;
    }
    let context = cluster.request(Method::POST, "/agent/hot-context").send().await.ok();
    assert_eq!(labels(array(&context)), ["warm pinned", "cool pinned", "hot"]);
    let nodes = cluster.get("/agent/hot_nodes?limit=2").await;
    assert_eq!(labels(array(&nodes)), ["hot", "warm pinned"]);
}
