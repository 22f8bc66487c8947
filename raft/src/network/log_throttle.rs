//! What was last wrong between this node and others, so that each trouble is logged once,
//! and again only when it was over in between.

use std::collections::HashMap;
use std::fmt::Display;
use std::sync::Mutex;

use crate::types::NodeId;

/// Nodes whose log_throttle are remembered: any number may be claimed.
const NODES_MAX: usize = 64;

/// The last trouble with each node.
#[derive(Default)]
pub(crate) struct LogThrottle(Mutex<HashMap<NodeId, String>>);

impl LogThrottle {
    /// Notes what is wrong with `node`; whether that is another trouble than the last one.
    pub(crate) fn is_new(&self, node: NodeId, trouble: &impl Display) -> bool {
        let mut known = self.0.lock().expect("no code panics while it holds them");
        let trouble = trouble.to_string();
        if known.len() >= NODES_MAX && !known.contains_key(&node) {
            return false;
        }
        known.insert(node, trouble.clone()).is_none_or(|last| last != trouble)
    }

    /// This node and `node` have dealt with each other; whether there was trouble before.
    pub(crate) fn clear(&self, node: NodeId) -> bool {
        self.0.lock().expect("no code panics while it holds them").remove(&node).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trouble_is_news_once_until_it_was_over() {
        let log_throttle = LogThrottle::default();
        assert!(log_throttle.is_new(1, &"cut off"));
        assert!(!log_throttle.is_new(1, &"cut off"));
        assert!(log_throttle.is_new(2, &"cut off"));
        assert!(log_throttle.is_new(1, &"another cluster"));
        assert!(log_throttle.clear(1) && !log_throttle.clear(1));
        assert!(log_throttle.is_new(1, &"another cluster"));
    }
}
