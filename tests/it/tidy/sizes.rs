//! Sizes: lines per file and function. Clippy checks parameters and nesting (clippy.toml).

use syn::Attribute;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use super::{Source, assert_none, rust_files};

const FILE_LINES_MAX: usize = 500;
const FUNCTION_LINES_MAX: usize = 100;

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
}

/// The functions of a file.
pub fn functions(file: &Source) -> Vec<Function> {
    let mut functions = Functions(Vec::new());
    functions.visit_file(&syn::parse_file(&file.text).unwrap());
    functions.0
}

struct Functions(Vec<Function>);

impl Functions {
    fn add(&mut self, attributes: &[Attribute], signature: &syn::Signature, end: usize) {
        let is_test = |attribute: &Attribute| {
            attribute.path().segments.last().is_some_and(|segment| segment.ident == "test")
        };
        self.0.push(Function {
            line: signature.ident.span().start().line,
            name: signature.ident.to_string(),
            is_test: attributes.iter().any(is_test),
            lines: end - signature.fn_token.span.start().line + 1,
        });
    }
}

impl<'a> Visit<'a> for Functions {
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
