//! Extractors of callers: the API key of a request, and what its role permits. The tenant comes
//! from the key alone. Reads also wait until this node can serve a read as fresh as requested:
//!
//! | header | query | default |
//! |---|---|---|
//! | `X-Hearth-Consistency` | `consistency` | `local`; else `linearizable` |
//! | `X-Hearth-Min-Index` | | 0 |
//! | `X-Hearth-Max-Staleness-Ms` | | 10,000; for `local` reads |
//!
//! An operator has no tenant. Its key is that of the cluster.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, header};
use serde::Deserialize;
use storage::model::audit::KeyUse;
use storage::model::tenant::Role;

use crate::admission::budget::{KeyOfTenant, network};
use crate::admission::request::RequestContext;
use crate::app::App;
use crate::error::{ApiError, ApiResult, ErrorKind};
use crate::limits::STALENESS_MAX;
use crate::requests::fields::ConsistencyWord;
use crate::requests::headers::{ReadHeaders, client_name};
use crate::requests::{ValidQuery, context_of};
use crate::service::freshness::Freshness;
use crate::service::{Operator, Session};
use crate::words::Consistency;

/// The connection of a request, among the extensions of the request if the listener provides it.
pub trait Connection: Send + Sync {
    /// A request on this connection has shown a valid key.
    fn show_key(&self, key: KeyOfTenant);
}

/// A caller who may write.
pub(crate) struct Agent(pub(crate) Session);

/// A caller who may administer its tenant.
pub(crate) struct Admin(pub(crate) Session);

/// A read of a caller who may read.
pub(crate) struct ReaderRead(pub(crate) Session, pub(crate) Freshness);

/// A read of a caller who may administer its tenant.
pub(crate) struct AdminRead(pub(crate) Session, pub(crate) Freshness);

/// Extracts a caller with at least a role, and for a read how fresh it is.
macro_rules! extract {
    ($($type:ident: |$parts:ident, $app:ident| $extract:expr;)+) => {
        $(impl FromRequestParts<App> for $type {
            type Rejection = ApiError;

            async fn from_request_parts($parts: &mut Parts, $app: &App) -> ApiResult<Self> {
                Ok($extract)
            }
        })+
    };
}

extract! {
    Agent: |parts, app| Self(authenticate(parts, app, Role::Agent).await?);
    Admin: |parts, app| Self(authenticate(parts, app, Role::Admin).await?);
    ReaderRead: |parts, app| read(parts, app, Role::Reader, Self).await?;
    AdminRead: |parts, app| read(parts, app, Role::Admin, Self).await?;
    Operator: |parts, app| operator(parts, app).await?;
}

/// A read, from its caller and how fresh it is. Only a valid key may wait. The wait may bring
/// changes of keys and rules, so both are read again after it.
async fn read<T>(
    parts: &mut Parts,
    app: &App,
    role: Role,
    read: fn(Session, Freshness) -> T,
) -> ApiResult<T> {
    let mut session = authenticate(parts, app, role).await?;
    let freshness = await_freshness(parts, app).await?;
    let is_local = freshness.consistency == Consistency::Local;
    if !is_local || parts.headers.contains_key("x-hearth-min-index") {
        session = authenticate(parts, app, role).await?;
    }
    Ok(read(session, freshness))
}

#[derive(Deserialize)]
struct ConsistencyQuery {
    consistency: Option<ConsistencyWord>,
}

async fn await_freshness(parts: &mut Parts, app: &App) -> ApiResult<Freshness> {
    let headers = ReadHeaders::from_request_parts(parts, app).await?;
    let query = ValidQuery::<ConsistencyQuery>::from_request_parts(parts, app).await?;
    let consistency = headers.consistency.or(query.0.consistency);
    let consistency = consistency.map_or_else(Consistency::default, |word| word.0);
    let min_index = headers.min_index.map_or(0, |index| index.0);
    let max_staleness = headers.max_staleness_ms.map(|ms| Duration::from_millis(ms.0));
    let max_staleness = max_staleness.unwrap_or(STALENESS_MAX);
    app.service.await_freshness(consistency, min_index, max_staleness).await
}

/// The caller, if its role is `role` or a higher one. The first call for a request takes its permit,
/// and counts it against the requests per minute of the tenant: before its body is read.
async fn authenticate(parts: &Parts, app: &App, role: Role) -> ApiResult<Session> {
    let request = context_of(&parts.extensions);
    let key = bearer(&parts.headers);
    let session = match key.map(|key| app.service.authenticate(key, request)) {
        Some(Err(error)) if error.kind == ErrorKind::Unauthorized => {
            return Err(delayed(request, app, error).await);
        }
        Some(authenticated) => authenticated?,
        // No key was guessed, so there is no delay.
        None => return Err(ApiError::unauthorized()),
    };
    let key = session.key_of_tenant();
    request.set_key(key);
    if let Some(connection) = parts.extensions.get::<Arc<dyn Connection>>() {
        connection.show_key(key);
    }
    if !request.is_admitted() {
        let permit = app.budgets.requests.take(Some(key), 1);
        request.hold_permit(
            permit.map_err(|full| full.error("too_many_requests", "requests in progress"))?,
        );
        session.accept().await?;
    }
    // A request that is rejected at a limit takes no room from those of other keys.
    record_use(parts, app, role);
    session.check_role(role)?;
    Ok(session)
}

/// Records the kind of use of the key of an authenticated request, for the audit log.
pub(crate) fn record_use(parts: &Parts, app: &App, role: Role) {
    let request = context_of(&parts.extensions);
    if let (Some((tenant, key)), Some(source)) = (request.key(), request.source) {
        let client = client_name(&parts.headers).unwrap_or_default();
        let kind = KeyUse { network: network(source.ip()), client, role };
        app.service.key_uses.add(tenant, key, kind);
    }
}

/// The response to a wrong key, after its delay.
async fn delayed(request: &RequestContext, app: &App, error: ApiError) -> ApiError {
    let address = request.source.map(|source| source.ip());
    app.failed_authentications.delay(address).await.err().unwrap_or(error)
}

/// The key of a request; `None` if it has none, or several.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    values
        .next()
        .filter(|_| values.next().is_none())
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.split_once(' '))
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
        .map(|(_, key)| key.trim())
}

async fn operator(parts: &Parts, app: &App) -> ApiResult<Operator> {
    let request = context_of(&parts.extensions);
    let key = app.operator_key().ok_or_else(|| {
        let message = "this node has no operator key: set operator.key_file";
        ApiError::new(ErrorKind::Forbidden, "no_operator_key", message)
    })?;
    if !bearer(&parts.headers).is_some_and(|text| key.matches(text)) {
        let message = "send the operator key: Authorization: Bearer op-hearth-…";
        let error = ApiError::new(ErrorKind::Unauthorized, "unauthorized", message);
        return Err(delayed(request, app, error).await);
    }
    if parts.method != Method::GET {
        request.check_not_once()?;
    }
    Ok(Operator { service: Arc::clone(&app.service), request: Arc::clone(request) })
}
