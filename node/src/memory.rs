//! The memory limit of a node. A task compares the resident memory of the process with the limit;
//! above it `api` rejects new work, before the kernel ends the process.

use std::fs::read_to_string;
use std::path::{Path, PathBuf};
use std::time::Duration;

use api::App;
use tikv_jemalloc_ctl::background_thread;

use crate::error::cannot;

/// Interval of the samples. The budgets of `api` bound what requests can allocate in between.
const INTERVAL: Duration = Duration::from_millis(100);
/// Part of the memory of the machine or the cgroup that a node may use by default.
const DEFAULT_PERCENT: u64 = 80;

/// Starts the allocator's thread that returns unused pages to the system. Without it, an idle
/// process keeps them.
pub(crate) fn start_purging() -> Result<(), String> {
    background_thread::write(true).map_err(cannot("start the allocator's background thread"))
}

/// The limit in bytes: the configured one, or a part of what the process can have. `None` if the
/// system names no limit.
pub(crate) fn limit(configured: Option<u64>) -> Option<u64> {
    configured.or_else(|| {
        let available = machine().into_iter().chain(cgroup()).min()?;
        Some(available / 100 * DEFAULT_PERCENT)
    })
}

/// Keeps the memory use in `app` up to date. `configured` is the limit in bytes, if there is one.
pub(crate) async fn memory_task(app: App, configured: Option<u64>) {
    let Some(limit) = limit(configured) else {
        tracing::warn!("the system names no memory limit: set memory.max_bytes");
        return;
    };
    let mut interval = tokio::time::interval(INTERVAL);
    loop {
        interval.tick().await;
        if let Some(resident) = resident() {
            app.set_memory(resident, limit);
        }
    }
}

/// Resident memory of this process in bytes.
fn resident() -> Option<u64> {
    let pages = read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = pages.split(' ').nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

/// Memory of the machine in bytes.
fn machine() -> Option<u64> {
    let text = read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kibibytes * 1024)
}

/// The smallest limit of this process's control groups in bytes.
fn cgroup() -> Option<u64> {
    let groups = read_to_string("/proc/self/cgroup").ok()?;
    cgroup_limit(&groups, Path::new("/sys/fs/cgroup"))
}

/// The smallest limit of these control groups: of version 2, whose line begins with `0::`, and of the
/// controller of memory in version 1. In a container, `root` shows its own group, and not the path.
fn cgroup_limit(groups: &str, root: &Path) -> Option<u64> {
    let limits = groups.lines().filter_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, group) = rest.split_once(":/")?;
        let (folder, file) = match controllers {
            "" => (root.to_owned(), "memory.max"),
            _ if controllers.split(',').any(|it| it == "memory") => {
                (root.join("memory"), "memory.limit_in_bytes")
            }
            _ => return None,
        };
        let groups = folder.join(group);
        let folders = groups.ancestors().take_while(|it| it.starts_with(&folder));
        folders.filter_map(|folder| max_of(folder.join(file))).min()
    });
    limits.min()
}

/// `None` if the file is absent or contains `max`. Without a limit, version 1 has a number that exceeds
/// the memory of any machine.
fn max_of(file: PathBuf) -> Option<u64> {
    read_to_string(file).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_both_versions_count() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let file = root.path().join(path);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        };
        let limit = |groups: &str| cgroup_limit(groups, root.path());
        assert_eq!(limit("0::/pod/hearth\n"), None);
        write("pod/memory.max", "700\n");
        write("pod/hearth/memory.max", "max\n");
        assert_eq!(limit("0::/pod/hearth\n"), Some(700));
        let hybrid = "12:cpu,cpuacct:/pod\n5:memory:/docker/1\n0::/pod/hearth\n";
        write("memory/memory.limit_in_bytes", "9223372036854771712\n");
        assert_eq!(limit(hybrid), Some(700));
        write("memory/docker/1/memory.limit_in_bytes", "300\n");
        assert_eq!(limit(hybrid), Some(300));
        // A container sees its own group as the root.
        write("memory/memory.limit_in_bytes", "200\n");
        assert_eq!(limit("5:memory:/docker/2\n"), Some(200));
    }

    #[test]
    fn limit_is_below_the_memory_of_the_machine() {
        let machine = machine().unwrap();
        let limit = limit(None).unwrap();
        assert!(limit > 0 && limit <= machine / 100 * DEFAULT_PERCENT, "{limit} of {machine}");
        assert!(resident().unwrap() < machine);
        assert_eq!(super::limit(Some(7)), Some(7));
    }
}
