//! The `hearth` binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    node::cli::run()
}
