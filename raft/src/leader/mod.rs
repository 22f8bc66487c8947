//! The leader: the queue of commands, the executor that decides and proposes them, the cluster clock
//! that stamps them, and the followers' watch of its process.

pub(crate) mod clock;
pub(crate) mod executor;
pub(crate) mod leading;
pub(crate) mod queue;
pub(crate) mod rates;
pub(crate) mod watch;

#[cfg(test)]
mod clock_scenarios;
