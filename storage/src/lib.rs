//! The whole memory engine of one machine: model, decide, apply, tables,
//! indexes, search. It knows nothing of consensus, HTTP, async, or the time of day.
//!
//! # The life of a change
//!
//! 1. Somebody asks: a [`Command`]. The leader's executor makes a [`Draft`] on
//!    top of its [`Reader`] and calls [`decide`] for one command after another.
//! 2. [`decide`] checks the rules against the draft, so that a later command sees
//!    what an earlier one did, and pushes [`Change`]s: facts with absolute values.
//! 3. [`Draft::into_batch`] names the [`Batch`] and the batch it was decided on.
//!    Its bytes go through the log to every node.
//! 4. [`Writer::apply`] on every node: one RocksDB write for the changes and the
//!    position, then the tenant's index, then the position that readers see.
//! 5. [`Reader::get`], [`Reader::list`], [`Reader::hottest`] and
//!    [`Reader::search`] read it, as of the clock of the last batch.
//!
//! [`open`] hands out the three handles: a `Writer` that is not `Clone` and
//! moves into the state machine, a `Reader` for everyone else, and the `Log`.

mod apply;
mod change;
mod checkpoint;
pub mod codec;
mod command;
mod decide;
mod engine;
mod error;
pub mod file;
mod index;
mod journal;
mod log;
pub mod model;
mod outbox;
mod search;
mod simd;
mod table;
mod verify;

use std::path::Path;

pub use apply::{ApplyOutcome, Entry, EntryBody, Flusher, Writer};
pub use change::{Batch, Change};
pub use command::{
    Action, BULK_MAX, BulkFilter, CREATE_MAX, Command, Decision, FeedbackReply, MemoryPatch,
    NewMemory, Priority, Rejection, Reply, Signal, TriggerPatch,
};
pub use decide::{
    BATCH_BYTES, COMMAND_BYTES_MAX, Draft, Room, TriggerEvaluation, decide, evaluate,
};
pub use engine::{Counts, Options, Reader, SearchCounters};
pub use error::{Error, Result};
pub use index::coverage::GraphCounts;
pub use index::triggers::CompiledTrigger;
pub use journal::{EventPage, EventsAfter};
pub use log::{Log, LogField, LogWrite};
pub use outbox::Deliveries;
pub use search::{
    ColdForecast, Filter, GraphView, HEAT_BANDS, Hit, HotRequest, ListRequest, Neighbour, Order,
    Overview, Page, SearchRequest, SearchResults, Sort, TierFilter, Traversal,
};
pub use table::key::Key;
pub use table::view::View;
pub use verify::{Verified, Verifier};

/// The file system that a store lives on.
pub use rocksdb::Env;

/// Opens the engine in folder `data` (`data/log`, `data/state`), making both if
/// they are not there.
///
/// # Errors
/// When the data is damaged or not reachable. Nothing is wiped.
pub fn open(data: &Path, options: Options) -> Result<(Writer, Reader, Log)> {
    if options.env.is_none() {
        std::fs::create_dir_all(data).map_err(Error::file("create", data))?;
    }
    let log = Log::open(&data.join("log"), options.env.as_ref())?;
    let folder = checkpoint::Folder::new(&data.join("state"), options.env.clone());
    let current = folder.current()?;
    let engine = engine::Engine::open(&current, &options)?;
    folder.remove_others(&current)?;
    let reader = Reader::new(engine);
    Ok((Writer::new(reader.clone(), folder, options)?, reader, log))
}
