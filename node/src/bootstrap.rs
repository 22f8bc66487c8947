//! Bootstraps a cluster: its members, its first tenant, and the tenant's admin key in a file.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use api::random_bytes;
use raft::{Handle, NodeId};
use storage::command;
use storage::model::api_key::{KeyText, NewApiKey};
use storage::model::cluster::{Cluster, Model};
use storage::model::release::Release;
use storage::model::tenant::Role;
use storage::{Command, Reader, View};
use tokio::time::Instant;

use crate::config::Config;
use crate::embed::Embedders;
use crate::error::text;

/// Name of the file with the admin key, in the data folder.
pub(crate) const ADMIN_KEY: &str = "admin.key";
/// Time limit of a bootstrap. All other members must start within it.
const BOOTSTRAP_TIMEOUT: Duration = Duration::from_secs(120);

/// Creates the cluster of the configured members, or of this node alone, unless it exists. Only the
/// member with the lowest id does, so that all of them may be started alike.
pub(crate) async fn bootstrap_cluster(
    config: &Config,
    raft: &Handle,
    reader: &Reader,
    embedder: &Embedders,
) -> Result<(), String> {
    let mut members = config.cluster.members.clone();
    if members.is_empty() {
        members.insert(config.node.id, config.peer.advertised_address());
    }
    let first = members.keys().next().copied();
    if let Some(first) = first.filter(|first| *first != config.node.id) {
        tracing::info!(
            node = first,
            "the member with the lowest id creates the cluster, unless there is one"
        );
        return Ok(());
    }
    let bootstrap = Bootstrap {
        raft: raft.clone(),
        reader: reader.clone(),
        members,
        model: embedder.model(),
        tenant: config.node.tenant.clone(),
        key_file: config.node.data.join(ADMIN_KEY),
    };
    let deadline = Instant::now() + timeout();
    if raft::bootstrap(raft, &bootstrap.members, deadline).await.map_err(text)? {
        return bootstrap.complete(deadline).await;
    }
    // It belongs to a cluster, whose other nodes may start much later. It serves meanwhile.
    let fault = raft.fault().clone();
    tokio::spawn(async move {
        if let Err(error) = bootstrap.resume().await {
            fault.report(&error);
        }
    });
    Ok(())
}

struct Bootstrap {
    raft: Handle,
    reader: Reader,
    members: BTreeMap<NodeId, String>,
    model: Model,
    /// Name of the first tenant.
    tenant: String,
    key_file: PathBuf,
}

impl Bootstrap {
    /// Waits for a leader, and completes a bootstrap that an earlier process did not complete.
    async fn resume(&self) -> Result<(), String> {
        while self.raft.read_index(Instant::now() + BOOTSTRAP_TIMEOUT).await.is_err() {}
        self.complete(Instant::now() + BOOTSTRAP_TIMEOUT).await
    }

    /// Writes the first batch, unless the cluster has it.
    async fn complete(&self, deadline: Instant) -> Result<(), String> {
        let Self { raft, reader, members, .. } = self;
        // The state is complete only once all acknowledged entries are applied.
        while let Err(error) = raft.read_index(deadline).await {
            if Instant::now() >= deadline {
                return Err(format!("cannot bootstrap the cluster: {error}"));
            }
        }
        if reader.cluster().map_err(text)?.is_some() {
            return Ok(());
        }
        let model = self.model.clone();
        if model.canaries.is_empty() {
            return Err(format!("{} embeds no text: a cluster cannot be created", model.name));
        }
        let founders = raft::founders(raft, members, deadline).await.map_err(text)?;
        let releases = founders.iter().map(|founder| founder.release);
        let cluster = Cluster {
            id: random_bytes(),
            members: founders.iter().map(|founder| founder.member).collect(),
            model,
            restored: None,
            release: releases.min().unwrap_or(Release::own()),
        };
        // The admin key is on disk before it is in the log: after a crash in between, the next start
        // uses the same key.
        let key = admin_key(&self.key_file).map_err(|error| format!("admin key: {error}"))?;
        let file = self.key_file.display();
        tracing::info!(%file, "the admin key of the first tenant is in this file");
        let key_id = KeyText::id_of(key.as_str()).ok_or("the admin key file contains no key")?;
        let key = NewApiKey::new("admin", Role::Admin, &key);
        let tenant = self.tenant.clone();
        let bootstrap = command::Bootstrap { cluster, tenant, key_id, key };
        let outcome = raft.submit(Command::of_cluster(bootstrap), deadline).await.map_err(text)?;
        outcome.accepted.map(drop).map_err(text)
    }
}

/// The time limit; shorter in tests only.
fn timeout() -> Duration {
    fail::fail_point!("bootstrap-timeout", |seconds| {
        let seconds = seconds.and_then(|seconds| seconds.parse().ok());
        seconds.map_or(BOOTSTRAP_TIMEOUT, Duration::from_secs)
    });
    BOOTSTRAP_TIMEOUT
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
