//! Checks that the configured embedding model is the one that embedded the stored memories.
//! Vectors of different models cannot be compared.

use std::sync::Arc;
use std::time::Duration;

use api::Embedder;
use raft::Handle;
use storage::{Reader, View};

use crate::embed::Pool;

/// How often a node outside a cluster checks whether it has joined one.
const JOINED_INTERVAL: Duration = Duration::from_millis(200);

/// Compares the model of the cluster with the configured one. A node outside a cluster has
/// nothing to compare.
pub(crate) fn check_model(reader: &Reader, embedder: &Pool) -> Result<(), String> {
    let cluster = reader.cluster().map_err(|error| format!("{error}. {}", error.advice()))?;
    let Some(cluster) = cluster else { return Ok(()) };
    let (stored, configured) = (&cluster.model, embedder.model());
    if stored.id == configured.id {
        return Ok(());
    }
    Err(format!(
        "the memories were embedded by {} ({}), but {} ({}) is configured: set embedder.model back",
        stored.name,
        hex::encode(stored.id.0),
        configured.name,
        hex::encode(configured.id.0),
    ))
}

/// Checks the model once the node has joined a cluster. Stops the node if it differs.
pub(crate) async fn model_check_task(raft: Handle, reader: Reader, embedder: Arc<Pool>) {
    while matches!(reader.cluster(), Ok(None)) {
        tokio::time::sleep(JOINED_INTERVAL).await;
    }
    if let Err(error) = check_model(&reader, &embedder) {
        raft.fault().report(&error);
    }
}
