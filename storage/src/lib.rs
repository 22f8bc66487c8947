//! The memory engine of one machine: commands, decide, apply, tables, search. It contains
//! no consensus, no HTTP, no async code and no clock.
//!
//! # The path of a change
//!
//! 1. A request becomes a [`Command`]. The leader's executor creates a [`Draft`] on top of its
//!    [`Reader`] and calls [`decide`] per command.
//! 2. [`decide`] checks the rules against the draft, which includes the effects of earlier
//!    commands, and adds [`Change`]s: facts with absolute values.
//! 3. [`Draft::into_batch`] returns the [`Batch`], with its id and the id of the batch before.
//!    Its bytes go through the log to every node.
//! 4. [`Writer::apply`] runs on every node: one RocksDB write of the changes and the position,
//!    then the index of the tenant, then the position that readers use.
//! 5. [`Reader::get`], [`Reader::list`], [`Reader::hottest`] and [`Reader::search`] read the
//!    state as of the clock of the last batch.
//!
//! [`open`] returns three handles: a `Writer`, which is not `Clone` and moves into the state
//! machine, a `Reader` for all others, and the `Log`.

mod apply;
pub mod backup;
mod builder;
mod change;
mod checkpoint;
pub mod codec;
pub mod command;
mod decide;
mod engine;
mod error;
mod etag;
mod export;
pub mod file;
#[cfg(feature = "fuzzing")]
pub mod fuzz;
mod journal;
mod log;
mod new_memory;
mod parts;
mod patch;
mod reader;
mod rebuild;
mod records;
mod registry;
mod reply;
mod search;
pub mod span;
mod table;
mod traces;
mod unembedded;
mod verify;

use std::path::Path;

use index::saved::SavedGraphs;

pub use apply::{ApplyOutcome, Entry, EntryBody, Flusher, Writer};
pub use change::{Batch, Change};
pub use command::Command;
pub use journal::{AuditPage, AuditRequest};

pub use decide::bulk::Outcomes;
pub use decide::rule::{Class, ClusterRule, Priority, TenantRule};
pub use decide::{
    BATCH_BYTES, COMMAND_BYTES_MAX, DecideError, Draft, TriggerEvaluation, decide, evaluate,
};
pub use engine::Options;
pub use error::{Error, Result};
pub use etag::{ETAGS_MAX, Etag, Precondition};
pub use export::Exported;
pub use table::state::Environment;

pub use checkpoint::{Received, Receiver};
pub use index::coverage::GraphCounts;
pub use index::data::Counts;
pub use index::triggers::{CompiledTrigger, OwnerCounts};
pub use journal::Deliveries;
pub use journal::{EventPage, EventsAfter};
pub use log::{Log, LogField, LogWrite};
pub use new_memory::{CREATE_MAX, CREATE_TEXT_BYTES_MAX, IMPORT_MAX, ImportedMemory, NewMemory};
pub use parts::EqualParts;
pub use patch::{MemoryPatch, OwnTenantPatch, TenantPatch, TriggerPatch};
pub use reader::{AppliedCounters, Reader};
pub use reply::{
    Accepted, BULK_MAX, EdgeReply, Expired, FeedbackReply, Imported, KeyReply, Progress, Rejection,
    ReplayedDeliveries, Reply, ReplyValue, SettingsReply, TenantDeleted, TenantReply, Touched,
    TouchedMemories, TouchedMemory, TriggerReply, VerifyMark,
};
pub use search::{
    CONDITION_DEPTH_MAX, CONDITIONS_MAX, ColdForecast, Condition, DefectCount, DueRequest, Filter,
    FoldCandidates, FoldGroup, Forecast, GraphView, HEAT_BANDS, Hit, HotRequest, Hygiene,
    ListCursor, ListRequest, Neighbour, Order, Overview, Page, QuarantineFilter, SearchCounters,
    SearchRequest, SearchResults, Sort, TEXT_BYTES_MAX, TickFinds, TickSteps, TierFilter, TimeOf,
    Traversal,
};
pub use table::key::Key;
pub use table::view::View;
pub use traces::{TraceScope, Traces};
pub use unembedded::Unembedded;
pub use verify::{RowFault, RowFaults};
pub use verify::{Verifier, VerifyResult};

pub use model::memory::Signal;
/// The domain types, and the words of texts.
pub use {model, text};

/// Opens the log of a data folder alone, without its state.
///
/// # Errors
/// If it is damaged or cannot be read.
pub fn open_log(data: &Path) -> Result<Log> {
    Log::open(&data.join("log"), Environment::Machine)
}

/// Opens the log of a data folder to read it, and changes no file; `None` without a log.
///
/// # Errors
/// If it is damaged or cannot be read.
pub fn open_log_to_read(data: &Path) -> Result<Option<Log>> {
    Log::open_to_read(&data.join("log"))
}

/// Opens the engine with its folders `data/log` and `data/state`. Creates missing folders.
/// `purged` returns the index of the last entry that was removed from the log, or 0. The state
/// must be applied up to there.
///
/// # Errors
/// If the data is damaged or cannot be read. Nothing is deleted.
pub fn open(
    data: &Path,
    options: Options,
    purged: impl Fn(&Log) -> Result<u64>,
) -> Result<(Writer, Reader, Log)> {
    std::fs::create_dir_all(data).map_err(Error::file("create", data))?;
    let path = data.join("log");
    if let Some(log) = Log::open_to_read(&path)? {
        log.check_complete(purged(&log)?)?;
    }
    let log = Log::open(&path, options.environment)?;
    let folder = checkpoint::Folder::new(&data.join("state"));
    let current = folder.current()?;
    table::state::check_applied(&current, purged(&log)?)?;
    let engine = engine::Engine::open(&current, &options)?;
    folder.remove_others(&current)?;
    let reader = Reader::new(engine, options.release);
    let graphs = SavedGraphs::new(data.join("graphs"));
    Ok((Writer::new(reader.clone(), folder, graphs, options)?, reader, log))
}
