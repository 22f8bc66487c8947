//! What a node tells the service manager that started it, by the protocol of systemd (sd_notify(3)):
//! that it serves, that it stops, and at intervals that it is alive. Without a service manager, nothing.

use std::time::Duration;

use sd_notify::NotifyState;
use tokio::time::MissedTickBehavior;

/// Signs of life within the time after which the manager restarts a silent process.
const SIGNS_PER_TIMEOUT: u32 = 3;

/// A state of this process.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ProcessState {
    /// It reads its data. The start may take as long as the unit permits.
    Opens,
    /// Its listeners respond. The cluster may lack a leader: the next node may start only after this one.
    Serves,
    /// It ends in order.
    Stops,
}

/// Reports a state. A manager that does not listen is logged, and has no other effect.
pub(crate) fn report(state: ProcessState) {
    let sent = match state {
        ProcessState::Opens => sd_notify::notify(&[NotifyState::Status("opens its data")]),
        ProcessState::Serves => {
            sd_notify::notify(&[NotifyState::Ready, NotifyState::Status("serves")])
        }
        ProcessState::Stops => {
            sd_notify::notify(&[NotifyState::Stopping, NotifyState::Status("stops")])
        }
    };
    if let Err(error) = sent {
        tracing::warn!(%error, ?state, "cannot report to the service manager");
    }
}

/// Sends signs of life, if the manager expects them. It restarts a process whose tasks no longer run.
pub(crate) async fn watchdog_task() {
    let Some(timeout) = sd_notify::watchdog_enabled() else { return };
    let interval = (timeout / SIGNS_PER_TIMEOUT).max(Duration::from_millis(1));
    let mut interval = tokio::time::interval(interval);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        interval.tick().await;
        if let Err(error) = sd_notify::notify(&[NotifyState::Watchdog]) {
            tracing::warn!(%error, "cannot report to the service manager");
        }
    }
}
