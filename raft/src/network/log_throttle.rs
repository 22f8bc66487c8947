//! Throttled logging of problems with peers: each problem of a channel is logged once, and again only
//! after a successful call on that channel.

use std::collections::HashMap;
use std::fmt::Display;

use parking_lot::Mutex;

use crate::types::NodeId;

/// Maximum channels with a recorded problem. Node ids in messages are untrusted input.
const CHANNELS_MAX: usize = 256;
/// Problems of a channel that are remembered.
const PROBLEMS_MAX: usize = 16;

/// The problems of each channel of each node since the last successful call.
#[derive(Default)]
pub(crate) struct LogThrottle(Mutex<HashMap<(NodeId, &'static str), Vec<String>>>);

impl LogThrottle {
    /// Records a problem of a channel of `node`. Returns whether it is new, and so must be logged.
    pub(crate) fn is_new(
        &self,
        node: NodeId,
        channel: &'static str,
        problem: &impl Display,
    ) -> bool {
        let (key, problem, mut channels) = ((node, channel), problem.to_string(), self.0.lock());
        if channels.len() >= CHANNELS_MAX && !channels.contains_key(&key) {
            return false;
        }
        let problems = channels.entry(key).or_default();
        let is_new = !problems.contains(&problem);
        if is_new {
            problems.truncate(PROBLEMS_MAX - 1);
            problems.insert(0, problem);
        }
        is_new
    }

    /// Records a successful call. Returns whether there was a problem before it.
    pub(crate) fn clear(&self, node: NodeId, channel: &'static str) -> bool {
        self.0.lock().remove(&(node, channel)).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problem_is_new_once_until_cleared() {
        let throttle = LogThrottle::default();
        assert!(throttle.is_new(1, "raft", &"timeout"));
        assert!(!throttle.is_new(1, "raft", &"timeout"));
        assert!(
            throttle.is_new(1, "forward", &"timeout") && throttle.is_new(2, "raft", &"timeout")
        );
        assert!(throttle.is_new(1, "raft", &"another cluster"));
        assert!(!throttle.is_new(1, "raft", &"timeout"), "two causes in turn");
        assert!(throttle.clear(1, "forward"));
        assert!(!throttle.is_new(1, "raft", &"timeout"), "another channel");
        assert!(throttle.clear(1, "raft") && !throttle.clear(1, "raft"));
        assert!(throttle.is_new(1, "raft", &"timeout"));
    }
}
