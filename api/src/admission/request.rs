//! A request while it is handled: its id, where it comes from, what it holds of the budgets, and what it
//! has done so far. The outermost layer creates one for each request. Extractors find it among the
//! extensions of the request, and the service gets it with the caller.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use storage::model::receipt::ReceiptRequest;
use storage::{Etag, Precondition};
use tracing::Span;

use crate::admission::budget::{KeyBudget, KeyOfTenant, KeyShare};
use crate::admission::rates::RateStatus;
use crate::error::{ApiError, ApiResult, ErrorKind};
use crate::limits::{RESPONSE_OVERHEAD_BYTES, SMALL_RESPONSE_BYTES_MAX};

pub(crate) struct RequestContext {
    pub(crate) id: String,
    /// Disabled unless the request is traced.
    pub(crate) span: Span,
    /// Where it comes from; `None` if the listener does not provide it.
    pub(crate) source: Option<SocketAddr>,
    once: Option<Once>,
    /// What the resource that it changes must be.
    precondition: Option<Precondition>,
    /// The tag of the resource that it returns.
    tag: OnceLock<Etag>,
    /// The budget of bytes of responses.
    responses: Arc<KeyBudget>,
    /// The key of its caller, once it is authenticated.
    key: OnceLock<KeyOfTenant>,
    /// How far its tenant is from its limit of requests, if it has one.
    rate_status: OnceLock<RateStatus>,
    held: Mutex<Held>,
    /// Memories that it created.
    created: AtomicU64,
    /// Whether it submitted a write, which may have happened.
    has_written: AtomicBool,
}

/// What a request holds of the budgets.
#[derive(Default)]
pub(crate) struct Held {
    /// The permit of a request in progress, until its response is sent; of a stream, until its head is
    /// ready.
    pub(crate) permit: Option<KeyShare>,
    /// The bytes of its body, until its response is ready.
    pub(crate) body: Option<KeyShare>,
    /// The bytes of its response, until that is sent.
    pub(crate) response: Option<KeyShare>,
}

/// The `Idempotency-Key` of a request, and what decides what the request does.
pub(crate) struct Once {
    key: String,
    /// Digest of method, address and namespace.
    head: [u8; 32],
    /// SHA-256 of the body; zeros without one.
    body: Mutex<[u8; 32]>,
    /// Commands of the request that have a receipt so far.
    commands: AtomicU32,
}

impl Once {
    /// `head` is a digest of method, address and namespace.
    pub(crate) fn new(key: String, head: [u8; 32]) -> Self {
        Self { key, head, body: Mutex::default(), commands: AtomicU32::new(0) }
    }
}

impl RequestContext {
    pub(crate) fn new(
        id: String,
        span: Span,
        source: Option<SocketAddr>,
        once: Option<Once>,
        precondition: Option<Precondition>,
        responses: Arc<KeyBudget>,
    ) -> Self {
        Self {
            id,
            span,
            source,
            once,
            precondition,
            tag: OnceLock::new(),
            responses,
            key: OnceLock::new(),
            rate_status: OnceLock::new(),
            held: Mutex::default(),
            created: AtomicU64::new(0),
            has_written: AtomicBool::new(false),
        }
    }

    /// The context of work that goes on after the response: it holds nothing of the budgets.
    pub(crate) fn detached(&self) -> Self {
        let responses = Arc::clone(&self.responses);
        Self::new(self.id.clone(), Span::none(), self.source, None, None, responses)
    }

    /// Key and tenant of the caller, once the request is authenticated.
    pub(crate) fn key(&self) -> Option<KeyOfTenant> {
        self.key.get().copied()
    }

    pub(crate) fn set_key(&self, key: KeyOfTenant) {
        self.key.get_or_init(|| key);
    }

    /// The address that the request comes from, for the audit log.
    pub(crate) fn address(&self) -> Option<IpAddr> {
        self.source.map(|source| source.ip().to_canonical())
    }

    pub(crate) fn rate_status(&self) -> Option<RateStatus> {
        self.rate_status.get().copied()
    }

    pub(crate) fn set_rate_status(&self, rate_status: RateStatus) {
        self.rate_status.get_or_init(|| rate_status);
    }

    /// Memories that the request created.
    pub(crate) fn created(&self) -> u64 {
        self.created.load(Ordering::Relaxed)
    }

    pub(crate) fn set_created(&self, memories: usize) {
        self.created.store(memories as u64, Ordering::Relaxed);
    }

    pub(crate) fn has_written(&self) -> bool {
        self.has_written.load(Ordering::Relaxed)
    }

    pub(crate) fn set_written(&self) {
        self.has_written.store(true, Ordering::Relaxed);
    }

    pub(crate) fn precondition(&self) -> Option<Precondition> {
        self.precondition.clone()
    }

    pub(crate) fn tag(&self) -> Option<Etag> {
        self.tag.get().copied()
    }

    pub(crate) fn set_tag(&self, tag: Etag) {
        self.tag.get_or_init(|| tag);
    }

    /// Whether the request has its permit.
    pub(crate) fn is_admitted(&self) -> bool {
        self.held.lock().permit.is_some()
    }

    pub(crate) fn hold_permit(&self, permit: KeyShare) {
        self.held.lock().permit = Some(permit);
    }

    pub(crate) fn hold_body(&self, bytes: KeyShare) {
        self.held.lock().body = Some(bytes);
    }

    /// Takes the bytes of the response, before it is built, unless they are taken already. A small
    /// response to a write always has room.
    ///
    /// # Errors
    /// There is no room. A write is done all the same, so its client must not repeat it.
    pub(crate) fn take_response_bytes(&self, bytes: usize) -> ApiResult<()> {
        let mut held = self.held.lock();
        if held.response.is_some() {
            return Ok(());
        }
        let (key, bytes) = (self.key(), bytes + RESPONSE_OVERHEAD_BYTES);
        let share = match self.responses.take(key, bytes) {
            Err(_) if self.has_written() && bytes <= SMALL_RESPONSE_BYTES_MAX => {
                self.responses.take_always(key, bytes)
            }
            Err(_) if self.has_written() => {
                let message =
                    "the write is done, but its response has no room: responses are not read";
                return Err(ApiError::new(ErrorKind::Unknown, "response_dropped", message));
            }
            Err(full) => {
                let what = "bytes of responses that are not read yet";
                return Err(full.error("responses_full", what));
            }
            Ok(share) => share,
        };
        held.response = Some(share);
        Ok(())
    }

    /// Takes what the request holds. Its response may hold it further.
    pub(crate) fn release(&self) -> Held {
        std::mem::take(&mut self.held.lock())
    }

    /// Records what decides what the request does, if it has an idempotency key: the body, or a part of it.
    pub(crate) fn set_once_body(&self, body: &[u8]) {
        if let Some(once) = &self.once {
            *once.body.lock() = Sha256::digest(body).into();
        }
    }

    /// Rejects the request if it has an idempotency key. For what no receipt can repeat: the text of an
    /// API key, which is kept nowhere, and writes that find by themselves what they change, because a
    /// repetition would find what was stored since.
    pub(crate) fn check_not_once(&self) -> ApiResult<()> {
        if self.once.is_none() {
            return Ok(());
        }
        let message =
            "this request accepts no Idempotency-Key: what it selects or returns is kept nowhere";
        Err(ApiError::bad_request("idempotency_unsupported", message))
    }

    /// The receipt of the next command, if the request has an idempotency key. The commands are
    /// numbered: what a repetition does is decided by its body and by the receipts of the commands
    /// before. A request that reads before its first command what it changes rejects the key.
    pub(crate) fn next_receipt(&self) -> Option<ReceiptRequest> {
        let once = self.once.as_ref()?;
        let mut key = Sha256::new_with_prefix(&once.key);
        let number = once.commands.fetch_add(1, Ordering::Relaxed);
        // No key contains a zero byte.
        key.update([&[0], &number.to_be_bytes()[..]].concat());
        let body_hash = Sha256::digest([once.head, *once.body.lock()].concat()).into();
        Some(ReceiptRequest { key: key.finalize().into(), body_hash })
    }
}
