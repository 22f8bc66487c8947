//! Disks are slow, hang, or have little or no space.

use super::*;

/// Size of a node's disk, if this process may mount one.
const DISK_BYTES: u64 = 512 << 20;
/// Below the reserve of a node of `hearth dev`.
const LITTLE_BYTES: u64 = 40 << 20;
/// What a slow disk does.
const SLOW: &str = "5*off->5*sleep(100)->1*sleep(2000)->off";

#[derive(Debug, Clone, Copy)]
enum Fault {
    SlowLog,
    SlowLogs,
    SlowState,
    HangingLog,
    FullDisk,
    FullDisks,
    NoSpace,
}

const FAULTS: [Fault; 7] = [
    Fault::SlowLog,
    Fault::FullDisk,
    Fault::SlowState,
    Fault::FullDisks,
    Fault::NoSpace,
    Fault::HangingLog,
    Fault::SlowLogs,
];

/// Starts a node again, which uses its disk so often until it is slow.
async fn slow_down(run: &Run, node: &Node, point: &str) {
    node.kill();
    run.restart(node, point).await;
    run.writers.acknowledge(WRITES).await;
}

fn fill(node: &Node, bytes: u64) -> Option<Filler> {
    is_privileged().then(|| Filler::leave(&node.data(), bytes))
}

async fn inject(run: &Run, fault: Fault, node: &Node) {
    let nodes = || run.cluster.nodes();
    match fault {
        Fault::SlowLog => slow_down(run, node, &format!("log-sync={SLOW}")).await,
        Fault::SlowState => slow_down(run, node, &format!("apply-forget={SLOW}")).await,
        Fault::SlowLogs => {
            for node in nodes() {
                slow_down(run, node, "log-sync=40*sleep(250)->off").await;
            }
        }
        Fault::HangingLog => {
            slow_down(run, node, "log-sync=40*off->1*sleep(12000)->off").await;
            run.transfer_to(node).await;
            run.writers.acknowledge(WRITES).await;
        }
        Fault::FullDisk => {
            let _filler = fill(node, LITTLE_BYTES);
            run.writers.acknowledge(WRITES).await;
        }
        Fault::FullDisks => {
            let _fillers: Vec<_> = nodes().map(|node| fill(node, LITTLE_BYTES)).collect();
            tokio::time::sleep(PAUSE).await;
        }
        // A node without any space ends or goes on. With space, it starts and goes on.
        Fault::NoSpace => {
            let Some(filler) = fill(node, 0) else { return };
            run.writers.acknowledge(WRITES).await;
            drop(filler);
            node.kill();
            run.restart(node, "").await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn harmed_disks_lose_and_repeat_nothing() {
    let options = if is_privileged() { options().disks(DISK_BYTES) } else { options() };
    let run = Run::start(options).await;
    run.endure(&FAULTS, inject).await;
    run.check().await;
}
