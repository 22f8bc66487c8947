//! Runs a cluster in one thread. A seed decides its faults, the delays of its messages and disks, its
//! random numbers and its clocks: the same seed gives the same trace. Nodes are those of the product:
//! openraft, the log and the state on RocksDB, and all of `raft`. Threads are tasks here, connections are
//! calls, and time moves on when all tasks wait.

#![allow(clippy::print_stdout)]

mod clients;
mod history;
mod host;
mod node;
mod plan;
mod process;
mod run;
mod trace;
mod world;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

/// Simulates a cluster.
#[derive(Parser)]
struct Options {
    /// The seed.
    #[arg(long)]
    seed: u64,
    /// Faults that do not happen, by their numbers.
    #[arg(long, value_delimiter = ',')]
    without: Vec<usize>,
    /// Writes the trace to a file.
    #[arg(long)]
    trace: Option<PathBuf>,
    /// Prints log lines of the nodes: warnings and errors.
    #[arg(long)]
    log: bool,
}

fn main() -> ExitCode {
    let options = Options::parse();
    process::seed(options.seed);
    // Of a task too: what follows would not be what happens.
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        report(panic);
        std::process::exit(2);
    }));
    if options.log {
        tracing_subscriber::fmt().with_target(false).without_time().init();
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime of one thread");
    let run = run::run(options.seed, options.without, options.trace.as_deref());
    let summary = runtime.block_on(run).expect("the folder of the run is there");
    // Its tasks wait for what never comes.
    runtime.shutdown_background();
    let (lines, hash) = summary.trace;
    println!("seed {}: {} requests, trace {lines} {hash}", options.seed, summary.completed);
    for violation in &summary.violations {
        println!("seed {}: {violation}", options.seed);
    }
    match summary.violations.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}
