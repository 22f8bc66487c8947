//! The executor: one task that, while this node leads, takes waiting commands,
//! decides them together, and puts what was decided through the log. It knows
//! commands by tenant, size and class only, and batches as bytes.
//!
//! Outcomes have one meaning each. *ApplyOutcome*: answer. *Stale*: decide again.
//! *ForwardToLeader*: nothing happened. *Everything else*: unknown, and never
//! decided again.

use std::sync::Arc;
use std::time::Duration;

use openraft::ReadPolicy;
use openraft::errors::ClientWriteError;
use openraft::impls::ProgressResponder;
use openraft::raft::ClientWriteResult;
use storage::model::cluster::BatchId;
use storage::{Action, ApplyOutcome, Command, Decision, Draft, Reader, Room, codec, decide};
use tokio::time::Instant;

use crate::error::{Outcome, SubmitError};
use crate::leader::clock::ClusterClock;
use crate::leader::queue::QueuedCommand;
use crate::shared::Shared;
use crate::types::{Payload, TypeConfig};

/// Most commands of a batch.
pub const BATCH_COMMANDS_MAX: usize = 256;
/// When nothing was stamped for this long the leader writes a bare stamp, so
/// that heat and expiry stay true in an idle cluster.
const STAMP_INTERVAL: Duration = Duration::from_secs(5);

/// Pause before a term is opened again that did not open.
const REOPEN_PAUSE: Duration = Duration::from_millis(100);

/// The task's own state.
pub(crate) struct Executor {
    pub(crate) shared: Arc<Shared>,
    pub(crate) reader: Reader,
}

/// One term of leading.
struct Term {
    term: u64,
    /// Batches of this term so far.
    counter: u64,
    clock: ClusterClock,
    /// When a stamp last went through the log.
    stamped_at: Instant,
}

/// A batch put through the log, or not.
enum WriteOutcome {
    ApplyOutcome,
    Stale,
    NotLeader,
    Unknown,
}

type Decided = Vec<(QueuedCommand, Decision)>;

impl Executor {
    pub(crate) async fn run(self) {
        // Across everything that happens in one term, so that no batch id names two.
        let mut counter = (0, 0);
        while let Some(term) = self.shared.next_term().await {
            // Confirms the leadership, and waits until all that was inherited is applied:
            // decisions must start from everything that was ever acknowledged.
            let ready = self.shared.raft.ensure_linearizable(ReadPolicy::ReadIndex).await;
            if let Err(error) = ready {
                tracing::info!(term, %error, "not leading after all");
                // The metrics may say otherwise for a while yet.
                tokio::time::sleep(REOPEN_PAUSE).await;
                continue;
            }
            tracing::info!(term, "leading");
            self.shared.open_term(term);
            if counter.0 != term {
                counter = (term, 0);
            }
            let clock = ClusterClock::new(self.reader.position().clock);
            let mut led = Term { term, counter: counter.1, clock, stamped_at: Instant::now() };
            self.lead(&mut led).await;
            counter.1 = led.counter;
            self.shared.close_term();
            self.fail_queued();
        }
        self.fail_queued();
    }

    /// Serves commands until this node no longer leads `term`.
    async fn lead(&self, term: &mut Term) {
        while self.shared.leads(term.term) {
            tokio::select! {
                () = self.shared.queued() => {}
                () = tokio::time::sleep_until(term.stamped_at + STAMP_INTERVAL) => {}
                () = self.shared.leadership_lost(term.term) => return,
            }
            // Rounds that log nothing stamp nothing: they do not put the stamp off.
            if term.stamped_at.elapsed() >= STAMP_INTERVAL {
                self.shared.push_stamp();
            }
            if self.round(term).await.is_err() {
                return;
            }
        }
    }

    /// Decides what waits and puts it through the log; decides the same commands
    /// again as long as the state turns out to be another than the one decided on.
    /// An error means that this node leads no more, or stops; everybody was told.
    async fn round(&self, term: &mut Term) -> Result<(), ()> {
        let mut again = Vec::new();
        loop {
            let wall_clock = self.shared.local.wall_clock.now();
            let (local, voters) = (&self.shared.local, self.shared.voters());
            let now =
                term.clock.stamp(wall_clock, local.contact.median(local.node, &voters, wall_clock));
            let began = std::time::Instant::now();
            let mut draft = Draft::new(&self.reader, now);
            let first = std::mem::take(&mut again);
            // Reads the state: heartbeats and votes move away meanwhile.
            let decided = tokio::task::block_in_place(|| self.decide_waiting(&mut draft, first))?;
            if decided.is_empty() {
                return Ok(());
            }
            let after = draft.after();
            let logged = !draft.is_empty();
            let written = if !logged {
                self.confirm(after).await
            } else {
                term.counter += 1;
                let id = BatchId { term: term.term, counter: term.counter };
                let bytes = codec::encode(&draft.into_batch(id));
                self.shared.counters.batch(decided.len(), bytes.len());
                self.write(term.term, bytes).await
            };
            match written {
                WriteOutcome::ApplyOutcome => {
                    if logged {
                        term.stamped_at = Instant::now();
                    }
                    // A quorum confirmed since then that this node leads, and has all.
                    let index = self.reader.position().index;
                    local.contact.confirmed(index, began, index);
                    self.answer(decided);
                    return Ok(());
                }
                WriteOutcome::Stale => {
                    again = decided.into_iter().map(|(waiting, _)| waiting).collect()
                }
                WriteOutcome::NotLeader => return fail(decided, SubmitError::NoLeader),
                WriteOutcome::Unknown => return fail(decided, SubmitError::Unknown),
            }
        }
    }

    /// Decides commands until the batch is full: first those of `again`, then
    /// those that wait. Faults of this machine end the node.
    fn decide_waiting(
        &self,
        draft: &mut Draft<'_>,
        again: Vec<QueuedCommand>,
    ) -> Result<Decided, ()> {
        let mut again = again.into_iter();
        let mut decided = Vec::new();
        while decided.len() < BATCH_COMMANDS_MAX && draft.room() == Room::Free {
            let Some(waiting) = again.next().or_else(|| self.shared.claim_next()) else { break };
            match decide(draft, &waiting.command) {
                Ok(decision) => decided.push((waiting, decision)),
                Err(error) => {
                    self.shared.local.fault.storage(&error);
                    waiting.fail(SubmitError::Unknown);
                    return fail(decided, SubmitError::Unknown);
                }
            }
        }
        // Decided again, the same commands may need more room than one batch has. They
        // are the executor's already, and nothing of them was done.
        again.for_each(|waiting| waiting.fail(SubmitError::Busy));
        Ok(decided)
    }

    async fn write(&self, term: u64, bytes: Vec<u8>) -> WriteOutcome {
        let (responder, answer) =
            ProgressResponder::<TypeConfig, ClientWriteResult<TypeConfig>>::complete_only();
        let write = self.shared.raft.write(Payload(bytes)).with_leader(term).responder(responder);
        if write.await.is_err() {
            return WriteOutcome::Unknown;
        }
        match answer.await {
            Ok(Ok(response)) => match response.data {
                ApplyOutcome::Done => WriteOutcome::ApplyOutcome,
                ApplyOutcome::Stale => WriteOutcome::Stale,
            },
            // Matched by its name: other variants carry the same hint but another meaning.
            Ok(Err(ClientWriteError::ForwardToLeader(_))) => WriteOutcome::NotLeader,
            Ok(Err(_)) | Err(_) => WriteOutcome::Unknown,
        }
    }

    /// A round without anything to log still answers only what is true of the
    /// newest state: reads it linearizably and compares.
    async fn confirm(&self, decided_on: BatchId) -> WriteOutcome {
        match self.shared.raft.ensure_linearizable(ReadPolicy::ReadIndex).await {
            Ok(_) if self.reader.position().batch == decided_on => WriteOutcome::ApplyOutcome,
            Ok(_) => WriteOutcome::Stale,
            Err(_) => WriteOutcome::NotLeader,
        }
    }

    fn answer(&self, decided: Decided) {
        let index = self.reader.position().index;
        for (waiting, decision) in decided {
            self.shared.counters.decided(decision.is_ok());
            waiting.answer(Outcome { index, decision });
        }
    }

    /// Tells everybody who waits that this node does not lead.
    fn fail_queued(&self) {
        while let Some(waiting) = self.shared.claim_next() {
            waiting.fail(SubmitError::NoLeader);
        }
    }
}

fn fail<T>(decided: Decided, error: SubmitError) -> Result<T, ()> {
    decided.into_iter().for_each(|(waiting, _)| waiting.fail(error));
    Err(())
}

impl QueuedCommand {
    /// A bare stamp that nobody waits for.
    pub(crate) fn stamp() -> Self {
        Self::new(Command::background(Action::AdvanceClock)).0
    }

    // A waiter that went away needs no answer.
    fn answer(self, outcome: Outcome) {
        let _: Result<(), _> = self.answer.send(Ok(outcome));
    }

    fn fail(self, error: SubmitError) {
        let _: Result<(), _> = self.answer.send(Err(error));
    }
}
