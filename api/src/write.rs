//! The extractor of idempotent writes: a valid body, and the receipt that its
//! `Idempotency-Key` requests.

use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, OriginalUri, Request};
use axum::http::Method;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};
use storage::model::receipt::ReceiptRequest;

use crate::app::App;
use crate::requests::JsonBody;
use crate::requests::headers::IdempotencyHeader;
use crate::service::error::{ApiError, ApiResult};

/// A write with a valid body and an optional receipt.
pub(crate) struct Write<T> {
    pub(crate) body: T,
    pub(crate) receipt: Option<ReceiptRequest>,
}

impl<T: DeserializeOwned> FromRequest<App> for Write<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &App) -> ApiResult<Self> {
        let (mut parts, body) = request.into_parts();
        let Ok(OriginalUri(uri)) = OriginalUri::from_request_parts(&mut parts, app).await;
        let once = IdempotencyHeader::from_request_parts(&mut parts, app).await?;
        let method = parts.method.clone();
        let namespace = parts.headers.get("x-namespace").map(|value| value.as_bytes().to_vec());
        let body = JsonBody::from_request(Request::from_parts(parts, body), app).await?;
        let receipt = once.key.map(|key| ReceiptRequest {
            key: Sha256::digest(key.0).into(),
            body_hash: digest(&method, uri.path(), &namespace.unwrap_or_default(), &body.0),
        });
        Ok(Self { body: body.parse()?, receipt })
    }
}

/// A digest of everything that decides what a write does.
fn digest(method: &Method, path: &str, namespace: &[u8], body: &Bytes) -> [u8; 32] {
    let mut digest = Sha256::new();
    for part in [method.as_str().as_bytes(), path.as_bytes(), namespace, body] {
        digest.update((part.len() as u64).to_be_bytes());
        digest.update(part);
    }
    digest.finalize().into()
}
