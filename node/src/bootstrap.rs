//! The first start of a cluster: its identity, its first tenant, and that
//! tenant's key in a file.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use raft::{Handle, NodeId, Peer};
use storage::model::cluster::{Cluster, Member, Model};
use storage::model::id::Timestamp;
use storage::model::tenant::{ApiKey, KeyText, Role};
use storage::{Action, Command, Reader, View};
use tokio::time::Instant;
use uuid::Uuid;

/// Name of the file with the first key, within the data folder.
pub(crate) const ADMIN_KEY: &str = "admin.key";

/// Forms the cluster, unless it has formed. The key is on disk before it is in
/// the log: a crash in between leaves a key that the next start uses.
pub(crate) async fn bootstrap(
    raft: &Handle,
    reader: &Reader,
    data: &Path,
    members: &BTreeMap<NodeId, Peer>,
    tenant: &str,
    model: &Model,
    deadline: Instant,
) -> Result<(), String> {
    // Only a state with everything acknowledged says whether the cluster has formed.
    while let Err(error) = raft.read_index(deadline).await {
        if Instant::now() >= deadline {
            return Err(format!("cannot form: {error}"));
        }
    }
    if reader.cluster().map_err(|error| error.to_string())?.is_some() {
        return Ok(());
    }
    let founders =
        raft::founders(raft, members, deadline).await.map_err(|error| error.to_string())?;
    let key = admin_key(&data.join(ADMIN_KEY)).map_err(|error| format!("admin key: {error}"))?;
    let id = KeyText::id_of(key.as_str()).ok_or("the admin key file holds no key")?;
    let cluster = Cluster {
        id: Uuid::new_v4().into_bytes(),
        members: founders.into_iter().map(|(node, life)| Member::new(node, life)).collect(),
        model: model.clone(),
    };
    let key = ApiKey {
        name: "admin".into(),
        role: Role::Admin,
        hash: KeyText::hash(key.as_str()),
        namespace: None,
        // Set by the decision.
        created_at: Timestamp::default(),
        last_used_at: None,
    };
    let action = Action::Bootstrap { cluster, tenant: tenant.to_owned(), key_id: id, key };
    let command = Command { tenant: None, actor: None, receipt: None, action };
    let outcome = raft.submit(command, deadline).await.map_err(|error| error.to_string())?;
    outcome.decision.map(drop).map_err(|rejection| rejection.to_string())
}

/// The key in the file at `path`; a new one if there is no file.
fn admin_key(path: &Path) -> io::Result<KeyText> {
    match std::fs::read_to_string(path) {
        Ok(text) => KeyText::parse(text.trim())
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "the file holds no key")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let (first, second) = (Uuid::new_v4(), Uuid::new_v4());
            let mut random = [0; 32];
            random[..16].copy_from_slice(first.as_bytes());
            random[16..].copy_from_slice(second.as_bytes());
            let key = KeyText::from_random(random);
            write_secret(path, &format!("{}\n", key.as_str()))?;
            Ok(key)
        }
        Err(error) => Err(error),
    }
}

/// Writes a file that only its owner may read; after a crash it is whole or not there.
pub(crate) fn write_secret(path: &Path, text: &str) -> io::Result<()> {
    let temporary = path.with_extension("new");
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&temporary, path)?;
    File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all()
}
