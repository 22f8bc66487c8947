//! What was last wrong between this node and others, so that each trouble is logged once,
//! and again only when it was over in between.

use std::collections::HashMap;
use std::fmt::Display;
use std::sync::Mutex;

use crate::types::NodeId;

/// Nodes whose troubles are remembered: any number may be claimed.
const NODES_MAX: usize = 64;

/// The last trouble with each node.
#[derive(Default)]
pub(crate) struct Troubles(Mutex<HashMap<NodeId, String>>);

impl Troubles {
    /// Notes what is wrong with `node`; whether that is another trouble than the last one.
    pub(crate) fn are_news(&self, node: NodeId, trouble: &impl Display) -> bool {
        let mut known = self.0.lock().expect("no code panics while it holds them");
        let trouble = trouble.to_string();
        if known.len() >= NODES_MAX && !known.contains_key(&node) {
            return false;
        }
        known.insert(node, trouble.clone()).is_none_or(|last| last != trouble)
    }

    /// This node and `node` have dealt with each other; whether there was trouble before.
    pub(crate) fn are_over(&self, node: NodeId) -> bool {
        self.0.lock().expect("no code panics while it holds them").remove(&node).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trouble_is_news_once_until_it_was_over() {
        let troubles = Troubles::default();
        assert!(troubles.are_news(1, &"cut off"));
        assert!(!troubles.are_news(1, &"cut off"));
        assert!(troubles.are_news(2, &"cut off"));
        assert!(troubles.are_news(1, &"another cluster"));
        assert!(troubles.are_over(1) && !troubles.are_over(1));
        assert!(troubles.are_news(1, &"another cluster"));
    }
}
