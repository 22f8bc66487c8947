//! What a process gets from its operating system, decided by a seed: random bytes, and what a disk keeps
//! when power fails. The functions here replace those of the C library in this program, for the standard
//! library, for RocksDB, and for all that needs random bytes.

#![expect(unsafe_code, reason = "functions of the C library are unsafe, and so are their names")]

use std::collections::HashMap;
use std::ffi::{c_int, c_uint, c_void};
use std::fs::{self, File, Metadata};
use std::hash::{BuildHasherDefault, DefaultHasher};
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::FromRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use fastrand::Rng;

use crate::trace::checksum;

/// Random bytes of the process. Locked without its own randomness: this is where that comes from.
static RANDOM: Mutex<Option<Rng>> = Mutex::new(None);

/// Bytes of each file that a sync has made durable.
static DURABLE: Mutex<Lengths> = Mutex::new(Lengths::with_hasher(BuildHasherDefault::new()));

type Lengths = HashMap<FileId, u64, BuildHasherDefault<DefaultHasher>>;

/// A file: its number in the file system, which another one may get later, and when it was created.
type FileId = (u64, Option<SystemTime>);

fn id_of(found: &Metadata) -> FileId {
    (found.ino(), found.created().ok())
}

/// From here on, random bytes follow from this seed, as do the keys of hash tables.
pub fn seed(seed: u64) {
    *RANDOM.lock().unwrap_or_else(PoisonError::into_inner) = Some(Rng::with_seed(seed));
    // By itself, ahash makes them of the addresses of its variables, too.
    assert!(ahash::random_state::set_random_source(Keys).is_ok(), "no hash table has a key yet");
}

struct Keys;

impl ahash::random_state::RandomSource for Keys {
    fn gen_hasher_seed(&self) -> usize {
        let mut bytes = [0; size_of::<usize>()];
        fill(&mut bytes);
        usize::from_ne_bytes(bytes)
    }
}

fn fill(bytes: &mut [u8]) {
    let mut random = RANDOM.lock().unwrap_or_else(PoisonError::into_inner);
    random.get_or_insert_with(|| Rng::with_seed(0)).fill(bytes);
}

/// `getrandom(2)`.
///
/// # Safety
/// As in C: `buffer` has `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getrandom(buffer: *mut c_void, length: usize, _flags: c_uint) -> isize {
    // SAFETY: the caller's.
    fill(unsafe { std::slice::from_raw_parts_mut(buffer.cast(), length) });
    length as isize
}

/// Called before each sync. False: power fails.
static ON_SYNC: Mutex<Option<Arc<OnSync>>> = Mutex::new(None);

type OnSync = dyn Fn(&Path) -> bool + Send + Sync;

/// From here on, `on_sync` is called before each sync, and lets it fail. A thread of RocksDB may call it, while
/// this one waits for that.
pub fn before_syncs(on_sync: impl Fn(&Path) -> bool + Send + Sync + 'static) {
    *ON_SYNC.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(on_sync));
}

unsafe extern "C" {
    safe fn __errno_location() -> *mut c_int;
}

/// `EIO`.
const INPUT_OUTPUT_ERROR: c_int = 5;

/// `fsync(2)`. Nothing reaches a real disk: what would be durable is recorded.
#[unsafe(no_mangle)]
pub extern "C" fn fsync(number: c_int) -> c_int {
    // SAFETY: the file stays open, since it is not dropped here.
    let file = ManuallyDrop::new(unsafe { File::from_raw_fd(number) });
    let found = file.metadata();
    let on_sync = ON_SYNC.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let goes_on = match (on_sync, fs::read_link(format!("/proc/self/fd/{number}"))) {
        (Some(on_sync), Ok(path)) => on_sync(&path),
        _ => true,
    };
    match found {
        Ok(found) if goes_on => {
            record(&found, found.len());
            0
        }
        _ => {
            // SAFETY: the location is that of this thread.
            unsafe { *__errno_location() = INPUT_OUTPUT_ERROR };
            -1
        }
    }
}

/// `fdatasync(2)`, as [`fsync`].
#[unsafe(no_mangle)]
pub extern "C" fn fdatasync(file: c_int) -> c_int {
    fsync(file)
}

/// `fallocate(2)`. RocksDB reserves space for its logs, which a file system in memory would take at once.
#[unsafe(no_mangle)]
pub extern "C" fn fallocate(_file: c_int, _mode: c_int, _from: i64, _length: i64) -> c_int {
    0
}

fn record(found: &Metadata, length: u64) {
    let mut durable = DURABLE.lock().unwrap_or_else(PoisonError::into_inner);
    durable.insert(id_of(found), length);
}

fn durable(found: &Metadata) -> u64 {
    let durable = DURABLE.lock().unwrap_or_else(PoisonError::into_inner);
    durable.get(&id_of(found)).copied().unwrap_or(0).min(found.len())
}

/// What ends a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// It is killed: the operating system keeps what it wrote.
    Kill,
    /// Power fails: of what was not synced, any part may be lost, and the last bytes may be torn.
    Power,
}

/// Copies the files that are left after the end of a process, and loses what `seed` decides.
pub fn copy_remains(from: &Path, to: &Path, end: End, seed: u64) -> io::Result<()> {
    fs::create_dir_all(to)?;
    let mut entries: Vec<_> = fs::read_dir(from)?.collect::<io::Result<_>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let (path, target, name) = (entry.path(), to.join(entry.file_name()), entry.file_name());
        // RocksDB's log lines, with times of this machine.
        if name.as_encoded_bytes().starts_with(b"LOG") {
            continue;
        }
        let found = entry.metadata()?;
        if found.is_dir() {
            copy_remains(&path, &target, end, seed)?;
            continue;
        }
        let mut bytes = match fs::read(&path) {
            // A thread of RocksDB removed it: nothing refers to it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            bytes => bytes?,
        };
        let mut kept = durable(&found);
        if end == End::Power {
            // Of its own for each file: which other files there are makes no difference.
            let seed = seed ^ u64::from(checksum(name.as_encoded_bytes()));
            // RocksDB relies on file systems that write appended data before the length of the file.
            let may_tear = !name.as_encoded_bytes().starts_with(b"MANIFEST");
            lose(&mut bytes, kept as usize, may_tear, &mut Rng::with_seed(seed));
            // What is left is on the disk.
            kept = bytes.len() as u64;
        }
        fs::write(&target, bytes)?;
        record(&fs::metadata(&target)?, kept);
    }
    Ok(())
}

/// Loses a part of what follows the `durable` bytes. The rest of them may be torn.
fn lose(bytes: &mut Vec<u8>, durable: usize, may_tear: bool, random: &mut Rng) {
    let kept = match random.u8(0..4) {
        0 => bytes.len(),
        1 | 2 => durable,
        _ => random.usize(durable..=bytes.len()),
    };
    bytes.truncate(kept);
    if random.u8(0..4) == 0 && may_tear {
        let torn = random.usize(durable..=kept);
        bytes[torn..].iter_mut().for_each(|byte| *byte = random.u8(..));
    }
}
