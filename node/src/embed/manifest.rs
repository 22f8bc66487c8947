//! `manifest.json` of a model folder: the model, its files, and their SHA-256.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs::File;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use sha2::{Digest, Sha256};
use storage::model::cluster::Model;
use storage::model::vector::ModelId;

/// How the vectors of tokens become the vector of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pooling {
    /// By the model itself: output `sentence_embedding`.
    PooledOutput,
    /// By the mean over output `last_hidden_state`.
    Mean,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    model: String,
    dimension: u32,
    max_tokens: usize,
    pooling: Pooling,
    files: BTreeMap<String, String>,
}

/// A model folder whose files have the expected hashes.
#[derive(Debug, Clone)]
pub struct Manifest {
    pub(crate) folder: PathBuf,
    model: Model,
    /// Tokens per part of a text.
    pub max_tokens: usize,
    /// How the vectors of tokens become the vector of a text.
    pub pooling: Pooling,
}

pub(crate) const MODEL_FILE: &str = "model.onnx";
pub(crate) const TOKENIZER_FILE: &str = "tokenizer.json";

impl Manifest {
    /// Reads the manifest in `folder` and verifies all files that it names.
    ///
    /// # Errors
    /// When a file is missing or has another hash.
    pub fn load(folder: &Path) -> Result<Self, String> {
        let path = folder.join("manifest.json");
        let bytes = std::fs::read(&path).map_err(missing(&path))?;
        let text: Text = serde_json::from_slice(&bytes).map_err(missing(&path))?;
        let mut identity = Sha256::new();
        identity.update(format!("{:?} {}", text.pooling, text.max_tokens));
        for (name, expected) in &text.files {
            let file = folder.join(name);
            let found = sha256(&file).map_err(missing(&file))?;
            if found != *expected {
                let reason = format!("SHA-256 is {found}, expected {expected}");
                return Err(missing(&file)(reason));
            }
            identity.update(format!(" {name} {found}"));
        }
        for needed in [MODEL_FILE, TOKENIZER_FILE] {
            if !text.files.contains_key(needed) {
                return Err(missing(&path)(format!("does not list {needed}")));
            }
        }
        let mut id = [0; 8];
        id.copy_from_slice(&identity.finalize()[..8]);
        Ok(Self {
            folder: folder.to_owned(),
            model: Model { id: ModelId(id), name: text.model, dimension: text.dimension },
            max_tokens: text.max_tokens,
            pooling: text.pooling,
        })
    }

    /// The model as stored in the cluster's state. Its id is a hash of all files.
    pub fn model(&self) -> Model {
        self.model.clone()
    }
}

/// For `map_err`: a file is missing or invalid.
pub(crate) fn missing<E: Display>(path: &Path) -> impl Fn(E) -> String {
    move |reason| {
        format!(
            "cannot use {:?}: {reason}. Hearth's packages and `make setup` in its repository install \
             the model and ONNX Runtime; embedder.model and embedder.library name others",
            path
        )
    }
}

fn sha256(path: &Path) -> std::io::Result<String> {
    let mut hash = Sha256::new();
    std::io::copy(&mut File::open(path)?, &mut hash)?;
    Ok(hex::encode(hash.finalize()))
}
