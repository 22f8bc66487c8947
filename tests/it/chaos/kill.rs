//! Processes end: one, the leader, or all at once. Drills restore what is shipped.

use super::*;

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
            let place = run.place();
            let create = ["backup", "create", place.to_str().unwrap(), "--ops", node.ops()];
            let (succeeded, text) = run.cluster.run(&create).await;
            assert!(succeeded || text.contains("is under way"), "{text}");
        }
        Fault::Drill => {
            let (place, config) = (run.place(), node.data().join("hearth.toml"));
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

#[tokio::test(flavor = "multi_thread")]
async fn crashes_lose_and_repeat_nothing() {
    let run = Run::start(options()).await;
    run.endure(&FAULTS, inject).await;
    run.check().await;
}
