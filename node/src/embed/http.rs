//! Embeds texts by an endpoint with the interface of OpenAI: `POST {model, input}` returns `data[0].embedding`.

use std::io;

use serde::Deserialize;
use serde_json::json;
#[cfg(feature = "fuzzing")]
use storage::model::vector::{mean_direction, normalised};
use tokio::runtime::{Builder, Runtime};

use crate::embed::pool::{EmbeddedPart, Worker, WorkerError, next_part};
use crate::endpoint::{Endpoint, EndpointClient, EndpointError};

/// Least bytes of a part: `max_tokens` may be too low for the prefix and the special tokens.
const PART_BYTES_MIN: usize = 256;

/// A connection to the endpoint.
pub(super) struct Http {
    client: EndpointClient,
    model: String,
    dimension: usize,
    part_bytes: usize,
    /// Of its own, which closes connections while no text is embedded: that of the node may not be blocked.
    runtime: Option<Runtime>,
}

#[derive(Deserialize)]
struct Response {
    data: [Item; 1],
}

#[derive(Deserialize)]
struct Item {
    embedding: Vec<f32>,
}

impl Http {
    /// Embeds parts that have at most `max_tokens` bytes with their prefix: a token has a byte or more.
    pub(super) fn new(
        endpoint: &Endpoint,
        model: &str,
        dimension: u32,
        max_tokens: usize,
    ) -> Result<Self, String> {
        let client = EndpointClient::new(endpoint)?;
        let (model, dimension) = (model.to_owned(), dimension as usize);
        Ok(Self { client, model, dimension, part_bytes: max_tokens, runtime: None })
    }
}

impl Worker for Http {
    fn embed(&mut self, prefix: &str, text: &str) -> Result<EmbeddedPart, WorkerError> {
        /// Tokens before and after each text.
        const SPECIAL: usize = 4;
        let room = self.part_bytes.saturating_sub(prefix.len() + SPECIAL).max(PART_BYTES_MIN);
        let end = text.floor_char_boundary(room);
        let input = format!("{prefix}{}", &text[..end]);
        let request = json!({"model": self.model, "input": [input], "encoding_format": "float"});
        let runtime = match &self.runtime {
            Some(runtime) => runtime,
            None => self.runtime.insert(runtime()?),
        };
        let sent = runtime.block_on(self.client.post(&request));
        let Response { data: [Item { embedding }] } = sent.map_err(|error| match error {
            EndpointError::Rejects(cause) => WorkerError::Fails(cause),
            EndpointError::Unavailable(cause) => WorkerError::Unavailable(cause),
        })?;
        if embedding.len() != self.dimension {
            let (found, expected) = (embedding.len(), self.dimension);
            return Err(WorkerError::Unavailable(format!(
                "the endpoint returned {found} components, expected {expected}"
            )));
        }
        Ok(EmbeddedPart { vector: embedding, next: next_part(text, end) })
    }

    fn is_remote(&self) -> bool {
        true
    }
}

fn runtime() -> Result<Runtime, WorkerError> {
    let built = Builder::new_multi_thread().worker_threads(1).enable_all().build();
    built.map_err(|error: io::Error| WorkerError::Fails(error.to_string()))
}

/// The fuzz target of responses. A vector that has a direction has it beside another one too.
#[cfg(feature = "fuzzing")]
pub(super) fn fuzz(bytes: &[u8]) {
    let Ok(Response { data: [Item { embedding }] }) = serde_json::from_slice(bytes) else { return };
    if let Ok(unit) = normalised(&embedding) {
        assert!(
            mean_direction(vec![embedding, unit])
                .is_ok_and(|mean| mean.iter().all(|it| it.is_finite()))
        );
    }
}
