//! Sizes: lines per file and function, parameters, nesting.

use proc_macro2::Span;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use super::{assert_none, rust_files};

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

/// What is too large in a file: line, function, what.
#[derive(Default)]
struct Sizes {
    found: Vec<(usize, String, String)>,
    function: String,
    line: usize,
    depth: usize,
    depth_max: usize,
}

impl Sizes {
    fn enter(&mut self, signature: &syn::Signature, span: Span, visit: impl FnOnce(&mut Self)) {
        let outer = (std::mem::take(&mut self.function), self.line, self.depth, self.depth_max);
        self.function = signature.ident.to_string();
        (self.line, self.depth, self.depth_max) = (signature.ident.span().start().line, 0, 0);
        visit(self);
        let lines = span.end().line - signature.fn_token.span.start().line + 1;
        let is_self = |input: &&syn::FnArg| matches!(input, syn::FnArg::Receiver(_));
        let parameters = signature.inputs.iter().filter(|input| !is_self(input)).count();
        for (name, size, max) in [
            ("lines", lines, FUNCTION_LINES_MAX),
            ("parameters", parameters, PARAMETERS_MAX),
            ("levels of nesting", self.depth_max, NESTING_MAX),
        ] {
            if size > max {
                self.found.push((self.line, self.function.clone(), format!("{size} {name}")));
            }
        }
        (self.function, self.line, self.depth, self.depth_max) = outer;
    }

    fn nest(&mut self, visit: impl FnOnce(&mut Self)) {
        self.depth += 1;
        self.depth_max = self.depth_max.max(self.depth);
        visit(self);
        self.depth -= 1;
    }
}

impl<'a> Visit<'a> for Sizes {
    fn visit_item_fn(&mut self, item: &'a syn::ItemFn) {
        self.enter(&item.sig, item.span(), |this| visit::visit_item_fn(this, item));
    }

    fn visit_impl_item_fn(&mut self, item: &'a syn::ImplItemFn) {
        self.enter(&item.sig, item.span(), |this| visit::visit_impl_item_fn(this, item));
    }

    fn visit_trait_item_fn(&mut self, item: &'a syn::TraitItemFn) {
        self.enter(&item.sig, item.span(), |this| visit::visit_trait_item_fn(this, item));
    }

    fn visit_expr_if(&mut self, expression: &'a syn::ExprIf) {
        self.nest(|this| {
            this.visit_expr(&expression.cond);
            this.visit_block(&expression.then_branch);
        });
        if let Some((_, branch)) = &expression.else_branch {
            match &**branch {
                // A chain of `else if` is one level.
                syn::Expr::If(next) => self.visit_expr_if(next),
                last => self.nest(|this| this.visit_expr(last)),
            }
        }
    }

    fn visit_expr_match(&mut self, expression: &'a syn::ExprMatch) {
        self.nest(|this| visit::visit_expr_match(this, expression));
    }

    fn visit_expr_for_loop(&mut self, expression: &'a syn::ExprForLoop) {
        self.nest(|this| visit::visit_expr_for_loop(this, expression));
    }

    fn visit_expr_while(&mut self, expression: &'a syn::ExprWhile) {
        self.nest(|this| visit::visit_expr_while(this, expression));
    }

    fn visit_expr_loop(&mut self, expression: &'a syn::ExprLoop) {
        self.nest(|this| visit::visit_expr_loop(this, expression));
    }

    fn visit_expr_closure(&mut self, expression: &'a syn::ExprClosure) {
        self.nest(|this| visit::visit_expr_closure(this, expression));
    }

    fn visit_expr_async(&mut self, expression: &'a syn::ExprAsync) {
        self.nest(|this| visit::visit_expr_async(this, expression));
    }
}

#[test]
fn functions_are_small() {
    let mut violations = Vec::new();
    for file in rust_files() {
        let mut sizes = Sizes::default();
        sizes.visit_file(&syn::parse_file(&file.text).unwrap());
        for (line, function, size) in sizes.found {
            violations.push(format!("{}:{line}: {function} has {size}", file.path));
        }
    }
    assert_none("these functions are too large", &violations);
}
