//! A deterministic embedder for tests: feature hashing of words. Texts that share words are near
//! each other. The vectors have no other meaning.

use std::collections::HashMap;
use std::path::Path;

use sha2::{Digest, Sha256};
use storage::model::cluster::Model;
use storage::model::vector::ModelId;
use storage::text::term::TermHash;
use storage::text::tokenizer::for_each_distinct;

use crate::embed::pool::{EmbeddedPart, Worker, WorkerError};

const DIMENSION: usize = 384;
/// A folder with this file has the model with as many components as the file says.
const DIMENSION_FILE: &str = "dimension";
/// Components that one word changes.
const COMPONENTS_PER_WORD: usize = 8;
/// Words whose components are kept.
const KEPT_MAX: usize = 32_768;

/// The components that a word changes, and by how much.
type Components = [(u16, f32); COMPONENTS_PER_WORD];

pub(super) struct Hashing {
    dimension: usize,
    kept: HashMap<TermHash, Components>,
}

impl Hashing {
    pub(super) fn new(dimension: usize) -> Self {
        Self { dimension, kept: HashMap::new() }
    }
}

/// The number of components of the model in a folder.
pub(super) fn dimension_in(folder: &Path) -> Result<usize, String> {
    let path = folder.join(DIMENSION_FILE);
    match std::fs::read_to_string(&path) {
        Ok(number) => number.trim().parse().map_err(|_| format!("{}: no number", path.display())),
        Err(_) => Ok(DIMENSION),
    }
}

pub(super) fn model(dimension: usize) -> Model {
    let mut id = *b"hashing1";
    if dimension != DIMENSION {
        id[..4].copy_from_slice(&(dimension as u32).to_le_bytes());
    }
    Model::new(ModelId(id), "hashing (tests only)".into(), dimension as u32)
}

impl Worker for Hashing {
    fn embed(&mut self, _: &str, text: &str) -> Result<EmbeddedPart, WorkerError> {
        let mut vector = vec![0.0; self.dimension];
        // A text without words must not have the zero vector.
        vector[0] = 1e-3;
        for_each_distinct(text, |hash, word| {
            if self.kept.len() == KEPT_MAX {
                self.kept.clear();
            }
            let dimension = self.dimension;
            let components = || components(&word(), dimension);
            let components = self.kept.entry(hash).or_insert_with(components);
            components.iter().for_each(|(at, change)| vector[usize::from(*at)] += change);
        });
        Ok(EmbeddedPart { vector, next: None })
    }
}

fn components(word: &str, dimension: usize) -> Components {
    let hash = Sha256::digest(word);
    std::array::from_fn(|at| {
        let [low, high, sign, _] = [0, 1, 2, 3].map(|byte| hash[4 * at + byte]);
        let component = u16::from_le_bytes([low, high]) % dimension as u16;
        (component, if sign & 1 == 0 { 1.0 } else { -1.0 })
    })
}
