//! Sizes: lines per file and function, parameters, nesting.

use proc_macro2::Span;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, Expr, FnArg, Signature};

use super::{Source, assert_none, rust_files};

const FILE_LINES_MAX: usize = 500;
const FUNCTION_LINES_MAX: usize = 70;
const PARAMETERS_MAX: usize = 6;
const NESTING_MAX: usize = 5;

#[test]
fn files_have_at_most_500_lines() {
    let lines = |text: &str| text.lines().count();
    let long = rust_files().into_iter().filter(|file| lines(&file.text) > FILE_LINES_MAX);
    let violations: Vec<_> =
        long.map(|file| format!("{}:{}", file.path, lines(&file.text))).collect();
    assert_none("these files are too long", &violations);
}

/// A function or method, and its sizes.
pub struct Function {
    pub line: usize,
    pub name: String,
    pub is_test: bool,
    lines: usize,
    parameters: usize,
    nesting: usize,
}

/// The functions of a file.
pub fn functions(file: &Source) -> Vec<Function> {
    let mut functions = Functions::default();
    functions.visit_file(&syn::parse_file(&file.text).unwrap());
    functions.found
}

#[derive(Default)]
struct Functions {
    found: Vec<Function>,
    depth: usize,
    depth_max: usize,
}

impl Functions {
    fn enter(
        &mut self,
        (attributes, signature, span): (&[Attribute], &Signature, Span),
        visit: impl FnOnce(&mut Self),
    ) {
        let outer = (std::mem::take(&mut self.depth), std::mem::take(&mut self.depth_max));
        visit(self);
        let parameters = signature.inputs.iter();
        let is_test = |attribute: &Attribute| {
            attribute.path().segments.last().is_some_and(|segment| segment.ident == "test")
        };
        self.found.push(Function {
            line: signature.ident.span().start().line,
            name: signature.ident.to_string(),
            is_test: attributes.iter().any(is_test),
            lines: span.end().line - signature.fn_token.span.start().line + 1,
            parameters: parameters.filter(|input| matches!(input, FnArg::Typed(_))).count(),
            nesting: self.depth_max,
        });
        (self.depth, self.depth_max) = outer;
    }

    fn nest(&mut self, visit: impl FnOnce(&mut Self)) {
        self.depth += 1;
        self.depth_max = self.depth_max.max(self.depth);
        visit(self);
        self.depth -= 1;
    }
}

impl<'a> Visit<'a> for Functions {
    fn visit_item_fn(&mut self, item: &'a syn::ItemFn) {
        let function = (&item.attrs[..], &item.sig, item.span());
        self.enter(function, |this| visit::visit_item_fn(this, item));
    }

    fn visit_impl_item_fn(&mut self, item: &'a syn::ImplItemFn) {
        let function = (&item.attrs[..], &item.sig, item.span());
        self.enter(function, |this| visit::visit_impl_item_fn(this, item));
    }

    fn visit_trait_item_fn(&mut self, item: &'a syn::TraitItemFn) {
        let function = (&item.attrs[..], &item.sig, item.span());
        self.enter(function, |this| visit::visit_trait_item_fn(this, item));
    }

    fn visit_expr(&mut self, expression: &'a Expr) {
        use Expr::{Async, Closure, ForLoop, Loop, Match, While};
        match expression {
            Match(_) | ForLoop(_) | While(_) | Loop(_) | Closure(_) | Async(_) => {
                self.nest(|this| visit::visit_expr(this, expression));
            }
            other => visit::visit_expr(self, other),
        }
    }

    fn visit_expr_if(&mut self, expression: &'a syn::ExprIf) {
        self.nest(|this| {
            this.visit_expr(&expression.cond);
            this.visit_block(&expression.then_branch);
        });
        match expression.else_branch.as_ref().map(|(_, branch)| &**branch) {
            // A chain of `else if` is one level.
            Some(Expr::If(next)) => self.visit_expr_if(next),
            Some(last) => self.nest(|this| this.visit_expr(last)),
            None => {}
        }
    }
}

#[test]
fn functions_are_small() {
    let mut violations = Vec::new();
    for file in rust_files() {
        for function in functions(&file) {
            for (name, size, max) in [
                ("lines", function.lines, FUNCTION_LINES_MAX),
                ("parameters", function.parameters, PARAMETERS_MAX),
                ("levels of nesting", function.nesting, NESTING_MAX),
            ] {
                if size > max {
                    let at = format!("{}:{}", file.path, function.line);
                    violations.push(format!("{at}: {} has {size} {name}", function.name));
                }
            }
        }
    }
    assert_none("these functions are too large", &violations);
}
