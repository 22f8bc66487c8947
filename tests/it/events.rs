//! The event stream: what happens, in order, on whichever node it is read; it goes on after any
//! event, and tells when it cannot.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tests::{Cluster, Stream};

use crate::cluster::settled;
use crate::options;

async fn open(cluster: &Cluster, at: usize, query: &str, last: Option<&str>) -> Stream {
    let stream = Stream::open(&cluster.at(at), query, last).await;
    stream.unwrap_or_else(|rejection| panic!("{rejection:?}"))
}

#[tokio::test]
async fn what_happens_is_streamed_in_order_on_every_node() {
    let cluster = options().nodes(3).start();
    let mut streams = Vec::new();
    for at in 0..3 {
        let mut stream = open(&cluster, at, "", None).await;
        assert_eq!(stream.expect().await.kind, "ready");
        streams.push(stream);
    }
    let notify = json!({"event": "on_store", "action": "notify", "filter_label_pattern": "fox"});
    cluster.ask(Method::POST, "/triggers").json(&notify).send().await.ok();
    let fox = cluster.create(&json!({"label": "red fox", "namespace": "zoo"})).await;
    let sea = cluster.create(&json!({"label": "blue sea"})).await;
    let path = format!("/agent/nodes/{}", fox["id"].as_str().unwrap());
    cluster.ask(Method::PATCH, &path).json(&json!({"is_pinned": true})).send().await.ok();
    let edge = json!({"source_id": fox["id"], "target_id": sea["id"], "relation": "near"});
    cluster.ask(Method::POST, "/agent/graph/relate").json(&edge).send().await.ok();
    let judged = json!({"node_id": sea["id"], "signal": "wrong"});
    cluster.ask(Method::POST, "/feedback").json(&judged).send().await.ok();
    cluster.ask(Method::DELETE, &path).send().await.ok();
    let expected = ["created", "fired", "created", "updated", "related", "feedback", "deleted"];
    let mut first = Vec::new();
    for (at, stream) in streams.iter_mut().enumerate() {
        let mut events = Vec::new();
        for _ in expected {
            events.push(stream.expect().await);
        }
        let kinds: Vec<_> = events.iter().map(|event| event.kind.as_str()).collect();
        assert_eq!(kinds, expected);
        let ids: Vec<_> = events.iter().map(|event| event.id.clone()).collect();
        if at == 0 {
            first = ids;
        } else {
            assert_eq!(ids, first, "ids name the same places on all nodes");
        }
        let created = &events[0].data;
        assert_eq!(
            (&created["node_id"], &created["namespace"], &created["actor"]),
            (&fox["id"], &json!("zoo"), &json!("admin"))
        );
        assert_eq!(created["id"], events[0].id.as_str());
        assert_eq!(events[1].data["metadata"]["trigger_action"], "notify");
        assert_eq!(events[3].data["metadata"]["fields"], json!(["is_pinned"]));
        assert_eq!(events[4].data["metadata"]["other_id"], sea["id"]);
    }
    // Another node goes on after the third.
    settled(&cluster).await;
    let mut later = open(&cluster, 2, "", Some(&first[2])).await;
    assert_eq!(later.expect().await.kind, "ready");
    for id in &first[3..] {
        assert_eq!(&later.expect().await.id, id);
    }
    let mut by_query = open(&cluster, 1, &format!("?last_event_id={}", first[5]), None).await;
    assert_eq!(by_query.expect().await.kind, "ready");
    assert_eq!(by_query.expect().await.id, first[6]);
    let query = "?kind=created,deleted&namespace=zoo";
    let mut filtered = open(&cluster, 0, query, Some(&beginning(&first[0]))).await;
    assert_eq!(filtered.expect().await.kind, "ready");
    for place in [0, 6] {
        assert_eq!(filtered.expect().await.id, first[place]);
    }
}

/// The id before all events of the cluster that an id belongs to.
fn beginning(id: &str) -> String {
    format!("{}.0.0", id.split('.').next().unwrap())
}

#[tokio::test]
async fn a_stream_that_cannot_be_is_refused() {
    let cluster = options().start();
    let mut stream = open(&cluster, 0, "", None).await;
    let ready = stream.expect().await.id;
    let rejection = async |query: &str, last: Option<&str>| -> (StatusCode, Value) {
        match Stream::open(&cluster.at(0), query, last).await {
            Err(Some(rejection)) => rejection,
            Err(None) => panic!("no answer"),
            Ok(_) => panic!("a stream"),
        }
    };
    for last in ["x", "1.2.3", &format!("{ready}.4"), &ready.replace('.', ":")] {
        let (status, body) = rejection("", Some(last)).await;
        assert_eq!(
            (status, &body["field"]),
            (StatusCode::BAD_REQUEST, &json!("Last-Event-ID")),
            "{last}"
        );
    }
    let (status, body) = rejection("", Some(&format!("{}.1.1", "0".repeat(32)))).await;
    assert_eq!((status, &body["error"]), (StatusCode::CONFLICT, &json!("other_cluster")));
    let (status, body) = rejection("?kind=created,born", None).await;
    assert_eq!((status, &body["field"]), (StatusCode::BAD_REQUEST, &json!("kind")));
    let answer = cluster.ask_bare(Method::GET, "/api/v1/events").send().await;
    assert_eq!(answer.status, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn a_place_ahead_of_a_node_is_waited_for() {
    let cluster = options().start();
    let mut stream = open(&cluster, 0, "", None).await;
    let ready = stream.expect().await.id;
    let mut parts = ready.split('.');
    let (name, index) = (parts.next().unwrap(), parts.next().unwrap());
    let ahead = format!("{name}.{}.0", index.parse::<u64>().unwrap() + 3);
    let mut waiting = open(&cluster, 0, "", Some(&ahead)).await;
    assert_eq!(waiting.expect().await.kind, "ready");
    for number in 0..8 {
        cluster.create(&json!({"label": number.to_string()})).await;
    }
    let mut passed = Vec::new();
    for _ in 0..8 {
        passed.push(stream.expect().await);
    }
    let place = |id: &str| {
        let mut parts = id.split('.').skip(1).map(|part| part.parse::<u64>().unwrap());
        (parts.next().unwrap(), parts.next().unwrap())
    };
    let expected = passed.iter().find(|event| place(&event.id) > place(&ahead)).unwrap();
    assert_eq!(waiting.expect().await.id, expected.id);
}

#[tokio::test]
async fn what_is_closed_is_not_streamed_and_a_key_that_goes_takes_its_stream_along() {
    let cluster = options().start();
    let post = async |path: &str, body: Value| {
        cluster.ask(Method::POST, path).json(&body).send().await.ok()
    };
    let key = post("/keys", json!({"name": "outsider", "role": "reader"})).await;
    let request = cluster.client().get(format!("{}/api/v1/events", cluster.url()));
    let mut answer = request.bearer_auth(key["key"].as_str().unwrap()).send().await.unwrap();
    let mut text = String::new();
    let mut until = async |answer: &mut reqwest::Response, wanted: &str| {
        while !text.contains(wanted) {
            let chunk = answer.chunk().await.unwrap().expect("the stream goes on");
            text += &String::from_utf8_lossy(&chunk);
        }
        text.clone()
    };
    until(&mut answer, "ready").await;
    cluster.create(&json!({"label": "first", "namespace": "sealer"})).await;
    until(&mut answer, "first").await;
    // The rule holds from here on, for a stream that is open too.
    post(
        "/namespaces/acl",
        json!({"agent_id": "outsider", "namespace": "sealer", "policy": "deny"}),
    )
    .await;
    cluster.create(&json!({"label": "second", "namespace": "sealer"})).await;
    cluster.create(&json!({"label": "third", "namespace": "open"})).await;
    let seen = until(&mut answer, "third").await;
    assert!(!seen.contains("second"), "{seen}");
    let path = format!("/keys/{}", key["id"].as_str().unwrap());
    cluster.ask(Method::DELETE, &path).send().await.ok();
    // Though nothing else happens.
    while let Some(chunk) = answer.chunk().await.unwrap() {
        let text = String::from_utf8_lossy(&chunk).into_owned();
        assert!(!text.contains("event: created"), "{text}");
    }
}
