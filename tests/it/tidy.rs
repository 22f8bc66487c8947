//! The house rules, kept by a test: who may know whom, how long a file may be,
//! that it says what it is, and what the engine must not touch.

use std::fs;
use std::path::{Path, PathBuf};

const CRATES: [&str; 5] = ["storage", "raft", "api", "node", "tests"];
const LINES_MAX: usize = 500;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && path.file_name().is_some_and(|name| name != "target") {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Path from the root, and text, of every Rust file.
fn sources() -> Vec<(String, String)> {
    let mut paths = Vec::new();
    CRATES.iter().for_each(|name| rust_files(&root().join(name), &mut paths));
    paths.sort();
    let name = |path: &Path| path.strip_prefix(root()).unwrap().display().to_string();
    paths.iter().map(|path| (name(path), fs::read_to_string(path).unwrap())).collect()
}

/// The part of a file before its unit tests.
fn code(text: &str) -> &str {
    text.split("#[cfg(test)]\nmod").next().unwrap_or(text)
}

#[test]
fn every_file_says_what_it_is_and_fits_in_the_head() {
    for (path, text) in sources() {
        assert!(text.starts_with("//! "), "{path} does not open with //!");
        let lines = text.lines().count();
        assert!(lines <= LINES_MAX, "{path} has {lines} lines");
    }
}

#[test]
fn each_library_is_known_to_its_own_crate_only() {
    // (library, crates that may depend on it)
    let rules: [(&str, &[&str]); 11] = [
        ("rocksdb", &["storage"]),
        ("roaring", &["storage"]),
        ("hnsw_rs", &["storage"]),
        ("bincode", &["storage"]),
        ("openraft", &["raft"]),
        ("axum", &["raft", "api", "node"]),
        ("ort", &["node"]),
        ("tokenizers", &["node"]),
        ("clap", &["node", "tests"]),
        ("raft", &["api", "node", "tests"]),
        ("api", &["node", "tests"]),
    ];
    for name in CRATES {
        let manifest = fs::read_to_string(root().join(name).join("Cargo.toml")).unwrap();
        for (library, allowed) in rules {
            let depends = manifest.lines().any(|line| {
                line.strip_prefix(library).is_some_and(|rest| rest.starts_with(['.', ' ', '=']))
            });
            assert!(!depends || allowed.contains(&name), "{name} must not know {library}");
        }
    }
    let storage = fs::read_to_string(root().join("storage/Cargo.toml")).unwrap();
    for foreign in ["tokio", "axum", "futures", "raft"] {
        assert!(
            !storage.contains(&format!("{foreign}.workspace")),
            "storage must not know {foreign}"
        );
    }
}

#[test]
fn bincode_is_used_in_one_module_only() {
    for (path, text) in sources() {
        let uses = text.contains("bincode::") && !path.starts_with("tests/");
        assert!(!uses || path == "storage/src/codec.rs", "{path} uses bincode");
    }
}

#[test]
fn the_engine_reads_no_clock_and_no_randomness() {
    for (path, text) in sources() {
        if !path.starts_with("storage/src") {
            continue;
        }
        for forbidden in [
            "SystemTime",
            "Instant::now",
            "now_v7",
            "new_v4",
            "rand::",
            ".exp2(",
            ".powf(",
            ".exp()",
            ".ln()",
        ] {
            assert!(!code(&text).contains(forbidden), "{path} uses {forbidden}");
        }
    }
}

#[test]
fn nothing_outside_tests_unwraps_or_is_left_open() {
    for (path, text) in sources() {
        if path.starts_with("tests/")
            || path.ends_with("conformance.rs")
            || path.contains("/tests/")
        {
            continue;
        }
        for forbidden in [".unwrap()", "todo!", "unimplemented!", "dbg!", "TODO", "FIXME"] {
            assert!(!code(&text).contains(forbidden), "{path} has {forbidden}");
        }
    }
}

#[test]
fn apply_and_decide_do_not_know_each_other() {
    for (path, text) in sources() {
        if path == "storage/src/apply.rs" {
            assert!(!text.contains("crate::decide"), "apply knows decide");
        }
        if path.starts_with("storage/src/decide/") {
            assert!(!text.contains("crate::apply"), "{path} knows apply");
        }
    }
}
