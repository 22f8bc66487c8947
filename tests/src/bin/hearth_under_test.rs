//! The binary that the tests run: `hearth`, compiled with failpoints.

use std::process::ExitCode;

fn main() -> ExitCode {
    node::cli::run()
}
