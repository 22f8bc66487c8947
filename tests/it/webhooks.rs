//! Webhooks are signed and arrive under one id however often they are sent. Failed deliveries
//! are retried, then dead-lettered. They reach only addresses that the operator allows.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::*;

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// Retries after these seconds. The proxy in the environment is unreachable and must be unused.
fn quick(retries: &str) -> Options {
    let options = options().env("HEARTH__WEBHOOKS__RETRY_SECONDS", retries);
    let options = options.env("HEARTH__WEBHOOKS__TIMEOUT_MS", "300");
    options.env("ALL_PROXY", "http://127.0.0.1:1").env("HTTP_PROXY", "http://127.0.0.1:1")
}

async fn hook(cluster: &Cluster, url: &str) -> Value {
    create_webhook(cluster, json!({"url": url}), None).await
}

async fn deliveries(cluster: &Cluster, status: &str) -> Vec<Value> {
    let page = cluster.get(&format!("/triggers/deliveries?status={status}")).await;
    array(&page["items"]).clone()
}

/// Waits until no delivery is pending, and returns the results of all attempts in order.
async fn drained(cluster: &Cluster) -> Vec<String> {
    let pending = async || deliveries(cluster, "pending").await;
    eventually("no delivery is pending", pending, Vec::is_empty).await;
    let attempts = trigger_history(cluster, "&kind=attempt").await;
    attempts.iter().rev().map(|attempt| string(&attempt["result"]).to_owned()).collect()
}

#[tokio::test]
async fn webhook_is_signed_and_its_secret_stays_hidden() {
    let cluster = quick("1").nodes(3).start();
    let receiver = Receiver::accepting().await;
    let config = json!({"url": receiver.url, "webhook_secret": SECRET});
    let body = json!({"event": "on_store", "action": "webhook", "name": "greets", "action_config": config});
    let created = create_trigger(&cluster, &body).await;
    assert_eq!(created["action_config"]["signed"], true);
    let memory = json!({"label": "red fox #animal", "memory_type": "fact", "namespace": "zoo", "initial_heat": 0.5});
    let stored = cluster.create(&memory).await;
    let received = receiver.wait_for(1).await;
    let [request] = &received[..] else { panic!("{received:?}") };
    let sent = request.body();
    let expected = json!({
        "event": "on_store", "trigger_id": created["id"], "trigger_name": "greets",
        "fired_at": stored["created_at"],
        "node": {
            "id": stored["id"], "label": "red fox #animal", "memory_type": "fact",
            "namespace": "zoo", "heat": 0.5, "tags": ["animal"],
        },
    });
    assert_eq!(sent, expected);
    assert_eq!(request.header("content-type"), "application/json");
    assert_eq!(request.header("x-sulcus-event"), "on_store");
    assert!(request.header("x-sulcus-signature").starts_with("sha256="));
    assert_eq!(request.header("webhook-signature").split(' ').count(), 1);
    assert_eq!(drained(&cluster).await, ["200, delivered"]);
    let firing = &trigger_history(&cluster, "").await[0];
    assert_eq!(firing["delivery_id"], request.id());
    // The old secret signs beside the new one.
    let path = format!("/triggers/{}", id(&created));
    let rotate = json!({"action_config": {"webhook_secret": "another secret of ours"}});
    let changed = cluster.patch(&path, &rotate).await;
    assert!(changed["action_config"]["old_secret_until"].is_string(), "{changed}");
    // A repeated rotation: the old secret still signs.
    let again = cluster.patch(&path, &rotate).await;
    assert_eq!(again["action_config"], changed["action_config"]);
    cluster.create(&json!({"label": "blue sea"})).await;
    let second = &receiver.wait_for(2).await[1];
    assert_eq!(second.header("webhook-signature").split(' ').count(), 2);
    let unsigned = json!({"action_config": {"webhook_secret": null}});
    let changed = cluster.patch(&path, &unsigned).await;
    assert_eq!(changed["action_config"]["signed"], false);
    cluster.create(&json!({"label": "green hill"})).await;
    assert!(!receiver.wait_for(3).await[2].headers.contains_key("webhook-signature"));
    for path in ["/triggers", "/triggers/history?kind=all", "/triggers/deliveries", "/activity"] {
        let text = cluster.get(path).await.to_string();
        assert!(!text.contains(SECRET) && !text.contains("another secret"), "{path}: {text}");
    }
    assert!(!holds(cluster.folder(), SECRET.as_bytes()), "a file contains the plain secret");
    assert!(holds(cluster.folder(), b"red fox #animal"), "files are searched");
}

#[tokio::test]
async fn failed_delivery_is_retried_under_the_same_id() {
    let cluster = quick("0.05, 0.05, 0.05, 0.05").start();
    let elsewhere = Receiver::accepting().await;
    let target = elsewhere.url.clone();
    let receiver = Receiver::start(move |request| match request.before {
        0 => Behaviour::status(500),
        1 => Behaviour::Reset,
        2 => Behaviour::Respond(302, vec![("location", target.clone())]),
        3 => Behaviour::Hang(Duration::from_secs(2)),
        _ => Behaviour::status(204),
    })
    .await;
    hook(&cluster, &receiver.url).await;
    cluster.create(&json!({"label": "red fox"})).await;
    let attempts = drained(&cluster).await;
    assert_eq!(attempts.len(), 5, "{attempts:?}");
    for (attempt, result) in
        attempts.iter().zip(["500", "", "302", "no response in time", "204, delivered"])
    {
        assert!(attempt.starts_with(result), "{attempts:?}");
    }
    let received = receiver.received();
    assert!(received.iter().all(|request| request.id() == received[0].id()), "{received:?}");
    assert!(elsewhere.received().is_empty(), "a redirect is not followed");
    assert_eq!(trigger_history(&cluster, "").await.len(), 1, "it fired once");
}

#[tokio::test]
async fn dead_letters_are_kept_and_can_be_replayed() {
    let cluster = quick("0.05").start();
    let behave = |request: &Delivery| Behaviour::status(if request.before < 2 { 500 } else { 200 });
    let receiver = Receiver::start(behave).await;
    let created = hook(&cluster, &receiver.url).await;
    cluster.store_each(["red fox", "blue sea"].map(labelled)).await;
    let attempts = drained(&cluster).await;
    let dead_lettered = attempts.iter().filter(|result| result.ends_with("dead-lettered"));
    assert_eq!(dead_lettered.count(), 2, "{attempts:?}");
    let dead = deliveries(&cluster, "dead_letter").await;
    assert_eq!(dead.len(), 2);
    assert!(string(&dead[0]["reason"]).starts_with("500"), "{dead:?}");
    assert_fields(&dead[0], json!({"trigger_id": created["id"], "attempts": 2}));
    assert_eq!(cluster.metric("hearth_webhooks_dead_letters").await, 2.0);
    let resend =
        async |body| cluster.send(Method::POST, "/triggers/deliveries/replay", &body).await;
    assert_eq!(resend(json!({"id": "msg_none"})).await.status, StatusCode::BAD_REQUEST);
    assert_eq!(resend(json!({"id": dead[0]["id"]})).await.ok()["replayed"], 1);
    assert_eq!(resend(json!({})).await.ok(), json!({"replayed": 1, "has_more": false}));
    drained(&cluster).await;
    assert!(deliveries(&cluster, "dead_letter").await.is_empty());
    assert_eq!(receiver.received().len(), 6);
    assert_eq!(resend(json!({"id": dead[0]["id"]})).await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn retry_after_and_gone_responses_are_obeyed() {
    let cluster = quick("0.05, 0.05").start();
    let slow = Receiver::start(|request| match request.before {
        0 => Behaviour::Respond(503, vec![("retry-after", "2".into())]),
        _ => Behaviour::status(200),
    })
    .await;
    let gone = Receiver::start(|_| Behaviour::status(410)).await;
    hook(&cluster, &slow.url).await;
    let unwanted = hook(&cluster, &gone.url).await;
    let started = Instant::now();
    cluster.create(&json!({"label": "red fox"})).await;
    slow.wait_for(2).await;
    assert!(started.elapsed() >= Duration::from_secs(2), "after {:?}", started.elapsed());
    drained(&cluster).await;
    assert_eq!(cluster.get(&format!("/triggers/{}", id(&unwanted))).await["enabled"], false);
    cluster.create(&json!({"label": "blue sea"})).await;
    slow.wait_for(3).await;
    drained(&cluster).await;
    assert_eq!(gone.received().len(), 1);
}

#[tokio::test]
async fn hanging_receiver_delays_no_other() {
    let cluster = options().start();
    let hanging = Receiver::start(|_| Behaviour::Hang(Duration::from_secs(600))).await;
    let accepting = Receiver::accepting().await;
    hook(&cluster, &hanging.url).await;
    // Another host than that of the other receiver: permits are per host.
    hook(&cluster, &accepting.url.replace("127.0.0.1", "localhost")).await;
    for batch in 0..2 {
        let memory = |n| json!({"label": format!("memory {batch} {n}")});
        let nodes: Vec<_> = (0..50).map(memory).collect();
        cluster.post("/agent/nodes/batch", &json!({"nodes": nodes})).await;
    }
    accepting.wait_for(100).await;
    assert_eq!(hanging.wait_for(1).await.len(), 1, "a host without a response gets one request");
    let received = accepting.received();
    let ids: BTreeSet<_> = received.iter().map(Delivery::id).collect();
    assert_eq!(ids.len(), 100, "each is sent once");
}

#[tokio::test]
async fn address_restrictions_apply_to_existing_webhooks() {
    let cluster = quick("0.05").start();
    let receiver = Receiver::accepting().await;
    let created = hook(&cluster, &receiver.url).await;
    let by_name = receiver.url.replace("127.0.0.1", "localhost").replace("http", "https");
    hook(&cluster, &by_name).await;
    cluster.kill();
    cluster.restart_with(&[("HEARTH__WEBHOOKS__ALLOW", "")]).await;
    cluster.create(&json!({"label": "red fox"})).await;
    let attempts = drained(&cluster).await;
    assert_eq!(attempts.len(), 4, "{attempts:?}");
    assert!(attempts.iter().all(|result| !result.contains("delivered")), "{attempts:?}");
    assert!(receiver.received().is_empty());
    for url in [&receiver.url, &by_name] {
        let (path, url) = (format!("/triggers/{}", id(&created)), json!({"url": url}));
        let changed = cluster.send(Method::PATCH, &path, &json!({"action_config": url})).await;
        changed.assert_invalid("action_config.url");
    }
}

#[tokio::test]
async fn deleting_a_trigger_cancels_its_pending_deliveries() {
    let cluster = quick("3600").start();
    let receiver = Receiver::start(|_| Behaviour::status(500)).await;
    let (created, other) =
        (hook(&cluster, &receiver.url).await, hook(&cluster, &receiver.url).await);
    let nodes = vec![json!({"label": "red fox"}); 50];
    for _ in 0..24 {
        cluster.post("/agent/nodes/batch", &json!({"nodes": nodes})).await;
    }
    receiver.wait_for(1).await;
    assert_eq!(cluster.metric("hearth_webhooks_pending").await, 2_400.0);
    let path = format!("/triggers/{}", id(&created));
    assert_eq!(cluster.request(Method::DELETE, &path).send().await.status, 204);
    assert_eq!(cluster.metric("hearth_webhooks_pending").await, 1_200.0);
    let mut remaining = deliveries(&cluster, "pending").await.into_iter();
    assert!(remaining.all(|delivery| delivery["trigger_id"] == other["id"]));
    let fired = trigger_history(&cluster, &format!("&trigger_id={}", id(&created))).await;
    assert_eq!(fired.len(), 1_200, "its firings stay in the history");
}
