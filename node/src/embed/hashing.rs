//! A deterministic embedder for tests: feature hashing of words. Texts that share words are near
//! each other. The vectors have no other meaning.

use std::collections::HashMap;

use sha2::{Digest, Sha256};
use storage::model::cluster::Model;
use storage::model::term::WordHash;
use storage::model::vector::ModelId;
use storage::model::words::for_each_distinct;

use crate::embed::pool::{Part, Worker};

const DIMENSION: usize = 384;
/// Components that one word changes.
const COMPONENTS_PER_WORD: usize = 8;
/// Words whose components are kept.
const KEPT_MAX: usize = 32_768;

/// The components that a word changes, and by how much.
type Components = [(u16, f32); COMPONENTS_PER_WORD];

#[derive(Default)]
pub(crate) struct Hashing {
    kept: HashMap<WordHash, Components>,
}

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
        for_each_distinct(text, |hash, word| {
            if self.kept.len() == KEPT_MAX {
                self.kept.clear();
            }
            let components = self.kept.entry(hash).or_insert_with(|| components(&word()));
            components.iter().for_each(|(at, change)| vector[usize::from(*at)] += change);
        });
        Ok(Part { vector, next: None })
    }
}

fn components(word: &str) -> Components {
    let hash = Sha256::digest(word);
    std::array::from_fn(|at| {
        let [low, high, sign, _] = [0, 1, 2, 3].map(|byte| hash[4 * at + byte]);
        let component = u16::from_le_bytes([low, high]) % DIMENSION as u16;
        (component, if sign & 1 == 0 { 1.0 } else { -1.0 })
    })
}
