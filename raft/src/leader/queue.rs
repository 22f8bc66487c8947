//! Commands that wait for the executor: bounded, tenants in turn by bytes,
//! clients before the service's own duties, which are never starved. Decides nothing.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use storage::model::id::TenantId;
use storage::{Command, Priority};
use tokio::sync::oneshot;

use crate::error::{Outcome, SubmitError};

/// Most commands of one tenant that wait.
pub const TENANT_COMMANDS_MAX: usize = 1_024;
/// Most bytes of one tenant that wait.
pub const TENANT_BYTES_MAX: usize = 16 << 20;
/// Most commands that wait in all.
pub const COMMANDS_MAX: usize = 8_192;
/// Most bytes that wait in all.
pub const BYTES_MAX: usize = 64 << 20;
/// Bytes that a tenant may send before it is the next one's turn.
const QUANTUM_BYTES: usize = 64 << 10;

/// Commands of clients after which a duty that waits goes first.
const CLIENTS_A_DUTY: usize = 64;

/// A command with whoever waits for it.
pub(crate) struct QueuedCommand {
    pub(crate) command: Command,
    pub(crate) claim: Claim,
    pub(crate) answer: oneshot::Sender<Result<Outcome, SubmitError>>,
}

impl QueuedCommand {
    /// A command with the end that its answer comes out of.
    pub(crate) fn new(command: Command) -> (Self, oneshot::Receiver<Result<Outcome, SubmitError>>) {
        let (answer, decided) = oneshot::channel();
        (Self { command, claim: Claim::default(), answer }, decided)
    }
}

/// Whose a command is: taken once, by the executor that decides it or by the
/// waiter that gives it up. So a waiter that goes first knows that nothing happened.
#[derive(Clone, Default)]
pub(crate) struct Claim(Arc<AtomicBool>);

impl Claim {
    /// True for the one that comes first.
    pub(crate) fn take(&self) -> bool {
        !self.0.swap(true, Ordering::AcqRel)
    }
}

/// The waiting commands.
#[derive(Default)]
pub(crate) struct Queue {
    clients: Lanes,
    duties: Lanes,
    clients_since_duty: usize,
    count: usize,
    bytes: usize,
}

#[derive(Default)]
struct Lanes {
    /// Whose turn it is, first one first; each has a lane that is not empty.
    turns: VecDeque<Option<TenantId>>,
    lanes: HashMap<Option<TenantId>, Channel>,
}

#[derive(Default)]
struct Channel {
    waiting: VecDeque<QueuedCommand>,
    bytes: usize,
    credit: usize,
}

impl Queue {
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Takes a command in, or gives it back when there is no room.
    pub(crate) fn push(&mut self, waiting: QueuedCommand) -> Result<(), Box<QueuedCommand>> {
        let bytes = waiting.command.size_bytes();
        if self.count >= COMMANDS_MAX || self.bytes + bytes > BYTES_MAX {
            return Err(Box::new(waiting));
        }
        let lanes = match waiting.command.priority() {
            Priority::Client => &mut self.clients,
            Priority::Background => &mut self.duties,
        };
        lanes.push(waiting, bytes)?;
        self.count += 1;
        self.bytes += bytes;
        Ok(())
    }

    /// The next command: clients before duties, but for one in [`CLIENTS_A_DUTY`].
    pub(crate) fn pop(&mut self) -> Option<QueuedCommand> {
        let due = if self.clients_since_duty >= CLIENTS_A_DUTY { self.duties.pop() } else { None };
        let client = if due.is_none() { self.clients.pop() } else { None };
        self.clients_since_duty = match client {
            Some(_) => self.clients_since_duty.saturating_add(1),
            None => 0,
        };
        let waiting = due.or(client).or_else(|| self.duties.pop())?;
        self.count -= 1;
        self.bytes -= waiting.command.size_bytes();
        Some(waiting)
    }
}

impl Lanes {
    fn push(&mut self, waiting: QueuedCommand, bytes: usize) -> Result<(), Box<QueuedCommand>> {
        let tenant = waiting.command.tenant;
        let lane = self.lanes.entry(tenant).or_default();
        if lane.waiting.len() >= TENANT_COMMANDS_MAX || lane.bytes + bytes > TENANT_BYTES_MAX {
            return Err(Box::new(waiting));
        }
        if lane.waiting.is_empty() {
            self.turns.push_back(tenant);
        }
        lane.waiting.push_back(waiting);
        lane.bytes += bytes;
        Ok(())
    }

    /// Deficit round robin (Shreedhar and Varghese, 1995): a lane sends what its
    /// credit covers, then gets a quantum and goes to the end.
    fn pop(&mut self) -> Option<QueuedCommand> {
        loop {
            let tenant = *self.turns.front()?;
            let lane = self.lanes.get_mut(&tenant)?;
            let bytes = lane.waiting.front()?.command.size_bytes();
            if bytes > lane.credit {
                lane.credit += QUANTUM_BYTES;
                self.turns.rotate_left(1);
                continue;
            }
            lane.credit -= bytes;
            lane.bytes -= bytes;
            let waiting = lane.waiting.pop_front();
            if lane.waiting.is_empty() {
                self.turns.pop_front();
                self.lanes.remove(&tenant);
            }
            return waiting;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use storage::Action;
    use storage::model::id::MemoryId;

    fn waiting(tenant: u32) -> QueuedCommand {
        let command = Command {
            tenant: Some(TenantId(tenant)),
            actor: None,
            receipt: None,
            action: Action::DeleteMemory(MemoryId([0; 16])),
        };
        QueuedCommand::new(command).0
    }

    fn duty() -> QueuedCommand {
        QueuedCommand::new(Command::background(Action::AdvanceClock)).0
    }

    fn order(queue: &mut Queue) -> Vec<u32> {
        std::iter::from_fn(|| queue.pop())
            .map(|waiting| waiting.command.tenant.map_or(0, |tenant| tenant.0))
            .collect()
    }

    #[test]
    fn clients_go_before_duties() {
        let mut queue = Queue::default();
        assert!(queue.push(duty()).is_ok());
        assert!(queue.push(waiting(1)).is_ok());
        assert_eq!(order(&mut queue), [1, 0]);
        assert_eq!((queue.len(), queue.bytes), (0, 0));
    }

    #[test]
    fn a_duty_waits_for_so_many_clients_and_no_more() {
        let mut queue = Queue::default();
        assert!(queue.push(duty()).is_ok());
        for _ in 0..2 * CLIENTS_A_DUTY {
            assert!(queue.push(waiting(1)).is_ok());
        }
        let order = order(&mut queue);
        assert_eq!(order.iter().position(|tenant| *tenant == 0), Some(CLIENTS_A_DUTY));
        assert_eq!(order.len(), 2 * CLIENTS_A_DUTY + 1);
    }

    #[test]
    fn a_busy_tenant_does_not_starve_a_quiet_one() {
        let mut queue = Queue::default();
        for _ in 0..TENANT_COMMANDS_MAX {
            assert!(queue.push(waiting(1)).is_ok());
        }
        assert!(queue.push(waiting(2)).is_ok());
        let place = order(&mut queue).iter().position(|tenant| *tenant == 2).unwrap();
        assert!(place <= QUANTUM_BYTES / 128, "the quiet tenant came after {place} commands");
    }

    #[test]
    fn a_full_queue_gives_the_command_back() {
        let mut queue = Queue::default();
        for tenant in 0..(COMMANDS_MAX / TENANT_COMMANDS_MAX) as u32 {
            for _ in 0..TENANT_COMMANDS_MAX {
                assert!(queue.push(waiting(tenant)).is_ok());
            }
            assert!(queue.push(waiting(tenant)).is_err(), "the tenant's share is full");
        }
        assert!(queue.push(waiting(99)).is_err(), "the whole queue is full");
        assert_eq!(queue.len(), COMMANDS_MAX);
    }
}
