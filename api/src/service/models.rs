//! The embedding model of the cluster, for its operator.

use std::sync::Arc;

use storage::View;
use storage::command::StartModelChange;
use storage::model::cluster::Cluster;
use storage::model::models::Models;

use crate::error::{ApiError, ApiResult, ErrorKind};
use crate::service::Operator;

fn rejected(why: String) -> ApiError {
    ApiError::new(ErrorKind::Conflict, "rejected", why)
}

impl Operator {
    /// Begins to change the model to that in a folder, which is the same on every node.
    pub(crate) async fn set_model(&self, folder: String) -> ApiResult<()> {
        let (embedder, path) = (Arc::clone(&self.service.embedder), folder.clone());
        // It reads the whole files of the model.
        let read = tokio::task::spawn_blocking(move || embedder.model_in(&path)).await;
        let model = read.map_err(|_| ApiError::internal())?;
        let model = model.map_err(rejected)?;
        self.submit_for_operator(StartModelChange { model, folder }).await.map(drop)
    }

    /// The cluster, its models, how many memories have a vector of the next one, and all memories.
    pub(crate) async fn models(&self) -> ApiResult<(Arc<Cluster>, Models, u64, u64)> {
        let reader = self.service.reader.clone();
        let read = move || {
            let (cluster, models) = (reader.cluster()?, reader.models()?);
            let memories = reader.tenants().into_iter().map(|it| reader.counts(it).memories).sum();
            let embedded = if models.next.is_some() { reader.next_vectors()? } else { 0 };
            Ok::<_, storage::Error>((cluster, models, embedded, memories))
        };
        let read = tokio::task::spawn_blocking(read).await.map_err(|_| ApiError::internal())?;
        let (cluster, models, embedded, memories) = read.map_err(|error| {
            tracing::error!(%error, "the models cannot be read");
            ApiError::internal()
        })?;
        Ok((cluster.ok_or_else(ApiError::internal)?, models, embedded, memories))
    }
}
