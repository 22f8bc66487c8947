//! Embeds texts by an endpoint with the interface of OpenAI: `POST {model, input}` returns `data[0].embedding`.

use serde::Deserialize;
use serde_json::json;

use crate::embed::pool::{EmbeddedPart, Worker};
use crate::endpoint::{Endpoint, EndpointClient};

/// A connection to the endpoint.
pub(super) struct Http {
    client: EndpointClient,
    model: String,
    dimension: usize,
    part_bytes: usize,
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
    /// Embeds parts of up to `part_bytes` bytes.
    pub(super) fn new(
        endpoint: &Endpoint,
        model: &str,
        dimension: u32,
        part_bytes: usize,
    ) -> Result<Self, String> {
        let client = EndpointClient::new(endpoint)?;
        Ok(Self { client, model: model.to_owned(), dimension: dimension as usize, part_bytes })
    }
}

impl Worker for Http {
    fn embed(&mut self, prefix: &str, text: &str) -> Result<EmbeddedPart, String> {
        let end = text.floor_char_boundary(self.part_bytes);
        let input = format!("{prefix}{}", &text[..end]);
        let request = json!({"model": self.model, "input": [input], "encoding_format": "float"});
        let Response { data: [Item { embedding }] } = self.client.post(&request)?;
        if embedding.len() != self.dimension {
            let (found, expected) = (embedding.len(), self.dimension);
            return Err(format!("the endpoint returned {found} components, expected {expected}"));
        }
        Ok(EmbeddedPart { vector: embedding, next: (end < text.len()).then_some(end) })
    }

    fn is_remote(&self) -> bool {
        true
    }
}
