//! The `hearth` binary.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: node::Allocator = node::Allocator;

fn main() -> ExitCode {
    node::cli::run()
}
