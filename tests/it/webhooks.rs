//! Webhooks arrive, signed, under one name however often they are sent; what does not arrive is
//! tried again, and kept when it is given up. They go nowhere that they should not.

use std::path::Path;
use std::time::{Duration, Instant};

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tests::{Behaviour, Cluster, Options, PATIENCE, Receiver};

use crate::options;
use crate::triggers::{history, trigger};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// Retries within milliseconds; with a proxy in the environment that leads nowhere.
fn quick(retries: &str) -> Options {
    let options = options().env("HEARTH__WEBHOOKS__RETRY_SECONDS", retries);
    let options = options.env("HEARTH__WEBHOOKS__TIMEOUT_MS", "300");
    options.env("ALL_PROXY", "http://127.0.0.1:1").env("HTTP_PROXY", "http://127.0.0.1:1")
}

async fn hook(cluster: &Cluster, url: &str) -> Value {
    let config = json!({"url": url});
    let body = json!({"event": "on_store", "action": "webhook", "action_config": config});
    trigger(cluster, &body).await
}

async fn deliveries(cluster: &Cluster, status: &str) -> Vec<Value> {
    let path = format!("/triggers/deliveries?status={status}");
    let body = cluster.ask(Method::GET, &path).send().await.ok();
    body["items"].as_array().unwrap().clone()
}

/// Waits until nothing is pending, and says what attempts came to, the first first.
async fn settled(cluster: &Cluster) -> Vec<String> {
    let started = Instant::now();
    while !deliveries(cluster, "pending").await.is_empty() {
        assert!(started.elapsed() < PATIENCE, "{:?}", deliveries(cluster, "pending").await);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let attempts = history(&cluster.at(0), "&kind=attempt").await;
    attempts.iter().rev().map(|attempt| attempt["result"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_webhook_arrives_with_the_published_body_and_its_secret_is_shown_to_nobody() {
    let cluster = quick("1").nodes(3).start();
    let receiver = Receiver::willing().await;
    let config = json!({"url": receiver.url, "webhook_secret": SECRET});
    let body =
        json!({"event": "on_store", "action": "webhook", "name": "told", "action_config": config});
    let made = trigger(&cluster, &body).await;
    assert_eq!(made["action_config"]["signed"], true);
    let memory = json!({"label": "red fox #animal", "memory_type": "fact", "namespace": "zoo", "initial_heat": 0.5});
    let stored = cluster.create(&memory).await;
    let got = receiver.wait_for(1).await;
    let [request] = &got[..] else { panic!("{got:?}") };
    let sent = request.body();
    let expected = json!({
        "event": "on_store", "trigger_id": made["id"], "trigger_name": "told",
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
    assert_eq!(settled(&cluster).await, ["200, delivered"]);
    let firing = &history(&cluster.at(0), "").await[0];
    assert_eq!(firing["delivery_id"], request.id());
    // The old secret signs beside the new one.
    let path = format!("/triggers/{}", made["id"].as_str().unwrap());
    let rotate = json!({"action_config": {"webhook_secret": "another secret of ours"}});
    let changed = cluster.ask(Method::PATCH, &path).json(&rotate).send().await.ok();
    assert!(changed["action_config"]["old_secret_until"].is_string(), "{changed}");
    // Said again, for the answer was lost: the old one goes on signing.
    let again = cluster.ask(Method::PATCH, &path).json(&rotate).send().await.ok();
    assert_eq!(again["action_config"], changed["action_config"]);
    cluster.create(&json!({"label": "blue sea"})).await;
    let second = &receiver.wait_for(2).await[1];
    assert_eq!(second.header("webhook-signature").split(' ').count(), 2);
    let unsigned = json!({"action_config": {"webhook_secret": null}});
    let changed = cluster.ask(Method::PATCH, &path).json(&unsigned).send().await.ok();
    assert_eq!(changed["action_config"]["signed"], false);
    cluster.create(&json!({"label": "green hill"})).await;
    assert!(!receiver.wait_for(3).await[2].headers.contains_key("webhook-signature"));
    for path in ["/triggers", "/triggers/history?kind=all", "/triggers/deliveries", "/activity"] {
        let text = cluster.ask(Method::GET, path).send().await.ok().to_string();
        assert!(!text.contains(SECRET) && !text.contains("another secret"), "{path}: {text}");
    }
    assert!(!holds(cluster.folder(), SECRET.as_bytes()), "a file holds the secret in the clear");
    assert!(holds(cluster.folder(), b"red fox #animal"), "files are looked into");
}

/// Whether a file in a folder holds these bytes.
fn holds(folder: &Path, bytes: &[u8]) -> bool {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.into_iter().any(|path| match path.is_dir() {
        true => holds(&path, bytes),
        // One that is gone meanwhile holds nothing.
        false => std::fs::read(&path)
            .is_ok_and(|held| held.windows(bytes.len()).any(|window| window == bytes)),
    })
}

#[tokio::test]
async fn what_does_not_arrive_is_sent_again_under_the_same_name() {
    let cluster = quick("0.05, 0.05, 0.05, 0.05").start();
    let elsewhere = Receiver::willing().await;
    let target = elsewhere.url.clone();
    let receiver = Receiver::start(move |request| match request.before {
        0 => Behaviour::status(500),
        1 => Behaviour::Reset,
        2 => Behaviour::Answer(302, vec![("location", target.clone())]),
        3 => Behaviour::Hang(Duration::from_secs(2)),
        _ => Behaviour::status(204),
    })
    .await;
    hook(&cluster, &receiver.url).await;
    cluster.create(&json!({"label": "red fox"})).await;
    let attempts = settled(&cluster).await;
    assert_eq!(attempts.len(), 5, "{attempts:?}");
    for (attempt, said) in
        attempts.iter().zip(["500", "", "302", "no answer in time", "204, delivered"])
    {
        assert!(attempt.starts_with(said), "{attempts:?}");
    }
    let got = receiver.got();
    assert!(got.iter().all(|request| request.id() == got[0].id()), "{got:?}");
    assert!(elsewhere.got().is_empty(), "a redirect is not followed");
    assert_eq!(history(&cluster.at(0), "").await.len(), 1, "it fired once");
}

#[tokio::test]
async fn what_is_given_up_is_kept_and_may_be_sent_again() {
    let cluster = quick("0.05").start();
    let receiver =
        Receiver::start(|request| Behaviour::status(if request.before < 2 { 500 } else { 200 }))
            .await;
    let made = hook(&cluster, &receiver.url).await;
    for label in ["red fox", "blue sea"] {
        cluster.create(&json!({"label": label})).await;
    }
    let attempts = settled(&cluster).await;
    assert_eq!(
        attempts.iter().filter(|said| said.ends_with("dead-lettered")).count(),
        2,
        "{attempts:?}"
    );
    let dead = deliveries(&cluster, "dead_letter").await;
    assert_eq!(dead.len(), 2);
    assert!(dead[0]["reason"].as_str().unwrap().starts_with("500"), "{dead:?}");
    assert_eq!((&dead[0]["trigger_id"], &dead[0]["attempts"]), (&made["id"], &json!(2)));
    assert_eq!(cluster.metric("hearth_webhooks_dead_letters").await, 2.0);
    let resend =
        |body: Value| cluster.ask(Method::POST, "/triggers/deliveries/replay").json(&body).send();
    assert_eq!(resend(json!({"id": "msg_none"})).await.status, StatusCode::BAD_REQUEST);
    assert_eq!(resend(json!({"id": dead[0]["id"]})).await.ok()["replayed"], 1);
    assert_eq!(resend(json!({})).await.ok(), json!({"replayed": 1, "has_more": false}));
    settled(&cluster).await;
    assert!(deliveries(&cluster, "dead_letter").await.is_empty());
    assert_eq!(receiver.got().len(), 6);
    assert_eq!(resend(json!({"id": dead[0]["id"]})).await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_receiver_is_heard_when_it_asks_for_time_or_wants_no_more() {
    let cluster = quick("0.05, 0.05").start();
    let slow = Receiver::start(|request| match request.before {
        0 => Behaviour::Answer(503, vec![("retry-after", "2".into())]),
        _ => Behaviour::status(200),
    })
    .await;
    let gone = Receiver::start(|_| Behaviour::status(410)).await;
    hook(&cluster, &slow.url).await;
    let unwanted = hook(&cluster, &gone.url).await;
    let began = Instant::now();
    cluster.create(&json!({"label": "red fox"})).await;
    slow.wait_for(2).await;
    assert!(began.elapsed() >= Duration::from_secs(2), "after {:?}", began.elapsed());
    settled(&cluster).await;
    let path = format!("/triggers/{}", unwanted["id"].as_str().unwrap());
    assert_eq!(cluster.ask(Method::GET, &path).send().await.ok()["enabled"], false);
    cluster.create(&json!({"label": "blue sea"})).await;
    slow.wait_for(3).await;
    settled(&cluster).await;
    assert_eq!(gone.got().len(), 1);
}

#[tokio::test]
async fn a_receiver_that_hangs_holds_no_other_up() {
    let cluster = options().start();
    let hanging = Receiver::start(|_| Behaviour::Hang(Duration::from_secs(600))).await;
    let willing = Receiver::willing().await;
    hook(&cluster, &hanging.url).await;
    // Another host than the other receiver's, as far as places go.
    hook(&cluster, &willing.url.replace("127.0.0.1", "localhost")).await;
    for batch in 0..2 {
        let nodes: Vec<_> =
            (0..50).map(|n| json!({"label": format!("memory {batch} {n}")})).collect();
        let body = json!({"nodes": nodes});
        cluster.ask(Method::POST, "/agent/nodes/batch").json(&body).send().await.ok();
    }
    willing.wait_for(100).await;
    assert_eq!(hanging.wait_for(8).await.len(), 8, "so many requests to a host at once");
    let names: std::collections::BTreeSet<_> =
        willing.got().iter().map(|request| request.id().to_owned()).collect();
    assert_eq!(names.len(), 100, "each is sent once");
}

#[tokio::test]
async fn a_webhook_of_before_goes_nowhere_that_the_operator_does_not_allow_any_more() {
    let cluster = quick("0.05").start();
    let receiver = Receiver::willing().await;
    let made = hook(&cluster, &receiver.url).await;
    let by_name = receiver.url.replace("127.0.0.1", "localhost").replace("http", "https");
    hook(&cluster, &by_name).await;
    cluster.kill_node();
    let _node = cluster.serve_with(&[("HEARTH__WEBHOOKS__ALLOW", "")]);
    cluster.ready().await;
    cluster.create(&json!({"label": "red fox"})).await;
    let attempts = settled(&cluster).await;
    assert_eq!(attempts.len(), 4, "{attempts:?}");
    assert!(attempts.iter().all(|said| !said.contains("delivered")), "{attempts:?}");
    assert!(receiver.got().is_empty());
    for url in [&receiver.url, &by_name] {
        let config = json!({"url": url});
        let path = format!("/triggers/{}", made["id"].as_str().unwrap());
        let answer =
            cluster.ask(Method::PATCH, &path).json(&json!({"action_config": config})).send().await;
        assert_eq!(answer.body["field"], "action_config.url", "{}", answer.body);
    }
}

#[tokio::test]
async fn what_a_deleted_trigger_owes_is_cancelled_at_once_however_much_it_is() {
    let cluster = quick("3600").start();
    let receiver = Receiver::start(|_| Behaviour::status(500)).await;
    let (made, other) = (hook(&cluster, &receiver.url).await, hook(&cluster, &receiver.url).await);
    let nodes = vec![json!({"label": "red fox"}); 50];
    for _ in 0..24 {
        let batch = cluster.ask(Method::POST, "/agent/nodes/batch");
        batch.json(&json!({"nodes": nodes})).send().await.ok();
    }
    receiver.wait_for(1).await;
    let pending = cluster.metric("hearth_webhooks_pending").await;
    assert_eq!(pending, 2_400.0);
    let path = format!("/triggers/{}", made["id"].as_str().unwrap());
    let gone = cluster.ask(Method::DELETE, &path).send().await;
    assert_eq!(gone.status, StatusCode::NO_CONTENT, "{}", gone.body);
    assert_eq!(cluster.metric("hearth_webhooks_pending").await, 1_200.0);
    let left = deliveries(&cluster, "pending").await;
    assert!(left.iter().all(|delivery| delivery["trigger_id"] == other["id"]), "{left:?}");
    let of = format!("&trigger_id={}", made["id"].as_str().unwrap());
    let fired = history(&cluster.at(0), &of).await;
    assert_eq!(fired.len(), 1_200, "what it did stays in the history");
}
