//! Memories that consist of distinct words. Each adds a bounded number of words to the index,
//! and a deletion gives their memory back.

use std::time::Duration;

use super::attacker::memory_mb;
use super::*;

/// Memories of the attack.
const MEMORIES: u64 = 400;
/// Memories per request. Their texts fit into a batch create.
const BATCH: u64 = 5;
/// Distinct words per label of 64 KiB.
const WORDS: u64 = 9_362;
/// Allowed growth per memory of the attack. The index takes at most 92 KiB of it.
const MEMORY_BYTES: u64 = 192 << 10;
/// Allowed growth for the caches of log and state, and for requests in work.
const CACHE_BYTES: u64 = 160 << 20;

/// A label of distinct words that no other memory contains.
fn label(memory: u64) -> String {
    let words = (0..WORDS).map(|word| format!("{:06x}", memory * WORDS + word));
    words.collect::<Vec<_>>().join(" ")
}

async fn found(cluster: &Cluster, word: &str) -> u64 {
    let list = cluster.get(&format!("/agent/nodes?page_size=1&search={word}")).await;
    list["total"].as_u64().unwrap()
}

#[tokio::test]
async fn distinct_words_take_bounded_memory() {
    let cluster = options().start();
    cluster.create(&labelled("an honest note")).await;
    let (bytes_before, index_before) =
        (memory_mb(&cluster, "VmRSS") << 20, cluster.metric("hearth_index_bytes").await);
    let mut ids = Vec::new();
    for first in (0..MEMORIES).step_by(BATCH as usize) {
        let memory = |at| json!({"label": label(at), "key_points": [format!("point{at}")]});
        let nodes: Vec<_> = (first..first + BATCH).map(memory).collect();
        let created = cluster.post("/agent/nodes/batch", &json!({"nodes": nodes})).await;
        ids.extend(array(&created["results"]).iter().map(|memory| id(memory).to_owned()));
    }
    let (bytes, index) =
        (memory_mb(&cluster, "VmRSS") << 20, cluster.metric("hearth_index_bytes").await);
    println!("{} MiB before, {} MiB with the attack", bytes_before >> 20, bytes >> 20);
    println!("index: {index_before} bytes before, {index} bytes with the attack");
    let growth = bytes.saturating_sub(bytes_before);
    assert!(growth < CACHE_BYTES + MEMORIES * MEMORY_BYTES, "{growth} bytes more");
    assert!(index > index_before && index < (MEMORIES * MEMORY_BYTES) as f64, "{index}");

    // The first words and all key points are indexed. The last words of a long label are not.
    let last = MEMORIES - 1;
    assert_eq!(found(&cluster, &format!("point{last}")).await, 1);
    assert_eq!(found(&cluster, &format!("{:06x}", last * WORDS)).await, 1);
    assert_eq!(found(&cluster, &format!("{:06x}", last * WORDS + WORDS - 1)).await, 0);

    let deleted = cluster.post("/agent/nodes/bulk", &json!({"ids": ids})).await;
    assert_eq!(deleted["deleted"], MEMORIES);
    let bytes_after = memory_mb(&cluster, "VmRSS") << 20;
    println!("{} MiB after the deletion", bytes_after >> 20);
    assert_eq!(cluster.metric("hearth_index_bytes").await, index_before);
    assert_eq!(found(&cluster, "honest").await, 1);
}

/// Memories that are created and deleted.
const DELETED: usize = 50_000;
/// What may remain of them, beside caches.
const REMAINING_MAX: u64 = 60;
/// Time for it.
const RETURNED_WITHIN: Duration = Duration::from_secs(45);

#[tokio::test]
async fn deleted_memories_return_their_memory() {
    let cluster = options().start();
    let beside_caches = async || {
        let caches = cluster.metric("hearth_cache_bytes").await as u64 >> 20;
        memory_mb(&cluster, "VmRSS").saturating_sub(caches)
    };
    let before = beside_caches().await;
    let mut ids = Vec::new();
    for batch in 0..DELETED / 50 {
        let memory = |at| json!({"label": format!("note {at} of batch {batch} about {at}{batch}")});
        let nodes: Vec<_> = (0..50).map(memory).collect();
        let created = cluster.post("/agent/nodes/batch", &json!({"nodes": nodes})).await;
        ids.extend(array(&created["results"]).iter().map(|memory| id(memory).to_owned()));
    }
    let most = beside_caches().await;
    for ids in ids.chunks(500) {
        cluster.post("/agent/nodes/bulk-delete", &json!({"ids": ids})).await;
    }
    assert_eq!(cluster.get("/agent/nodes").await["total"], 0);
    let is_returned = |now: &u64| *now < before + REMAINING_MAX;
    let now = tokio::time::timeout(
        RETURNED_WITHIN,
        eventually("the memory is given back", beside_caches, is_returned),
    );
    println!("{before} MB before, {most} MB with them, {:?} MB after", now.await);
    let now = beside_caches().await;
    assert!(is_returned(&now), "{before} MB before, {most} MB with them, {now} MB after");
}
