//! Bootstraps a cluster: its members, its first tenant, and the tenant's admin key in a file.

use std::io;
use std::path::Path;
use std::time::Duration;

use api::{Embedder, random_bytes};
use raft::Handle;
use storage::model::api_key::{KeyText, NewApiKey};
use storage::model::cluster::{Cluster, Member};
use storage::model::tenant::Role;
use storage::{Action, Command, Reader, View};
use tokio::time::Instant;

use crate::config::Config;
use crate::embed::Pool;
use crate::error::text;

/// Name of the file with the admin key, in the data folder.
pub(crate) const ADMIN_KEY: &str = "admin.key";
/// Time limit of a bootstrap. All other members must start within it.
const BOOTSTRAP_TIMEOUT: Duration = Duration::from_secs(120);

/// Creates the cluster of the configured members, or of this node alone, unless it exists.
pub(crate) async fn bootstrap_cluster(
    config: &Config,
    raft: &Handle,
    reader: &Reader,
    embedder: &Pool,
) -> Result<(), String> {
    // Before a leader is needed, which a cluster that starts again may lack for a while.
    if reader.cluster().map_err(text)?.is_some() {
        return Ok(());
    }
    let deadline = Instant::now() + BOOTSTRAP_TIMEOUT;
    let mut members = config.cluster.members.clone();
    if members.is_empty() {
        members.insert(config.node.id, config.peer.advertised_address());
    }
    raft::bootstrap(raft, &members, deadline).await.map_err(text)?;
    // The state is complete only once all acknowledged entries are applied.
    while let Err(error) = raft.read_index(deadline).await {
        if Instant::now() >= deadline {
            return Err(format!("cannot bootstrap the cluster: {error}"));
        }
    }
    if reader.cluster().map_err(text)?.is_some() {
        return Ok(());
    }
    let founders = raft::founders(raft, &members, deadline).await.map_err(text)?;
    let cluster = Cluster {
        id: random_bytes(),
        members: founders.into_iter().map(|(node, of)| Member::new(node, of)).collect(),
        model: embedder.model().clone(),
        restored: None,
    };
    // The admin key is on disk before it is in the log: after a crash in between, the next start
    // uses the same key.
    let path = config.node.data.join(ADMIN_KEY);
    let key = admin_key(&path).map_err(|error| format!("admin key: {error}"))?;
    tracing::info!(file = %path.display(), "the admin key of the first tenant is in this file");
    let key_id = KeyText::id_of(key.as_str()).ok_or("the admin key file contains no key")?;
    let key = NewApiKey::new("admin", Role::Admin, &key);
    let action = Action::Bootstrap { cluster, tenant: config.node.tenant.clone(), key_id, key };
    let command = Command::background(action);
    let outcome = raft.submit(command, deadline).await.map_err(text)?;
    outcome.reply.map(drop).map_err(text)
}

/// Reads the key in the file at `path`. Without a file, creates a key and the file.
fn admin_key(path: &Path) -> Result<KeyText, String> {
    match std::fs::read_to_string(path) {
        Ok(line) => {
            KeyText::parse(line.trim()).ok_or_else(|| "the file contains no valid key".to_owned())
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let (_, key) = KeyText::from_random(random_bytes());
            let line = format!("{}\n", key.as_str());
            storage::file::replace_secret(path, line.as_bytes()).map_err(text)?;
            Ok(key)
        }
        Err(error) => Err(text(error)),
    }
}
