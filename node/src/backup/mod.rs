//! Backups of a cluster, in a folder or a bucket.
//!
//! | object | content |
//! |---|---|
//! | `files/<sha256>` | a file of a state; the same file of several backups is stored once |
//! | `backups/<id>.json` | the manifest of a backup, which names its files |
//! | `pending/<id>.json` | the manifest of a backup that is being created, from before its files |
//! | `log/<cluster>/<index>` | a segment of the log that begins with this entry |
//! | `created-once` | an empty object, by which a node checks that the place overwrites none |
//! | `unnamed.json` | files that no manifest names, and when `prune` first saw that |
//!
//! The manifest is written last, so half an upload is not a backup. A node copies its state by hard
//! links and uploads the files that are absent, while it serves clients. A file is removed if no
//! manifest named it at two looks, a day apart: a backup that is being created may rely on it.
//!
//! Backups of a cluster are ordered by the index of the log, and their age is that of cluster time:
//! the wall clock of the node that created one may have been wrong.

mod create;
mod log_shipping;
mod manifest;
mod metrics;
mod restore;
mod schedule;
mod segments;
#[cfg(test)]
#[path = "tests/simulation.rs"]
mod simulation;
mod store;

pub(crate) use create::Backups;
pub(crate) use log_shipping::LogShipping;
pub(crate) use manifest::{FileOf, Manifest};
pub(crate) use metrics::BackupMetrics;
pub(crate) use restore::{Plan, Restoration, examine, plain, recover, restore};
pub(crate) use schedule::Schedule;
#[cfg(feature = "fuzzing")]
pub(crate) use store::Unnamed;
pub(crate) use store::{Choice, Pruned, Store};
