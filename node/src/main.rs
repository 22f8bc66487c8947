//! The `hearth` binary. Parses the command line and calls what is meant.

use std::process::ExitCode;

fn main() -> ExitCode {
    node::cli::run()
}
