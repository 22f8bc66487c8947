//! Runs openraft's conformance suite for stores on the log store and the state machine.

use std::sync::Arc;
use std::time::Duration;

use openraft::StorageError;
use openraft::entry::RaftEntry;
use openraft::storage::{RaftLogStorage, RaftLogStorageExt};
use openraft::testing::log::{StoreBuilder, Suite};
use openraft::type_config::TypeConfigExt;
use tempfile::TempDir;

use crate::fault::Fault;
use crate::log::record::HighWaterMark;
use crate::log::store::{LogStore, MARK_FILE, purged_index};
use crate::machine::ThisMachine;
use crate::state_machine::{Snapshots, StateMachine};
use crate::timings::Timings;
use crate::types::{Entry, LogId, TypeConfig, Vote};

struct Builder;

impl StoreBuilder<TypeConfig, LogStore, StateMachine, TempDir> for Builder {
    async fn build(&self) -> Result<(TempDir, LogStore, StateMachine), StorageError<TypeConfig>> {
        let folder = TempDir::new().unwrap();
        let (writer, _, log) =
            storage::open(folder.path(), storage::Options::default(), purged_index).unwrap();
        let (log, timings) = (Arc::new(log), Timings::default());
        // Never closed: RocksDB aborts a process that exits while a thread closes it.
        std::mem::forget(Arc::clone(&log));
        let (fault, machine) = (Fault::default(), ThisMachine::shared());
        let store =
            LogStore::open(log, folder.path(), fault, &timings, Arc::clone(&machine)).unwrap();
        let snapshots = Snapshots::open(folder.path()).unwrap();
        let machine =
            StateMachine::new(writer, None, snapshots, Fault::default(), &timings, machine)
                .unwrap();
        Ok((folder, store, machine))
    }
}

#[test]
fn stores_pass_openraft_conformance_suite() {
    TypeConfig::run(async { Suite::test_all(Builder).await.unwrap() });
}

/// Otherwise a loss of power right after a truncation would leave a log that ends below its mark.
#[test]
fn mark_is_lowered_before_a_truncation() {
    TypeConfig::run(async {
        let (folder, mut store, _machine) = Builder.build().await.unwrap();
        let mark = || HighWaterMark::read(&folder.path().join(MARK_FILE)).unwrap().unwrap().last;
        let id = |index| LogId::new_term_index(1, index);
        store.blocking_append((0..6).map(|index| Entry::new_blank(id(index)))).await.unwrap();
        // A vote raises the mark on disk at once.
        store.save_vote(&Vote::new_committed(1, 1)).await.unwrap();
        let is_raised = async || {
            while mark().is_none_or(|last| last.index < 5) {
                TypeConfig::sleep(Duration::from_millis(5)).await;
            }
        };
        is_raised().await;
        store.truncate_after(Some(id(2))).await.unwrap();
        assert_eq!(mark().map(|last| last.index), Some(2));
    });
}
