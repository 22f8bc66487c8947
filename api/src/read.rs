//! The extractors of reads: a caller, once this node can serve a read as fresh as requested.
//!
//! | header | query | default |
//! |---|---|---|
//! | `X-Hearth-Consistency` | `consistency` | `local`; else `linearizable` |
//! | `X-Hearth-Min-Index` | | 0 |
//! | `X-Hearth-Max-Staleness-Ms` | | 10,000; for `local` reads |

use std::time::Duration;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use serde::Deserialize;
use storage::model::tenant::Role;

use crate::app::App;
use crate::auth::authenticate;
use crate::limits::STALENESS_MAX;
use crate::requests::ValidQuery;
use crate::requests::fields::ConsistencyWord;
use crate::requests::headers::Fresh;
use crate::service::Session;
use crate::service::error::{ApiError, ApiResult};
use crate::service::freshness::Freshness;
use crate::words::Consistency;

/// A read of a caller who may read.
pub(crate) struct ReaderRead(pub(crate) Session, pub(crate) Freshness);

/// A read of a caller who may administer its tenant.
pub(crate) struct AdminRead(pub(crate) Session, pub(crate) Freshness);

/// Extracts a read of a caller with at least a role.
macro_rules! extract {
    ($($type:ident: $role:expr),+) => {
        $(impl FromRequestParts<App> for $type {
            type Rejection = ApiError;

            async fn from_request_parts(parts: &mut Parts, app: &App) -> ApiResult<Self> {
                let session = authenticate(&parts.headers, &app.service, $role)?;
                Ok(Self(session, await_freshness(parts, app).await?))
            }
        })+
    };
}

extract!(ReaderRead: Role::Reader, AdminRead: Role::Admin);

#[derive(Deserialize)]
struct ConsistencyQuery {
    consistency: Option<ConsistencyWord>,
}

async fn await_freshness(parts: &mut Parts, app: &App) -> ApiResult<Freshness> {
    let headers = Fresh::from_request_parts(parts, app).await?;
    let query = ValidQuery::<ConsistencyQuery>::from_request_parts(parts, app).await?;
    let consistency = headers.consistency.or(query.0.consistency);
    let consistency = consistency.map_or_else(Consistency::default, |word| word.0);
    let min_index = headers.min_index.map_or(0, |index| index.0);
    let max_staleness = headers.max_staleness_ms.map(|ms| Duration::from_millis(ms.0));
    let max_staleness = max_staleness.unwrap_or(STALENESS_MAX);
    app.service.await_freshness(consistency, min_index, max_staleness).await
}
