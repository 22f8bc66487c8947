//! Feedback signals: what a caller reports about the usefulness of a memory.

use serde::{Deserialize, Serialize};

/// A feedback signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Signal {
    /// It helped: raises heat and stability.
    Relevant,
    /// It did not help: leaves 30 % of the heat.
    Irrelevant,
    /// It no longer holds: removes the heat.
    Outdated,
    /// It is wrong: flags the memory for review.
    Wrong,
}

impl Signal {
    /// All signals, in the order of their stored numbers.
    pub const ALL: [Self; 4] = [Self::Relevant, Self::Irrelevant, Self::Outdated, Self::Wrong];

    /// The name used in JSON and docs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Relevant => "relevant",
            Self::Irrelevant => "irrelevant",
            Self::Outdated => "outdated",
            Self::Wrong => "wrong",
        }
    }
}
