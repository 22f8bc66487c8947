//! Random bytes for secrets, from the operating system's generator.

use ring::rand::{SecureRandom, SystemRandom};

/// Returns `N` bytes that are fit for keys and other secrets.
///
/// # Panics
/// When the operating system has no randomness. No secret can be made then.
pub fn random_bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).expect("the operating system returns random bytes");
    bytes
}
