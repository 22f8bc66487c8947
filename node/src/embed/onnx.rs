//! Runs a BERT-like model through ONNX Runtime, one text per run. On a CPU, batches do not reduce
//! the cost per text; texts of different lengths even increase it.

use std::path::Path;

use api::Embedding;
use ort::environment::Environment;
use ort::session::builder::GraphOptimizationLevel;
use ort::value::TensorRef;
use tokenizers::{PaddingParams, Tokenizer, TruncationParams};

use crate::embed::manifest::{MODEL_FILE, Manifest, Pooling, Run, TOKENIZER_FILE, missing};
use crate::embed::pool::{EmbeddedPart, Worker, WorkerError, next_part};

/// The input that not all models have.
const TYPES: &str = "token_type_ids";
/// Smallest token limit. The model's special tokens need a part of it.
const TOKENS_MIN: usize = 8;
/// Bytes of text per token that are tokenized for a part. English has about 4.5.
const TOKEN_BYTES_MAX: usize = 32;

/// The variable that keeps ONNX Runtime from reporting its use to its makers, which versions from
/// 1.29 on do from the moment they are loaded. No call can come before that.
pub(crate) const NO_TELEMETRY: (&str, &str) = ("ORT_DISABLE_TELEMETRY", "1");

/// The loaded library; one per process.
pub struct OnnxRuntime(Environment);

impl OnnxRuntime {
    /// Loads the library at `path`.
    ///
    /// # Errors
    /// When it is missing, too old, or already loaded, or when it might send anything anywhere.
    pub fn load(path: &Path) -> Result<Self, String> {
        let (name, value) = NO_TELEMETRY;
        if std::env::var_os(name).is_none_or(|found| found != value) {
            return Err(format!("ONNX Runtime is not loaded without {name}={value}"));
        }
        // The loader would search for a relative path beside the binary first.
        let path = std::fs::canonicalize(path).map_err(missing(path))?;
        let environment = ort::init_from(&path)
            .map_err(missing(&path))?
            .with_name("hearth")
            .build()
            .map_err(|error| format!("ONNX Runtime: {error}"))?;
        environment.set_log_level(ort::logging::LogLevel::Warning);
        Ok(Self(environment))
    }
}

/// A loaded model and its tokenizer.
pub struct Session {
    session: ort::session::Session,
    tokenizer: Tokenizer,
    pooling: Pooling,
    dimension: usize,
    /// Whether the model reads the types of tokens.
    has_types: bool,
    part_bytes: usize,
}

impl Session {
    /// Loads a model. This takes about 0.3 seconds and 215 MB.
    ///
    /// # Errors
    /// When a file is invalid, or an endpoint runs the model.
    pub fn open(runtime: &OnnxRuntime, manifest: &Manifest) -> Result<Self, String> {
        let Run::Onnx(pooling) = manifest.run else { return Err("no model to load".into()) };
        let file = manifest.folder.join(MODEL_FILE);
        let session = open(&runtime.0, &file).map_err(missing(&file))?;
        let file = manifest.folder.join(TOKENIZER_FILE);
        let tokenizer = tokenizer(&file, manifest.max_tokens).map_err(missing(&file))?;
        let dimension = manifest.model().dimension as usize;
        let has_types = session.inputs().iter().any(|input| input.name() == TYPES);
        let part_bytes = TOKEN_BYTES_MAX * manifest.max_tokens;
        Ok(Self { session, tokenizer, pooling, dimension, has_types, part_bytes })
    }

    /// The token ids of the first part of `text`: up to the model's limit.
    ///
    /// # Errors
    /// When the tokenizer fails.
    pub fn tokens(&self, text: &str) -> Result<Vec<i64>, String> {
        let encoding = self.tokenizer.encode_fast(text, true).map_err(|error| error.to_string())?;
        Ok(encoding.get_ids().iter().map(|id| i64::from(*id)).collect())
    }

    /// The vector of a tokenized text.
    ///
    /// # Errors
    /// When the model fails, or its output has another shape than expected.
    pub fn run(&mut self, tokens: &[i64]) -> Result<Embedding, String> {
        let (output, count) = match self.pooling {
            Pooling::PooledOutput => ("sentence_embedding", 1),
            Pooling::Mean | Pooling::FirstToken => ("last_hidden_state", tokens.len()),
        };
        let inferred = infer(&mut self.session, tokens, output, self.has_types);
        let mut values = inferred.map_err(|error| error.to_string())?;
        if values.len() != count * self.dimension {
            return Err(format!("{output} has {} values", values.len()));
        }
        if self.pooling == Pooling::FirstToken {
            values.truncate(self.dimension);
            return Ok(values);
        }
        let mut mean = vec![0.0; self.dimension];
        for token in values.chunks_exact(self.dimension) {
            mean.iter_mut().zip(token).for_each(|(sum, value)| *sum += value / count as f32);
        }
        Ok(mean)
    }
}

impl Worker for Session {
    fn embed(&mut self, prefix: &str, text: &str) -> Result<EmbeddedPart, WorkerError> {
        let window = &text[..text.floor_char_boundary(self.part_bytes)];
        let input = format!("{prefix}{window}");
        let encoding = self.tokenizer.encode(input, true).map_err(|error| error.to_string())?;
        let tokens: Vec<_> = encoding.get_ids().iter().map(|id| i64::from(*id)).collect();
        let is_truncated = !encoding.get_overflowing().is_empty();
        let last = encoding.get_offsets().iter().map(|(_, end)| *end).max().unwrap_or(0);
        let last = last.saturating_sub(prefix.len());
        // Offsets come from the tokenizer: a panic here would end the thread.
        let end = if is_truncated { window.floor_char_boundary(last) } else { window.len() };
        Ok(EmbeddedPart { vector: self.run(&tokens)?, next: next_part(text, end) })
    }
}

fn open(environment: &Environment, model: &Path) -> ort::Result<ort::session::Session> {
    ort::session::Session::builder(environment)?
        .with_intra_threads(1)?
        .with_inter_threads(1)?
        .with_intra_op_spinning(false)?
        .with_inter_op_spinning(false)?
        .with_optimization_level(GraphOptimizationLevel::All)?
        // Texts differ in length, so a memory plan cannot be used again.
        .with_memory_pattern(false)?
        .commit_from_file(model)
}

fn infer(
    session: &mut ort::session::Session,
    tokens: &[i64],
    output: &str,
    has_types: bool,
) -> ort::Result<Vec<f32>> {
    let shape = [1, tokens.len()];
    let (mask, types) = (vec![1_i64; tokens.len()], vec![0_i64; tokens.len()]);
    let mut inputs = ort::inputs![
        "input_ids" => TensorRef::from_array_view((shape, tokens))?,
        "attention_mask" => TensorRef::from_array_view((shape, &mask[..]))?,
    ];
    if has_types {
        inputs.push((TYPES.into(), TensorRef::from_array_view((shape, &types[..]))?.into()));
    }
    let outputs = session.run(inputs)?;
    let value = outputs.get(output).ok_or_else(|| ort::Error::new("the output is missing"))?;
    Ok(value.try_extract_tensor::<f32>()?.1.to_vec())
}

/// Loads the tokenizer without the padding and the limit of its file. The file truncates at 128
/// tokens and pads every text to that length: eight times the cost for short texts.
fn tokenizer(file: &Path, max_tokens: usize) -> tokenizers::Result<Tokenizer> {
    tokenizers::parallelism::set_parallelism(false);
    let mut tokenizer = Tokenizer::from_file(file)?;
    let max_length = max_tokens.max(TOKENS_MIN);
    tokenizer.with_truncation(Some(TruncationParams { max_length, ..Default::default() }))?;
    tokenizer.with_padding(None::<PaddingParams>);
    Ok(tokenizer)
}
