//! No import circles between the files of a crate.
//!
//! The files of a crate are the nodes of a graph. A path to an item of another file (`use`,
//! `pub use`, or inline) is an edge to the file of the longest module prefix of the path. A circle
//! is a strongly connected component: files that are reachable from each other.

use std::collections::{BTreeMap, BTreeSet};

use syn::visit::{self, Visit};

use super::{Source, assert_none, files};

const CRATES: [&str; 4] = ["storage", "raft", "api", "node"];

/// Pairs of files that are one unit: (path, path, reason).
const ALLOWED: [(&str, &str, &str); 0] = [];

/// The files of a crate by module path.
type Modules = BTreeMap<Vec<String>, String>;

/// Module path of a file: empty for the root of the crate.
fn module(file: &Source) -> Vec<String> {
    let path = file.path.split_once("/src/").map_or("", |(_, path)| path);
    let path = path.strip_suffix(".rs").unwrap_or(path);
    let mut parts: Vec<_> = path.split('/').map(str::to_owned).collect();
    if ["lib", "main", "mod"].contains(&parts.last().map_or("", String::as_str)) {
        parts.pop();
    }
    parts
}

/// The paths of one file to items of its crate, each with its line.
struct Paths<'a> {
    modules: &'a Modules,
    module: Vec<String>,
    found: Vec<(usize, Vec<String>)>,
}

impl Paths<'_> {
    /// Records a path that starts in this crate.
    fn add(&mut self, line: usize, segments: &[String]) {
        let Some((first, mut rest)) = segments.split_first() else { return };
        let mut path = match first.as_str() {
            "crate" => Vec::new(),
            "self" => self.module.clone(),
            "super" => self.module[..self.module.len().saturating_sub(1)].to_vec(),
            // A path may start at a child module.
            name if self.modules.contains_key(&child(&self.module, name)) => {
                child(&self.module, name)
            }
            _ => return,
        };
        while let Some((first, others)) = rest.split_first()
            && first == "super"
        {
            path.pop();
            rest = others;
        }
        path.extend(rest.iter().cloned());
        self.found.push((line, path));
    }

    fn add_tree(&mut self, prefix: &[String], tree: &syn::UseTree) {
        let with = |ident: &syn::Ident| child(prefix, &ident.to_string());
        match tree {
            syn::UseTree::Path(path) => self.add_tree(&with(&path.ident), &path.tree),
            syn::UseTree::Name(name) => {
                self.add(name.ident.span().start().line, &with(&name.ident))
            }
            syn::UseTree::Rename(name) => {
                self.add(name.ident.span().start().line, &with(&name.ident));
            }
            syn::UseTree::Glob(glob) => self.add(glob.star_token.spans[0].start().line, prefix),
            syn::UseTree::Group(group) => {
                group.items.iter().for_each(|tree| self.add_tree(prefix, tree));
            }
        }
    }

    /// Records the paths in the tokens of a macro or an attribute.
    fn add_tokens(&mut self, tokens: proc_macro2::TokenStream) {
        let (mut segments, mut line, mut colons) = (Vec::new(), 0, 0);
        for token in tokens {
            match token {
                proc_macro2::TokenTree::Ident(ident) => {
                    if colons != 2 {
                        self.add(line, &std::mem::take(&mut segments));
                    }
                    (line, colons) = (ident.span().start().line, 0);
                    segments.push(ident.to_string());
                }
                proc_macro2::TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
                proc_macro2::TokenTree::Group(group) => self.add_tokens(group.stream()),
                _ => colons = 0,
            }
        }
        self.add(line, &segments);
    }
}

fn child(module: &[String], name: &str) -> Vec<String> {
    [module, &[name.to_owned()]].concat()
}

impl<'a> Visit<'a> for Paths<'_> {
    fn visit_item_mod(&mut self, item: &'a syn::ItemMod) {
        let is_test = |attribute: &syn::Attribute| matches!(&attribute.meta, syn::Meta::List(list) if list.tokens.to_string() == "test");
        if !item.attrs.iter().any(is_test) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'a syn::ItemUse) {
        self.add_tree(&[], &item.tree);
    }

    fn visit_path(&mut self, path: &'a syn::Path) {
        if path.segments.len() > 1 && path.leading_colon.is_none() {
            let segments: Vec<_> =
                path.segments.iter().map(|segment| segment.ident.to_string()).collect();
            self.add(path.segments[0].ident.span().start().line, &segments);
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'a syn::Macro) {
        self.add_tokens(call.tokens.clone());
        visit::visit_macro(self, call);
    }

    fn visit_meta_list(&mut self, list: &'a syn::MetaList) {
        self.add_tokens(list.tokens.clone());
    }
}

/// Edges of a crate: file → file, with the line of the first path.
type Edges = BTreeMap<String, BTreeMap<String, usize>>;

fn edges(sources: &[Source]) -> Edges {
    let modules: Modules = sources.iter().map(|file| (module(file), file.path.clone())).collect();
    let mut edges = Edges::new();
    for file in sources {
        let mut paths = Paths { modules: &modules, module: module(file), found: Vec::new() };
        paths.visit_file(&syn::parse_file(&file.text).unwrap());
        let targets = edges.entry(file.path.clone()).or_default();
        for (line, path) in paths.found {
            // The longest prefix that is a module; the rest names an item.
            let target = (0..=path.len()).rev().find_map(|end| modules.get(&path[..end]));
            let Some(target) = target else { continue };
            let is_allowed = ALLOWED.iter().any(|(left, right, _)| {
                [(left, right), (right, left)].contains(&(&&*file.path, &&**target))
            });
            if *target != file.path && !is_allowed {
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
    let crates = CRATES.iter();
    let violations: Vec<_> =
        crates.flat_map(|name| circles(&files(&[&format!("{name}/src")], "rs"))).collect();
    assert_none("import circles", &violations);
}

#[test]
fn circle_check_finds_circles() {
    let file = |path: &str, text: &str| Source { path: path.into(), text: text.into() };
    let root = || file("x/src/lib.rs", "mod a;\nmod b;\npub use a::A;\n");
    let a = || file("x/src/a/mod.rs", "use crate::b::B;\npub struct A(B);\n");
    let straight = file("x/src/b.rs", "#[cfg(test)]\nmod tests { use crate::a::A; }\n");
    let back = file("x/src/b.rs", "fn f() { g(crate::a::A::new()) }\n");
    let macros = file("x/src/b.rs", "fn f() { assert!(super::a::A::new()) }\n");
    assert_eq!(circles(&[root(), a(), straight]), [""; 0]);
    let expected = [
        "circle of 2 files:",
        "  x/src/a/mod.rs:1 -> x/src/b.rs",
        "  x/src/b.rs:1 -> x/src/a/mod.rs",
    ];
    assert_eq!(circles(&[root(), a(), back]), expected);
    assert_eq!(circles(&[root(), a(), macros]), expected);
}
