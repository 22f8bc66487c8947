//! Processes that tests start, and what they do to them.

use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Instant;

use crate::{PATIENCE, POLL};

/// A node that the test itself started.
pub struct Node {
    pub(crate) child: Child,
    pub(crate) log: PathBuf,
}

impl Node {
    /// Starts a node of a configuration file, with further arguments; what it logs goes
    /// to `log`.
    pub fn start(binary: &Path, config: &Path, log: &Path, arguments: &[&str]) -> Self {
        let child = Command::new(binary)
            .args(["serve", "--config"])
            .arg(config)
            .args(arguments)
            .stderr(std::fs::File::create(log).expect("a log file"))
            .spawn()
            .expect("the binary under test starts");
        Self { child, log: log.to_owned() }
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Kills it, as a power cut would.
    pub fn kill(&mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ends");
    }

    /// Tells it to stop, and returns whether it ended well.
    pub fn stop(&mut self) -> bool {
        signal(self.child.id(), "TERM");
        wait(&mut self.child)
    }

    /// Waits until it ends by itself, and returns whether it ended well.
    pub fn ended(&mut self) -> bool {
        wait(&mut self.child)
    }

    /// What it logged.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).expect("its log")
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Waits until a child ends, and returns whether it ended well.
pub(crate) fn wait(child: &mut Child) -> bool {
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait().expect("the child is ours") {
            return status.success();
        }
        assert!(started.elapsed() < PATIENCE, "the process does not end");
        std::thread::sleep(POLL);
    }
}

/// Sends a signal to a process that a test started.
pub fn signal(pid: u32, name: &str) {
    let status = Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).status();
    assert!(status.expect("kill runs").success(), "no process {pid}");
}

/// Waits until a process is gone, all its threads and files with it: `hearth dev`,
/// its parent, has collected it then.
pub fn wait_gone(pid: u32) {
    let started = Instant::now();
    while Path::new(&format!("/proc/{pid}")).exists() {
        assert!(started.elapsed() < PATIENCE, "process {pid} does not end");
        std::thread::sleep(POLL);
    }
}

/// CPU time that a process has used, from `/proc` (100 ticks a second on Linux).
pub fn cpu_seconds(pid: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok());
    (ticks(11).unwrap_or(0.0) + ticks(12).unwrap_or(0.0)) / 100.0
}
