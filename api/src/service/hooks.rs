//! The interface's side of webhooks: checks of addresses and secrets, and secret sealing. The
//! node implements it beside the sender.

use storage::model::id::TriggerId;
use storage::model::trigger::SealedSecret;

/// Rules and secrets of webhooks.
pub trait Hooks: Send + Sync {
    /// Checks whether the text of `url` is acceptable. The addresses behind a host name are
    /// checked at each delivery.
    ///
    /// # Errors
    /// The reason, for the client.
    fn check(&self, url: &str) -> Result<(), String>;

    /// Checks whether `secret` can sign.
    ///
    /// # Errors
    /// The reason, for the client.
    fn check_secret(&self, secret: &str) -> Result<(), String>;

    /// Seals the secret of a trigger: only this cluster can open it. The same trigger and secret
    /// give the same bytes, so a repeated rotation is recognised. `None` if this node has no key.
    fn seal(&self, of: TriggerId, secret: &str) -> Option<SealedSecret>;

    /// Hashes `digest` with the cluster's key. Without the key, the result reveals nothing about
    /// the digested text. A node without a key returns `digest` itself.
    fn blind(&self, digest: [u8; 32]) -> [u8; 32];
}
