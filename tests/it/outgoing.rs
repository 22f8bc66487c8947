//! Nothing leaves the machine: a day of a cluster and its clients sends no packet but to each other,
//! and writes no file outside of its folders.
//!
//! The day (`outgoing.sh`) runs in a network namespace, which needs root: without it, this test does
//! nothing.

use std::process::Command;

use super::tidy::root;
use super::*;

#[test]
fn cluster_without_receivers_sends_nothing_out() {
    if !is_privileged() {
        println!("nothing was tested: a network namespace needs root");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut day = Command::new("unshare");
    day.args(["--net", "--mount", "--pid", "--fork", "--mount-proc", "--"])
        .arg(root().join("tests/it/outgoing.sh"));
    let ran = day.arg(BINARY).arg(folder.path()).env("HEARTH_CACHE", cache()).output().unwrap();
    let text = String::from_utf8([ran.stdout, ran.stderr].concat()).unwrap();
    let value = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_else(|| panic!("no line {name:?}: {text}")).trim().to_owned()
    };
    assert_eq!(value("packets:"), "0", "{text}");
    assert_ne!(value("counted:"), "0", "{text}");
    assert_eq!(value("files:"), "home/.config/hearth/profiles.toml", "{text}");
}
