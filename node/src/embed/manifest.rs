//! `manifest.json` of a model folder: the model, how it is run, and the SHA-256 of its files.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs::File;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use sha2::{Digest, Sha256};
use storage::model::cluster::Model;
use storage::model::vector::ModelId;

use crate::embed::conventions::Conventions;
use crate::endpoint::Endpoint;

/// How the vectors of tokens become the vector of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pooling {
    /// By the model itself: output `sentence_embedding`.
    PooledOutput,
    /// By the mean over output `last_hidden_state`.
    Mean,
    /// The first token of output `last_hidden_state`.
    FirstToken,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    model: String,
    /// Tells models of the same name apart.
    #[serde(default)]
    version: String,
    dimension: u32,
    max_tokens: usize,
    #[serde(default)]
    query_prefix: String,
    #[serde(default)]
    passage_prefix: String,
    scripts: Option<Vec<String>>,
    evidence_cosine: Option<f64>,
    pooling: Option<Pooling>,
    endpoint: Option<Endpoint>,
    #[serde(default)]
    files: BTreeMap<String, String>,
}

/// How the model of a folder is run.
#[derive(Debug, Clone)]
pub enum Run {
    /// By ONNX Runtime.
    Onnx(Pooling),
    /// By an endpoint that speaks HTTP.
    Http(Endpoint),
}

/// A model folder whose files have the expected hashes.
#[derive(Debug, Clone)]
pub struct Manifest {
    pub(crate) folder: PathBuf,
    model: Model,
    /// Tokens per part of a text.
    pub max_tokens: usize,
    /// What the model expects of texts, and what becomes of its vectors.
    pub conventions: Conventions,
    /// How the model is run.
    pub run: Run,
}

pub(crate) const MODEL_FILE: &str = "model.onnx";
pub(crate) const TOKENIZER_FILE: &str = "tokenizer.json";
/// The mean of the model's vectors: its components as little-endian f32.
const MEAN_FILE: &str = "mean.f32";

impl Manifest {
    /// Reads the manifest in `folder` and verifies all files that it names.
    ///
    /// # Errors
    /// When a file is missing or has another hash, or the manifest contradicts itself.
    pub fn load(folder: &Path) -> Result<Self, String> {
        let path = folder.join("manifest.json");
        let bytes = std::fs::read(&path).map_err(missing(&path))?;
        let text: Text = serde_json::from_slice(&bytes).map_err(missing(&path))?;
        let run = match (text.endpoint.clone(), text.pooling) {
            (Some(endpoint), None) => {
                let key_file = endpoint.key_file.map(|file| folder.join(file));
                Run::Http(Endpoint { key_file, ..endpoint })
            }
            (None, Some(pooling)) => {
                for needed in [MODEL_FILE, TOKENIZER_FILE] {
                    if !text.files.contains_key(needed) {
                        return Err(missing(&path)(format!("does not list {needed}")));
                    }
                }
                Run::Onnx(pooling)
            }
            _ => return Err(missing(&path)("needs either pooling or endpoint".to_owned())),
        };
        let mut identity = Sha256::new();
        match &run {
            Run::Onnx(pooling) => identity.update(format!("{pooling:?} {}", text.max_tokens)),
            // Where it runs does not count: the canaries of the cluster say whether it is the same.
            Run::Http(_) => {
                let Text { model, version, dimension, max_tokens, .. } = &text;
                identity.update(format!("http {model} {version} {dimension} {max_tokens}"));
            }
        }
        for (name, expected) in &text.files {
            let file = folder.join(name);
            let found = sha256(&file).map_err(missing(&file))?;
            if found != *expected {
                let reason = format!("SHA-256 is {found}, expected {expected}");
                return Err(missing(&file)(reason));
            }
            identity.update(format!(" {name} {found}"));
        }
        let prefixes = [text.query_prefix, text.passage_prefix];
        if prefixes.iter().any(|prefix| !prefix.is_empty()) {
            identity.update(format!(" {prefixes:?}"));
        }
        let mean = match text.files.contains_key(MEAN_FILE) {
            true => Some(mean(&folder.join(MEAN_FILE), text.dimension)?),
            false => None,
        };
        let mut id = [0; 8];
        id.copy_from_slice(&identity.finalize()[..8]);
        let conventions = Conventions::new(prefixes, mean, text.scripts, text.evidence_cosine)
            .map_err(missing(&path))?;
        Ok(Self {
            folder: folder.to_owned(),
            model: Model::new(ModelId(id), text.model, text.dimension),
            max_tokens: text.max_tokens,
            conventions,
            run,
        })
    }

    /// The model as stored in the cluster's state, without canaries. Its id is a hash of all files.
    pub fn model(&self) -> Model {
        self.model.clone()
    }
}

fn mean(path: &Path, dimension: u32) -> Result<Vec<f32>, String> {
    let bytes = std::fs::read(path).map_err(missing(path))?;
    let (components, rest) = bytes.as_chunks();
    if components.len() != dimension as usize || !rest.is_empty() {
        return Err(missing(path)(format!("has {} bytes", bytes.len())));
    }
    Ok(components.iter().map(|four| f32::from_le_bytes(*four)).collect())
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
