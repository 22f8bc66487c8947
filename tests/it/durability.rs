//! A restart keeps all data after the log was compacted.

use std::collections::BTreeMap;

use super::*;

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
