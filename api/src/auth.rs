//! Authentication: the API key of a request, and what its role permits. The tenant comes from
//! the key alone.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use raft::SubmitError;
use storage::model::tenant::Role;

use crate::app::App;
use crate::current::set_caller;
use crate::service::error::{ApiError, ApiResult, ErrorKind};
use crate::service::{Service, Session};

/// A caller who may write.
pub(crate) struct Agent(pub(crate) Session);

/// A caller who may administer its tenant.
pub(crate) struct Admin(pub(crate) Session);

/// Extracts a caller with at least a role.
macro_rules! extract {
    ($($type:ident: $role:expr),+) => {
        $(impl FromRequestParts<App> for $type {
            type Rejection = ApiError;

            async fn from_request_parts(parts: &mut Parts, app: &App) -> ApiResult<Self> {
                authenticate(&parts.headers, &app.service, $role).map(Self)
            }
        })+
    };
}

extract!(Agent: Role::Agent, Admin: Role::Admin);

/// The caller, if its role is `role` or a higher one.
pub(crate) fn authenticate(
    headers: &HeaderMap,
    service: &Service,
    role: Role,
) -> ApiResult<Session> {
    let key = headers
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.split_once(' '))
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
        .map(|(_, key)| key.trim())
        .ok_or_else(ApiError::unauthorized)?;
    let caller = service.reader.authenticate(key).ok_or_else(|| unknown_key(service))?;
    set_caller(&caller);
    if caller.role < role {
        let message = format!("this key may {} only", permission(caller.role));
        return Err(ApiError::new(ErrorKind::Forbidden, "forbidden", message));
    }
    Ok(Session { service: service.clone(), caller })
}

/// A node without contact to its cluster cannot distinguish a wrong key from a new one.
fn unknown_key(service: &Service) -> ApiError {
    match service.raft.status().quarantine {
        Some(_) => SubmitError::Quarantined.into(),
        None if service.is_in_contact() => ApiError::unauthorized(),
        None => SubmitError::NoLeader.into(),
    }
}

fn permission(role: Role) -> &'static str {
    match role {
        Role::Reader => "read",
        Role::Agent => "read and write memories",
        Role::Admin | Role::Operator => "administer its tenant",
    }
}
