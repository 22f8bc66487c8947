//! Runs openraft's conformance suite for stores on the log store and the state machine.

use std::sync::Arc;

use openraft::StorageError;
use openraft::testing::log::{StoreBuilder, Suite};
use openraft::type_config::TypeConfigExt;
use tempfile::TempDir;

use crate::fault::Fault;
use crate::log::store::{LogStore, purged_index};
use crate::machine::ThisMachine;
use crate::state_machine::{Snapshots, StateMachine};
use crate::timings::Timings;
use crate::types::TypeConfig;

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
