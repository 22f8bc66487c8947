//! Checks of what a proxy may read differently, and of the host that a request names. On every
//! listener, a request names one host, and has no other transfer coding than `chunked`. On the
//! operator's listener it names a known host, and does not come from a page of another origin: a
//! web page cannot use a local browser to reach the cluster (DNS rebinding).

use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{CONNECTION, HOST, ORIGIN, TRANSFER_ENCODING};
use axum::http::uri::Authority;
use axum::http::{HeaderValue, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use uuid::Uuid;

use crate::admission::request::RequestContext;
use crate::error::{ApiError, ApiResult, ErrorKind};
use crate::responses::name_request;

/// Rejects a request that names two hosts, with 400 `bad_host`, or another transfer coding than
/// `chunked`, with 400 `bad_framing`: a proxy and this server may read it differently. Middleware of
/// every listener.
pub async fn one_host(request: Request, next: Next) -> Response {
    let mut error = match host(&request).and_then(|_| check_coding(&request)) {
        Ok(()) => return next.run(request).await,
        Err(error) => error.into_response(),
    };
    // The listener of peers gives requests no id.
    if request.extensions().get::<Arc<RequestContext>>().is_none() {
        name_request(&mut error, &Uuid::now_v7().to_string());
    }
    // What follows on the connection may be a part of this request.
    ([(CONNECTION, HeaderValue::from_static("close"))], error).into_response()
}

fn check_coding(request: &Request) -> ApiResult<()> {
    let mut codings = request.headers().get_all(TRANSFER_ENCODING).iter();
    let is_chunked = |coding: &HeaderValue| coding.as_bytes().eq_ignore_ascii_case(b"chunked");
    if codings.next().is_none_or(is_chunked) && codings.next().is_none() {
        return Ok(());
    }
    Err(ApiError::bad_request("bad_framing", "use the transfer coding chunked, or none"))
}

/// Rejects a request for a host that may be a public name, with 403 `unknown_host`, and a request
/// of a page of another origin, with 403 `wrong_origin`. `hosts` are further known names.
pub(crate) async fn known_host(
    State(hosts): State<Arc<[String]>>,
    request: Request,
    next: Next,
) -> Response {
    match check(&request, &hosts) {
        Ok(()) => next.run(request).await,
        Err(error) => error.into_response(),
    }
}

fn check(request: &Request, hosts: &[String]) -> ApiResult<()> {
    let forbidden = |code, message| Err(ApiError::new(ErrorKind::Forbidden, code, message));
    let host = host(request)?;
    // A browser always sends a host. Probes over HTTP/1.0 may not.
    if host.as_ref().is_some_and(|host| !is_known(host.host(), hosts)) {
        return forbidden(
            "unknown_host",
            "use an IP address or a known name of this node: set operator.hosts",
        );
    }
    let origins = request.headers().get_all(ORIGIN);
    if !origins.iter().all(|origin| host.is_some() && authority(origin) == host) {
        return forbidden("wrong_origin", "a page of another origin sent this request");
    }
    Ok(())
}

/// The host that a request names; `None` if it names none.
fn host(request: &Request) -> ApiResult<Option<Authority>> {
    let bad = |message| Err(ApiError::bad_request("bad_host", message));
    let mut headers = request.headers().get_all(HOST).iter();
    let (first, second) = (headers.next(), headers.next());
    let header = first.map(|value| Authority::try_from(value.as_bytes()));
    match (header, request.uri().authority()) {
        _ if second.is_some() => bad("send one Host header"),
        (Some(Err(_)), _) => bad("the Host header is no host"),
        (Some(Ok(header)), Some(target)) if header != *target => {
            bad("the Host header and the target of the request are different hosts")
        }
        (Some(Ok(header)), _) => Ok(Some(header)),
        (None, target) => Ok(target.cloned()),
    }
}

/// Whether no outsider can choose the address of this name. A name without a dot, such as
/// `localhost` or that of a container, is not in the public DNS.
fn is_known(name: &str, hosts: &[String]) -> bool {
    let address = name.trim_start_matches('[').trim_end_matches(']');
    IpAddr::from_str(address).is_ok()
        || !name.contains('.')
        || hosts.iter().any(|known| known.eq_ignore_ascii_case(name))
}

/// Host and port of an origin. `None` for `null`, the origin of a page without one.
fn authority(origin: &HeaderValue) -> Option<Authority> {
    Uri::try_from(origin.as_bytes()).ok()?.into_parts().authority
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    /// The code of the error of a request for `target` with these headers.
    fn error(target: &str, headers: &[(&str, &str)]) -> Option<&'static str> {
        let request = Request::builder().uri(target);
        let with_headers =
            headers.iter().fold(request, |all, (name, value)| all.header(*name, *value));
        let request = with_headers.body(Body::empty()).unwrap();
        check(&request, &["node-1.example".to_owned()]).err().map(|error| error.code)
    }

    #[test]
    fn addresses_and_known_names_are_accepted() {
        for host in [
            "127.0.0.1:4281",
            "10.0.0.1",
            "[::1]:4281",
            "localhost:4281",
            "node-2:7071",
            "node-1.example",
            "Node-1.Example:4281",
        ] {
            assert_eq!(error("/cluster", &[("host", host)]), None, "{host}");
            assert_eq!(error(&format!("http://{host}/cluster"), &[]), None, "{host}");
            let origin = format!("http://{host}");
            assert_eq!(error("/cluster", &[("host", host), ("origin", &origin)]), None, "{host}");
        }
        assert_eq!(error("/livez", &[]), None);
    }

    #[test]
    fn names_of_the_public_dns_are_rejected() {
        for host in
            ["evil.example", "node-1.example.", "127.0.0.1.evil.example", "a.node-1.example:1"]
        {
            assert_eq!(error("/cluster", &[("host", host)]), Some("unknown_host"), "{host}");
            let target = format!("http://{host}/cluster");
            assert_eq!(error(&target, &[]), Some("unknown_host"), "{host}");
        }
    }

    #[test]
    fn pages_of_other_origins_are_rejected() {
        for origin in
            ["http://evil.example", "null", "http://127.0.0.1:1", "http://127.0.0.1", "", "file://"]
        {
            let headers = [("host", "127.0.0.1:4281"), ("origin", origin)];
            assert_eq!(error("/cluster", &headers), Some("wrong_origin"), "{origin}");
        }
        assert_eq!(error("/cluster", &[("origin", "null")]), Some("wrong_origin"));
    }

    #[test]
    fn two_hosts_are_rejected() {
        let local = ("host", "127.0.0.1");
        for (target, headers) in [
            ("/", &[local, ("host", "localhost")][..]),
            ("/", &[local, local]),
            ("http://localhost/", &[local]),
            ("http://127.0.0.1:1/", &[local]),
            ("/", &[("host", "")]),
            ("/", &[("host", "a, b")]),
        ] {
            assert_eq!(error(target, headers), Some("bad_host"), "{target} {headers:?}");
        }
        assert_eq!(error("http://LOCALHOST/", &[("host", "localhost")]), None);
    }
}
