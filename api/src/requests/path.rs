//! Ids in paths.

use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;
use storage::Rejection;
use storage::model::id::{KeyId, MemoryId, TenantId, TriggerId};
use utoipa::IntoParams;

use crate::app::App;
use crate::error::{ApiError, ApiResult};

/// Defines and extracts an id of a path. A text that is no id is that of nothing: 404.
macro_rules! paths {
    ($($(#[$doc:meta])* $type:ident($(#[$schema:meta])? $id:ty): $what:literal;)+) => {
        $($(#[$doc])*
        #[derive(IntoParams)]
        #[into_params(names("id"), parameter_in = Path)]
        pub(crate) struct $type($(#[$schema])? pub(crate) $id);

        impl FromRequestParts<App> for $type {
            type Rejection = ApiError;

            async fn from_request_parts(parts: &mut Parts, app: &App) -> ApiResult<Self> {
                let text = Path::<String>::from_request_parts(parts, app).await.ok();
                let id = text.and_then(|Path(text)| text.parse().ok()).map(Self);
                id.ok_or_else(|| Rejection::NoSuch($what.to_owned()).into())
            }
        })+
    };
}

paths! {
    /// Id of a memory.
    MemoryPath(#[param(value_type = uuid::Uuid)] MemoryId): "memory";
    /// Id of a trigger.
    TriggerPath(#[param(value_type = uuid::Uuid)] TriggerId): "trigger";
    /// Id of a key.
    KeyPath(#[param(value_type = String, pattern = "^[0-9a-f]{16}$")] KeyId): "key";
    /// Number of an access rule.
    RulePath(#[param(value_type = String, pattern = "^[0-9]{1,18}$")] u64): "rule";
    /// Id of a tenant.
    TenantPath(#[param(value_type = u32)] TenantId): "tenant";
    /// Id of a node of the cluster.
    NodePath(u64): "node";
}
