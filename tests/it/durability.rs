//! A crash of the node loses nothing acknowledged and repeats nothing. HEARTH_KILLS and
//! HEARTH_SEED lengthen and vary the run.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::json;
use tests::{Processes, Writers, eventually, random_after, setting, stored};

use crate::options;

const WRITERS: usize = 8;

#[tokio::test(flavor = "multi_thread")]
async fn crashes_during_writes_lose_and_repeat_nothing() {
    let cluster = Arc::new(options().start());
    let mut processes = Processes::of(&cluster);
    let writers = Writers::start(&cluster, WRITERS);
    // Each crash comes after another number of writes.
    let mut random = setting("HEARTH_SEED", 1);
    for kill in 0..setting("HEARTH_KILLS", 4) {
        random = random_after(random);
        writers.acknowledge(100 + (random >> 33) % 400).await;
        processes.kill(0);
        processes.restart(0).await;
        println!("kill {kill}: {} acknowledged so far", writers.acknowledged());
    }
    writers.acknowledge(100).await;
    let acknowledged = writers.stop().await;
    let found = stored(&cluster).await;
    for (label, id) in &acknowledged {
        assert_eq!(found.get(label), Some(&vec![id.clone()]), "{label} was acknowledged");
    }
    assert!(found.values().all(|ids| ids.len() == 1), "a memory is stored twice");
    // Each writer may have one request that was done without a response.
    assert!(found.len() <= acknowledged.len() + WRITERS);
}

#[tokio::test]
async fn restart_after_log_compaction_keeps_all_data() {
    let cluster = options().eager_compaction("300").start();
    let mut created = BTreeMap::new();
    let purged = async || {
        let label = format!("memory {}", created.len());
        let id = cluster.store(&json!({"label": label})).await;
        created.insert(label, vec![id]);
        cluster.metric("hearth_raft_purged_index").await
    };
    eventually("the log is compacted", purged, |purged| *purged >= 20.0).await;
    cluster.kill();
    let _process = cluster.serve();
    cluster.ready().await;
    assert_eq!(stored(&cluster).await, created);
}
