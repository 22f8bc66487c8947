//! The files of the dashboard, which `make dashboard` builds from `api/ui` and the binary contains. They
//! need no key: the page requests one.

use std::borrow::Cow;
use std::io::Write;
use std::sync::LazyLock;

use axum::Router;
use axum::body::Bytes;
use axum::extract::Path;
use axum::http::header::{ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, VARY};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use flate2::Compression;
use flate2::write::GzEncoder;
use rust_embed::RustEmbed;

use crate::app::App;
use crate::error::{ApiError, ApiResult, ErrorKind};

const INDEX: &str = "index.html";
/// All files, compressed at the first request. Both listeners send them.
static FILES: LazyLock<Vec<File>> =
    LazyLock::new(|| Bundle::iter().filter_map(|name| File::load(&name)).collect());

#[derive(RustEmbed)]
#[folder = "ui/dist"]
struct Bundle;

/// A file as it is sent: its bytes are shared by all responses.
struct File {
    name: String,
    kind: &'static str,
    plain: Bytes,
    gzip: Bytes,
}

impl File {
    fn load(name: &str) -> Option<Self> {
        let plain = match Bundle::get(name)?.data {
            Cow::Borrowed(bytes) => Bytes::from_static(bytes),
            Cow::Owned(bytes) => Bytes::from(bytes),
        };
        let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
        gzip.write_all(&plain).ok()?;
        let gzip = Bytes::from(gzip.finish().ok()?);
        let kind = match name.rsplit_once('.')?.1 {
            "html" => "text/html; charset=utf-8",
            "js" => "text/javascript; charset=utf-8",
            "css" => "text/css; charset=utf-8",
            "svg" => "image/svg+xml",
            _ => return None,
        };
        Some(Self { name: name.to_owned(), kind, plain, gzip })
    }

    fn response(&self, request: &HeaderMap) -> Response {
        let accepted = request.get(ACCEPT_ENCODING).and_then(|value| value.to_str().ok());
        let is_gzip = accepted.is_some_and(|accepted| accepted.contains("gzip"));
        // All names but that of the page contain a hash of the content.
        let caching = match self.name.as_str() {
            INDEX => "no-cache",
            _ => "public, max-age=31536000, immutable",
        };
        let headers =
            [(CONTENT_TYPE, self.kind), (CACHE_CONTROL, caching), (VARY, "Accept-Encoding")];
        let bytes = if is_gzip { &self.gzip } else { &self.plain };
        let mut response = (headers, bytes.clone()).into_response();
        if is_gzip {
            response.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        response
    }
}

/// The page at `/dashboard`, its files below, and `/`, which leads there.
pub(crate) fn routes() -> Router<App> {
    let page = async |headers: HeaderMap| file(INDEX, &headers);
    let asset = async |Path(name): Path<String>, headers: HeaderMap| {
        file(&format!("assets/{name}"), &headers)
    };
    Router::new()
        .route("/", get(async || Redirect::temporary("/dashboard")))
        .route("/dashboard", get(page))
        .route("/dashboard/assets/{name}", get(asset))
}

fn file(name: &str, request: &HeaderMap) -> ApiResult<Response> {
    let file = FILES.iter().find(|file| file.name == name).map(|file| file.response(request));
    let message = "the dashboard has no such file";
    file.ok_or_else(|| ApiError::new(ErrorKind::NotFound, "no_such_path", message))
}
