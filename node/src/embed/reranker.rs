//! A reranker: an endpoint with the interface of Cohere and Jina, `POST {model, query, documents}`, which returns
//! the relevance of each document. It reads each text together with the query, which vectors cannot.
//!
//! A search waits for it only as long as its time limit. Then, and while it fails or is busy, results keep
//! the order of their scores.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use api::Reranker;
use futures::FutureExt;
use futures::future::BoxFuture;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::Semaphore;

use crate::config;
use crate::embed::pool::Counters;
use crate::endpoint::{EndpointClient, EndpointError};

/// Requests under way. Each has up to 80 KiB of texts.
const REQUESTS_MAX: usize = 16;

/// The configured reranker.
pub(crate) struct HttpReranker {
    client: EndpointClient,
    model: String,
    requests: Arc<Semaphore>,
    counters: Arc<Counters>,
}

#[derive(Deserialize)]
struct Response {
    results: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    index: usize,
    relevance_score: f64,
}

impl HttpReranker {
    /// That of the configuration, if it has one.
    ///
    /// # Errors
    /// The URL or the key is not usable.
    pub(crate) fn of(
        config: &config::ModelEndpoint,
        counters: &Arc<Counters>,
    ) -> Result<Option<Self>, String> {
        let client = EndpointClient::of(config).map_err(|error| format!("reranker: {error}"))?;
        let Some(client) = client else { return Ok(None) };
        let requests = Arc::new(Semaphore::new(REQUESTS_MAX));
        let (model, counters) = (config.model.clone(), Arc::clone(counters));
        Ok(Some(Self { client, model, requests, counters }))
    }
}

impl Reranker for HttpReranker {
    fn relevances(
        &self,
        query: String,
        texts: Vec<String>,
    ) -> BoxFuture<'static, Option<Vec<f64>>> {
        let (client, counters) = (self.client.clone(), Arc::clone(&self.counters));
        let count = texts.len();
        let request =
            json!({"model": self.model, "query": query, "documents": texts, "top_n": count});
        let permit = Arc::clone(&self.requests).try_acquire_owned();
        async move {
            let relevances = match permit {
                Ok(_permit) => relevances(client.post(&request).await, count),
                Err(_) => Err(format!("{REQUESTS_MAX} requests are under way")),
            };
            let counter = if relevances.is_ok() { &counters.reranked } else { &counters.unranked };
            counter.fetch_add(1, Ordering::Relaxed);
            let failed = counters.reranker_fails.swap(relevances.is_err(), Ordering::Relaxed);
            match &relevances {
                Ok(_) if failed => tracing::info!("the reranker responds again"),
                Err(cause) if !failed => tracing::warn!(
                    cause,
                    "the reranker does not respond: results keep the order of their scores"
                ),
                _ => {}
            }
            relevances.ok()
        }
        .boxed()
    }
}

/// The relevance of each text.
fn relevances(response: Result<Response, EndpointError>, count: usize) -> Result<Vec<f64>, String> {
    let Response { results } = response.map_err(EndpointError::cause)?;
    let mut relevances = vec![None; count];
    for Item { index, relevance_score } in results {
        let place =
            relevances.get_mut(index).ok_or("the response names a text that was not sent")?;
        *place = Some(relevance_score);
    }
    let relevances: Option<_> = relevances.into_iter().collect();
    relevances.ok_or_else(|| "the response has no relevance of some texts".into())
}

/// The fuzz target of responses.
#[cfg(feature = "fuzzing")]
pub(super) fn fuzz(bytes: &[u8]) {
    let Ok(response) = serde_json::from_slice(bytes) else { return };
    drop(relevances(Ok(response), 2));
}
