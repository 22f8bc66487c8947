//! The files of the dashboard, which `make dashboard` builds from `api/ui` and the binary contains. They
//! need no key: the page asks for one. What it may load and send is fixed by its policy (CSP).

use std::io::Write;

use axum::Router;
use axum::body::Bytes;
use axum::extract::Path;
use axum::http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE,
    REFERRER_POLICY, VARY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use flate2::Compression;
use flate2::write::GzEncoder;
use rust_embed::RustEmbed;

use crate::app::App;
use crate::service::error::{ApiError, ErrorKind};

const INDEX: &str = "index.html";
/// Scripts, styles, images and requests of this origin, and nothing else.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
    img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

#[derive(RustEmbed)]
#[folder = "ui/dist"]
struct Bundle;

/// A file as it is sent: its bytes are shared by all responses.
#[derive(Clone)]
struct File {
    name: String,
    kind: &'static str,
    plain: Bytes,
    gzip: Bytes,
}

impl File {
    fn load(name: &str) -> Option<Self> {
        let plain = Bytes::from(Bundle::get(name)?.data.into_owned());
        let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
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
        // A name has a hash of the content, but that of the page.
        let caching = match self.name.as_str() {
            INDEX => "no-cache",
            _ => "public, max-age=31536000, immutable",
        };
        let headers = [
            (CONTENT_TYPE, self.kind),
            (CACHE_CONTROL, caching),
            (VARY, "Accept-Encoding"),
            (CONTENT_SECURITY_POLICY, POLICY),
            (X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (REFERRER_POLICY, "no-referrer"),
        ];
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
    let files: Vec<File> = Bundle::iter().filter_map(|name| File::load(&name)).collect();
    let index = files.iter().find(|file| file.name == INDEX).cloned();
    let page = async move |headers: HeaderMap| match &index {
        Some(index) => index.response(&headers),
        None => missing().into_response(),
    };
    let file = async move |Path(name): Path<String>, headers: HeaderMap| {
        let name = format!("assets/{name}");
        match files.iter().find(|file| file.name == name) {
            Some(file) => file.response(&headers),
            None => missing().into_response(),
        }
    };
    Router::new()
        .route("/", get(async || Redirect::temporary("/dashboard")))
        .route("/dashboard", get(page))
        .route("/dashboard/assets/{name}", get(file))
}

fn missing() -> ApiError {
    ApiError::new(ErrorKind::NotFound, "no_such_path", "the dashboard has no such file")
}
