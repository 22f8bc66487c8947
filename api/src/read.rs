//! The extractor of reads: waits until this node can serve a read as fresh as requested.
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

use crate::app::App;
use crate::limits::STALENESS_MAX;
use crate::requests::ValidQuery;
use crate::requests::headers::{self, Fresh};
use crate::requests::values::OneOf;
use crate::service::error::{ApiError, ApiResult};
use crate::service::freshness::{Freshness, ReadOptions};
use crate::words::Consistency;

/// A read that this node can serve.
pub(crate) struct FreshRead(pub(crate) Freshness);

#[derive(Deserialize)]
struct ConsistencyQuery {
    consistency: Option<OneOf<Consistency>>,
}

impl FromRequestParts<App> for FreshRead {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> ApiResult<Self> {
        let headers: Fresh = headers::parse(&parts.headers)?;
        let ValidQuery(query) =
            ValidQuery::<ConsistencyQuery>::from_request_parts(parts, app).await?;
        let consistency = headers.consistency.or(query.consistency);
        let max_staleness = headers.max_staleness_ms.map(|ms| Duration::from_millis(ms.0));
        let options = ReadOptions {
            consistency: consistency.map_or_else(Consistency::default, |word| word.0),
            min_index: headers.min_index.map_or(0, |index| index.0),
            max_staleness: max_staleness.unwrap_or(STALENESS_MAX),
        };
        app.service().await_freshness(&options).await.map(Self)
    }
}
