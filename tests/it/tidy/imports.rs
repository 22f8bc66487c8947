//! No import circles between the files of a crate.
//!
//! The files of a crate are the nodes of a graph. A path to an item of another file (`use`,
//! `pub use`, or inline) is an edge to the file of the longest module prefix of the path. A circle
//! is a strongly connected component: files that are reachable from each other.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use super::{ENGINE, Source, assert_none, files};

const CRATES: [&str; 3] = ["raft", "api", "node"];

/// The files of a crate by module path.
type Modules = BTreeMap<Vec<String>, String>;

/// Module path of a file: empty for the root of the crate.
fn module(file: &Source) -> Vec<String> {
    let path = file.path.split_once("/src/").map_or("", |(_, path)| path);
    let mut parts: Vec<_> = path.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
    parts.pop_if(|last| ["lib", "main", "mod"].contains(&last.as_str()));
    parts
}

/// The paths of one file to items of its crate, each with its line.
struct Paths<'a> {
    modules: &'a Modules,
    module: Vec<String>,
    found: Vec<(usize, Vec<String>)>,
}

impl Paths<'_> {
    /// Records the paths in tokens, in code as in macros and attributes, but for test modules.
    /// `prefix` is the path before a group of `use`.
    fn read(&mut self, prefix: &[String], tokens: TokenStream) {
        let (mut path, mut line, mut colons) = (prefix.to_vec(), 0, 0);
        let (mut is_test, mut is_skipped) = (false, false);
        for token in tokens {
            match token {
                TokenTree::Group(group) if is_skipped => {
                    is_skipped = group.delimiter() != Delimiter::Brace;
                }
                TokenTree::Punct(punct) if is_skipped => is_skipped = punct.as_char() != ';',
                _ if is_skipped => {}
                TokenTree::Ident(ident) if is_test && ident == "mod" => is_skipped = true,
                TokenTree::Ident(ident) => {
                    is_test = false;
                    if colons != 2 && path.len() > prefix.len() {
                        self.add(line, &std::mem::take(&mut path), colons);
                    }
                    path.push(ident.to_string());
                    (line, colons) = (ident.span().start().line, 0);
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
                TokenTree::Group(group) if colons == 2 => {
                    self.read(&path, group.stream());
                    (path, colons) = (prefix.to_vec(), 0);
                }
                other => {
                    self.add(line, &path, colons);
                    (path, colons) = (prefix.to_vec(), 0);
                    if let TokenTree::Group(group) = other {
                        is_test |= group.stream().to_string().replace(' ', "") == "cfg(test)";
                        self.read(&[], group.stream());
                    }
                }
            }
        }
        self.add(line, &path, colons);
    }

    /// Records a path that starts in this crate. A name without `::` is none.
    fn add(&mut self, line: usize, segments: &[String], colons: usize) {
        let [first, rest @ ..] = segments else { return };
        let child = [&self.module[..], &segments[..1]].concat();
        let mut path = match first.as_str() {
            _ if rest.is_empty() && colons != 2 => return,
            "crate" => Vec::new(),
            "self" => self.module.clone(),
            "super" => self.module[..self.module.len().saturating_sub(1)].to_vec(),
            // A path may start at a child module.
            _ if self.modules.contains_key(&child) => child,
            _ => return,
        };
        let supers = rest.iter().take_while(|name| *name == "super").count();
        path.truncate(path.len().saturating_sub(supers));
        path.extend(rest[supers..].iter().cloned());
        self.found.push((line, path));
    }
}

/// Edges of a crate: file → file, with the line of the first path.
type Edges = BTreeMap<String, BTreeMap<String, usize>>;

fn edges(sources: &[Source]) -> Edges {
    let modules: Modules = sources.iter().map(|file| (module(file), file.path.clone())).collect();
    let mut edges = Edges::new();
    for file in sources {
        let mut paths = Paths { modules: &modules, module: module(file), found: Vec::new() };
        paths.read(&[], file.text.parse().unwrap());
        let targets = edges.entry(file.path.clone()).or_default();
        for (line, path) in paths.found {
            // The longest prefix that is a module; the rest names an item.
            let target = (0..=path.len()).rev().find_map(|end| modules.get(&path[..end]));
            if let Some(target) = target.filter(|target| **target != file.path) {
                targets.entry(target.clone()).or_insert(line);
            }
        }
    }
    edges
}

/// The files that are reachable from a file over at least one edge.
fn reachable<'a>(edges: &'a Edges, from: &'a str) -> BTreeSet<&'a str> {
    let (mut found, mut open) = (BTreeSet::new(), vec![from]);
    while let Some(file) = open.pop() {
        let targets = edges[file].keys().map(String::as_str);
        open.extend(targets.filter(|target| found.insert(*target)));
    }
    found
}

/// One line per circle, and one per edge in it.
fn circles(sources: &[Source]) -> Vec<String> {
    let edges = edges(sources);
    let reached: BTreeMap<_, _> =
        edges.keys().map(|file| (file.as_str(), reachable(&edges, file))).collect();
    let mut shown = Vec::new();
    for (file, targets) in &reached {
        let returns = |target: &&&str| reached[**target].contains(file);
        let circle: BTreeSet<_> = targets.iter().filter(returns).copied().collect();
        // Each circle is shown at its first file.
        if circle.first() != Some(file) {
            continue;
        }
        shown.push(format!("circle of {} files:", circle.len()));
        for from in &circle {
            let inside = edges[*from].iter().filter(|(to, _)| circle.contains(to.as_str()));
            shown.extend(inside.map(|(to, line)| format!("  {from}:{line} -> {to}")));
        }
    }
    shown
}

#[test]
fn files_import_each_other_in_one_direction() {
    let crates = CRATES.iter().chain(&ENGINE);
    let violations: Vec<_> =
        crates.flat_map(|name| circles(&files(&[&format!("{name}/src")], "rs"))).collect();
    assert_none("import circles", &violations);
}

#[test]
fn circle_check_finds_circles() {
    let file = |path: &str, text: &str| Source { path: path.into(), text: text.into() };
    let found = |text: &str| {
        let root = file("x/src/lib.rs", "pub mod a;\nmod b;\npub(crate) use a::A;\n");
        let a = file("x/src/a/mod.rs", "use crate::b::{self as c, B};\npub struct A(B);\n");
        circles(&[root, a, file("x/src/b.rs", text)])
    };
    let expected = [
        "circle of 2 files:",
        "  x/src/a/mod.rs:1 -> x/src/b.rs",
        "  x/src/b.rs:1 -> x/src/a/mod.rs",
    ];
    for text in [
        "fn f() { g(crate::a::A::new()) }\n",
        "fn f() { assert!(super::a::A::new()) }\n",
        "pub use super::{a::{B, A}};\n",
        "#[cfg(test)] mod tests { use x; } use crate::a::*;\n",
        "fn f(x: crate::a::A) {}\n",
    ] {
        assert_eq!(found(text), expected, "{text}");
    }
    for text in ["#[cfg(test)]\nmod tests { use crate::a::A; }\n", "pub(super) fn a() { b::a }\n"] {
        assert_eq!(found(text), [""; 0], "{text}");
    }
}
