//! A small file system of its own for a node, and files that fill it.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Whether this process may mount file systems and make networks. Root in a container may not.
pub fn is_privileged() -> bool {
    let tried =
        Command::new("unshare").args(["--net", "--mount", "--pid", "--fork", "true"]).output();
    tried.is_ok_and(|tried| tried.status.success())
}

/// A mounted tmpfs. Dropping it unmounts it.
pub(crate) struct Disk(PathBuf);

impl Disk {
    /// Mounts a file system of so many bytes at a new folder.
    pub(crate) fn mount(at: &Path, bytes: u64) -> Self {
        std::fs::create_dir(at).expect("a new folder");
        let options = format!("size={bytes},mode=700");
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(at).status();
        assert!(mounted.is_ok_and(|mounted| mounted.success()), "mounting a disk needs root");
        Self(at.to_owned())
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Lazily: a process that ends may still have files open.
        drop(Command::new("umount").arg("--lazy").arg(&self.0).status());
    }
}

/// A file that takes space of a disk. Dropping it gives the space back.
pub struct Filler(PathBuf);

impl Filler {
    /// Fills the disk of `folder` until so many bytes are left.
    pub fn leave(folder: &Path, bytes: u64) -> Self {
        const CHUNK: usize = 64 << 10;
        let path = folder.join("filler");
        let mut file = File::create(&path).expect("a file");
        while free(folder) > bytes {
            let chunk = CHUNK.min((free(folder) - bytes) as usize);
            match file.write(&vec![0; chunk]) {
                Err(error) if error.kind() == ErrorKind::StorageFull => break,
                written => drop(written.expect("a write")),
            }
        }
        Self(path)
    }
}

impl Drop for Filler {
    fn drop(&mut self) {
        drop(std::fs::remove_file(&self.0));
    }
}

/// Free bytes of the disk of a folder.
pub fn free(folder: &Path) -> u64 {
    let found = rustix::fs::statvfs(folder).expect("a folder");
    found.f_bavail * found.f_frsize
}
