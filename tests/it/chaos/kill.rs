//! Processes end: one, the leader, or all at once. The log is shipped meanwhile, and drills restore it. At the
//! end, each restored state is what was acknowledged up to its entry.

use std::path::Path;

use super::super::backups::serve;
use super::*;

/// Restorations to chosen entries.
const RESTORATIONS: usize = 3;

#[derive(Debug, Clone, Copy)]
enum Fault {
    Kill,
    KillLeader,
    KillAll,
    QuickRestart,
    Restart,
    Transfer,
    Backup,
    Drill,
    Compaction,
    SlowInstall,
}

const FAULTS: [Fault; 10] = [
    Fault::Kill,
    Fault::KillLeader,
    Fault::Backup,
    Fault::Restart,
    Fault::Compaction,
    Fault::Transfer,
    Fault::KillAll,
    Fault::Drill,
    Fault::QuickRestart,
    Fault::SlowInstall,
];

/// Ends a node for so many writes.
async fn end(run: &Run, node: &Node, writes: u64) {
    node.kill();
    run.writers.acknowledge(writes).await;
    run.restart(node, "").await;
}

async fn inject(run: &Run, fault: Fault, node: &Node) {
    let nodes = || run.cluster.nodes();
    match fault {
        Fault::Kill => end(run, node, WRITES).await,
        Fault::KillLeader => end(run, run.cluster.at(run.cluster.leader().await), WRITES).await,
        Fault::KillAll => {
            nodes().for_each(Node::kill);
            nodes().for_each(|node| run.start_node(node, ""));
            for node in nodes() {
                node.ready().await;
            }
        }
        Fault::QuickRestart => end(run, run.cluster.at(run.cluster.leader().await), 0).await,
        Fault::Restart => {
            node.shut_down().await;
            run.writers.acknowledge(WRITES).await;
            run.restart(node, "").await;
        }
        Fault::Transfer => run.transfer_to(node).await,
        Fault::Backup => {
            let place = place(run);
            let create = ["backup", "create", place.to_str().unwrap(), "--ops", node.ops()];
            let (succeeded, text) = run.cluster.run(&create).await;
            assert!(succeeded || text.contains("is under way"), "{text}");
        }
        Fault::Drill => {
            let (place, config) = (place(run), node.data().join("hearth.toml"));
            let (place, config) = (place.to_str().unwrap(), config.to_str().unwrap());
            let (succeeded, text) =
                run.cluster.run(&["backup", "drill", place, "--config", config]).await;
            assert!(succeeded, "{text}");
        }
        // It needs a copy of the state when it is back.
        Fault::Compaction => end(run, node, 10 * WRITES).await,
        Fault::SlowInstall => {
            node.kill();
            run.writers.acknowledge(10 * WRITES).await;
            run.start_node(node, "snapshot-open=1*sleep(4000)->off");
            run.writers.acknowledge(WRITES).await;
            // The other one needs the vote of the one that opens the copy.
            end(run, run.cluster.at(run.cluster.leader().await), WRITES).await;
            node.ready().await;
        }
    }
}

fn place(run: &Run) -> PathBuf {
    run.folder.path().join("backups")
}

/// Loses all nodes, and compares what the place restores.
async fn assert_restorable(cluster: &Cluster, place: &Path, written: &[Written]) {
    let check = ["backup", "check", "--data", place.to_str().unwrap()];
    let (succeeded, text) = cluster.run(&check).await;
    assert!(succeeded, "{text}");
    let last = written.iter().map(|write| write.index).max().unwrap();
    let shipped = async || cluster.metric("hearth_backup_log_index").await;
    eventually("all is shipped", shipped, |shipped| *shipped >= last as f64).await;
    cluster.nodes().for_each(Node::kill);
    assert_restores(cluster, place, written, None).await;
    let list = ["backup", "list", "--json", place.to_str().unwrap()];
    let (_, text) = cluster.run(&list).await;
    let oldest: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    let oldest = oldest["index"].as_u64().unwrap();
    let later: Vec<u64> =
        written.iter().map(|write| write.index).filter(|index| *index > oldest).collect();
    let random = (random_after(setting("HEARTH_SEED", 1)) >> 33) as usize;
    for at in 0..RESTORATIONS {
        let index = later[(random + at * later.len() / RESTORATIONS) % later.len()];
        assert_restores(cluster, place, written, Some(index)).await;
    }
}

/// Restores to an entry, or to the end. The result is what was acknowledged up to there.
async fn assert_restores(cluster: &Cluster, place: &Path, written: &[Written], at: Option<u64>) {
    let (config, at_text) = (cluster.restored_config(), at.map(|at| at.to_string()));
    let mut restore =
        vec!["restore", place.to_str().unwrap(), "--config", config.to_str().unwrap()];
    restore.extend(at_text.iter().flat_map(|at| ["--at", at]));
    let (succeeded, text) = cluster.run(&restore).await;
    assert!(succeeded, "{text}");
    let mut process = serve(cluster, &config).await;
    let found = stored(cluster).await;
    assert!(process.stop().await, "{}", process.log());
    std::fs::remove_dir_all(cluster.folder().join("restored")).unwrap();
    let end = at.unwrap_or(u64::MAX);
    for Written { label, index, is_repeated } in written {
        let is_there = found.get(label).is_some_and(|ids| ids.len() == 1);
        assert!(is_there || *index > end, "{label} of entry {index} is not in that of {end}");
        assert!(
            !is_there || *is_repeated || *index <= end,
            "{label} of {index} is in that of {end}"
        );
    }
    println!("restored to {at:?}: {} memories", found.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn crashes_lose_and_repeat_nothing() {
    let run = Run::start(options()).await;
    run.endure(&FAULTS, inject).await;
    let (cluster, place) = (Arc::clone(&run.cluster), place(&run));
    let (written, _folder) = run.check().await;
    assert_restorable(&cluster, &place, &written).await;
}
