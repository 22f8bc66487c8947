//! `manifest.json` of a model folder: what the model is, which files it has, and
//! the hashes that they must have.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use sha2::{Digest, Sha256};
use storage::model::cluster::Model;
use storage::model::vector::ModelId;

use crate::embed::onnx::OnnxError;

/// How token vectors become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pooling {
    /// The model does it: output `sentence_embedding`.
    PooledOutput,
    /// The mean over the tokens of output `last_hidden_state`.
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

/// A model folder whose files are what they should be.
#[derive(Debug, Clone)]
pub struct Manifest {
    folder: PathBuf,
    model: Model,
    /// Tokens of a text that the model reads.
    pub max_tokens: usize,
    /// How token vectors become one.
    pub pooling: Pooling,
}

const MODEL_FILE: &str = "model.onnx";
const TOKENIZER_FILE: &str = "tokenizer.json";

impl Manifest {
    /// Reads the manifest in `folder` and checks every file that it names.
    ///
    /// # Errors
    /// When one is missing or has another hash.
    pub fn load(folder: &Path) -> Result<Self, OnnxError> {
        let path = folder.join("manifest.json");
        let bytes =
            std::fs::read(&path).map_err(|error| OnnxError::missing(&path, &error.to_string()))?;
        let text: Text = serde_json::from_slice(&bytes)
            .map_err(|error| OnnxError::missing(&path, &error.to_string()))?;
        let mut identity = Sha256::new();
        identity.update(format!("{:?} {}", text.pooling, text.max_tokens));
        for (name, expected) in &text.files {
            let file = folder.join(name);
            let found =
                sha256(&file).map_err(|error| OnnxError::missing(&file, &error.to_string()))?;
            if found != *expected {
                let reason = format!("SHA-256 is {found}, expected {expected}");
                return Err(OnnxError::missing(&file, &reason));
            }
            identity.update(format!(" {name} {found}"));
        }
        for needed in [MODEL_FILE, TOKENIZER_FILE] {
            if !text.files.contains_key(needed) {
                return Err(OnnxError::missing(&path, &format!("names no {needed}")));
            }
        }
        let identity = identity.finalize();
        let mut id = [0; 8];
        id.copy_from_slice(&identity[..8]);
        Ok(Self {
            folder: folder.to_owned(),
            model: Model { id: ModelId(id), name: text.model, dimension: text.dimension },
            max_tokens: text.max_tokens,
            pooling: text.pooling,
        })
    }

    /// What stands in the state about this model.
    pub fn model(&self) -> Model {
        self.model.clone()
    }

    pub(crate) fn model_file(&self) -> PathBuf {
        self.folder.join(MODEL_FILE)
    }

    pub(crate) fn tokenizer_file(&self) -> PathBuf {
        self.folder.join(TOKENIZER_FILE)
    }
}

fn sha256(path: &Path) -> std::io::Result<String> {
    let mut hash = Sha256::new();
    std::io::copy(&mut File::open(path)?, &mut hash)?;
    Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}
