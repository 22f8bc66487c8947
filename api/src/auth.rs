//! Who is asking: the API key of a request, and what its role permits. The
//! tenant comes from the key and from nowhere else.

use axum::extract::FromRequestParts;
use axum::http::header;
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use raft::SubmitError;
use storage::model::tenant::{Caller, Role};

use crate::app::App;
use crate::error::{ApiError, ApiResult};
use crate::limits::STALENESS_MAX;
use crate::middleware::note_caller;

/// A caller who may read.
pub(crate) struct ReaderCaller(pub(crate) Caller);

/// A caller who may write.
pub(crate) struct AgentCaller(pub(crate) Caller);

/// A caller who may change what holds for its whole tenant.
pub(crate) struct AdminCaller(pub(crate) Caller);

impl FromRequestParts<App> for ReaderCaller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> ApiResult<Self> {
        caller(&parts.headers, app, Role::Reader).map(Self)
    }
}

impl FromRequestParts<App> for AgentCaller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> ApiResult<Self> {
        caller(&parts.headers, app, Role::Agent).map(Self)
    }
}

impl FromRequestParts<App> for AdminCaller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> ApiResult<Self> {
        caller(&parts.headers, app, Role::Admin).map(Self)
    }
}

fn caller(headers: &HeaderMap, app: &App, role: Role) -> ApiResult<Caller> {
    let key = headers
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.split_once(' '))
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
        .map(|(_, key)| key.trim())
        .ok_or_else(ApiError::unauthorized)?;
    let caller = app.reader().authenticate(key).ok_or_else(|| unknown_key(app))?;
    note_caller(&caller);
    if caller.role < role {
        let message = format!("this key may {} only", permission(caller.role));
        return Err(ApiError::new(StatusCode::FORBIDDEN, "forbidden", message));
    }
    Ok(caller)
}

/// A node without contact to its cluster cannot tell a wrong key from a new one.
fn unknown_key(app: &App) -> ApiError {
    let raft = app.raft();
    let in_contact = raft.staleness().is_some_and(|staleness| staleness <= STALENESS_MAX);
    match raft.status().quarantine {
        Some(_) => SubmitError::Quarantined.into(),
        None if in_contact => ApiError::unauthorized(),
        None => SubmitError::NoLeader.into(),
    }
}

/// Refuses a namespace that is not open to the caller.
pub(crate) fn may_read(caller: &Caller, namespace: &str) -> ApiResult<()> {
    match caller.access.allows(namespace) {
        true => Ok(()),
        false => Err(storage::Rejection::NamespaceForbidden(namespace.to_owned()).into()),
    }
}

fn permission(role: Role) -> &'static str {
    match role {
        Role::Reader => "read",
        Role::Agent => "read and write memories",
        Role::Admin | Role::Operator => "administer its tenant",
    }
}
