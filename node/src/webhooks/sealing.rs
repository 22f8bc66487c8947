//! Secrets that only this cluster can read: ChaCha20-Poly1305 with the key of a file that all
//! nodes share. Who may use them is not known here.

use std::path::Path;

use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hmac;
use storage::model::id::TriggerId;
use storage::model::trigger::SealedSecret;
use uuid::Uuid;

/// Bytes of the key.
const KEY_BYTES: usize = 32;
/// What is authenticated along: a sealed secret is of no use as anything else.
const PURPOSE: &[u8] = b"hearth webhook secret 1";
/// What the keys of nonces and of blinded digests are derived from the cluster's key by.
const NONCES: &[u8] = b"hearth webhook nonce 1";
const BLINDING: &[u8] = b"hearth blinded digest 1";

/// The cluster's key, ready to be used.
pub(crate) struct SecretSealer {
    key: LessSafeKey,
    nonces: hmac::Key,
    blinding: hmac::Key,
}

/// The text of a new key file.
pub(crate) fn new_key() -> String {
    let random: [u8; KEY_BYTES] = random();
    random.iter().map(|byte| format!("{byte:02x}")).collect::<String>() + "\n"
}

/// Random bytes of the system, by way of UUIDs: 122 bits in each 16 bytes.
fn random<const N: usize>() -> [u8; N] {
    let mut random = [0; N];
    for part in random.chunks_mut(16) {
        part.copy_from_slice(&Uuid::new_v4().as_bytes()[..part.len()]);
    }
    random
}

impl SecretSealer {
    /// The key in the file at `path`: 32 bytes in hex.
    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        let told = |why: &dyn std::fmt::Display| format!("webhooks.key {}: {why}", path.display());
        let text = std::fs::read_to_string(path).map_err(|error| told(&error))?;
        Self::of(text.trim()).ok_or_else(|| told(&"must hold 64 hexadecimal digits"))
    }

    fn of(text: &str) -> Option<Self> {
        if text.len() != 2 * KEY_BYTES || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        let bytes = (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16));
        let key: Vec<u8> = bytes.collect::<Result<_, _>>().ok()?;
        let derived = |purpose| {
            let derived = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &key), purpose);
            hmac::Key::new(hmac::HMAC_SHA256, derived.as_ref())
        };
        let (nonces, blinding) = (derived(NONCES), derived(BLINDING));
        let key = LessSafeKey::new(UnboundKey::new(&CHACHA20_POLY1305, &key).ok()?);
        Some(Self { key, nonces, blinding })
    }

    /// Nonce, ciphertext and tag of a trigger's `secret`: always the same, so that rules, which
    /// cannot read it, see whether it is another one.
    pub(crate) fn seal(&self, of: TriggerId, secret: &str) -> SealedSecret {
        // A synthetic nonce (as in RFC 5297): it comes again with the same message only.
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
            .expect("a secret is far shorter than what can be sealed at once");
        SealedSecret([&nonce_bytes[..], &sealed, tag.as_ref()].concat())
    }

    /// The secret that was sealed; `None` if another key sealed it, or it was changed.
    pub(crate) fn open(&self, sealed: &SealedSecret) -> Option<String> {
        let (nonce, rest) = sealed.0.split_first_chunk::<NONCE_LEN>()?;
        let (nonce, mut rest) = (Nonce::assume_unique_for_key(*nonce), rest.to_vec());
        let opened = self.key.open_in_place(nonce, Aad::from(PURPOSE), &mut rest).ok()?;
        String::from_utf8(opened.to_vec()).ok()
    }

    /// A digest of a digest that nobody without the key can guess anything by.
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
    fn what_was_sealed_is_opened_by_the_same_key_only() {
        let (sealer, other) = (
            SecretSealer::of(new_key().trim()).unwrap(),
            SecretSealer::of(new_key().trim()).unwrap(),
        );
        let (one, two) = (TriggerId([1; 16]), TriggerId([2; 16]));
        let sealed = sealer.seal(one, "whsec_c2VjcmV0");
        assert_eq!(sealer.open(&sealed).as_deref(), Some("whsec_c2VjcmV0"));
        assert_eq!(other.open(&sealed), None);
        let mut changed = sealed.clone();
        changed.0[NONCE_LEN] ^= 1;
        assert_eq!(sealer.open(&changed), None);
        assert_eq!(sealer.open(&SealedSecret(vec![1; 5])), None);
        assert_eq!(sealer.seal(one, "same"), sealer.seal(one, "same"));
        assert_ne!(sealer.seal(one, "same"), sealer.seal(two, "same"), "others do not tell");
        assert_ne!(
            sealer.seal(one, "same").0[..NONCE_LEN],
            sealer.seal(one, "else").0[..NONCE_LEN]
        );
        assert_eq!(sealer.blind([1; 32]), sealer.blind([1; 32]));
        assert_ne!(sealer.blind([1; 32]), other.blind([1; 32]));
    }

    #[test]
    fn a_key_file_holds_64_digits() {
        for wrong in ["", "ab", "zz", &"+1".repeat(32), &"a".repeat(63), &"ab".repeat(33)] {
            assert!(SecretSealer::of(wrong).is_none(), "{wrong}");
        }
    }
}
