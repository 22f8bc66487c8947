//! The request that is being handled: its id, its caller, and the memories that it created. A
//! task-local value, so that errors and counters need no parameter for it.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use storage::model::access::Caller;
use storage::model::receipt::ReceiptRequest;

use crate::admission::budget::{Full, KeyBudget, KeyOfTenant, KeyShare};
use crate::admission::rates::RateStatus;
use crate::limits::{RESPONSE_OVERHEAD_BYTES, SMALL_RESPONSE_BYTES_MAX};

tokio::task_local! {
    static CURRENT: Arc<Current>;
}

#[derive(Default)]
pub(crate) struct Current {
    pub(crate) id: String,
    /// Once the request is authenticated.
    pub(crate) caller: OnceLock<KeyOfTenant>,
    /// The address from which it comes.
    source: OnceLock<IpAddr>,
    pub(crate) created: AtomicU64,
    /// Whether a write was submitted.
    has_written: AtomicBool,
    /// Its `Idempotency-Key`, if it has one.
    once: OnceLock<Once>,
    /// How far its tenant is from its limit of requests, if it has one.
    pub(crate) rate_status: OnceLock<RateStatus>,
    /// Its permit as a request in progress, until its response is sent.
    permit: Mutex<Option<KeyShare>>,
    /// The bytes of its body, until its response is ready.
    body: Mutex<Option<KeyShare>>,
    /// The budget of bytes of responses, if they count.
    responses: OnceLock<Arc<KeyBudget>>,
    /// The bytes of its response, if they were counted before it was built.
    response: Mutex<Option<KeyShare>>,
}

/// The `Idempotency-Key` of a request, and what decides what the request does.
struct Once {
    key: String,
    /// Digest of method, address and namespace.
    head: [u8; 32],
    /// SHA-256 of the body; zeros without one.
    body: OnceLock<[u8; 32]>,
    /// Commands of the request that have a receipt so far.
    commands: AtomicU32,
}

/// Runs a handler as the request `id`, and returns its response with what it left here.
pub(crate) async fn handle<T>(id: String, handler: impl Future<Output = T>) -> (T, Arc<Current>) {
    let current = Arc::new(Current { id, ..Current::default() });
    (CURRENT.scope(Arc::clone(&current), handler).await, current)
}

/// The present request; `None` outside of one.
pub(crate) fn present() -> Option<Arc<Current>> {
    CURRENT.try_with(Arc::clone).ok()
}

/// Runs work of a request on another task.
pub(crate) async fn within<T>(current: Option<Arc<Current>>, work: impl Future<Output = T>) -> T {
    match current {
        Some(current) => CURRENT.scope(current, work).await,
        None => work.await,
    }
}

/// Id of the present request; empty outside of one.
pub(crate) fn request_id() -> String {
    CURRENT.try_with(|current| current.id.clone()).unwrap_or_default()
}

pub(crate) fn set_caller(caller: &Caller) {
    let ids = (caller.tenant, caller.key);
    let _: Result<_, _> = CURRENT.try_with(|current| *current.caller.get_or_init(|| ids));
}

pub(crate) fn set_source(source: IpAddr) {
    let _: Result<_, _> = CURRENT.try_with(|current| *current.source.get_or_init(|| source));
}

/// The address from which the present request comes, once it is authenticated.
pub(crate) fn source() -> Option<IpAddr> {
    CURRENT.try_with(|current| current.source.get().copied()).ok().flatten()
}

pub(crate) fn set_created(memories: usize) {
    let set = |current: &Arc<Current>| current.created.store(memories as u64, Ordering::Relaxed);
    let _: Result<(), _> = CURRENT.try_with(set);
}

/// Records that the present request submitted a write: it may have happened.
pub(crate) fn set_written() {
    let _: Result<(), _> =
        CURRENT.try_with(|current| current.has_written.store(true, Ordering::Relaxed));
}

/// Makes the writes of the present request those of an idempotency key. `head` is a digest of method,
/// address and namespace.
pub(crate) fn set_once(key: String, head: [u8; 32]) {
    let once = Once { key, head, body: OnceLock::new(), commands: AtomicU32::new(0) };
    let _: Result<_, _> = CURRENT.try_with(|current| drop(current.once.set(once)));
}

/// Whether the present request has an idempotency key.
pub(crate) fn is_once() -> bool {
    CURRENT.try_with(|current| current.once.get().is_some()).unwrap_or(false)
}

/// Records the body of the present request, if it has an idempotency key.
pub(crate) fn set_once_body(body: &[u8]) {
    let set = |current: &Arc<Current>| {
        if let Some(once) = current.once.get() {
            once.body.get_or_init(|| Sha256::digest(body).into());
        }
    };
    let _: Result<_, _> = CURRENT.try_with(set);
}

/// The receipt of the next command of the present request, if that has an idempotency key. The
/// commands are numbered: what a repetition does is decided by its body and by the receipts of the
/// commands before. A request that reads before its first command what it changes rejects the key.
pub(crate) fn next_receipt() -> Option<ReceiptRequest> {
    let receipt = |current: &Arc<Current>| {
        let once = current.once.get()?;
        let mut key = Sha256::new_with_prefix(&once.key);
        let number = once.commands.fetch_add(1, Ordering::Relaxed);
        // No key contains a zero byte.
        key.update([&[0], &number.to_be_bytes()[..]].concat());
        let body = once.body.get().copied().unwrap_or_default();
        let body_hash = Sha256::digest([once.head, body].concat()).into();
        Some(ReceiptRequest { key: key.finalize().into(), body_hash })
    };
    CURRENT.try_with(receipt).ok().flatten()
}

/// Whether the present request submitted a write.
pub(crate) fn has_written() -> bool {
    CURRENT.try_with(|current| current.has_written.load(Ordering::Relaxed)).unwrap_or(false)
}

/// Key and tenant of the present request, once it is authenticated.
pub(crate) fn caller() -> Option<KeyOfTenant> {
    CURRENT.try_with(|current| current.caller.get().copied()).ok().flatten()
}

/// Whether the present request has its permit.
pub(crate) fn has_permit() -> bool {
    CURRENT.try_with(|current| current.permit.lock().is_some()).unwrap_or(false)
}

pub(crate) fn set_permit(permit: KeyShare) {
    let _: Result<_, _> = CURRENT.try_with(|current| current.permit.lock().replace(permit));
}

/// Takes the permit of the present request, for its response.
pub(crate) fn take_permit() -> Option<KeyShare> {
    CURRENT.try_with(|current| current.permit.lock().take()).ok().flatten()
}

pub(crate) fn set_rate_status(rate_status: RateStatus) {
    let _: Result<_, _> =
        CURRENT.try_with(|current| *current.rate_status.get_or_init(|| rate_status));
}

pub(crate) fn set_body(bytes: KeyShare) {
    let _: Result<_, _> = CURRENT.try_with(|current| current.body.lock().replace(bytes));
}

/// Makes the response of the present request count against a budget.
pub(crate) fn count_response(budget: &Arc<KeyBudget>) {
    let _: Result<_, _> =
        CURRENT.try_with(|current| drop(current.responses.set(Arc::clone(budget))));
}

/// Takes the bytes of the response to the present request, before it is built. A small response to
/// a write always has room.
pub(crate) fn take_response_bytes(bytes: usize) -> Result<(), Full> {
    let take = |current: &Arc<Current>| {
        let Some(budget) = current.responses.get() else { return Ok(()) };
        let (caller, bytes) = (caller(), bytes + RESPONSE_OVERHEAD_BYTES);
        let share = match budget.take(caller, bytes) {
            Err(_) if has_written() && bytes <= SMALL_RESPONSE_BYTES_MAX => {
                budget.take_always(caller, bytes)
            }
            taken => taken?,
        };
        current.response.lock().replace(share);
        Ok(())
    };
    CURRENT.try_with(take).unwrap_or(Ok(()))
}

/// Whether the bytes of the response to the present request are taken.
pub(crate) fn has_response() -> bool {
    CURRENT.try_with(|current| current.response.lock().is_some()).unwrap_or(false)
}

/// The bytes that were taken for the response to the present request.
pub(crate) fn take_response() -> Option<KeyShare> {
    CURRENT.try_with(|current| current.response.lock().take()).ok().flatten()
}
