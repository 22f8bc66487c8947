//! What a node does by itself: every node reports what it saw; the leader ticks and
//! forgets what is past its time. What these do is decided in `storage`.

use std::time::Duration;

use api::App;
use raft::{Handle, NodeId, Outcome, SubmitError};
use storage::model::analytics::Report;
use storage::{Action, Command, Reader, Reply};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// How often a node reports: a node that dies loses no more recalls than those since.
const REPORT_INTERVAL: Duration = Duration::from_millis(500);
/// How long a report may wait for the cluster.
const REPORT_TIMEOUT: Duration = Duration::from_secs(10);
/// How often the leader looks whether a tick is due.
const TICK_INTERVAL: Duration = Duration::from_millis(500);
/// How often the leader forgets what is past its time.
const HOUSEKEEP_INTERVAL: Duration = Duration::from_secs(60);

/// Longest that a node which stops waits for its last report.
const LAST_REPORT: Duration = Duration::from_secs(2);

/// The duties of a node that serves.
pub(crate) struct BackgroundTasks {
    stop: oneshot::Sender<()>,
    report: JoinHandle<()>,
}

impl BackgroundTasks {
    /// Starts all of them.
    pub(crate) fn start(
        app: &App,
        raft: &Handle,
        reader: &Reader,
        node: NodeId,
        boot: u64,
    ) -> Self {
        let (stop, stopped) = oneshot::channel();
        let report = tokio::spawn(report(app.clone(), raft.clone(), (node, boot), stopped));
        tokio::spawn(tick(raft.clone(), reader.clone()));
        tokio::spawn(expire(raft.clone()));
        Self { stop, report }
    }

    /// Has the node report all that it still holds back.
    pub(crate) async fn report_the_rest(self) {
        // One that has ended has nothing to say.
        let _: Result<(), ()> = self.stop.send(());
        if tokio::time::timeout(LAST_REPORT, self.report).await.is_err() {
            tracing::warn!(
                "the last report found no leader: recalls since the one before are lost"
            );
        }
    }
}

/// Reports what this node saw. A report whose fate is unknown is sent again under its
/// number: it counts once. Once `stopped`, it reports what waits for its time as well, and ends.
async fn report(
    app: App,
    raft: Handle,
    (node, boot): (NodeId, u64),
    mut stopped: oneshot::Receiver<()>,
) {
    let mut last = false;
    for number in 1.. {
        let tenants = loop {
            if !last {
                tokio::select! {
                    () = tokio::time::sleep(REPORT_INTERVAL) => {}
                    _ = &mut stopped => last = true,
                }
            }
            let tenants = app.report(last);
            if !tenants.is_empty() {
                break tenants;
            }
            if last {
                return;
            }
        };
        let report = Report { node, boot, number, tenants };
        loop {
            let command = Command::background(Action::RecordReport(report.clone()));
            match raft.submit(command, Instant::now() + REPORT_TIMEOUT).await {
                Ok(Outcome { decision: Ok(_), .. }) => break,
                Ok(Outcome { decision: Err(rejection), .. }) => {
                    tracing::warn!(%rejection, "a report was refused");
                    break;
                }
                Err(SubmitError::Quarantined) => return,
                Err(error) => tracing::debug!(%error, "a report waits"),
            }
            tokio::time::sleep(REPORT_INTERVAL).await;
        }
    }
}

/// Ticks for every tenant, while this node leads.
async fn tick(raft: Handle, reader: Reader) {
    loop {
        tokio::time::sleep(TICK_INTERVAL).await;
        // A step of each in turn: one of many crossings keeps no other waiting.
        let mut due = reader.tick_due();
        while !due.is_empty() {
            let mut unfinished = Vec::new();
            for tenant in due {
                let command =
                    Command { tenant: Some(tenant), ..Command::background(Action::AdvanceTick) };
                let submitted = raft.submit_here(command, Instant::now() + REPORT_TIMEOUT).await;
                // Otherwise another node leads, and goes on where the state says.
                if submitted.is_ok_and(|outcome| outcome.decision == Ok(Reply::Partial)) {
                    unfinished.push(tenant);
                }
            }
            due = unfinished;
        }
    }
}

/// Forgets what is past its time, while this node leads.
async fn expire(raft: Handle) {
    let mut pause = HOUSEKEEP_INTERVAL;
    loop {
        tokio::time::sleep(std::mem::replace(&mut pause, HOUSEKEEP_INTERVAL)).await;
        let deadline = Instant::now() + HOUSEKEEP_INTERVAL;
        match raft.submit_here(Command::background(Action::Expire), deadline).await {
            Ok(Outcome { decision: Ok(Reply::Partial), .. }) => pause = Duration::ZERO,
            Ok(outcome) => tracing::debug!(index = outcome.index, "housekeeping done"),
            Err(error) => tracing::debug!(%error, "housekeeping not done here"),
        }
    }
}
