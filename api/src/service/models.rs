//! The embedding model of the cluster, for its operator.

use std::sync::Arc;

use storage::View;
use storage::model::cluster::{Cluster, Model};
use storage::model::models::Models;

use crate::service::Service;
use crate::service::error::{ApiError, ApiResult};

impl Service {
    /// The model in a folder of this node.
    pub(crate) fn model_in(&self, folder: &str) -> Result<Model, String> {
        self.embedder.model_in(folder)
    }

    /// The cluster, its models, how many memories have a vector of the next one, and all memories.
    pub(crate) async fn models(&self) -> ApiResult<(Arc<Cluster>, Models, u64, u64)> {
        let reader = self.reader.clone();
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
