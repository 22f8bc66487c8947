//! Processes that tests start, signal and end.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::{SocketAddr, TcpListener};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::{LazyLock, Mutex};
use std::time::Instant;

use crate::wait::POLL;
use crate::{PATIENCE, eventually};

/// A `hearth serve` that the test itself started. Dropping it kills it.
pub struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts a command; its standard error goes to the file `log`.
    pub fn start(command: &mut Command, log: PathBuf) -> Self {
        let stderr = std::fs::File::create(&log).expect("a log file");
        let child = command.stderr(stderr).spawn().expect("the binary under test starts");
        Self { child, log }
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Kills it with SIGKILL.
    pub fn kill(&mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ends");
    }

    /// Sends SIGTERM and returns whether it ended with success.
    pub async fn stop(&mut self) -> bool {
        signal(self.child.id(), "TERM");
        self.ended().await
    }

    /// Whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("the child is ours").is_some()
    }

    /// Waits until it ends by itself, and returns whether it ended with success.
    pub async fn ended(&mut self) -> bool {
        ended(&mut self.child).await
    }

    /// What it logged.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).expect("its log")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("log of a process:\n{}", self.log());
        }
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// The ports of tests. They are below the ephemeral ones, so that no outgoing connection takes one
/// before the process that is to listen there.
const PORTS: Range<u16> = 10_240..32_768;

/// The first of `count` free ports of loopback that follow each other. No other call in this process
/// returns one of them: a test's node that is down keeps its ports.
pub(crate) fn free_ports(count: u16) -> u16 {
    static NEXT: LazyLock<Mutex<u16>> = LazyLock::new(|| {
        let random = RandomState::new().build_hasher().finish() % PORTS.len() as u64;
        Mutex::new(PORTS.start + random as u16)
    });
    let mut next = NEXT.lock().expect("no thread panics with it");
    loop {
        let first = if *next + count <= PORTS.end { *next } else { PORTS.start };
        *next = first + count;
        let is_free = |port| TcpListener::bind(("127.0.0.1", port)).is_ok();
        if (first..*next).all(is_free) {
            return first;
        }
    }
}

/// Addresses on loopback with free ports.
pub fn free_addresses<const N: usize>() -> [SocketAddr; N] {
    let first = free_ports(N as u16);
    std::array::from_fn(|at| SocketAddr::from(([127, 0, 0, 1], first + at as u16)))
}

/// An address on loopback with a free port.
pub fn free_address() -> SocketAddr {
    let [address] = free_addresses();
    address
}

/// Waits until a child ends, and returns whether it ended with success. Asynchronous: an orderly end
/// waits for the test's connections, which must answer meanwhile.
pub(crate) async fn ended(child: &mut Child) -> bool {
    let status = async || child.try_wait().expect("the child is ours");
    eventually("a process ends", status, Option::is_some).await.is_some_and(|it| it.success())
}

/// Sends a signal to a process that a test started.
pub fn signal(pid: u32, name: &str) {
    assert!(try_signal(pid, name), "no process {pid}");
}

/// [`signal`], to a process that may have ended. Returns whether it exists.
pub(crate) fn try_signal(pid: u32, name: &str) -> bool {
    let status = Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).status();
    status.expect("kill runs").success()
}

/// Whether all threads of a process have stopped, after a signal.
pub(crate) fn is_stopped(pid: u32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).expect("the process exists");
    threads.flatten().all(|thread| {
        let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        // A thread that is gone runs no more.
        stat.rsplit_once(") ").is_none_or(|(_, state)| state.starts_with('T'))
    })
}

/// Waits until a process, its threads and its open files are gone. Its parent `hearth dev`
/// has collected it then.
pub async fn wait_gone(pid: u32) {
    eventually("a process is gone", async || is_gone(pid), |gone| *gone).await;
}

/// [`wait_gone`], after a SIGKILL, which takes milliseconds.
pub(crate) fn block_until_gone(pid: u32) {
    let started = Instant::now();
    while !is_gone(pid) {
        assert!(started.elapsed() < PATIENCE, "a process is gone: not within {PATIENCE:?}");
        std::thread::sleep(POLL);
    }
}

fn is_gone(pid: u32) -> bool {
    !Path::new(&format!("/proc/{pid}")).exists()
}

/// Resident bytes of a process, from `/proc`.
pub fn resident_bytes(pid: u32) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    kib.unwrap_or(0.0) * 1024.0
}

/// CPU time of a process, from `/proc` (100 ticks per second on Linux).
pub fn cpu_seconds(pid: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok());
    (ticks(11).unwrap_or(0.0) + ticks(12).unwrap_or(0.0)) / 100.0
}
