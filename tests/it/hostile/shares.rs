//! Attacks with a valid key: it takes its share, and others are served.

use std::sync::atomic::{AtomicU64, Ordering};

use futures::future::join_all;

use super::attacker::{ALONE, Attack, assert_creates_served, assert_served, latency};
use super::*;

/// A reader's key, and honest searches with it.
async fn reader(cluster: &Cluster, name: &str) -> Value {
    cluster.post("/keys", &json!({"name": name, "role": "reader"})).await
}

fn search(cluster: &Cluster, key: &Value, limit: usize) -> Request {
    let request = cluster.request_as(key, Method::POST, "/agent/search");
    request.json(&json!({"query": "word", "limit": limit}))
}

#[tokio::test]
async fn waiting_reads_of_one_key_leave_room() {
    let cluster = options().start();
    let (hostile, honest) = (reader(&cluster, "hostile").await, reader(&cluster, "honest").await);
    let quiet = latency(|| search(&cluster, &honest, 10)).await;
    let agents = [(); 10].map(|()| cluster.new_agent());
    let waits = join_all((0..2_100).map(|at| {
        let request = agents[at % 10].get_as(&cluster, &hostile, "/agent/nodes");
        request.header("X-Hearth-Min-Index", "9999999999").try_send()
    }));
    let honest = async {
        let full = async || cluster.metric("hearth_requests_in_progress").await;
        eventually("the key has its share", full, |requests| *requests >= 512.0).await;
        latency(|| search(&cluster, &honest, 10)).await
    };
    let (responses, attacked) = tokio::join!(waits, honest);
    let limited = responses.iter().flatten().filter(|response| response.status == 429).count();
    // How many depends on how fast the others end their wait.
    assert!(limited > 0, "no read was limited");
    assert_served(quiet, attacked);
}

#[tokio::test]
async fn searches_of_one_key_do_not_delay_others() {
    let cluster = options().start();
    for at in 0..20 {
        let nodes: Vec<_> = (0..50).map(|i| labelled(format!("word {at} {i}"))).collect();
        cluster.post("/agent/nodes/batch", &json!({"nodes": nodes})).await;
    }
    let (hostile, honest) = (reader(&cluster, "hostile").await, reader(&cluster, "honest").await);
    let quiet = latency(|| search(&cluster, &honest, 10)).await;
    let body = json!({"query": "word", "limit": 100});
    let attack = Attack::requests(&cluster, &cluster, 200, &hostile, ("/agent/search", &body));
    let full = async || cluster.metric("hearth_requests_in_progress").await;
    eventually("the attack runs", full, |requests| *requests >= 50.0).await;
    let attacked = latency(|| search(&cluster, &honest, 10)).await;
    drop(attack);
    assert_served(quiet, attacked);
}

#[tokio::test]
async fn writes_of_one_key_do_not_delay_others() {
    let cluster = options().start();
    let body = labelled("word ".repeat(10_000));
    assert_creates_served(&cluster, 400, ("/agent/nodes", &body)).await;
}

/// 5,000 distinct words, in 60 kB.
fn distinct_words(seed: usize) -> String {
    let word = |at: usize| format!("{:x}ings ", (seed * 5_000 + at).wrapping_mul(0x9e37_79b9_7f4a));
    (0..5_000).map(word).collect::<String>()[..60_000].to_owned()
}

#[tokio::test]
async fn batches_of_one_key_do_not_delay_others() {
    let cluster = options().nodes(3).start();
    let nodes: Vec<_> = (0..8).map(|at| labelled(distinct_words(at))).collect();
    assert_creates_served(&cluster, 8, ("/agent/nodes/batch", &json!({"nodes": nodes}))).await;
}

/// All nodes index each of these texts.
#[tokio::test]
async fn batches_of_long_texts_do_not_delay_others() {
    let cluster = options().nodes(3).start();
    let text = |at: usize| (0..190).map(|word| format!("word{at}x{word} ")).collect::<String>();
    let nodes: Vec<_> = (0..50).map(|at| labelled(text(at))).collect();
    assert_creates_served(&cluster, 16, ("/agent/nodes/batch", &json!({"nodes": nodes}))).await;
}

#[tokio::test]
async fn bulk_changes_do_not_delay_other_keys() {
    let cluster = options().nodes(3).start();
    let ids = cluster.store_each((0..500).map(labelled)).await;
    let body = json!({"ids": ids, "current_heat": 0.5});
    assert_creates_served(&cluster, 8, ("/agent/nodes/bulk-patch", &body)).await;
}

#[tokio::test]
async fn requests_without_a_body_take_no_bytes() {
    let cluster = options().start();
    let ids = cluster.store_each((0..100).map(labelled)).await;
    let deletions = ids.iter().map(|id| {
        let path = format!("/agent/nodes/{id}");
        cluster.request(Method::DELETE, &path).send()
    });
    let responses = join_all(deletions).await;
    assert!(responses.iter().all(|response| response.status == StatusCode::OK), "{responses:?}");
}

#[tokio::test]
async fn streams_of_the_past_do_not_delay_others() {
    let _alone = ALONE.lock().await;
    let cluster = options().start();
    let (_, ready) = Stream::ready(&cluster, "", None).await;
    for _ in 0..100 {
        let nodes = vec![labelled("x".repeat(200)); 50];
        cluster.post("/agent/nodes/batch", &json!({"nodes": nodes})).await;
    }
    let (hostile, honest) = (reader(&cluster, "hostile").await, reader(&cluster, "honest").await);
    let quiet = latency(|| search(&cluster, &honest, 10)).await;
    let read = AtomicU64::new(0);
    let replay = async || {
        let request = cluster.request_as(&hostile, Method::GET, "/events");
        let mut stream = Stream::of(request.header("Last-Event-ID", &ready.id)).await.unwrap();
        while stream.next().await.is_some() {
            read.fetch_add(1, Ordering::Relaxed);
        }
    };
    let honest = async {
        let measured = latency(|| search(&cluster, &honest, 10)).await;
        let so_far = async || read.load(Ordering::Relaxed);
        eventually("the streams go on", so_far, |read| *read > 10_000).await;
        measured
    };
    let attacked = tokio::select! {
        attacked = honest => attacked,
        _ = join_all((0..32).map(|_| replay())) => panic!("the streams ended"),
    };
    assert_served(quiet, attacked);
}
