//! Processes pause for longer than an election, and go on as if nothing had been.

use super::*;

#[derive(Debug, Clone, Copy)]
enum Fault {
    Any,
    Leader,
    Short,
    Majority,
}

const FAULTS: [Fault; 4] = [Fault::Any, Fault::Leader, Fault::Short, Fault::Majority];
/// Shorter than an election.
const SHORT: Duration = Duration::from_millis(300);

async fn inject(run: &Run, fault: Fault, node: &Node) {
    let leader = run.cluster.at(run.cluster.leader().await);
    let (paused, time): (Vec<&Node>, _) = match fault {
        Fault::Any => (vec![node], PAUSE),
        Fault::Leader => (vec![leader], PAUSE),
        Fault::Short => (vec![leader], SHORT),
        Fault::Majority => {
            let others = run.cluster.nodes().filter(|other| other.id() != node.id());
            (others.collect(), PAUSE)
        }
    };
    paused.iter().for_each(|node| node.pause());
    tokio::time::sleep(time).await;
    paused.iter().for_each(|node| node.resume());
}

#[tokio::test(flavor = "multi_thread")]
async fn pauses_lose_and_repeat_nothing() {
    let run = Run::start(options()).await;
    run.endure(&FAULTS, inject).await;
    run.check().await;
}
