//! Messages are lost: all of a node, those of one direction, or responses; and connections are refused.

use super::*;

#[derive(Debug, Clone, Copy)]
enum Fault {
    Partition,
    Leader,
    LostResponses,
    RefusedPath,
}

const FAULTS: [Fault; 4] =
    [Fault::Partition, Fault::LostResponses, Fault::Leader, Fault::RefusedPath];

/// Cuts the paths from one node to another for which `kind` returns how (the failpoint `peer-cut`).
fn cut(run: &Run, kind: impl Fn(u64, u64) -> Option<&'static str>) {
    for node in run.cluster.nodes() {
        let others = run.cluster.nodes().filter(|other| other.id() != node.id());
        let path = |other: &Node| {
            let kind = kind(node.id(), other.id())?;
            Some(format!("{kind}{}", other.peer_address()))
        };
        let cut: Vec<_> = others.filter_map(path).collect();
        storage::file::replace(&run.cut_file(node), cut.join(" ").as_bytes()).unwrap();
    }
}

async fn inject(run: &Run, fault: Fault, node: &Node) {
    let id = match fault {
        Fault::Leader => run.cluster.at(run.cluster.leader().await).id(),
        _ => node.id(),
    };
    let kind = |from, to| match (fault, from == id, to == id) {
        (_, false, false) => None,
        (Fault::LostResponses, true, _) => Some("from:"),
        (Fault::RefusedPath, true, _) => Some("refused:"),
        (Fault::RefusedPath, false, _) => None,
        _ => Some(""),
    };
    cut(run, kind);
    // Each writer waits at a node that reaches no leader.
    run.writers.acknowledge(WRITES / 3).await;
    cut(run, |_, _| None);
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_messages_lose_and_repeat_nothing() {
    let run = Run::start(options()).await;
    run.endure(&FAULTS, inject).await;
    run.check().await;
}
