//! The manifest of a backup: what it holds, and what a restoration has to check.

use jiff::Timestamp;
use raft::LogEnd;
use serde::{Deserialize, Serialize};
use storage::backup::CopiedState;
use storage::model::cluster::Model;

use crate::error::text;
use crate::program::VERSION;

/// The format of this version. Another one is rejected.
const FORMAT: u32 = 1;

/// A backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    pub(crate) format: u32,
    /// Time of its creation, and random digits.
    pub(crate) id: String,
    pub(crate) created_at: Timestamp,
    /// Version of Hearth that created it.
    pub(crate) version: String,
    /// Feature level of the cluster; 0 in backups that do not name it.
    #[serde(default)]
    pub(crate) level: u16,
    /// Id of the cluster.
    pub(crate) cluster: String,
    /// The node that created it.
    pub(crate) node: u64,
    /// Index of the last log entry that it contains, and the term of that entry.
    pub(crate) index: u64,
    pub(crate) term: u64,
    /// Cluster time at that entry.
    pub(crate) clock: Timestamp,
    /// SHA-256 of the state at that entry, as `hearth cluster verify` shows it.
    pub(crate) state_sha256: String,
    pub(crate) model: ModelOf,
    /// Fingerprint of the cluster key; absent if the node has none.
    pub(crate) cluster_key: Option<String>,
    pub(crate) files: Vec<FileOf>,
}

/// The embedding model of the vectors.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ModelOf {
    pub(crate) id: String,
    pub(crate) name: String,
}

/// A file of the state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileOf {
    pub(crate) name: String,
    pub(crate) sha256: String,
    pub(crate) bytes: u64,
    /// Name of the object in `files/`: the hash, and the id of the backup that created it.
    pub(crate) object: String,
}

impl ModelOf {
    pub(crate) fn new(model: &Model) -> Self {
        Self { id: hex::encode(model.id.0), name: model.name.clone() }
    }
}

impl Manifest {
    pub(crate) fn new(
        state: &CopiedState,
        node: u64,
        cluster_key: Option<String>,
        mut files: Vec<FileOf>,
    ) -> Result<Self, String> {
        let created_at = Timestamp::now();
        let random: [u8; 4] = api::random_bytes();
        let id = format!("{}-{}", created_at.strftime("%Y%m%dT%H%M%S.%3fZ"), hex::encode(random));
        files.iter_mut().for_each(|file| file.object = format!("{}-{id}", file.sha256));
        let clock = Timestamp::from_microsecond(state.position.clock.0).unwrap_or_default();
        let LogEnd { term, index, .. } = LogEnd::of_state(&state.position).map_err(text)?;
        Ok(Self {
            format: FORMAT,
            id,
            created_at,
            version: VERSION.into(),
            level: state.cluster.release.level,
            cluster: hex::encode(state.cluster.id),
            node,
            index,
            term,
            clock,
            state_sha256: hex::encode(state.hash),
            model: ModelOf::new(&state.cluster.model),
            cluster_key,
            files,
        })
    }

    /// The last entry that it contains: where its log begins.
    pub(crate) fn end(&self) -> LogEnd {
        LogEnd { term: self.term, index: self.index, sha256: None }
    }

    /// Reads a manifest of this format.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Format {
            format: u32,
            version: Option<String>,
        }
        let damaged = |error: serde_json::Error| format!("the manifest is damaged: {error}");
        let Format { format, version } = serde_json::from_slice(bytes).map_err(damaged)?;
        if format != FORMAT {
            let version = version.unwrap_or_default();
            return Err(format!("it has format {format}: use version {version} of Hearth"));
        }
        serde_json::from_slice(bytes).map_err(damaged)
    }

    /// Bytes of all files.
    pub(crate) fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_formats_are_named() {
        let newer = br#"{"format": 7, "version": "9.1.0", "anything": []}"#;
        let error = Manifest::parse(newer).unwrap_err();
        assert_eq!(error, "it has format 7: use version 9.1.0 of Hearth");
        assert!(Manifest::parse(b"{\"format\": 1}").unwrap_err().contains("damaged"));
        assert!(Manifest::parse(b"").unwrap_err().contains("damaged"));
    }
}
