//! Runs a cluster in one thread. A seed decides its faults, the delays of its messages and disks, its
//! random numbers and its clocks: the same seed gives the same trace. Nodes are those of the product:
//! openraft, the log and the state on RocksDB, and all of `raft`. Threads are tasks here, connections are
//! calls, and time moves on when all tasks wait.

#![allow(clippy::print_stdout)]
#![recursion_limit = "256"]

mod clients;
mod commands;
mod faults;
mod host;
mod named;
mod node;
mod plan;
mod process;
mod promises;
mod recovery;
mod run;
mod shrink;
mod timeline;
mod trace;
mod world;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

use crate::plan::Choice;

/// Simulates a cluster.
#[derive(Parser)]
struct Options {
    #[command(flatten)]
    choice: Choice,
    /// Faults that do not happen, by their numbers.
    #[arg(long, value_delimiter = ',')]
    without: Vec<usize>,
    /// Writes the trace to a file.
    #[arg(long)]
    trace: Option<PathBuf>,
    /// Prints log lines of the nodes.
    #[arg(long)]
    log: bool,
    /// Finds few faults that suffice for a violation.
    #[arg(long, conflicts_with_all = ["without", "trace", "log"])]
    shrink: bool,
}

/// Prints the faults of a plan that suffice for a violation.
fn shrink(choice: &Choice) -> ExitCode {
    let removed = shrink::shrink(choice).expect("this program can be run again");
    let Some(removed) = removed else {
        println!("seed {} violates nothing", choice.seed);
        return ExitCode::SUCCESS;
    };
    for (number, (at, fault)) in choice.plan().faults.iter().enumerate() {
        if !removed.contains(&number) {
            println!("{number:>4} after {:>6} ms: {fault:?}", at.as_millis());
        }
    }
    let removed: Vec<String> = removed.iter().map(usize::to_string).collect();
    println!("{} --without {}", choice.arguments().join(" "), removed.join(","));
    ExitCode::FAILURE
}

fn main() -> ExitCode {
    let options = Options::parse();
    let seed = options.choice.seed;
    if options.shrink {
        return shrink(&options.choice);
    }
    process::seed(!seed);
    // Of a task too: what follows would not be what happens.
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        report(panic);
        std::process::exit(2);
    }));
    if options.log {
        tracing_subscriber::fmt().with_target(false).without_time().init();
    }
    let folder = tempfile::tempdir().expect("there is a place for temporary files");
    let mut plan = options.choice.plan();
    plan.skipped = options.without;
    let run = run::run(seed, plan, options.trace.as_deref(), folder.path());
    let summary = run.expect("the trace can be written");
    let (lines, hash) = summary.trace;
    let counts = summary.counts.iter().map(|(what, count)| format!("{count} {what}, "));
    println!("seed {seed}: {}trace {lines} {hash}", counts.collect::<String>());
    for violation in &summary.violations {
        println!("seed {seed}: {violation}");
    }
    match summary.violations.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}
