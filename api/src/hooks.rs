//! What the interface has to know of webhooks: where they may go, and how their secrets are
//! kept. Who sends them is not known here.

use storage::model::id::TriggerId;
use storage::model::trigger::SealedSecret;

/// Rules and secrets of webhooks; implemented by whoever sends them.
pub trait Hooks: Send + Sync {
    /// Whether requests may go to `url`, as far as the text tells: where a name leads is looked
    /// at when it is sent.
    ///
    /// # Errors
    /// Why not, for people.
    fn check(&self, url: &str) -> Result<(), String>;

    /// Whether a secret can be signed with.
    ///
    /// # Errors
    /// Why not, for people.
    fn check_secret(&self, secret: &str) -> Result<(), String>;

    /// A secret of a trigger that only this cluster can read, the same for the same: so that
    /// one which is given twice is told from another. `None` if this node has no key for that.
    fn seal(&self, of: TriggerId, secret: &str) -> Option<SealedSecret>;

    /// A digest that tells whoever has no key of this node's nothing of what was digested.
    fn blind(&self, digest: [u8; 32]) -> [u8; 32];
}
