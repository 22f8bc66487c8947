//! Sizes: lines per file and function. Clippy checks parameters and nesting (clippy.toml).

use std::collections::HashMap;

use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, FnArg, Pat, Type};

use super::{Source, assert_none, rust_files};

const FILE_LINES_MAX: usize = 500;
const FUNCTION_LINES_MAX: usize = 100;
/// Fewer lines make a file a candidate for a place in another one.
const FILE_LINES_MIN: usize = 60;
/// A function of so few lines that has one caller is a candidate for a place in it.
const CRUMB_LINES_MAX: usize = 3;
/// Most candidates. Most of the functions are accessors that another crate calls.
const SMALL_FILES_MAX: usize = 20;
const CRUMBS_MAX: usize = 90;

#[test]
fn files_have_at_most_500_lines() {
    let lines = |text: &str| text.lines().count();
    let long = rust_files().into_iter().filter(|file| lines(&file.text) > FILE_LINES_MAX);
    let violations: Vec<_> =
        long.map(|file| format!("{}:{}", file.path, lines(&file.text))).collect();
    assert_none("these files are too long", &violations);
}

/// A function or method.
pub struct Function {
    pub line: usize,
    pub name: String,
    pub is_test: bool,
    lines: usize,
    /// Whether a trait declares it.
    is_of_trait: bool,
    /// Whether one of several parameters is a tuple that the function takes apart.
    takes_tuple: bool,
}

/// The functions of a file.
pub fn functions(file: &Source) -> Vec<Function> {
    let mut functions = Functions { all: Vec::new(), is_of_trait: false };
    functions.visit_file(&syn::parse_file(&file.text).unwrap());
    functions.all
}

struct Functions {
    all: Vec<Function>,
    /// Whether the present `impl` is that of a trait, which decides the parameters.
    is_of_trait: bool,
}

impl Functions {
    fn add(&mut self, attributes: &[Attribute], signature: &syn::Signature, end: usize) {
        let is_test = |attribute: &Attribute| {
            attribute.path().segments.last().is_some_and(|segment| segment.ident == "test")
        };
        let inputs = signature.inputs.iter().filter(|input| matches!(input, FnArg::Typed(_)));
        // A type with a name of its own may be a tuple.
        let is_tuple = |input: &FnArg| match input {
            FnArg::Typed(it) => {
                let of = if let Type::Reference(of) = &*it.ty { &of.elem } else { &it.ty };
                matches!(*it.pat, Pat::Tuple(_)) && matches!(**of, Type::Tuple(_))
            }
            FnArg::Receiver(_) => false,
        };
        self.all.push(Function {
            line: signature.ident.span().start().line,
            name: signature.ident.to_string(),
            is_test: attributes.iter().any(is_test),
            lines: end - signature.fn_token.span.start().line + 1,
            is_of_trait: self.is_of_trait,
            takes_tuple: !self.is_of_trait
                && inputs.clone().count() > 1
                && inputs.clone().any(is_tuple),
        });
    }
}

impl<'a> Visit<'a> for Functions {
    fn visit_item_impl(&mut self, item: &'a syn::ItemImpl) {
        let outer = std::mem::replace(&mut self.is_of_trait, item.trait_.is_some());
        visit::visit_item_impl(self, item);
        self.is_of_trait = outer;
    }

    fn visit_item_fn(&mut self, item: &'a syn::ItemFn) {
        self.add(&item.attrs, &item.sig, item.span().end().line);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'a syn::ImplItemFn) {
        self.add(&item.attrs, &item.sig, item.span().end().line);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'a syn::TraitItemFn) {
        self.add(&item.attrs, &item.sig, item.span().end().line);
        visit::visit_trait_item_fn(self, item);
    }
}

#[test]
fn functions_are_small() {
    let mut violations = Vec::new();
    for file in rust_files() {
        for Function { line, name, lines, .. } in functions(&file) {
            if lines > FUNCTION_LINES_MAX {
                violations.push(format!("{}:{line}: {name} has {lines} lines", file.path));
            }
        }
    }
    assert_none("these functions are too large", &violations);
}

/// Code may be cut too fine: each part then says little, and a reader turns many pages.
#[test]
fn candidates_for_merging_stay_few() {
    let code: Vec<_> = rust_files().into_iter().filter(|file| !file.is_test()).collect();
    let is_root = |file: &&Source| {
        ["mod.rs", "lib.rs", "main.rs"].iter().any(|root| file.path.ends_with(root))
    };
    let small = code.iter().filter(|file| !is_root(file));
    let small = small.filter(|file| file.text.lines().count() < FILE_LINES_MIN);
    let small: Vec<_> = small.map(|file| file.path.clone()).collect();
    assert!(small.len() <= SMALL_FILES_MAX, "{} small files: {small:#?}", small.len());
    let mut uses = HashMap::<&str, usize>::new();
    let is_end = |char: char| !char.is_alphanumeric() && char != '_';
    for word in code.iter().flat_map(|file| file.text.split(is_end)) {
        *uses.entry(word).or_default() += 1;
    }
    let mut crumbs = Vec::new();
    for file in &code {
        for Function { line, name, lines, is_of_trait, .. } in functions(file) {
            // The definition is one use.
            if lines <= CRUMB_LINES_MAX && uses[name.as_str()] == 2 && !is_of_trait {
                crumbs.push(format!("{}:{line}: {name}", file.path));
            }
        }
    }
    assert!(crumbs.len() <= CRUMBS_MAX, "{} functions: {crumbs:#?}", crumbs.len());
}

/// A tuple hides a parameter from the limit and from its name.
#[test]
fn parameters_are_no_tuples() {
    let code = rust_files().into_iter().filter(|file| !file.is_test());
    let violations: Vec<_> = code
        .flat_map(|file| {
            let functions = functions(&file).into_iter().filter(|function| function.takes_tuple);
            let named = functions.map(|it| format!("{}:{}: {}", file.path, it.line, it.name));
            named.collect::<Vec<_>>()
        })
        .collect();
    assert_none("these functions take tuples apart", &violations);
}
