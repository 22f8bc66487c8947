//! Background tasks of a node: every node reports its recalls; the leader advances ticks and
//! removes expired data. `storage` decides the effect of each command.

use std::collections::HashMap;
use std::time::Duration;

use api::App;
use raft::{Handle, NodeId, Outcome, SubmitError};
use storage::command::{AdvanceTick, Expire, RecordReport};
use storage::model::analytics::Report;
use storage::model::id::TenantId;
use storage::{Accepted, Command, Expired, Progress, Reader, Reply, ReplyValue, TickFinds};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::process::finished;

/// Interval of reports. A node that crashes loses the recalls of one interval at most.
const REPORT_INTERVAL: Duration = Duration::from_millis(500);
/// Pause after a report that was full. What is left follows in small reports, so that no write waits
/// long for one.
const FULL_REPORT_PAUSE: Duration = Duration::from_millis(100);
/// Time limit of submitting a report or a tick.
const SUBMIT_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval at which the leader checks for due ticks.
const TICK_INTERVAL: Duration = Duration::from_millis(500);
/// Tenants whose found candidates are kept for the next steps. Those of others are found again.
const FOUND_MAX: usize = 64;
/// Interval at which the leader removes expired data.
const EXPIRE_INTERVAL: Duration = Duration::from_secs(60);
/// Pause before it continues with what is left.
const EXPIRE_PAUSE: Duration = Duration::from_millis(100);
/// Time limit of the last report of a node that stops.
const LAST_REPORT_TIMEOUT: Duration = Duration::from_secs(2);

pub(crate) struct BackgroundTasks {
    stop: oneshot::Sender<()>,
    report: JoinHandle<()>,
}

impl BackgroundTasks {
    /// Starts all tasks. `boot` is a random number of this process.
    pub(crate) fn start(
        app: &App,
        raft: &Handle,
        reader: &Reader,
        node: NodeId,
        boot: u64,
    ) -> Self {
        let (stop, stopped) = oneshot::channel();
        let report = Report { node, boot, number: 1, tenants: Vec::new() };
        let fault = raft.fault();
        let reporting = report_task(app.clone(), raft.clone(), report, stopped);
        let report = tokio::spawn(fault.guard(reporting));
        tokio::spawn(fault.guard(tick_task(raft.clone(), reader.clone())));
        tokio::spawn(fault.guard(expire_task(raft.clone())));
        Self { stop, report }
    }

    /// Reports all recalls that are not reported yet, then ends the reports.
    pub(crate) async fn stop_reporting(self) {
        // The task of a quarantined node has ended already.
        let _: Result<(), ()> = self.stop.send(());
        if tokio::time::timeout(LAST_REPORT_TIMEOUT, self.report).await.is_err() {
            tracing::warn!(
                "no leader for the last report: recalls since the previous one are lost"
            );
        }
    }
}

/// Reports recalls at an interval, from the empty `report` on. Once `stopped`, reports all that
/// remain, and ends.
async fn report_task(
    app: App,
    raft: Handle,
    mut report: Report,
    mut stopped: oneshot::Receiver<()>,
) {
    let (mut is_last, mut pause) = (false, REPORT_INTERVAL);
    loop {
        if !is_last {
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                _ = &mut stopped => is_last = true,
            }
        }
        // It reads all that waits, and sorts what is due.
        let buffered = app.clone();
        let due = tokio::task::spawn_blocking(move || buffered.report(is_last));
        let Some(due) = finished(due).await else { return };
        pause = if due.is_full { FULL_REPORT_PAUSE } else { REPORT_INTERVAL };
        report.tenants = due.tenants;
        if report.tenants.is_empty() {
            if is_last {
                return;
            }
            continue;
        }
        if let Err(SubmitError::Quarantined) = submit_report(&raft, &report).await {
            return;
        }
        report.number += 1;
    }
}

/// Submits a report until its outcome is known. Repeats have the same number, so the report
/// counts once.
async fn submit_report(raft: &Handle, report: &Report) -> Result<(), SubmitError> {
    loop {
        let command = Command::of_cluster(RecordReport(report.clone()));
        match raft.submit(command, Instant::now() + SUBMIT_TIMEOUT).await {
            Ok(Outcome { accepted, .. }) => {
                if let Err(rejection) = accepted {
                    tracing::warn!(%rejection, "report rejected");
                }
                return Ok(());
            }
            Err(SubmitError::Quarantined) => return Err(SubmitError::Quarantined),
            Err(error) => tracing::debug!(%error, "report not submitted, retrying"),
        }
        tokio::time::sleep(REPORT_INTERVAL).await;
    }
}

/// Advances the tick of every tenant while this node leads.
async fn tick_task(raft: Handle, reader: Reader) {
    let (mut has_unfinished, mut found) = (false, HashMap::new());
    loop {
        if !has_unfinished {
            tokio::time::sleep(TICK_INTERVAL).await;
        }
        has_unfinished = false;
        if !raft.is_leader() {
            found.clear();
            continue;
        }
        let due = match found_ticks(&reader).await {
            Some(Ok(due)) => due,
            Some(Err(error)) => return raft.fault().report_storage(&error),
            None => return,
        };
        // One step per tenant and round: a tenant with many heat transitions delays no other.
        found.retain(|tenant, _| due.contains(tenant));
        for tenant in due {
            let (reader, mut steps) = (reader.clone(), found.remove(&tenant).unwrap_or_default());
            let find = move || (reader.next_tick_step(tenant, &mut steps), steps);
            let Some((step, steps)) = finished(tokio::task::spawn_blocking(find)).await else {
                return;
            };
            let step = match step {
                Ok(Some(step)) => Some(Box::new(step)),
                Ok(None) => continue,
                Err(error) => return raft.fault().report_storage(&error),
            };
            let command = Command::of_tenant(tenant, AdvanceTick(step));
            let submitted = raft.submit_here(command, Instant::now() + SUBMIT_TIMEOUT).await;
            // An error means that another node leads. It continues from the state.
            let progress = submitted.ok().and_then(|outcome| outcome.accepted.ok());
            let progress = progress.and_then(|accepted| Progress::from_reply(accepted.reply));
            if progress == Some(Progress::Partial) {
                has_unfinished = true;
                if found.len() < FOUND_MAX {
                    found.insert(tenant, steps);
                }
            }
        }
    }
}

/// Tenants with a due tick that may find something; `None` if the runtime ends. Other due ticks are
/// left out.
async fn found_ticks(reader: &Reader) -> Option<storage::Result<Vec<TenantId>>> {
    let reader = reader.clone();
    let find = move || {
        let mut found = Vec::new();
        for tenant in reader.tick_due() {
            match reader.tick_finds(tenant)? {
                TickFinds::Something => found.push(tenant),
                TickFinds::NothingUntil { until, version } => {
                    reader.leave_out_ticks(tenant, until, version);
                }
            }
        }
        Ok(found)
    };
    finished(tokio::task::spawn_blocking(find)).await
}

/// Removes expired data while this node leads, of some tenants at a time.
async fn expire_task(raft: Handle) {
    let (mut first, mut pause) = (TenantId(0), EXPIRE_INTERVAL);
    loop {
        tokio::time::sleep(pause).await;
        let deadline = Instant::now() + EXPIRE_INTERVAL;
        let command = Command::of_cluster(Expire(first));
        (first, pause) = match raft.submit_here(command, deadline).await {
            Ok(Outcome {
                accepted: Ok(Accepted { reply: Reply::Expired(Expired { next: Some(next) }), .. }),
                ..
            }) => (next, EXPIRE_PAUSE),
            Ok(_) => (TenantId(0), EXPIRE_INTERVAL),
            Err(error) => {
                tracing::debug!(%error, "expired data not removed by this node");
                (TenantId(0), EXPIRE_INTERVAL)
            }
        };
    }
}
