//! How fresh a read must be, as the caller says, and what the answer says of it.
//!
//! | header | query | default |
//! |---|---|---|
//! | `X-Hearth-Consistency` | `consistency` | `local`; else `linearizable` |
//! | `X-Hearth-Min-Index` | | 0 |
//! | `X-Hearth-Max-Staleness-Ms` | | 10,000; for `local` reads |

use std::time::Duration;

use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::request::Parts;
use axum::response::{IntoResponse, IntoResponseParts, Response, ResponseParts};
use tokio::time::Instant;

use crate::app::App;
use crate::error::{ApiError, ApiResult};
use crate::extract::query_pairs;
use crate::limits::{DEADLINE, STALENESS_MAX};

/// A read that may go ahead on this node: whatever the caller asked for holds.
/// Put before an answer it becomes the answer's headers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Freshness {
    /// Index that the answer reflects at least.
    pub(crate) index: u64,
    consistency: &'static str,
    staleness: Duration,
}

impl Freshness {
    /// Of an answer to a write: it reflects its own effect.
    pub(crate) fn of_write(index: u64) -> Self {
        Self { index, consistency: "linearizable", staleness: Duration::ZERO }
    }
}

impl FromRequestParts<App> for Freshness {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> ApiResult<Self> {
        let deadline = Instant::now() + DEADLINE;
        let linearizable = wants_linearizable(parts)?;
        let min_index = number(&parts.headers, "x-hearth-min-index")?.unwrap_or(0);
        let staleness_max = number(&parts.headers, "x-hearth-max-staleness-ms")?
            .map_or(STALENESS_MAX, Duration::from_millis);
        if linearizable {
            app.raft().read_index(deadline).await?;
        }
        if min_index > 0 {
            app.raft().wait_applied(min_index, deadline).await?;
        }
        let staleness = match app.raft().staleness() {
            _ if linearizable => Duration::ZERO,
            Some(staleness) if staleness <= staleness_max => staleness,
            _ => {
                return Err(ApiError::unavailable(
                    "stale",
                    "what this node holds is not known to be as fresh as asked: it is catching up, or \
                     out of contact with a leader",
                ));
            }
        };
        let consistency = if linearizable { "linearizable" } else { "local" };
        Ok(Self { index: app.reader().position().index, consistency, staleness })
    }
}

fn wants_linearizable(parts: &Parts) -> ApiResult<bool> {
    let header = parts.headers.get("x-hearth-consistency").map(|value| value.as_bytes().to_vec());
    let query = || {
        let pairs = query_pairs(parts.uri.query().unwrap_or_default());
        pairs.into_iter().find(|(name, _)| name == "consistency").map(|(_, v)| v.into_bytes())
    };
    match header.or_else(query).as_deref() {
        None | Some(b"local") => Ok(false),
        Some(b"linearizable") => Ok(true),
        Some(_) => Err(ApiError::invalid("consistency", "must be local or linearizable")),
    }
}

fn number(headers: &HeaderMap, name: &'static str) -> ApiResult<Option<u64>> {
    let Some(value) = headers.get(name) else { return Ok(None) };
    let number = value.to_str().ok().and_then(|text| text.trim().parse().ok());
    number.map(Some).ok_or_else(|| ApiError::invalid(name, "must be a whole number"))
}

impl IntoResponseParts for Freshness {
    type Error = std::convert::Infallible;

    fn into_response_parts(self, mut parts: ResponseParts) -> Result<ResponseParts, Self::Error> {
        let headers = parts.headers_mut();
        headers.insert("x-hearth-index", self.index.into());
        headers
            .insert("x-hearth-consistency", axum::http::HeaderValue::from_static(self.consistency));
        let millis = u64::try_from(self.staleness.as_millis()).unwrap_or(u64::MAX);
        headers.insert("x-hearth-staleness-ms", millis.into());
        Ok(parts)
    }
}

impl IntoResponse for Freshness {
    fn into_response(self) -> Response {
        (self, ()).into_response()
    }
}
