//! The executor: the single task on the leader that turns commands into log entries.
//!
//! # Problem
//! A command is a request, such as "delete this memory unless it is locked". Replicas must apply
//! identical changes. So the leader evaluates each command once, and the log holds the
//! resulting changes. CockroachDB calls this proposer-evaluated KV. The leader must
//! then evaluate on a state that contains every acknowledged write.
//!
//! # Algorithm
//! Commands are decided in rounds. One round is one log entry, with one sync on each node
//! (group commit):
//!
//! 1. Stamp: take the next time of the cluster clock.
//! 2. Decide: take queued commands and decide them one after the other on a draft of the state.
//!    Later commands of the round include the changes of earlier ones.
//! 3. Propose: write the draft as one batch. It holds the id of the batch that it was decided
//!    on.
//! 4. Apply: a replica applies the batch only if its last batch is the one that this batch was
//!    decided on. Otherwise the batch is stale and changes nothing. This is optimistic
//!    concurrency control.
//! 5. Reply: send each command its decision.
//!
//! A round that changes nothing writes no entry. A ReadIndex confirms instead that its decisions
//! were made on the newest state.
//!
//! # Invariants
//! - A term opens only after a linearizable read barrier. By then the state contains every entry
//!   that an earlier leader acknowledged.
//! - Only a stale batch is decided again, because a stale batch had no effect.
//! - A write that returns neither an outcome nor `ForwardToLeader` has an unknown outcome. It is
//!   reported as such and never decided again.
//! - A batch counts on from the one that it is decided after. Two batches may have one id if the first has no
//!   outcome; both follow the same batch, so one of them is stale.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use openraft::ReadPolicy;
use openraft::errors::{ClientWriteError, RaftError};
use openraft::impls::ProgressResponder;
use openraft::raft::ClientWriteResult;
use storage::model::cluster::BatchId;
use storage::model::id::Timestamp;
use storage::span::{child_of, is_traced};
use storage::{Accepted, ApplyOutcome, Command, DecideError, Draft, Rejection, codec, decide};
use tokio::time::Instant;

use crate::error::{Outcome, SubmitError};
use crate::leader::clock::{ClockTarget, ClusterClock};
use crate::leader::queue::QueuedCommand;
use crate::shared::Shared;
use crate::shared_use::SharedUse;
use crate::types::{Payload, TypeConfig};

/// Largest command that joins a batch with commands of another key. One that is larger waits until
/// it is the first of a batch, so it does not delay the small ones that were before it.
const JOINING_COMMAND_BYTES_MAX: usize = 16 << 10;
/// Commands of one batch: of one tenant, and while several tenants use the leader. A command waits
/// for the batch before its own, so a busy tenant delays the others by two small batches.
const BATCH_COMMANDS_MAX: usize = 256;
const SHARED_BATCH_COMMANDS_MAX: usize = 16;
/// Longest time in which commands are added to a batch. It bounds how long the expensive commands
/// of one key delay those of others, since the queue is fair between batches.
const DECIDE_TIME_MAX: Duration = Duration::from_millis(10);
/// Time without a stamp after which the leader writes a batch that holds only a stamp. Heat and
/// expiry depend on it in an idle cluster.
const STAMP_INTERVAL: Duration = Duration::from_secs(5);
/// Distance of the cluster clock from its target that is logged.
const CLOCK_ERROR_MAX: Duration = Duration::from_secs(10);
/// Pause after a failed attempt to open a term.
const REOPEN_PAUSE: Duration = Duration::from_millis(100);

pub(crate) struct Executor {
    pub(crate) shared: Arc<Shared>,
}

/// A term in which this node leads.
struct Term {
    term: u64,
    clock: ClusterClock,
    /// Whether the clock is far from its target. This is logged once.
    is_clock_wrong: bool,
    /// Time of the last batch, and so of the last stamp in the log.
    stamped_at: Instant,
}

/// Outcome of a batch that was proposed or confirmed; `NoLeader` or `Unknown` if it has none.
type WriteOutcome = Result<ApplyOutcome, SubmitError>;

type Decisions = Vec<(QueuedCommand, Result<Accepted, Rejection>)>;

impl Executor {
    /// Runs until raft stops.
    pub(crate) async fn run(self) {
        while let Some(term) = self.shared.next_term().await {
            // Confirms the leadership, and waits until all inherited entries are applied.
            let ready = self.shared.raft.ensure_linearizable(ReadPolicy::ReadIndex).await;
            // The metrics report this node as the leader for ever.
            if let Err(RaftError::Fatal(_)) = ready {
                break;
            }
            if let Err(error) = ready {
                tracing::info!(term, %error, "leadership not confirmed");
                // The metrics may still report this node as the leader.
                tokio::time::sleep(REOPEN_PAUSE).await;
                continue;
            }
            tracing::info!(term, "leadership confirmed");
            self.shared.leading.set_open_term(term);
            self.lead(&mut self.new_term(term)).await;
            self.shared.leading.set_open_term(0);
            self.fail_queued();
        }
        self.fail_queued();
    }

    fn new_term(&self, term: u64) -> Term {
        let local = &self.shared.local;
        let (last, applied) = (local.reader.position().clock, local.contact.last_stamp());
        let is_first = last == Timestamp::default();
        let boottime = local.clock.read().boottime;
        let clock = ClusterClock::new(last, applied, boottime, is_first);
        self.shared.leading.clock_jump.store(false, Ordering::SeqCst);
        Term { term, clock, is_clock_wrong: false, stamped_at: Instant::now() }
    }

    /// The next stamp, and the boot time at which it is made.
    fn stamp(&self, term: &mut Term) -> (Timestamp, Duration) {
        let local = &self.shared.local;
        let own = local.clock.read();
        let voters = self.shared.voters();
        let samples = local.contact.samples(&voters, local.node, own);
        let target =
            samples.map(|samples| ClockTarget::new(own.wall_clock, &samples, voters.len()));
        if target.is_some() && self.shared.leading.clock_jump.swap(false, Ordering::SeqCst) {
            term.clock.allow_jump();
        }
        let stamp = term.clock.stamp(own.boottime, target);
        let ahead = target.map_or(0, |target| target.error_micros(stamp));
        let is_wrong = u128::from(ahead.unsigned_abs()) > CLOCK_ERROR_MAX.as_micros();
        let was_wrong = std::mem::replace(&mut term.is_clock_wrong, is_wrong);
        if is_wrong && !was_wrong {
            tracing::warn!(
                cluster_time = %stamp,
                seconds_ahead = ahead as f64 / 1e6,
                "cluster time differs from the wall clocks of most voters. It approaches them at \
                 0.9 to 1.1 times the normal rate. Check the wall clocks. If they are right and \
                 cluster time is behind, run `hearth cluster clock --set-to-median`"
            );
        }
        (stamp, own.boottime)
    }

    /// Runs rounds until this node no longer leads the term.
    async fn lead(&self, term: &mut Term) {
        // A step of the wall clocks after this stamp cannot make cluster time jump.
        if term.clock.is_starting() {
            self.shared.leading.push_stamp();
        }
        while self.shared.is_leader_of(term.term) {
            tokio::select! {
                () = self.shared.leading.wait_queued() => {}
                () = tokio::time::sleep_until(term.stamped_at + STAMP_INTERVAL) => {}
                () = self.shared.leadership_lost(term.term) => return,
            }
            // Rounds without an entry do not stamp, so they do not postpone the stamp.
            if term.stamped_at.elapsed() >= STAMP_INTERVAL {
                self.shared.leading.push_stamp();
            }
            let _proposing = self.shared.leading.proposals.lock().await;
            // Leadership may have been transferred meanwhile.
            if !self.shared.is_leader_of(term.term) || self.run_round(term).await.is_err() {
                return;
            }
        }
    }

    /// Runs one round. Decides the same commands again while their batch turns out stale. An
    /// error means that the term is over for this node; every command has been completed.
    async fn run_round(&self, term: &mut Term) -> Result<(), ()> {
        let local = &self.shared.local;
        let mut stale = Vec::new();
        loop {
            let (now, boottime) = self.stamp(term);
            let mut draft = Draft::new(&local.reader, now);
            let first = std::mem::take(&mut stale);
            let decided = self.decide_queued(&mut draft, first)?;
            if decided.is_empty() {
                return Ok(());
            }
            let is_logged = !draft.is_empty();
            let name = if is_logged { "commit" } else { "confirm" };
            let spans = decided.iter().map(|(queued, _)| child_of(&queued.span, name));
            let traced = self.shared.peers.timings.trace(spans.filter(is_traced).collect());
            let outcome = match is_logged {
                true => self.propose(term.term, draft, decided.len()).await,
                false => self.confirm(draft.after()).await,
            };
            drop(traced);
            if is_logged && !matches!(outcome, Ok(ApplyOutcome::Done)) {
                self.shared.totals.lock().failed_batches += 1;
            }
            match outcome {
                Ok(ApplyOutcome::Done) => {
                    if is_logged {
                        term.stamped_at = Instant::now();
                        local.contact.record_stamp(now, boottime);
                    }
                    // Since the stamp, a quorum has confirmed this leader and its position.
                    let index = local.reader.position().index;
                    local.contact.record_commit(index, boottime, index);
                    self.complete(decided, index);
                    return Ok(());
                }
                Ok(ApplyOutcome::Stale) => {
                    stale = decided.into_iter().map(|(queued, _)| queued).collect();
                }
                Err(error) => return fail(decided, error),
            }
        }
    }

    /// Decides commands until the batch is full or took [`DECIDE_TIME_MAX`]: first `stale`, then
    /// the queue. A storage error stops the node.
    fn decide_queued(&self, draft: &mut Draft, stale: Vec<QueuedCommand>) -> Result<Decisions, ()> {
        let mut stale = stale.into_iter();
        let mut decided = Vec::new();
        let until = Instant::now() + DECIDE_TIME_MAX;
        let in_time = |stale: usize| stale > 0 || Instant::now() < until;
        let most = batch_max(&self.shared.used.node, Instant::now()).max(stale.len());
        while decided.len() < most && draft.room() > 0 && in_time(stale.len()) {
            let next = stale.next().or_else(|| {
                self.shared.leading.claim_next(|next| fits(next, draft.room(), &decided))
            });
            let Some(queued) = next else { break };
            let started_at = Instant::now();
            let deciding = child_of(&queued.span, "decide");
            let accepted = deciding.in_scope(|| decide(draft, &queued.command));
            drop(deciding);
            self.shared.leading.charge(&queued, started_at.elapsed());
            match accepted {
                Ok(accepted) => decided.push((queued, Ok(accepted))),
                Err(DecideError::Rejected(rejection)) => decided.push((queued, Err(rejection))),
                Err(DecideError::Fault(error)) => {
                    self.shared.local.fault.report_storage(&error);
                    queued.send(Err(SubmitError::Unknown));
                    return fail(decided, SubmitError::Unknown);
                }
            }
        }
        // On another state the same commands may exceed one batch. The claims of the rest are
        // taken, so they cannot return to the queue. They had no effect.
        stale.for_each(|queued| queued.send(Err(SubmitError::Busy)));
        Ok(decided)
    }

    /// Writes the draft to the log as the next batch of this term.
    async fn propose(&self, term: u64, draft: Draft, commands: usize) -> WriteOutcome {
        let bytes = codec::encode(&draft.into_batch(term));
        {
            let mut totals = self.shared.totals.lock();
            totals.batches += 1;
            totals.batch_bytes += bytes.len() as u64;
            totals.batch_commands += commands as u64;
        }
        let (responder, response) =
            ProgressResponder::<TypeConfig, ClientWriteResult<TypeConfig>>::complete_only();
        let _timer = self.shared.peers.timings.commit.start_timer();
        let write = self.shared.raft.write(Payload(bytes.into()));
        if write.responder(responder).await.is_err() {
            return Err(SubmitError::Unknown);
        }
        match response.await {
            Ok(Ok(response)) => Ok(response.data),
            // Only this variant means "no effect". Others carry the same hint.
            Ok(Err(ClientWriteError::ForwardToLeader(_))) => Err(SubmitError::NoLeader),
            Ok(Err(_)) | Err(_) => Err(SubmitError::Unknown),
        }
    }

    /// Confirms a round without an entry: its decisions are correct if `decided_on` is still
    /// the last batch at a read index.
    async fn confirm(&self, decided_on: BatchId) -> WriteOutcome {
        match self.shared.raft.ensure_linearizable(ReadPolicy::ReadIndex).await {
            Ok(_) if self.shared.local.reader.position().batch != decided_on => {
                Ok(ApplyOutcome::Stale)
            }
            Ok(_) => Ok(ApplyOutcome::Done),
            Err(_) => Err(SubmitError::NoLeader),
        }
    }

    fn complete(&self, decided: Decisions, index: u64) {
        let accepted = decided.iter().filter(|(_, accepted)| accepted.is_ok()).count();
        let mut totals = self.shared.totals.lock();
        totals.accepted += accepted as u64;
        totals.rejected += (decided.len() - accepted) as u64;
        drop(totals);
        for (queued, accepted) in decided {
            queued.send(Ok(Outcome { index, accepted }));
        }
    }

    fn fail_queued(&self) {
        while let Some(queued) = self.shared.leading.claim_next(|_| true) {
            queued.send(Err(SubmitError::NoLeader));
        }
    }
}

/// Most commands of a batch now.
fn batch_max(used: &SharedUse, now: Instant) -> usize {
    if used.is_shared(now) { SHARED_BATCH_COMMANDS_MAX } else { BATCH_COMMANDS_MAX }
}

/// Whether a command may join a batch that has `room` for so many bytes.
fn fits(next: &QueuedCommand, room: usize, decided: &Decisions) -> bool {
    let (bytes, next) = (next.bytes, &next.command);
    let is_of_next =
        |command: &Command| (command.tenant(), command.actor) == (next.tenant(), next.actor);
    let joins = bytes <= JOINING_COMMAND_BYTES_MAX
        || decided.iter().all(|(queued, _)| is_of_next(&queued.command));
    bytes <= room && joins
}

fn fail<T>(decided: Decisions, error: SubmitError) -> Result<T, ()> {
    decided.into_iter().for_each(|(queued, _)| queued.send(Err(error)));
    Err(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use storage::Reply;
    use storage::command::{BulkFilter, DeleteMemories};
    use storage::model::id::{KeyId, MemoryId, TenantId};
    use tracing::Span;

    #[test]
    fn batches_are_small_while_several_tenants_use_it() {
        let (used, now) = (SharedUse::default(), Instant::now());
        used.record(TenantId(1), now);
        assert_eq!(batch_max(&used, now), BATCH_COMMANDS_MAX);
        used.record(TenantId(2), now);
        assert_eq!(batch_max(&used, now), SHARED_BATCH_COMMANDS_MAX);
    }

    #[test]
    fn large_commands_join_batches_of_their_key() {
        let delete = |key: u8, memories: usize| {
            let ids = vec![MemoryId([0; 16]); memories];
            let deletion =
                DeleteMemories { ids, filter: BulkFilter::default(), rejects: Vec::new() };
            let actor = Some(KeyId([key; 8]));
            Command { actor, ..Command::of_tenant(TenantId(1), deletion) }
        };
        let batch = |commands: Vec<Command>| -> Decisions {
            let accepted = Accepted { reply: Reply::Done(()), notifications: Vec::new() };
            let decided =
                |command| (QueuedCommand::new(command, Span::none()).0, Ok(accepted.clone()));
            commands.into_iter().map(decided).collect()
        };
        let (small, large) = (delete(1, 10), delete(1, 2_000));
        let fits = |next: &Command, room, decided: &Decisions| {
            fits(&QueuedCommand::new(next.clone(), Span::none()).0, room, decided)
        };
        assert!(fits(&large, 1 << 20, &batch(Vec::new())));
        assert!(fits(&large, 1 << 20, &batch(vec![small.clone(), large.clone()])));
        assert!(!fits(&large, 1 << 20, &batch(vec![small.clone(), delete(2, 10)])));
        assert!(fits(&small, 1 << 20, &batch(vec![delete(2, 2_000)])));
        assert!(!fits(&small, 100, &batch(vec![delete(2, 10)])));
    }
}
