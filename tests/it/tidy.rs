//! Architecture rules: language, imports, sizes, dependencies, and what the engine must not use.
//! Each test lists all violations as `path:line`.

mod imports;
mod sizes;
mod words;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

const CRATES: [&str; 5] = ["storage", "raft", "api", "node", "tests"];
/// The crates of the engine, each after those that it uses.
pub(super) const ENGINE: [&str; 4] = ["storage/text", "storage/model", "storage/index", "storage"];

/// A text file of the repository.
pub(super) struct Source {
    /// From the root of the repository.
    path: String,
    pub(super) text: String,
}

impl Source {
    /// The part of a Rust file before its unit tests.
    fn code(&self) -> &str {
        self.text.split("#[cfg(test)]\nmod").next().unwrap_or(&self.text)
    }

    /// Whether the file holds tests only.
    fn is_test(&self) -> bool {
        self.path.starts_with("tests/")
            || self.path.contains("/tests/")
            || self.path.ends_with("conformance.rs")
    }

    /// `path:line` of each line of the code that contains a pattern, with the pattern.
    fn find(&self, patterns: &[&str]) -> Vec<String> {
        let lines = self.code().lines().zip(1..);
        let find = |(line, number): (&str, usize)| {
            let pattern = patterns.iter().find(|pattern| line.contains(*pattern))?;
            Some(format!("{}:{number}: {pattern}", self.path))
        };
        lines.filter_map(find).collect()
    }
}

pub(super) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn collect(folder: &Path, extension: &str, paths: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() && !["target", "node_modules"].contains(&&*name) && !name.starts_with('.')
        {
            collect(&path, extension, paths);
        } else if path.extension().is_some_and(|found| found == extension) {
            paths.push(path);
        }
    }
}

/// All files with an extension in these folders of the repository.
pub(super) fn files(folders: &[impl AsRef<Path>], extension: &str) -> Vec<Source> {
    let mut paths = Vec::new();
    folders.iter().for_each(|folder| collect(&root().join(folder), extension, &mut paths));
    paths.sort();
    let source = |path: &PathBuf| Source {
        path: path.strip_prefix(root()).unwrap().display().to_string(),
        text: fs::read_to_string(path).unwrap(),
    };
    paths.iter().map(source).collect()
}

fn rust_files() -> Vec<Source> {
    files(&CRATES, "rs")
}

#[track_caller]
fn assert_none(rule: &str, violations: &[String]) {
    assert!(violations.is_empty(), "{rule}:\n{}\n", violations.join("\n"));
}

#[test]
fn files_open_with_a_summary() {
    let without = rust_files().into_iter().filter(|file| !file.text.starts_with("//! "));
    let violations: Vec<_> = without.map(|file| format!("{}:1", file.path)).collect();
    assert_none("these files do not open with //!", &violations);
}

/// Whether a path of a document exists. `before` is the text before it. The path starts at the
/// root, at a crate, or at the `src` of a crate. If `before` ends with a crate, it is that one.
fn exists(before: &str, path: &str) -> bool {
    let all = [&CRATES[..], &ENGINE[..3]].concat();
    let named = all.iter().find(|name| before.ends_with(&format!("{name} ")));
    let crates = named.map_or(&all[..], std::slice::from_ref).iter();
    let starts = crates.flat_map(|name| [root().join(name), root().join(name).join("src")]);
    starts.chain([root()]).any(|start| start.join(path).exists())
}

#[test]
fn documented_paths_exist() {
    let mut violations = Vec::new();
    for file in words::documents() {
        let mut is_exempt = false;
        for (line, number) in file.text.lines().zip(1..) {
            if line.starts_with("## ") {
                // Its table names files to be created.
                is_exempt = line == "## Where new parts belong";
            }
            let parts: Vec<_> = line.split('`').collect();
            for pair in parts.chunks_exact(2).filter(|_| !is_exempt) {
                let (before, path) = (pair[0], pair[1]);
                let is_path = path.contains('/') && path.ends_with(".rs") && !path.contains('<');
                if is_path && !exists(before, path) {
                    violations.push(format!("{}:{number}: {path}", file.path));
                }
            }
        }
    }
    assert_none("these documented files do not exist", &violations);
}

/// What has four words and is no metric is a test, or a golden script.
#[test]
fn documented_tests_exist() {
    let golden = fs::read_dir(root().join("storage/tests/golden")).unwrap();
    let mut names: BTreeSet<String> =
        golden.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    for file in rust_files() {
        names.extend(file.text.split(|letter| !is_part(letter)).map(str::to_owned));
    }
    let mut violations = Vec::new();
    for file in words::documents() {
        for (line, number) in file.text.lines().zip(1..) {
            for name in line.split('`').skip(1).step_by(2) {
                let is_test = name.split('_').count() > 3
                    && name.chars().all(|letter| is_part(letter) && !letter.is_ascii_uppercase())
                    && !["hearth_", "process_", "_"].iter().any(|start| name.starts_with(start));
                if is_test && !names.contains(name) {
                    violations.push(format!("{}:{number}: {name}", file.path));
                }
            }
        }
    }
    assert_none("these documented tests do not exist", &violations);
}

/// Links to a line: the text of the link is the name that the line defines.
#[test]
fn linked_lines_define_what_they_name() {
    let (mut violations, mut links) = (Vec::new(), 0);
    for file in words::documents().iter().filter(|file| file.path.ends_with(".md")) {
        let folder = root().join(&file.path).parent().unwrap().to_owned();
        for link in file.text.split("](").zip(file.text.split("](").skip(1)) {
            let (before, target) = (link.0, link.1.split(')').next().unwrap_or_default());
            let Some((path, line)) = target.split_once(".rs#L") else { continue };
            let name = before.trim_end_matches('`').rsplit(['`', ':']).next().unwrap_or_default();
            let text = fs::read_to_string(folder.join(format!("{path}.rs"))).unwrap_or_default();
            let line: usize = line.parse().unwrap();
            let found = text.lines().nth(line - 1).unwrap_or_default();
            links += 1;
            let defines = |kind: &str| {
                let rest = found.split(&format!("{kind} {name}")).nth(1);
                rest.is_some_and(|rest| {
                    !rest.starts_with(|next: char| next.is_alphanumeric() || next == '_')
                })
            };
            if !["fn", "struct", "enum", "trait", "type", "const"].into_iter().any(defines) {
                violations.push(format!("{}: {target} is no {name}: {found}", file.path));
            }
        }
    }
    assert!(links > 30, "{links}");
    assert_none("these links name another line", &violations);
}

#[test]
fn libraries_stay_in_their_crates() {
    // (library, crates that may depend on it)
    let rules: [(&str, &[&str]); 11] = [
        ("rocksdb", &["storage"]),
        ("roaring", &["storage/index", "storage"]),
        ("bincode", &["storage"]),
        ("openraft", &["raft"]),
        ("axum", &["raft", "api", "node", "tests"]),
        ("ort", &["node"]),
        ("rmcp", &["api"]),
        ("tokenizers", &["node"]),
        ("clap", &["node", "tests"]),
        ("raft", &["api", "node", "tests"]),
        ("api", &["node", "tests"]),
    ];
    let engine_never = ["tokio", "axum", "futures", "raft"];
    let mut violations = Vec::new();
    for name in CRATES.into_iter().chain(ENGINE) {
        let manifest = fs::read_to_string(root().join(name).join("Cargo.toml")).unwrap();
        for (line, number) in manifest.lines().zip(1..) {
            let library = line.split(['.', ' ', '=']).next().unwrap_or_default();
            let rule = rules.iter().find(|(of, _)| *of == library);
            let forbidden = rule.is_some_and(|(_, allowed)| !allowed.contains(&name));
            if forbidden || ENGINE.contains(&name) && engine_never.contains(&library) {
                violations.push(format!("{name}/Cargo.toml:{number}: {library}"));
            }
        }
    }
    assert_none("these dependencies belong to other crates", &violations);
}

fn assert_absent(rule: &str, files: impl Iterator<Item = Source>, patterns: &[&str]) {
    let violations: Vec<_> = files.flat_map(|file| file.find(patterns)).collect();
    assert_none(rule, &violations);
}

#[test]
fn bincode_is_used_in_one_module() {
    let others = rust_files().into_iter();
    let others = others.filter(|file| file.path != "storage/src/codec.rs" && !file.is_test());
    assert_absent("only storage/src/codec.rs uses bincode", others, &["bincode::"]);
}

#[test]
fn unsafe_code_is_in_one_module() {
    // The compiler rejects unsafe code without this attribute, if the crate has the lint.
    let others = files(&CRATES[..4], "rs").into_iter();
    let others = others.filter(|file| file.path != "storage/model/src/simd.rs");
    assert_absent("only storage/model/src/simd.rs may be unsafe", others, &["(unsafe_code"]);
    for name in CRATES.into_iter().chain(ENGINE) {
        let manifest = fs::read_to_string(root().join(name).join("Cargo.toml")).unwrap();
        let has_lint = ["[lints]\nworkspace = true", "unsafe_code = \"forbid\""];
        assert!(has_lint.iter().any(|lint| manifest.contains(lint)), "{name}/Cargo.toml");
    }
}

#[test]
fn raft_uses_its_machine_in_few_files() {
    // A simulation provides another machine and another network.
    let real = ["machine.rs", "handle.rs", "network/https.rs", "network/transfer.rs"];
    let is_real = |file: &Source| real.iter().any(|name| file.path == format!("raft/src/{name}"));
    let others = files(&["raft/src"], "rs").into_iter().filter(|file| !is_real(file));
    let machine = [
        "time::{Duration, Instant}",
        "std::time::Instant",
        "SystemTime",
        "thread::Builder",
        "spawn_blocking",
        "block_in_place",
        "TcpStream::",
    ];
    assert_absent("raft uses the machine through machine.rs", others, &machine);
}

#[test]
fn engine_uses_no_clock_and_no_randomness() {
    let clocks = ["SystemTime", "Instant::now", "now_v7", "new_v4", "rand::"];
    let inexact = [".exp2(", ".powf(", ".exp()", ".ln()"];
    let engine = files(&ENGINE.map(|name| format!("{name}/src")), "rs").into_iter();
    assert_absent("the engine must be deterministic", engine, &[&clocks[..], &inexact].concat());
}

#[test]
fn code_never_unwraps_and_is_finished() {
    let forbidden = [".unwrap()", "todo!", "unimplemented!", "dbg!", "TODO", "FIXME"];
    let code = rust_files().into_iter().filter(|file| !file.is_test());
    assert_absent("forbidden outside tests", code, &forbidden);
}

#[test]
fn decide_and_apply_are_separate() {
    for (part, other) in [("apply", "crate::decide"), ("decide", "crate::apply")] {
        let folder = format!("storage/src/{part}");
        let files = files(&["storage/src"], "rs").into_iter();
        let files = files.filter(|file| file.path.starts_with(&folder));
        assert_absent("decide and apply must not import each other", files, &[other]);
    }
}

#[test]
fn service_knows_no_interface() {
    let interfaces = [
        "axum",
        "utoipa",
        "rmcp",
        "crate::auth",
        "crate::mcp",
        "crate::middleware",
        "crate::requests",
        "crate::responses",
        "crate::routes",
    ];
    let service = files(&["api/src/service", "api/src/admission"], "rs").into_iter();
    assert_absent("the service must not depend on its adapters", service, &interfaces);
    let tools = files(&["api/src/mcp"], "rs").into_iter();
    assert_absent("tools are beside routes, not above them", tools, &["crate::routes"]);
}
