//! Ids in paths.

use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;
use storage::model::id::{MemoryId, TriggerId};
use storage::model::tenant::KeyId;
use utoipa::IntoParams;

use crate::app::App;
use crate::service::error::{ApiError, ApiResult};

/// Id of a memory.
#[derive(IntoParams)]
#[into_params(names("id"), parameter_in = Path)]
pub(crate) struct MemoryPath(#[param(value_type = uuid::Uuid)] pub(crate) MemoryId);

/// Id of a trigger.
#[derive(IntoParams)]
#[into_params(names("id"), parameter_in = Path)]
pub(crate) struct TriggerPath(#[param(value_type = uuid::Uuid)] pub(crate) TriggerId);

/// Id of a key.
#[derive(IntoParams)]
#[into_params(names("id"), parameter_in = Path)]
pub(crate) struct KeyPath(
    #[param(value_type = String, pattern = "^[0-9a-f]{16}$")] pub(crate) KeyId,
);

/// Number of an access rule.
#[derive(IntoParams)]
#[into_params(names("id"), parameter_in = Path)]
pub(crate) struct RulePath(#[param(value_type = String, pattern = "^[0-9]{1,18}$")] pub(crate) u64);

/// Id of a node of the cluster.
pub(crate) struct NodePath(pub(crate) u64);

/// Extracts an id, or names what it must be.
macro_rules! extract {
    ($($type:ident: $what:literal),+) => {
        $(impl FromRequestParts<App> for $type {
            type Rejection = ApiError;

            async fn from_request_parts(parts: &mut Parts, app: &App) -> ApiResult<Self> {
                let text = Path::<String>::from_request_parts(parts, app).await.ok();
                let id = text.and_then(|Path(text)| text.parse().ok()).map(Self);
                id.ok_or_else(|| ApiError::invalid("id", concat!("must be ", $what)))
            }
        })+
    };
}

extract!(
    MemoryPath: "the id of a memory, a UUID",
    TriggerPath: "the id of a trigger, a UUID",
    KeyPath: "the id of a key",
    RulePath: "the id of a rule",
    NodePath: "the id of a node"
);
