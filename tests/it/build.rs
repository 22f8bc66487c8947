//! What the build links and shares: no failpoint in `hearth`, RocksDB's fast checksums, the
//! allocator's thread, and one build of each third-party crate.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use super::tidy::{files, root};
use super::*;

/// The names of all failpoints in the source.
fn failpoints() -> BTreeSet<String> {
    let sources = files(&["storage", "raft/src", "api/src", "node/src"], "rs");
    let names = sources.iter().flat_map(|source| source.text.split("fail_point!(\"").skip(1));
    names.map(|rest| rest.split('"').next().unwrap().to_owned()).collect()
}

/// Which of the names are in the binary's bytes.
fn contained(binary: &Path, names: &BTreeSet<String>) -> BTreeSet<String> {
    let mut grep = Command::new("grep");
    grep.args(["--text", "--only-matching", "--fixed-strings", "--no-filename"]);
    grep.args(names.iter().map(|name| format!("--regexp={name}"))).arg("--").arg(binary);
    let output = grep.output().unwrap();
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn hearth_contains_no_failpoint() {
    let names = failpoints();
    assert!(names.len() > 20, "{names:?}");
    // `make test` builds it beside the binary under test.
    let hearth = Path::new(BINARY).with_file_name("hearth");
    assert_eq!(contained(&hearth, &names), BTreeSet::new());
    assert_eq!(contained(Path::new(BINARY), &names), names, "the search finds them");
}

#[test]
fn binary_and_tests_share_third_party_crates() {
    let tree = |arguments: &[&str]| -> BTreeSet<String> {
        let mut command = Command::new(env!("CARGO"));
        command.args(["tree", "--offline", "--locked", "--prefix", "none", "--format", "{p} {f}"]);
        let output = command.args(arguments).current_dir(root()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let lines = String::from_utf8(output.stdout).unwrap();
        // Crates of this workspace have their folder in the line. `fail` has its feature in tests only.
        let lines = lines.lines().map(|line| line.trim_end_matches("(*)").trim_end());
        let third_party = |line: &&str| !line.contains('/') && !line.starts_with("fail v");
        lines.filter(third_party).map(str::to_owned).collect()
    };
    let binary = tree(&["-p", "node", "--edges", "normal,build"]);
    let tests = tree(&["--workspace", "--features", "tests/failpoints"]);
    assert!(binary.len() > 300, "{binary:?}");
    let alone: Vec<_> = binary.difference(&tests).collect();
    assert_eq!(alone, Vec::<&String>::new(), "other features: `make test` compiles these again");
}

#[tokio::test]
async fn store_uses_fast_checksums() {
    let cluster = options().start();
    let log = cluster.data().join("log/LOG");
    let text =
        fs::read_to_string(&log).unwrap_or_else(|error| panic!("{}: {error}", log.display()));
    let line = text.lines().find(|line| line.contains("Fast CRC32 supported")).unwrap();
    assert!(line.contains("supported: Supported"), "{line}");
}

#[tokio::test]
async fn allocator_returns_memory_in_the_background() {
    let cluster = options().start();
    let threads = fs::read_dir(format!("/proc/{}/task", cluster.pid())).unwrap();
    let names = threads.map(|thread| fs::read_to_string(thread.unwrap().path().join("comm")));
    let names: Vec<String> = names.filter_map(Result::ok).collect();
    assert!(names.iter().any(|name| name.starts_with("jemalloc_bg_thd")), "{names:?}");
}
