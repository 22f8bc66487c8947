//! One node as its number of memories grows: rate of creates, searches, RAM, and a restart.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures::future::join_all;
use tests::Limit::{AtLeast, AtMost};
use tests::{Load, Method, json, print_target, resident_bytes, wait_for_graphs};

use crate::work::{BATCH, Work};

/// Memories per step.
const STEP: u64 = 100_000;
const CLIENTS: u64 = 4;
const SEARCH_TIME: Duration = Duration::from_secs(10);

pub async fn measure(work: &Arc<Work>) {
    let pid = work.cluster.pid();
    let empty = resident_bytes(pid);
    println!("| memories | creates/s | MB in RAM |\n|---:|---:|---:|");
    let mut rates = Vec::new();
    let mut first_p95 = 0.0;
    for first in (0..work.memories).step_by(STEP as usize) {
        let last = work.memories.min(first + STEP);
        let rate = store(work, first..last).await;
        println!("| {last} | {rate:.0} | {:.0} |", resident_bytes(pid) / 1e6);
        rates.push(rate);
        if first == 0 {
            wait_for_graphs(&work.cluster).await;
            first_p95 = search_p95(work).await;
        }
    }
    let share = rates[rates.len() - 1] / rates[0];
    println!();
    print_target("rate of the last 100,000 against the first", share, AtLeast(0.7));
    let started = Instant::now();
    wait_for_graphs(&work.cluster).await;
    let (seconds, mb) = (started.elapsed().as_secs_f64(), resident_bytes(pid) / 1e6);
    println!("Graph complete {seconds:.0} s later, {mb:.0} MB in RAM.");
    let [caches, words] = ["hearth_cache_bytes", "hearth_index_bytes"];
    let [caches, words] = [work.cluster.metric(caches).await, work.cluster.metric(words).await];
    let per_memory = |bytes| bytes / work.memories as f64;
    println!("Bytes of the indexes of labels, per memory: {:.0}.", per_memory(words));
    // Caches have a size of their own.
    let own = per_memory(resident_bytes(pid) - empty - caches - words);
    print_target("bytes in RAM per memory, without labels and caches", own, AtMost(2_000.0));
    let p95 = search_p95(work).await;
    println!("Searches: p95 {first_p95:.2} ms among {STEP}, {p95:.2} ms among {}.", work.memories);
    print_target("p95 of searches among all against 100,000", p95 / first_p95, AtMost(3.0));
    restart(work).await;
}

/// Stores memories in batches from some clients. Returns the memories per second.
async fn store(work: &Work, numbers: Range<u64>) -> f64 {
    let (started, next) = (Instant::now(), AtomicU64::new(numbers.start));
    let client = async || {
        loop {
            let first = next.fetch_add(BATCH, Ordering::Relaxed);
            if first >= numbers.end {
                return;
            }
            work.store(first..numbers.end.min(first + BATCH)).await;
        }
    };
    join_all((0..CLIENTS).map(|_| client())).await;
    (numbers.end - numbers.start) as f64 / started.elapsed().as_secs_f64()
}

/// The 95th percentile of the latency of searches by one client, in milliseconds.
async fn search_p95(work: &Arc<Work>) -> f64 {
    let client = |_| {
        let (work, mut number) = (Arc::clone(work), 0);
        move || {
            number += 1;
            let search = work.cluster.request(Method::POST, "/agent/search");
            search.json(&json!({"query": work.query(number), "limit": 10}))
        }
    };
    Load::run(1, SEARCH_TIME, client).await.millis(95)
}

/// From the start of a killed node to `/livez`, to ready, and to a graph that serves searches.
async fn restart(work: &Work) {
    let node = &work.cluster;
    node.kill();
    let started = Instant::now();
    node.start();
    let live = async || node.operator_responds("/livez").await;
    while !live().await {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let live = started.elapsed().as_secs_f64();
    node.ready().await;
    let ready = started.elapsed().as_secs_f64();
    while node.metric("hearth_graph_memories").await == 0.0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let graph = started.elapsed().as_secs_f64();
    print_target("seconds from a start after a kill to /livez", live, AtMost(1.0));
    print_target("seconds to ready", ready, AtMost(10.0));
    print_target("seconds to a graph that serves searches", graph, AtMost(10.0));
}
