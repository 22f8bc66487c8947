//! The queue of commands in front of the executor. It is bounded in commands and bytes, per API
//! key, per tenant and in total. It is fair between tenants, and between the keys of a tenant.
//!
//! Keys take turns by cost, which is bytes or time, with deficit round robin (Shreedhar and
//! Varghese, 1995). The keys of a tenant share the credit of the tenant.
//! Commands of clients go before commands of background tasks. One in
//! [`CLIENTS_PER_BACKGROUND`] slots goes to a background command, so none of them starves.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use storage::model::id::{KeyId, TenantId};
use storage::{Command, Priority};
use tokio::sync::oneshot;
use tracing::Span;

use crate::error::{Claim, SubmitResult};

/// Maximum queued commands per tenant.
pub const TENANT_COMMANDS_MAX: usize = 1_024;
/// Maximum queued bytes per tenant.
pub const TENANT_BYTES_MAX: usize = 16 << 20;
/// Maximum queued commands per API key.
const KEY_COMMANDS_MAX: usize = TENANT_COMMANDS_MAX / 2;
/// Maximum queued bytes per API key.
const KEY_BYTES_MAX: usize = TENANT_BYTES_MAX / 2;
/// Maximum queued commands in total.
pub const COMMANDS_MAX: usize = 8_192;
/// Maximum queued bytes in total.
pub const BYTES_MAX: usize = 64 << 20;
/// Credit in bytes that a tenant receives per turn.
const QUANTUM_BYTES: i64 = 64 << 10;
/// Credit in bytes that a command costs at least: a small command may take long to decide.
const COST_MIN_BYTES: i64 = 4 << 10;
/// Credit in bytes that a microsecond of deciding costs, if that is more than the command's own.
const COST_PER_MICROSECOND: i64 = 100;
/// Most credit in bytes that a key can be below zero.
const DEBT_MAX: i64 = 16 * QUANTUM_BYTES;
/// Client commands after which a queued background command goes first.
const CLIENTS_PER_BACKGROUND: usize = 64;

/// A queued command, and the channel for its outcome.
pub(crate) struct QueuedCommand {
    pub(crate) command: Command,
    /// Approximate size of the command in memory.
    pub(crate) bytes: usize,
    pub(crate) claim: Claim,
    /// Of its submission.
    pub(crate) span: Span,
    outcome: oneshot::Sender<SubmitResult>,
}

impl QueuedCommand {
    /// A queued command, and the receiver of its outcome. The span ends with the outcome.
    pub(crate) fn new(command: Command, span: Span) -> (Self, oneshot::Receiver<SubmitResult>) {
        let (outcome, receiver) = oneshot::channel();
        let bytes = command.size_bytes();
        (Self { command, bytes, claim: Claim::default(), span, outcome }, receiver)
    }

    pub(crate) fn send(self, result: SubmitResult) {
        // A submitter that passed its deadline has dropped the receiver.
        let _: Result<(), _> = self.outcome.send(result);
    }
}

#[derive(Default)]
pub(crate) struct Queue {
    clients: FairQueue,
    background: FairQueue,
    clients_since_background: usize,
    count: usize,
    bytes: usize,
}

/// Commands of one priority, fair between tenants and their keys.
#[derive(Default)]
struct FairQueue {
    /// Keys in the order of their turns. Each has a queue that is not empty.
    turns: VecDeque<Actor>,
    actors: HashMap<Actor, ActorQueue>,
    tenants: HashMap<Option<TenantId>, TenantUse>,
}

/// The tenant and the key of a command.
type Actor = (Option<TenantId>, Option<KeyId>);

#[derive(Default)]
struct ActorQueue {
    commands: VecDeque<QueuedCommand>,
    bytes: usize,
    /// Bytes. Negative if commands took longer than their size allows.
    credit: i64,
}

/// What a command of so many bytes costs at least.
fn cost_in_bytes(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX).max(COST_MIN_BYTES)
}

/// What the queues of a tenant's keys hold together.
#[derive(Default)]
struct TenantUse {
    actors: i64,
    commands: usize,
    bytes: usize,
}

impl Queue {
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Adds a command. Returns whether the queue had room for it.
    pub(crate) fn push(&mut self, queued: QueuedCommand) -> bool {
        let bytes = queued.bytes;
        let has_room = self.count < COMMANDS_MAX && self.bytes + bytes <= BYTES_MAX;
        let is_added = has_room && self.of(queued.command.class().priority()).push(queued);
        if is_added {
            self.count += 1;
            self.bytes += bytes;
        }
        is_added
    }

    /// Takes the time in which a command was decided from the credit of its key.
    pub(crate) fn charge(&mut self, queued: &QueuedCommand, time: Duration) {
        let micros = i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
        let of_time = micros.saturating_mul(COST_PER_MICROSECOND);
        let excess = of_time - cost_in_bytes(queued.bytes);
        if excess > 0 {
            let command = &queued.command;
            self.of(command.class().priority()).charge(&(command.tenant(), command.actor), excess);
        }
    }

    fn of(&mut self, priority: Priority) -> &mut FairQueue {
        match priority {
            Priority::Client => &mut self.clients,
            Priority::Background => &mut self.background,
        }
    }

    /// Takes the next command, if it fits.
    pub(crate) fn pop(&mut self, fits: impl Fn(&QueuedCommand) -> bool) -> Option<QueuedCommand> {
        let is_due = self.clients_since_background >= CLIENTS_PER_BACKGROUND;
        let due = if is_due { self.background.pop(&fits) } else { None };
        let client = if due.is_none() { self.clients.pop(&fits) } else { None };
        self.clients_since_background = match client {
            Some(_) => self.clients_since_background.saturating_add(1),
            None => 0,
        };
        let queued = due.or(client).or_else(|| self.background.pop(&fits))?;
        self.count -= 1;
        self.bytes -= queued.bytes;
        Some(queued)
    }
}

impl FairQueue {
    fn charge(&mut self, actor: &Actor, cost: i64) {
        // A key without a queued command keeps no debt: others had their turn meanwhile.
        if let Some(queue) = self.actors.get_mut(actor) {
            queue.credit = (queue.credit - cost).max(-DEBT_MAX);
        }
    }

    fn push(&mut self, queued: QueuedCommand) -> bool {
        let bytes = queued.bytes;
        let actor = (queued.command.tenant(), queued.command.actor);
        let of_tenant = self.tenants.get(&actor.0);
        let tenant_is_full = of_tenant.is_some_and(|of_tenant| {
            of_tenant.commands >= TENANT_COMMANDS_MAX || of_tenant.bytes + bytes > TENANT_BYTES_MAX
        });
        let of_actor = self.actors.get(&actor);
        let actor_is_full = of_actor.is_some_and(|queue| {
            queue.commands.len() >= KEY_COMMANDS_MAX || queue.bytes + bytes > KEY_BYTES_MAX
        });
        if tenant_is_full || actor_is_full {
            return false;
        }
        let of_tenant = self.tenants.entry(actor.0).or_default();
        let queue = self.actors.entry(actor).or_default();
        if queue.commands.is_empty() {
            self.turns.push_back(actor);
            of_tenant.actors += 1;
        }
        queue.commands.push_back(queued);
        queue.bytes += bytes;
        of_tenant.commands += 1;
        of_tenant.bytes += bytes;
        true
    }

    /// Deficit round robin: a key sends what its credit covers. Then it receives its part of the
    /// tenant's quantum and goes to the end.
    fn pop(&mut self, fits: impl Fn(&QueuedCommand) -> bool) -> Option<QueuedCommand> {
        loop {
            let actor = *self.turns.front()?;
            let queue = self.actors.get_mut(&actor)?;
            let of_tenant = self.tenants.get_mut(&actor.0)?;
            let next = queue.commands.front()?;
            let bytes = next.bytes;
            let cost = cost_in_bytes(bytes);
            if cost > queue.credit {
                queue.credit += QUANTUM_BYTES / of_tenant.actors;
                self.turns.rotate_left(1);
                continue;
            }
            if !fits(next) {
                return None;
            }
            queue.credit -= cost;
            queue.bytes -= bytes;
            of_tenant.bytes -= bytes;
            of_tenant.commands -= 1;
            let queued = queue.commands.pop_front();
            if queue.commands.is_empty() {
                self.turns.pop_front();
                self.actors.remove(&actor);
                of_tenant.actors -= 1;
            }
            if of_tenant.actors == 0 {
                self.tenants.remove(&actor.0);
            }
            return queued;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use storage::command::{AdvanceClock, DeleteMemory};
    use storage::model::id::MemoryId;

    fn client(tenant: u32, key: u8) -> QueuedCommand {
        let deletion = DeleteMemory { id: MemoryId([0; 16]), rejects: None };
        let actor = Some(KeyId([key; 8]));
        let command = Command { actor, ..Command::of_tenant(TenantId(tenant), deletion) };
        QueuedCommand::new(command, Span::none()).0
    }

    fn background() -> QueuedCommand {
        QueuedCommand::new(Command::of_cluster(AdvanceClock), Span::none()).0
    }

    /// Adds commands of two keys of a tenant.
    fn fill(queue: &mut Queue, count: usize, tenant: u32) {
        (0..count).for_each(|at| assert!(queue.push(client(tenant, (at % 2) as u8))));
    }

    fn order(queue: &mut Queue) -> Vec<u32> {
        std::iter::from_fn(|| queue.pop(|_| true))
            .map(|queued| queued.command.tenant().map_or(0, |tenant| tenant.0))
            .collect()
    }

    #[test]
    fn clients_go_before_background_tasks() {
        let mut queue = Queue::default();
        assert!(queue.push(background()));
        assert!(queue.push(client(1, 0)));
        assert_eq!(order(&mut queue), [1, 0]);
        assert_eq!((queue.len(), queue.bytes), (0, 0));
    }

    #[test]
    fn background_commands_do_not_starve() {
        let mut queue = Queue::default();
        assert!(queue.push(background()));
        fill(&mut queue, 2 * CLIENTS_PER_BACKGROUND, 1);
        let order = order(&mut queue);
        assert_eq!(order.iter().position(|tenant| *tenant == 0), Some(CLIENTS_PER_BACKGROUND));
        assert_eq!(order.len(), 2 * CLIENTS_PER_BACKGROUND + 1);
    }

    #[test]
    fn busy_tenant_does_not_starve_others() {
        let mut queue = Queue::default();
        fill(&mut queue, TENANT_COMMANDS_MAX, 1);
        assert!(queue.push(client(2, 0)));
        let position = order(&mut queue).iter().position(|tenant| *tenant == 2).unwrap();
        assert!(
            position as i64 <= QUANTUM_BYTES / COST_MIN_BYTES,
            "the quiet tenant is at position {position}"
        );
    }

    #[test]
    fn busy_key_does_not_starve_other_keys() {
        let mut queue = Queue::default();
        let mut count = 0;
        while queue.push(client(1, 1)) {
            count += 1;
        }
        assert_eq!(count, KEY_COMMANDS_MAX);
        assert!(queue.push(client(1, 2)));
        let commands: Vec<_> = std::iter::from_fn(|| queue.pop(|_| true)).collect();
        let of_quiet = |queued: &QueuedCommand| queued.command.actor == Some(KeyId([2; 8]));
        let position = commands.iter().position(of_quiet).unwrap();
        assert!(
            position as i64 <= QUANTUM_BYTES / COST_MIN_BYTES,
            "the quiet key is at position {position}"
        );
        assert!(queue.clients.actors.is_empty() && queue.clients.tenants.is_empty());
    }

    #[test]
    fn slow_commands_use_up_credit() {
        let mut queue = Queue::default();
        fill(&mut queue, 200, 1);
        let slow = queue.pop(|_| true).unwrap();
        let key = slow.command.actor;
        queue.charge(&slow, Duration::from_millis(50));
        // The next command of the slow key comes after all of the other.
        let commands: Vec<_> = std::iter::from_fn(|| queue.pop(|_| true)).collect();
        let next = commands.iter().position(|queued| queued.command.actor == key);
        assert_eq!((next, commands.len()), (Some(100), 199));
    }

    #[test]
    fn large_command_waits_for_room() {
        let mut queue = Queue::default();
        fill(&mut queue, 1, 1);
        assert!(queue.pop(|next| next.bytes <= 100).is_none());
        assert!(queue.pop(|next| next.bytes <= 200).is_some());
    }

    #[test]
    fn full_queue_takes_no_command() {
        let mut queue = Queue::default();
        for tenant in 0..(COMMANDS_MAX / TENANT_COMMANDS_MAX) as u32 {
            fill(&mut queue, TENANT_COMMANDS_MAX, tenant);
            assert!(!queue.push(client(tenant, 2)), "the tenant's limit is reached");
        }
        assert!(!queue.push(client(99, 0)), "the total limit is reached");
        assert_eq!(queue.len(), COMMANDS_MAX);
    }
}
