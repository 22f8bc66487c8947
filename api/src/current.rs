//! The request that is being handled: its id, its caller, and the memories that it created. A
//! task-local value, so that errors and counters need no parameter for it.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use storage::model::access::Caller;
use storage::model::id::TenantId;
use storage::model::tenant::KeyId;

tokio::task_local! {
    static CURRENT: Current;
}

struct Current {
    id: String,
    /// Tenant and key, once the request is authenticated.
    caller: OnceLock<(TenantId, KeyId)>,
    created: AtomicU64,
}

/// What a handled request leaves for the counters.
pub(crate) struct Handled<T> {
    pub(crate) response: T,
    pub(crate) caller: Option<(TenantId, KeyId)>,
    pub(crate) created: u64,
}

/// Runs a handler as the request `id`.
pub(crate) async fn handle<T>(id: String, handler: impl Future<Output = T>) -> Handled<T> {
    let current = Current { id, caller: OnceLock::new(), created: AtomicU64::new(0) };
    let handled = async {
        let response = handler.await;
        CURRENT.with(|current| Handled {
            response,
            caller: current.caller.get().copied(),
            created: current.created.load(Ordering::Relaxed),
        })
    };
    CURRENT.scope(current, handled).await
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
    let set = |current: &Current| current.created.store(memories as u64, Ordering::Relaxed);
    let _: Result<(), _> = CURRENT.try_with(set);
}
