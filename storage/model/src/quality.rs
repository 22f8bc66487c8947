//! Words of what can be improved: why memories can be folded, and what can be wrong with one.

named_enum! {
    /// Why memories can be folded.
    pub enum FoldReason {
        /// They say the same.
        Duplicates = "duplicates",
        /// They are cold, and similar or share a key point.
        Cold = "cold",
    }
}

named_enum! {
    /// What can be wrong with a memory.
    pub enum Defect {
        /// Its text is that of an older one of the namespace.
        ExactDuplicate = "exact_duplicates",
        /// Its text is near to that of an older one of the namespace.
        NearDuplicate = "near_duplicates",
        /// It repeats what a search had returned.
        Echo = "echoes",
        /// Feedback said that it is wrong.
        Contradicted = "contradicted",
        /// It is older than 30 days, and was never recalled.
        NeverRecalled = "never_recalled",
        /// It is older than 30 days, was not recalled for as long, and has no edge.
        Orphan = "orphans",
    }
}
