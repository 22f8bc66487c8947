//! Parts that run on the leader only: the queue of commands, the executor that decides and
//! proposes them, and the cluster clock that stamps them.

pub(crate) mod clock;
pub(crate) mod executor;
pub(crate) mod queue;

#[cfg(test)]
mod clock_scenarios;
