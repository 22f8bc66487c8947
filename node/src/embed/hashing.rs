//! A deterministic embedder for tests: feature hashing of words. Texts that share words are near
//! each other. The vectors have no other meaning.

use sha2::{Digest, Sha256};
use storage::model::cluster::Model;
use storage::model::vector::ModelId;
use storage::model::words::words;

use crate::embed::pool::{Part, Worker};

const DIMENSION: usize = 384;
/// Components that one word changes.
const COMPONENTS_PER_WORD: usize = 8;

pub(crate) struct Hashing;

pub(crate) fn model() -> Model {
    Model {
        id: ModelId(*b"hashing1"),
        name: "hashing (tests only)".into(),
        dimension: DIMENSION as u32,
    }
}

impl Worker for Hashing {
    fn embed(&mut self, text: &str) -> Result<Part, String> {
        let mut vector = vec![0.0; DIMENSION];
        // A text without words must not have the zero vector.
        vector[0] = 1e-3;
        for word in words(std::iter::once(text)) {
            let hash = Sha256::digest(&word);
            for pair in hash.chunks_exact(4).take(COMPONENTS_PER_WORD) {
                let component = u16::from_le_bytes([pair[0], pair[1]]) as usize % DIMENSION;
                vector[component] += if pair[2] & 1 == 0 { 1.0 } else { -1.0 };
            }
        }
        Ok(Part { vector, next: None })
    }
}
