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

async fn inject(run: &Run, fault: Fault, node: &Node) {
    let id = match fault {
        Fault::Leader => run.cluster.at(run.cluster.leader().await).id(),
        _ => node.id(),
    };
    run.write_without(|from, to| match (fault, from == id, to == id) {
        (_, false, false) => None,
        (Fault::LostResponses, true, _) => Some("from:"),
        (Fault::RefusedPath, true, _) => Some("refused:"),
        (Fault::RefusedPath, false, _) => None,
        _ => Some(""),
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_messages_lose_and_repeat_nothing() {
    let run = Run::start(options()).await;
    run.endure(&FAULTS, inject).await;
    run.check().await;
}
