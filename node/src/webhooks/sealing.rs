//! Secret sealing: encrypts the secrets of triggers with a key that all nodes share.
//!
//! The cipher is ChaCha20-Poly1305 with a synthetic nonce (as in RFC 5297): equal secrets of one
//! trigger have equal ciphertexts. The state machine has no key, and yet detects whether a
//! rotation repeats the current secret.

use std::path::Path;

use api::random_bytes;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hmac;
use storage::model::id::TriggerId;
use storage::model::trigger::SealedSecret;

const KEY_BYTES: usize = 32;
/// Authenticated with each secret: a ciphertext of another purpose cannot be opened as a secret.
const PURPOSE: &[u8] = b"hearth webhook secret 1";
/// Derives the key of nonces from the cluster key.
const NONCES: &[u8] = b"hearth webhook nonce 1";
/// Derives the key of blinded digests from the cluster key.
const BLINDING: &[u8] = b"hearth blinded digest 1";
/// What the fingerprint of the cluster key authenticates.
const FINGERPRINT: &[u8] = b"hearth cluster key fingerprint 1";

/// The keys derived from the cluster key.
pub(crate) struct SecretSealer {
    key: LessSafeKey,
    nonces: hmac::Key,
    blinding: hmac::Key,
}

/// The text of a new cluster key file.
pub(crate) fn new_cluster_key() -> String {
    hex::encode(random_bytes::<KEY_BYTES>()) + "\n"
}

impl SecretSealer {
    /// Reads the key in the file at `path`: 32 bytes in hexadecimal digits.
    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        let unusable =
            |why: &dyn std::fmt::Display| format!("webhooks.key {}: {why}", path.display());
        let text = std::fs::read_to_string(path).map_err(|error| unusable(&error))?;
        Self::from_hex(text.trim()).ok_or_else(|| unusable(&"must contain 64 hexadecimal digits"))
    }

    fn from_hex(text: &str) -> Option<Self> {
        let mut key = [0; KEY_BYTES];
        hex::decode_to_slice(text, &mut key).ok()?;
        let derived = |purpose| {
            let derived = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &key), purpose);
            hmac::Key::new(hmac::HMAC_SHA256, derived.as_ref())
        };
        let (nonces, blinding) = (derived(NONCES), derived(BLINDING));
        let key = LessSafeKey::new(UnboundKey::new(&CHACHA20_POLY1305, &key).ok()?);
        Some(Self { key, nonces, blinding })
    }

    /// Hex digits that differ between keys and reveal nothing about them.
    pub(crate) fn fingerprint(&self) -> String {
        hex::encode(hmac::sign(&self.blinding, FINGERPRINT))
    }

    /// Seals the secret of a trigger: nonce, ciphertext and tag. Deterministic.
    pub(crate) fn seal(&self, of: TriggerId, secret: &str) -> SealedSecret {
        // The nonce is a MAC of the message, so it repeats for the same message only.
        let nonce = hmac::sign(&self.nonces, &[&of.0[..], secret.as_bytes()].concat());
        let mut nonce_bytes = [0; NONCE_LEN];
        nonce_bytes.copy_from_slice(&nonce.as_ref()[..NONCE_LEN]);
        let mut sealed = secret.as_bytes().to_vec();
        let tag = self
            .key
            .seal_in_place_separate_tag(
                Nonce::assume_unique_for_key(nonce_bytes),
                Aad::from(PURPOSE),
                &mut sealed,
            )
            .expect("a secret is far shorter than the limit of the cipher");
        SealedSecret([&nonce_bytes[..], &sealed, tag.as_ref()].concat())
    }

    /// Opens a sealed secret. `None` if another key sealed it, or its bytes were changed.
    pub(crate) fn open(&self, sealed: &SealedSecret) -> Option<String> {
        let (nonce, rest) = sealed.0.split_first_chunk::<NONCE_LEN>()?;
        let (nonce, mut rest) = (Nonce::assume_unique_for_key(*nonce), rest.to_vec());
        let opened = self.key.open_in_place(nonce, Aad::from(PURPOSE), &mut rest).ok()?;
        String::from_utf8(opened.to_vec()).ok()
    }

    /// A keyed hash of a digest. Without the key, it reveals nothing about the digested text.
    pub(crate) fn blind(&self, digest: [u8; 32]) -> [u8; 32] {
        let mut blinded = [0; 32];
        blinded.copy_from_slice(hmac::sign(&self.blinding, &digest).as_ref());
        blinded
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_key_opens_a_secret() {
        let new = || SecretSealer::from_hex(new_cluster_key().trim()).unwrap();
        let (sealer, other) = (new(), new());
        let (one, two) = (TriggerId([1; 16]), TriggerId([2; 16]));
        let sealed = sealer.seal(one, "whsec_c2VjcmV0");
        assert_eq!(sealer.open(&sealed).as_deref(), Some("whsec_c2VjcmV0"));
        assert_eq!(other.open(&sealed), None);
        let mut changed = sealed.clone();
        changed.0[NONCE_LEN] ^= 1;
        assert_eq!(sealer.open(&changed), None);
        assert_eq!(sealer.open(&SealedSecret(vec![1; 5])), None);
        let same = sealer.seal(one, "same");
        assert_eq!(same, sealer.seal(one, "same"));
        assert_ne!(same, sealer.seal(two, "same"), "the ciphertext depends on the trigger");
        assert_ne!(same.0[..NONCE_LEN], sealer.seal(one, "else").0[..NONCE_LEN]);
        assert_eq!(sealer.blind([1; 32]), sealer.blind([1; 32]));
        assert_ne!(sealer.blind([1; 32]), other.blind([1; 32]));
    }

    #[test]
    fn key_file_has_64_digits() {
        for wrong in ["", "ab", "zz", &"+1".repeat(32), &"a".repeat(63), &"ab".repeat(33)] {
            assert!(SecretSealer::from_hex(wrong).is_none(), "{wrong}");
        }
    }
}
