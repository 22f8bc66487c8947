//! What the service requires of the node, which implements it: embeddings of texts, and the rules
//! and secrets of webhooks.

use std::sync::Arc;

use futures::future::BoxFuture;
use moka::sync::Cache;
use storage::model::access::Caller;
use storage::model::cluster::Model;
use storage::model::id::{KeyId, MemoryId, TenantId, TriggerId};
use storage::model::memory::MemoryType;
use storage::model::score::Reading;
use storage::model::trigger::SealedSecret;
use storage::model::vector::ModelId;

use crate::admission::budget::{KeyBudget, KeyShare};
use crate::admission::fair::FairPermits;
use crate::error::ApiError;
use crate::limits::{
    EXTRACTION_WAIT, EXTRACTIONS_AT_ONCE, EXTRACTIONS_MAX, OPEN_TURNS_MAX, TURN_TIME_MAX,
};

/// A unit vector for a text.
pub type Embedding = Vec<f32>;

/// An embedding, and the model that computed it.
pub type Embedded = (ModelId, Embedding);

/// A text was not embedded; the cause is in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EmbedError {
    /// The model failed.
    Failed,
    /// The endpoint that runs the model does not respond as it should.
    Unavailable,
}

impl From<EmbedError> for ApiError {
    fn from(error: EmbedError) -> Self {
        match error {
            EmbedError::Failed => Self::internal(),
            EmbedError::Unavailable => Self::unavailable(
                "embedder_unavailable",
                "the endpoint that embeds texts does not respond",
            ),
        }
    }
}

/// What a text is for. Some models read queries in another way than what is searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TextRole {
    /// It is compared with passages.
    Query,
    /// It is found by queries, and compared with other passages.
    Passage,
}

/// Whose texts may share a cache. What a key has embedded before returns sooner, which must tell
/// no key of texts that it may not read.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct EmbedScope {
    /// The tenant.
    pub tenant: TenantId,
    /// The key; `None` is all keys that may read everything of the tenant.
    pub key: Option<KeyId>,
}

impl EmbedScope {
    pub(crate) fn of(caller: &Caller) -> Self {
        let key = (!caller.access.is_unrestricted()).then_some(caller.key);
        Self { tenant: caller.tenant, key }
    }
}

/// Turns texts into vectors, on threads of its own.
pub trait Embedder: Send + Sync {
    /// The vector of `text`. Any text has one, the empty one too.
    fn embed(
        &self,
        scope: EmbedScope,
        role: TextRole,
        text: String,
    ) -> BoxFuture<'_, Result<Embedded, EmbedError>>;

    /// How the model reads a query.
    fn reading(&self, query: &str) -> Reading;

    /// Number of texts that are embedded at the same time: 1 or more.
    fn threads(&self) -> usize;

    /// The model in a folder of this node.
    ///
    /// # Errors
    /// The reason, for the operator: the folder has none.
    fn model_in(&self, folder: &str) -> Result<Model, String>;
}

/// Compares texts with a query more exactly than their vectors do, one request at a time.
pub trait Reranker: Send + Sync {
    /// The relevance of each text; the highest is the best. `None` if the reranker does not respond in time, or
    /// is busy; the cause is in the log.
    fn relevances(&self, query: String, texts: Vec<String>)
    -> BoxFuture<'static, Option<Vec<f64>>>;
}

/// A fact that was said.
#[derive(Debug, Clone)]
pub struct ExtractedFact {
    /// One statement that is clear without the conversation.
    pub text: String,
    /// Its kind.
    pub memory_type: MemoryType,
    /// Which of the known facts it replaces, by its place among them.
    pub replaces: Option<usize>,
}

/// Finds in a turn of an agent what is worth knowing later.
pub trait Extractor: Send + Sync {
    /// The facts of a turn, beside what is `known`. `None` if the extractor does not respond; the cause is in the log.
    fn facts(
        &self,
        turn: String,
        known: Vec<String>,
    ) -> BoxFuture<'static, Option<Vec<ExtractedFact>>>;

    /// Counts a turn that was not extracted, since too many waited.
    fn count_dropped(&self);
}

/// The extractor, and the turns that wait for it.
pub(crate) struct Extractions {
    pub(super) extractor: Arc<dyn Extractor>,
    pub(super) waiting: Arc<KeyBudget>,
    pub(super) running: FairPermits,
    /// The prompts of turns that have not ended, by key and session. Both hooks of a turn reach one node.
    pub(super) prompts: Cache<(KeyId, String), (MemoryId, Arc<KeyShare>)>,
    pub(super) open: Arc<KeyBudget>,
}

impl Extractions {
    pub(crate) fn new(extractor: Arc<dyn Extractor>) -> Self {
        let (at_once, wait) = (EXTRACTIONS_AT_ONCE, EXTRACTION_WAIT);
        // The turns of a key are extracted one after the other: a later one may replace what an earlier one said.
        let running = FairPermits::with_parts(at_once, at_once / 2, 1, wait);
        let prompts = Cache::builder().max_capacity(OPEN_TURNS_MAX).time_to_live(TURN_TIME_MAX);
        let waiting = KeyBudget::new(EXTRACTIONS_MAX);
        let open = KeyBudget::new(OPEN_TURNS_MAX as usize);
        Self { extractor, waiting, running, prompts: prompts.build(), open }
    }
}

/// Creates backups of this node's state, one at a time.
pub trait Backups: Send + Sync {
    /// Starts a backup at `url`, in the background.
    ///
    /// # Errors
    /// The reason, for the operator: the URL is not usable, or a backup is under way.
    fn start(&self, url: String) -> Result<(), String>;

    /// What is under way, and what the last one was.
    fn status(&self) -> BackupStatus;
}

/// The backups of this process.
#[derive(Debug, Clone, Default)]
pub struct BackupStatus {
    /// The backup that is under way.
    pub running: Option<BackupProgress>,
    /// The last one that succeeded.
    pub last: Option<BackupSummary>,
    /// Why the last one failed; absent if it succeeded.
    pub error: Option<String>,
}

/// Progress of a backup.
#[derive(Debug, Clone, Default)]
pub struct BackupProgress {
    /// Where it goes.
    pub url: String,
    /// Bytes of all its files; 0 until they are known.
    pub total_bytes: u64,
    /// Bytes of those that are done.
    pub done_bytes: u64,
    /// Bytes that were uploaded: the rest was there already.
    pub uploaded_bytes: u64,
}

/// A backup.
#[derive(Debug, Clone)]
pub struct BackupSummary {
    /// Its id.
    pub id: String,
    /// Index of the last log entry that it contains.
    pub index: u64,
    /// Bytes of all its files.
    pub bytes: u64,
    /// Bytes that were uploaded.
    pub uploaded_bytes: u64,
    /// SHA-256 of the state.
    pub state_sha256: String,
}

/// Rules and secrets of webhooks.
pub trait Hooks: Send + Sync {
    /// Checks whether the text of `url` is acceptable. The addresses behind a host name are
    /// checked at each delivery.
    ///
    /// # Errors
    /// The reason, for the client.
    fn check(&self, url: &str) -> Result<(), String>;

    /// Checks whether `secret` can sign.
    ///
    /// # Errors
    /// The reason, for the client.
    fn check_secret(&self, secret: &str) -> Result<(), String>;

    /// Seals the secret of a trigger: only this cluster can open it. The same trigger and secret
    /// give the same bytes, so a repeated rotation is recognised. `None` if this node has no key.
    fn seal(&self, of: TriggerId, secret: &str) -> Option<SealedSecret>;

    /// Hashes `digest` with the cluster's key. Without the key, the result reveals nothing about
    /// the digested text. A node without a key returns `digest` itself.
    fn blind(&self, digest: [u8; 32]) -> [u8; 32];
}
