//! Runs of the simulation. `HEARTH_SEEDS` is their number, or `HEARTH_SEED` one seed.

use std::collections::BTreeMap;
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::available_parallelism;
use std::time::Instant;

const SIMULATION: &str = env!("CARGO_BIN_EXE_simulate");
/// Seeds of `make test`.
const SEEDS: u64 = 200;
/// Failed runs after which no further ones start.
const FAILURES_MAX: usize = 3;
/// So often at least does each of these happen in a hundred runs: what never happens finds nothing.
const LEAST: [(&str, u64); 15] = [
    ("writes", 12_000),
    ("linearizable reads", 5_000),
    ("reads with a staleness", 5_000),
    ("reads at an index", 5_000),
    ("equal states", 2_500),
    ("elections", 150),
    ("ends at a step", 30),
    ("ends at a sync of a log", 10),
    ("ends at a sync of a manifest", 2),
    ("ends at a sync of another file", 8),
    ("opened snapshots", 30),
    ("repeated receipts", 2_000),
    ("memories cooled", 10_000),
    ("recoveries", 5),
    ("states with receipts", 150),
];
/// Seeds whose runs are repeated: two with a recovery, and one with the plan of a name.
const TRACED: [u64; 4] = [1, 2, 3, 8];
/// Longest time of a run, in seconds: 50 times the usual one.
const RUN_MAX: &str = "120";

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

/// Runs a seed. Its own clock stands still if it hangs, so another program ends it.
fn run(arguments: &[&str]) -> Output {
    let mut run = Command::new("timeout");
    let run = run.args([RUN_MAX, SIMULATION]).args(arguments).stdin(Stdio::null()).output();
    run.expect("the simulation runs")
}

/// What a run reports, by its name.
fn counts(output: &Output) -> Vec<(String, u64)> {
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().next().and_then(|line| line.split_once(": "));
    let parts = line.into_iter().flat_map(|(_, parts)| parts.split(", "));
    let counts = parts.filter_map(|part| part.split_once(' '));
    counts.filter_map(|(count, what)| Some((what.to_owned(), count.parse().ok()?))).collect()
}

#[test]
fn no_seed_violates_anything() {
    let last = setting("HEARTH_SEEDS").unwrap_or(SEEDS);
    let seeds = setting("HEARTH_SEED").map_or(1..=last, |seed| seed..=seed);
    let (next, failed) = (AtomicU64::new(*seeds.start()), Mutex::new(Vec::new()));
    let (started, total) = (Instant::now(), Mutex::new(BTreeMap::<String, u64>::new()));
    std::thread::scope(|scope| {
        for _ in 0..available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed > *seeds.end() || failed.lock().unwrap().len() >= FAILURES_MAX {
                        return;
                    }
                    let output = run(&["--seed", &seed.to_string()]);
                    for (what, count) in counts(&output) {
                        *total.lock().unwrap().entry(what).or_default() += count;
                    }
                    if !output.status.success() {
                        failed.lock().unwrap().push((seed, output));
                    }
                }
            });
        }
    });
    let (count, took) = (seeds.end() - seeds.start() + 1, started.elapsed().as_secs_f64());
    let total = total.into_inner().unwrap();
    println!("{count} seeds in {took:.0} s: {total:?}");
    let failed = failed.into_inner().unwrap();
    for (seed, output) in &failed {
        let text = [&output.stdout[..], &output.stderr[..]].concat();
        println!("{}", String::from_utf8_lossy(&text));
        println!("{SIMULATION} --seed {seed} --shrink");
    }
    assert!(failed.is_empty(), "{} of {count} seeds", failed.len());
    let happened = |what: &str| total.get(what).copied().unwrap_or(0);
    for (what, least) in LEAST {
        assert!(happened(what) >= count / 100 * least, "too few {what}: {total:?}");
    }
}

#[test]
fn same_seed_has_same_trace() {
    let folder = tempfile::tempdir().unwrap();
    for seed in TRACED {
        let trace = |name: &str| {
            let path = folder.path().join(name);
            let output = run(&["--seed", &seed.to_string(), "--trace", path.to_str().unwrap()]);
            assert!(output.status.success(), "seed {seed}");
            std::fs::read(path).unwrap()
        };
        let (first, second) = (trace("first"), trace("second"));
        assert!(first.len() > 10_000, "seed {seed}");
        assert!(first == second, "seed {seed}");
    }
}
