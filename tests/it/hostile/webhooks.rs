//! Receivers that accept webhooks and respond late or never.

use std::time::Duration;

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
