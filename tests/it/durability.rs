//! A crash of the node loses nothing acknowledged and repeats nothing. HEARTH_KILLS and
//! HEARTH_SEED lengthen and vary the run.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::*;

const WRITERS: usize = 8;

#[tokio::test(flavor = "multi_thread")]
async fn crashes_during_writes_lose_and_repeat_nothing() {
    let cluster = Arc::new(options().start());
    let writers = Writers::start(&cluster, WRITERS);
    // Each crash comes after another number of writes.
    let mut random = setting("HEARTH_SEED", 1);
    for kill in 0..setting("HEARTH_KILLS", 4) {
        random = random_after(random);
        writers.acknowledge(100 + (random >> 33) % 400).await;
        cluster.crash().await;
        println!("kill {kill}: {} acknowledged so far", writers.acknowledged());
    }
    writers.acknowledge(100).await;
    assert_stored_once(&cluster, &writers.stop().await, WRITERS).await;
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
    cluster.crash().await;
    assert_eq!(stored(&cluster).await, created);
}
