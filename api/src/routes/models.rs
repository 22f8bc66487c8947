//! The embedding model of the cluster and its change, for the operator. On the operator's listener
//! only.

use axum::routing::{get, post};
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use storage::command::{CancelModelChange, ForceModelSwitch};
use storage::model::cluster::Model;
use storage::model::models::FOLDER_BYTES_MAX;

use crate::app::App;
use crate::error::ApiResult;
use crate::requests::ValidJson;
use crate::requests::values::NonBlank;
use crate::responses::Time;
use crate::service::Operator;

/// The folder of the next model, the same on every node.
#[derive(Debug, Deserialize)]
struct NewModel {
    folder: NonBlank<FOLDER_BYTES_MAX>,
}

/// A model.
#[derive(Serialize)]
struct ModelView {
    name: String,
    id: String,
    dimension: u32,
}

/// The model in use, and a change that is under way.
#[derive(Serialize)]
struct ModelsView {
    model: ModelView,
    next: Option<NextView>,
}

#[derive(Serialize)]
struct NextView {
    #[serde(flatten)]
    model: ModelView,
    folder: String,
    started_at: Time,
    /// Nodes that have loaded it.
    ready: Vec<u64>,
    is_switching: bool,
    /// Memories that have a vector of it, and all memories.
    embedded: u64,
    memories: u64,
}

impl From<Model> for ModelView {
    fn from(model: Model) -> Self {
        let Model { id, name, dimension } = model;
        Self { name, id: hex::encode(id.0), dimension }
    }
}

pub(crate) fn routes() -> Router<App> {
    Router::new()
        .route("/cluster/model", get(model_get).post(model_set).delete(model_cancel))
        .route("/cluster/model/switch", post(model_force))
}

async fn model_get(operator: Operator) -> ApiResult<Json<ModelsView>> {
    let (cluster, models, embedded, memories) = operator.models().await?;
    let next = models.next.map(|next| NextView {
        folder: next.folder,
        started_at: Time(next.started_at),
        ready: next.ready,
        is_switching: next.is_switching,
        embedded,
        memories,
        model: next.model.into(),
    });
    Ok(Json(ModelsView { model: cluster.model.clone().into(), next }))
}

/// Begins to change the model: `{"folder": "/models/next"}`.
async fn model_set(
    operator: Operator,
    ValidJson(request): ValidJson<NewModel>,
) -> ApiResult<Json<ModelsView>> {
    operator.set_model(request.folder.0).await?;
    model_get(operator).await
}

/// Gives up a change.
async fn model_cancel(operator: Operator) -> ApiResult<Json<ModelsView>> {
    operator.submit_for_operator(CancelModelChange).await?;
    model_get(operator).await
}

/// Lets the switch leave members behind that have not loaded the model.
async fn model_force(operator: Operator) -> ApiResult<Json<ModelsView>> {
    operator.submit_for_operator(ForceModelSwitch).await?;
    model_get(operator).await
}
