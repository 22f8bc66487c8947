//! Throttled logging of problems with peers: a problem is logged once, and again only after a
//! successful call or another problem in between.

use std::collections::HashMap;
use std::fmt::Display;

use parking_lot::Mutex;

use crate::types::NodeId;

/// Maximum nodes with a recorded problem. Node ids in messages are untrusted input.
const NODES_MAX: usize = 64;

/// The last problem of each node.
#[derive(Default)]
pub(crate) struct LogThrottle(Mutex<HashMap<NodeId, String>>);

impl LogThrottle {
    /// Records a problem of `node`. Returns whether it differs from the last one, and so must be
    /// logged.
    pub(crate) fn is_new(&self, node: NodeId, problem: &impl Display) -> bool {
        let mut problems = self.0.lock();
        let problem = problem.to_string();
        if problems.len() >= NODES_MAX && !problems.contains_key(&node) {
            return false;
        }
        problems.insert(node, problem.clone()).is_none_or(|last| last != problem)
    }

    /// Records a successful call. Returns whether there was a problem before it.
    pub(crate) fn clear(&self, node: NodeId) -> bool {
        self.0.lock().remove(&node).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problem_is_new_once_until_cleared() {
        let throttle = LogThrottle::default();
        assert!(throttle.is_new(1, &"timeout"));
        assert!(!throttle.is_new(1, &"timeout"));
        assert!(throttle.is_new(2, &"timeout"));
        assert!(throttle.is_new(1, &"another cluster"));
        assert!(throttle.clear(1) && !throttle.clear(1));
        assert!(throttle.is_new(1, &"another cluster"));
    }
}
