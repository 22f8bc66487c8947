//! The operator's listener, and that of health, while the node opens its data: it is alive and not ready,
//! and says how many memories it has indexed. Then the routes of the operator take over.

use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::Router;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tower_service::Service;

/// The paths of the listener for health and metrics.
const HEALTH_PATHS: [&str; 3] = ["/livez", "/readyz", "/metrics"];

/// The routes of the operator, once they exist.
#[derive(Clone, Default)]
pub(crate) struct Starting {
    routes: Arc<OnceLock<Router>>,
    /// Memories that were indexed so far.
    pub(crate) indexed: Arc<AtomicU64>,
}

impl Starting {
    /// Routes for the listener: those of the operator, as soon as they are [opened](Self::open).
    pub(crate) fn routes(&self) -> Router {
        Router::new().fallback(respond).with_state(self.clone())
    }

    /// Those of them that need no key.
    pub(crate) fn health_routes(&self) -> Router {
        let handle = get(respond);
        let routes = HEALTH_PATHS
            .iter()
            .fold(Router::new(), |routes, path| routes.route(path, handle.clone()));
        routes.with_state(self.clone())
    }

    /// Ends the start. Only the first call counts.
    pub(crate) fn open(&self, routes: Router) {
        self.routes.get_or_init(|| routes);
    }
}

async fn respond(State(starting): State<Starting>, request: Request) -> Response {
    let mut routes = match starting.routes.get() {
        Some(routes) => routes.clone(),
        None => return unopened(request.uri().path(), starting.indexed.load(Ordering::Relaxed)),
    };
    routes.call(request).await.into_response()
}

fn unopened(path: &str, indexed: u64) -> Response {
    if path == "/livez" {
        return "ok\n".into_response();
    }
    let text = format!("[-] data failed: opening, {indexed} memories indexed\nnot ready\n");
    (StatusCode::SERVICE_UNAVAILABLE, text).into_response()
}

#[cfg(test)]
mod tests {
    use axum::body::{Body, to_bytes};

    use super::*;

    async fn get(starting: &Starting, path: &str) -> (StatusCode, String) {
        let request = Request::get(path).body(Body::empty()).unwrap();
        let response = starting.routes().call(request).await.unwrap();
        let status = response.status();
        let body = to_bytes(response.into_body(), 1_000).await.unwrap();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn node_is_alive_while_it_opens_its_data() {
        let starting = Starting::default();
        starting.indexed.store(2_000, Ordering::Relaxed);
        assert_eq!(get(&starting, "/livez").await, (StatusCode::OK, "ok\n".into()));
        for path in ["/readyz", "/metrics", "/api/v1/status"] {
            let (status, text) = get(&starting, path).await;
            assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
            assert!(text.contains("opening, 2000 memories indexed"), "{text}");
        }
        let mut health = starting.health_routes();
        let request = Request::get("/api/v1/status").body(Body::empty()).unwrap();
        assert_eq!(health.call(request).await.unwrap().status(), StatusCode::NOT_FOUND);
        starting.open(Router::new().fallback(async || "opened"));
        let request = Request::get("/metrics").body(Body::empty()).unwrap();
        assert_eq!(health.call(request).await.unwrap().status(), StatusCode::OK);
        assert_eq!(get(&starting, "/readyz").await, (StatusCode::OK, "opened".into()));
    }
}
