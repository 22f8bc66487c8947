//! The guard of a tenant: rules by namespace that decide what happens to a new text with a secret, with personal
//! data, or with instructions for a model. And the mark that it leaves on a memory.

use serde::{Deserialize, Serialize};

use crate::bounded::bounded;

/// Most rules of a tenant.
pub const GUARD_RULES_MAX: usize = 100;
/// Most patterns of a rule, and of all rules of a tenant.
pub const GUARD_PATTERNS_MAX: usize = 16;
pub const GUARD_PATTERNS_OF_TENANT_MAX: usize = 32;
/// Longest pattern, and longest name of one, in bytes.
pub const GUARD_PATTERN_BYTES_MAX: usize = 256;
pub const GUARD_NAME_BYTES_MAX: usize = 48;

named_enum! {
    /// What happens to a text in which something was found. The last one of several comes first.
    #[derive(PartialOrd, Ord)]
    pub enum GuardAction {
        /// Nothing.
        Off = "off",
        /// The memory is flagged for review.
        Flag = "flag",
        /// What was found is replaced by its kind.
        Redact = "redact",
        /// Only admins see the memory, until one of them has reviewed it.
        Quarantine = "quarantine",
        /// The write is rejected.
        Block = "block",
    }
}

named_enum! {
    /// What can be found in a text.
    pub enum Detection {
        /// A key, a token, a password, a private key.
        Secret = "secret",
        /// The number of a card or of an account, with the right check digits.
        Number = "number",
        /// An address of e-mail.
        Email = "email",
        /// Instructions for a model.
        Instructions = "instructions",
        /// What a pattern of the tenant describes.
        Pattern = "pattern",
    }
}

named_enum! {
    /// How far a memory can be relied on.
    pub enum Trust {
        /// It is flagged for review, or waits in quarantine.
        Suspect = "suspect",
        /// Nothing speaks against it.
        Normal = "normal",
        /// An admin has reviewed it.
        Reviewed = "reviewed",
    }
}

/// A pattern of a tenant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuardPattern {
    /// What stands in place of a match.
    pub name: String,
    /// A regular expression without look-around and back-references.
    pub pattern: String,
    /// What happens.
    pub action: GuardAction,
}

/// A rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuardRule {
    /// Memories of this namespace and of all below it; of all by default.
    pub namespace: Option<String>,
    pub secrets: GuardAction,
    pub numbers: GuardAction,
    pub emails: GuardAction,
    pub instructions: GuardAction,
    #[serde(deserialize_with = "bounded::<GUARD_PATTERNS_MAX, _, _>")]
    pub patterns: Vec<GuardPattern>,
}

impl Default for GuardRule {
    /// The rule of namespaces that no other one covers.
    fn default() -> Self {
        Self {
            namespace: None,
            secrets: GuardAction::Off,
            numbers: GuardAction::Off,
            emails: GuardAction::Off,
            instructions: GuardAction::Flag,
            patterns: Vec::new(),
        }
    }
}

/// The rules of a tenant, in order. The first one that covers a namespace decides.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Guard {
    /// Number of their changes. A text that was examined by rules of another version is rejected.
    pub version: u64,
    pub rules: Vec<GuardRule>,
}

/// What the guard has found in a memory, and what follows from that.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuardMark(u8);

const FLAGGED: u8 = 1 << 5;
const QUARANTINED: u8 = 1 << 6;
const REVIEWED: u8 = 1 << 7;
const DETECTIONS: u8 = FLAGGED - 1;
const _: () = assert!(Detection::ALL.len() == DETECTIONS.count_ones() as usize);

impl GuardMark {
    /// The mark of what was found, and of the action that it calls for.
    #[must_use]
    pub fn with(self, detection: Detection, action: GuardAction) -> Self {
        let follows = match action {
            GuardAction::Flag => FLAGGED,
            GuardAction::Quarantine => FLAGGED | QUARANTINED,
            _ => 0,
        };
        Self(self.0 | 1 << detection as u8 | follows)
    }

    /// The mark of a memory with this mark and an added text with the other one: a review does not cover that text.
    #[must_use]
    pub fn and(self, added: Self) -> Self {
        let kept = if added.0 & FLAGGED == 0 { self.0 } else { self.0 & !REVIEWED };
        Self(kept | added.0)
    }

    /// The mark of a memory with these detections.
    pub fn of(
        detections: impl IntoIterator<Item = Detection>,
        is_quarantined: bool,
        is_reviewed: bool,
    ) -> Self {
        let detections =
            detections.into_iter().fold(0, |bits, detection| bits | 1 << detection as u8);
        let quarantine = if is_quarantined { FLAGGED | QUARANTINED } else { 0 };
        let review = if is_reviewed && !is_quarantined { REVIEWED } else { 0 };
        Self(detections | quarantine | review)
    }

    /// The mark once an admin has reviewed the memory.
    #[must_use]
    pub fn reviewed(self) -> Self {
        Self(self.0 & DETECTIONS | REVIEWED)
    }

    /// The mark once another text came in.
    #[must_use]
    pub fn unreviewed(self) -> Self {
        Self(self.0 & !REVIEWED)
    }

    pub fn detections(self) -> impl Iterator<Item = Detection> {
        Detection::ALL.into_iter().filter(move |detection| self.0 & 1 << *detection as u8 != 0)
    }

    pub fn is_flagged(self) -> bool {
        self.0 & FLAGGED != 0
    }

    pub fn is_quarantined(self) -> bool {
        self.0 & QUARANTINED != 0
    }

    pub fn is_reviewed(self) -> bool {
        self.0 & REVIEWED != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn review_ends_quarantine_until_another_finding() {
        let mark = GuardMark::default().with(Detection::Secret, GuardAction::Quarantine);
        assert!(mark.is_quarantined() && mark.is_flagged() && !mark.is_reviewed());
        let mark = mark.reviewed();
        assert!(!mark.is_quarantined() && !mark.is_flagged() && mark.is_reviewed());
        assert_eq!(mark.detections().collect::<Vec<_>>(), [Detection::Secret]);
        let redacted = GuardMark::default().with(Detection::Email, GuardAction::Redact);
        assert!(mark.and(redacted).is_reviewed());
        let flagged = GuardMark::default().with(Detection::Instructions, GuardAction::Flag);
        assert!(!mark.and(flagged).is_reviewed() && mark.and(flagged).is_flagged());
    }

    #[test]
    fn detections_are_kept() {
        let twice = GuardMark::default()
            .with(Detection::Email, GuardAction::Flag)
            .with(Detection::Email, GuardAction::Flag);
        assert!(twice.is_flagged());
        assert!(twice.detections().eq([Detection::Email]));
        let reviewed = twice.reviewed();
        assert!(!reviewed.unreviewed().is_reviewed());
        assert!(reviewed.unreviewed().detections().eq([Detection::Email]));
        assert!(GuardMark::of([Detection::Email], false, true).is_reviewed());
        assert!(!GuardMark::of([Detection::Email], true, true).is_reviewed());
    }
}
