//! Feedback signals: what a caller reports about the usefulness of a memory.

named_enum! {
    /// A feedback signal.
    pub enum Signal {
        /// It helped: raises heat and stability.
        Relevant = "relevant",
        /// It did not help: leaves 30 % of the heat.
        Irrelevant = "irrelevant",
        /// It no longer holds: removes the heat.
        Outdated = "outdated",
        /// It is wrong: flags the memory for review.
        Wrong = "wrong",
    }
}
