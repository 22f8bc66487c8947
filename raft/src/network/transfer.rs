//! The snapshot stream: an announcement, then files, each with a checksum. Memory use is bounded.
//!
//! ```text
//! length of the announcement (u32, big-endian) | announcement (a `Request`)
//! per announced file: its bytes | SHA-256 of the bytes (32 bytes)
//! ```

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use reqwest::Body;
use sha2::{Digest, Sha256};
use storage::codec;
use storage::file::is_plain_name;
use tokio_util::io::{ReaderStream, SyncIoBridge};

use crate::log::record::{LogIdRecord, VoteRecord};
use crate::network::message::{MESSAGE_BYTES_MAX, Request, SnapshotRpc};
use crate::state_machine::Snapshot;

/// Capacity of the pipe between the thread that reads files and the connection, in bytes.
const PIPE_BYTES: usize = 1 << 20;
const BUFFER_BYTES: usize = 256 << 10;

/// A snapshot that is sent.
#[derive(Debug)]
pub struct SentSnapshot {
    /// The encoded announcement.
    request: Vec<u8>,
    /// Where its files are, until it was sent.
    folder: PathBuf,
    /// Names and lengths of its files.
    files: Vec<(String, u64)>,
}

impl SentSnapshot {
    /// The announcement of a snapshot, for a leader with this vote.
    pub(crate) fn announce(vote: VoteRecord, snapshot: &Snapshot) -> io::Result<SnapshotRpc> {
        Ok(SnapshotRpc {
            vote,
            last: snapshot.meta.last_log_id.map(LogIdRecord::from),
            membership: (&snapshot.meta.last_membership).into(),
            files: list(&snapshot.snapshot.folder.path)?,
        })
    }

    /// The snapshot that `request`, encoded, announces with these files.
    pub(crate) fn new(request: Vec<u8>, snapshot: &Snapshot, files: Vec<(String, u64)>) -> Self {
        Self { request, folder: snapshot.snapshot.folder.path.clone(), files }
    }

    /// Its bytes as a stream to the peer at `address`, and what writes them.
    pub(crate) fn stream(self, address: &str) -> (Body, impl Future<Output = ()> + use<'_>) {
        let (input, output) = tokio::io::duplex(PIPE_BYTES);
        let writing = tokio::task::spawn_blocking(move || {
            let mut out = SyncIoBridge::new(input);
            self.write(&mut out)?;
            out.shutdown()
        });
        // The thread ends in any case: a receiver that stops early closes the pipe.
        let writing = async move {
            match writing.await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::warn!(%error, address, "snapshot transfer failed"),
                Err(panic) => tracing::error!(%panic, address, "sending a snapshot panicked"),
            }
        };
        (Body::wrap_stream(ReaderStream::with_capacity(output, BUFFER_BYTES)), writing)
    }

    /// Writes its bytes.
    ///
    /// # Errors
    /// If a file cannot be read, or `out` fails.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        write(out, &self.request, &self.folder, &self.files)
    }
}

/// Name and length of each file in a flat folder, sorted by name.
fn list(folder: &Path) -> io::Result<Vec<(String, u64)>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().into_string();
        let name = name.map_err(|_| io::Error::other("a file name is not UTF-8"))?;
        files.push((name, entry.metadata()?.len()));
    }
    files.sort();
    Ok(files)
}

fn write(
    out: &mut impl Write,
    announcement: &[u8],
    folder: &Path,
    files: &[(String, u64)],
) -> io::Result<()> {
    let length = u32::try_from(announcement.len()).map_err(io::Error::other)?;
    out.write_all(&length.to_be_bytes())?;
    out.write_all(announcement)?;
    for (name, length) in files {
        let sum = copy(&mut File::open(folder.join(name))?, out, *length)?;
        out.write_all(&sum)?;
    }
    out.flush()
}

/// Reads the announcement, which precedes the files.
pub(crate) fn read_announcement(input: &mut impl Read) -> io::Result<Request> {
    let mut length = [0; 4];
    input.read_exact(&mut length)?;
    let length = u32::from_be_bytes(length) as usize;
    if length > MESSAGE_BYTES_MAX {
        return Err(io::Error::other("the announcement is too long"));
    }
    let mut bytes = vec![0; length];
    input.read_exact(&mut bytes)?;
    codec::decode(&bytes).map_err(|error| io::Error::other(error.to_string()))
}

/// Reads the announced files into `folder`, which must not exist. After an error the folder
/// holds a part of them.
pub(crate) fn read_files(
    input: &mut impl Read,
    files: &[(String, u64)],
    folder: &Path,
) -> io::Result<()> {
    std::fs::create_dir(folder)?;
    for (name, length) in files {
        if !is_plain_name(name) {
            return Err(io::Error::other("a file name has invalid characters"));
        }
        let mut file = File::create_new(folder.join(name))?;
        let sum = copy(input, &mut file, *length)?;
        let mut announced = [0; 32];
        input.read_exact(&mut announced)?;
        fail::fail_point!("snapshot-receive", |_| std::process::abort());
        if sum != announced {
            return Err(io::Error::other(format!("the checksum of {name} does not match")));
        }
    }
    match input.read(&mut [0])? {
        0 => Ok(()),
        _ => Err(io::Error::other("the stream is longer than announced")),
    }
}

/// Copies exactly `length` bytes and returns their SHA-256.
fn copy(from: &mut impl Read, to: &mut impl Write, length: u64) -> io::Result<[u8; 32]> {
    let mut sum = Sha256::new();
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut remaining = length;
    while remaining > 0 {
        let limit = usize::try_from(remaining).unwrap_or(usize::MAX).min(BUFFER_BYTES);
        let read = from.read(&mut buffer[..limit])?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        sum.update(&buffer[..read]);
        to.write_all(&buffer[..read])?;
        remaining -= read as u64;
    }
    Ok(sum.finalize().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_streams_are_rejected() {
        let root = tempfile::tempdir().unwrap();
        let (from, to) = (root.path().join("from"), root.path().join("to"));
        std::fs::create_dir(&from).unwrap();
        std::fs::write(from.join("a.sst"), vec![7; 300_000]).unwrap();
        std::fs::write(from.join("CURRENT"), b"").unwrap();
        let files = list(&from).unwrap();
        assert_eq!(files, [("CURRENT".into(), 0), ("a.sst".into(), 300_000)]);
        let mut sent = Vec::new();
        write(&mut sent, b"", &from, &files).unwrap();
        let sent = &sent[4..];
        read_files(&mut &sent[..], &files, &to).unwrap();
        assert_eq!(std::fs::read(to.join("a.sst")).unwrap(), vec![7; 300_000]);
        assert_eq!(list(&to).unwrap(), files);

        let is_rejected = |bytes: &[u8], files: &[(String, u64)]| {
            let folder = tempfile::tempdir().unwrap();
            read_files(&mut &bytes[..], files, &folder.path().join("x")).is_err()
        };
        assert!(is_rejected(&sent[..sent.len() - 1], &files), "truncated");
        let mut flipped = sent.to_vec();
        flipped[1_000] ^= 1;
        assert!(is_rejected(&flipped, &files), "damaged");
        assert!(is_rejected(&[sent, b"x"].concat(), &files), "longer");
        for name in ["../evil", "", ".", "..", "/etc/passwd", "a/b"] {
            assert!(is_rejected(sent, &[(name.into(), 0)]), "{name}");
        }
    }
}
