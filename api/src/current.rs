//! The request that is being handled: its id, its caller, and the memories that it created. A
//! task-local value, so that errors and counters need no parameter for it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use storage::model::access::Caller;
use storage::model::id::TenantId;
use storage::model::tenant::KeyId;

tokio::task_local! {
    static CURRENT: Arc<Current>;
}

#[derive(Default)]
pub(crate) struct Current {
    pub(crate) id: String,
    /// Tenant and key, once the request is authenticated.
    pub(crate) caller: OnceLock<(TenantId, KeyId)>,
    pub(crate) created: AtomicU64,
}

/// Runs a handler as the request `id`, and returns its response with what it left here.
pub(crate) async fn handle<T>(id: String, handler: impl Future<Output = T>) -> (T, Arc<Current>) {
    let current = Arc::new(Current { id, ..Current::default() });
    (CURRENT.scope(Arc::clone(&current), handler).await, current)
}

/// Id of the present request; empty outside of one.
pub(crate) fn request_id() -> String {
    CURRENT.try_with(|current| current.id.clone()).unwrap_or_default()
}

pub(crate) fn set_caller(caller: &Caller) {
    let ids = (caller.tenant, caller.key);
    let _: Result<_, _> = CURRENT.try_with(|current| *current.caller.get_or_init(|| ids));
}

pub(crate) fn set_created(memories: usize) {
    let set = |current: &Arc<Current>| current.created.store(memories as u64, Ordering::Relaxed);
    let _: Result<(), _> = CURRENT.try_with(set);
}
