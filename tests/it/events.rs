//! The event stream lists all events in the same order on every node. It resumes after any event,
//! or rejects the request.

use super::*;

#[tokio::test]
async fn events_are_streamed_in_order_on_every_node() {
    let cluster = options().nodes(3).start();
    let mut streams = Vec::new();
    for at in 0..3 {
        streams.push(Stream::ready(cluster.at(at), "", None).await.0);
    }
    let notify = json!({"event": "on_store", "action": "notify", "filter_label_pattern": "fox"});
    cluster.post("/triggers", &notify).await;
    let fox = cluster.create(&json!({"label": "red fox", "namespace": "zoo"})).await;
    let sea = cluster.create(&json!({"label": "blue sea"})).await;
    let path = format!("/agent/nodes/{}", id(&fox));
    cluster.patch(&path, &json!({"is_pinned": true})).await;
    let edge = json!({"source_id": fox["id"], "target_id": sea["id"], "relation": "near"});
    cluster.post("/agent/graph/relate", &edge).await;
    cluster.post("/feedback", &json!({"node_id": sea["id"], "signal": "wrong"})).await;
    cluster.delete(&path).await;
    let expected = ["created", "fired", "created", "updated", "related", "feedback", "deleted"];
    let mut first = Vec::new();
    for (at, stream) in streams.iter_mut().enumerate() {
        let events = stream.take(expected.len()).await;
        let kinds: Vec<_> = events.iter().map(|event| event.kind.as_str()).collect();
        assert_eq!(kinds, expected);
        let ids: Vec<_> = events.iter().map(|event| event.id.clone()).collect();
        if at == 0 {
            first.clone_from(&ids);
        }
        assert_eq!(ids, first, "ids are equal on all nodes");
        let created = &events[0].data;
        let expected = json!({
            "id": events[0].id, "node_id": fox["id"], "namespace": "zoo", "actor": "admin",
        });
        assert_fields(created, expected);
        assert_eq!(events[1].data["metadata"]["trigger_action"], "notify");
        assert_eq!(events[3].data["metadata"]["fields"], json!(["is_pinned"]));
        assert_eq!(events[4].data["metadata"]["other_id"], sea["id"]);
    }
    // Another node resumes after the third event.
    converged(&cluster).await;
    let (mut later, _) = Stream::ready(cluster.at(2), "", Some(&first[2])).await;
    let ids: Vec<_> = later.take(4).await.into_iter().map(|event| event.id).collect();
    assert_eq!(ids, first[3..]);
    let (mut by_query, _) =
        Stream::ready(cluster.at(1), &format!("?last_event_id={}", first[5]), None).await;
    assert_eq!(by_query.expect().await.id, first[6]);
    let query = "?kind=created,deleted&namespace=zoo";
    let (mut filtered, _) = Stream::ready(cluster.at(0), query, Some(&beginning(&first[0]))).await;
    for at in [0, 6] {
        assert_eq!(filtered.expect().await.id, first[at]);
    }
}

/// The id before all events of the cluster that an id belongs to.
fn beginning(id: &str) -> String {
    format!("{}.0.0.0", id.split('.').next().unwrap())
}

#[tokio::test]
async fn invalid_stream_requests_are_rejected() {
    let cluster = options().start();
    let ready = Stream::ready(&cluster, "", None).await.1.id;
    let from =
        |last: &str| cluster.request(Method::GET, "/events").header("Last-Event-ID", last).send();
    for last in ["x", "1.2.3", &format!("{ready}.4"), &ready.replace('.', ":")] {
        from(last).await.assert_invalid("Last-Event-ID");
    }
    let other_cluster = format!("{}.0.1.1", "0".repeat(32));
    from(&other_cluster).await.assert_error(409, "other_cluster");
    let unknown_kind = cluster.request(Method::GET, "/events?kind=created,born");
    unknown_kind.send().await.assert_invalid("kind");
    let response = cluster.bare_request(Method::GET, "/api/v1/events").send().await;
    assert_eq!(response.status, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn stream_waits_for_a_cursor_ahead() {
    let cluster = options().start();
    let (mut stream, ready) = Stream::ready(&cluster, "", None).await;
    let ready = ready.id;
    let mut parts = ready.split('.');
    let [name, group, index] = [(); 3].map(|()| parts.next().unwrap());
    let ahead = format!("{name}.{group}.{}.0", index.parse::<u64>().unwrap() + 3);
    let (mut waiting, _) = Stream::ready(cluster.at(0), "", Some(&ahead)).await;
    cluster.store_each((0..8).map(labelled)).await;
    let passed = stream.take(8).await;
    let cursor = |id: &str| {
        let mut parts = id.split('.').skip(1).map(|part| part.parse::<u64>().unwrap());
        (parts.next().unwrap(), parts.next().unwrap())
    };
    let expected = passed.iter().find(|event| cursor(&event.id) > cursor(&ahead)).unwrap();
    assert_eq!(waiting.expect().await.id, expected.id);
}

#[tokio::test]
async fn streams_obey_access_rules_and_key_deletion() {
    let cluster = options().start();
    let key = cluster.post("/keys", &json!({"name": "outsider", "role": "reader"})).await;
    let mut stream = Stream::of(cluster.request_as(&key, Method::GET, "/events")).await.unwrap();
    assert_eq!(stream.expect().await.kind, "ready");
    let mut next = async |label: &str| {
        let mut event = stream.expect().await;
        while event.kind == "checkpoint" {
            event = stream.expect().await;
        }
        assert_eq!((&*event.kind, &event.data["label"]), ("created", &json!(label)));
    };
    cluster.create(&json!({"label": "first", "namespace": "sealer"})).await;
    next("first").await;
    // A new rule applies to open streams too.
    let rule = json!({"agent_id": "outsider", "namespace": "sealer", "policy": "deny"});
    cluster.post("/namespaces/acl", &rule).await;
    cluster.create(&json!({"label": "second", "namespace": "sealer"})).await;
    cluster.create(&json!({"label": "third", "namespace": "open"})).await;
    next("third").await;
    cluster.delete(&format!("/keys/{}", id(&key))).await;
    // The stream ends without another event.
    while let Some(event) = stream.try_next().await.unwrap() {
        assert_ne!(event.kind, "created");
    }
}
