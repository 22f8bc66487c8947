//! Receivers that accept webhooks and respond late or never.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::attacker::{assert_served, latency};
use super::*;

/// Time in which the delivery of a receiver that responds arrives.
const ARRIVAL_MAX: Duration = Duration::from_secs(5);

#[tokio::test]
async fn hanging_hosts_delay_no_other_host() {
    let cluster = options().start();
    let mut hanging = Vec::new();
    for host in 2..14 {
        // Some respond just before the timeout of 15 s.
        let pause = Duration::from_secs(if host % 2 == 0 { 14 } else { 600 });
        let hang = move |_: &Delivery| Behaviour::Hang(pause);
        let receiver = Receiver::start_at(&format!("127.0.0.{host}"), hang).await;
        let config = json!({"url": receiver.url});
        create_webhook(&cluster, config, Some(60)).await;
        hanging.push(receiver);
    }
    let memory = |number| json!({"label": format!("memory {number}")});
    for batch in [0..50, 50..60] {
        let nodes: Vec<_> = batch.map(memory).collect();
        cluster.post("/agent/nodes/batch", &json!({"nodes": nodes})).await;
    }
    for receiver in &hanging {
        receiver.reach(1).await;
    }
    let good = Receiver::accepting().await;
    create_webhook(&cluster, json!({"url": good.url}), None).await;
    cluster.create(&memory(60)).await;
    let arrived = tokio::time::timeout(ARRIVAL_MAX, good.reach(1)).await;
    assert!(arrived.is_ok(), "not delivered in {ARRIVAL_MAX:?}");
}

/// Connections that such receivers keep busy.
static OPEN: AtomicUsize = AtomicUsize::new(0);

/// A receiver that responds with 1xx without end, on 127.0.0.`host`. Returns its URL.
async fn endless_start(host: u8) -> String {
    let listener = TcpListener::bind((format!("127.0.0.{host}"), 0)).await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    // A thread of its own: it must not delay the honest client itself.
    let listener = listener.into_std().unwrap();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = TcpListener::from_std(listener).unwrap();
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    stream.read_u8().await.ok();
                    let part = "HTTP/1.1 103 Early Hints\r\n\r\n".repeat(2_000);
                    OPEN.fetch_add(1, Ordering::Relaxed);
                    while stream.write_all(part.as_bytes()).await.is_ok() {}
                    OPEN.fetch_sub(1, Ordering::Relaxed);
                });
            }
        });
    });
    url
}

#[tokio::test]
async fn endless_responses_delay_no_requests() {
    let cluster = options().start();
    let create = || cluster.request(Method::POST, "/agent/nodes").json(&labelled("honest"));
    let quiet = latency(create).await;
    for host in 20..28 {
        let config = json!({"url": endless_start(host).await});
        create_webhook(&cluster, config, Some(60)).await;
    }
    create().send().await;
    let open = async || OPEN.load(Ordering::Relaxed);
    eventually("the node reads from all", open, |open| *open == 8).await;
    let attacked = latency(create).await;
    assert_eq!(open().await, 8, "the attack goes on");
    println!("{quiet:?} without, {attacked:?} with the attack");
    assert_served(quiet, attacked);
}

/// A key whose webhook fires, loses the right to know the memory before the receiver responds.
#[tokio::test]
async fn closed_memories_are_not_delivered() {
    for how in ["the memory moves", "a rule denies", "the key is deleted"] {
        let cluster = options().env("HEARTH__WEBHOOKS__RETRY_SECONDS", "0.3, 0.3").start();
        let outsider = cluster.post("/keys", &json!({"name": "outsider", "role": "agent"})).await;
        let rule = |namespace: &str| json!({"agent_id": "outsider", "namespace": namespace, "policy": "deny"});
        cluster.post("/namespaces/acl", &rule("closed")).await;
        let receiver = Receiver::start(|_| Behaviour::status(500)).await;
        let trigger = json!({"event": "on_store", "action": "webhook",
            "action_config": {"url": receiver.url}});
        let request = cluster.request_as(&outsider, Method::POST, "/triggers").json(&trigger);
        assert_eq!(request.send().await.status, 201);
        let memory = cluster.store(&json!({"label": "a secret", "namespace": "open"})).await;
        receiver.reach(1).await;
        match how {
            "the memory moves" => {
                let closed = json!({"namespace": "closed"});
                cluster.patch(&format!("/agent/nodes/{memory}"), &closed).await;
            }
            "a rule denies" => drop(cluster.post("/namespaces/acl", &rule("open")).await),
            _ => {
                let path = format!("/keys/{}", id(&outsider));
                cluster.request(Method::DELETE, &path).send().await.ok();
            }
        }
        let dead = async || cluster.get("/triggers/deliveries?status=dead_letter").await;
        let dead = eventually("it is a dead letter", dead, |it| array(&it["items"]).len() == 1);
        let dead = dead.await.to_string();
        assert!(dead.contains("may not access the memory"), "{how}: {dead}");
        assert!(receiver.received().len() <= 2, "{how}: one attempt may be under way");
    }
}
