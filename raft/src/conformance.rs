//! Runs openraft's conformance suite for stores on the log store and the state machine.

use std::sync::Arc;

use openraft::StorageError;
use openraft::testing::log::{StoreBuilder, Suite};
use openraft::type_config::TypeConfigExt;
use storage::Log;
use tempfile::TempDir;

use crate::fault::Fault;
use crate::log::store::LogStore;
use crate::state_machine::{Snapshots, StateMachine};
use crate::types::TypeConfig;

struct Builder;

/// The folder of a store. Its log is closed with it: the log writer's thread ends later, and
/// RocksDB aborts a process that exits while it closes.
struct Folder {
    log: Arc<Log>,
    _folder: TempDir,
}

impl Drop for Folder {
    fn drop(&mut self) {
        self.log.close();
    }
}

impl StoreBuilder<TypeConfig, LogStore, StateMachine, Folder> for Builder {
    async fn build(&self) -> Result<(Folder, LogStore, StateMachine), StorageError<TypeConfig>> {
        let folder = TempDir::new().unwrap();
        let (writer, _, log) = storage::open(folder.path(), storage::Options::default()).unwrap();
        let log = Arc::new(log);
        let store = LogStore::open(Arc::clone(&log), folder.path(), Fault::default()).unwrap();
        let snapshots = Snapshots::open(folder.path()).unwrap();
        let machine = StateMachine::new(writer, None, snapshots, Fault::default());
        Ok((Folder { log, _folder: folder }, store, machine))
    }
}

#[test]
fn stores_pass_openraft_conformance_suite() {
    TypeConfig::run(async { Suite::test_all(Builder).await.unwrap() });
}
