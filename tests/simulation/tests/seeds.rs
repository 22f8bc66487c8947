//! Runs of the simulation. `HEARTH_SEEDS` is their number, or `HEARTH_SEED` one seed.

use std::process::{Command, Output, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::available_parallelism;

const SIMULATION: &str = env!("CARGO_BIN_EXE_simulate");
/// Seeds of `make test`.
const SEEDS: u64 = 200;
/// Failed runs after which no further ones start.
const FAILURES_MAX: usize = 3;

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

fn run(arguments: &[&str]) -> Output {
    let run = Command::new(SIMULATION).args(arguments).stdin(Stdio::null()).output();
    run.expect("the simulation runs")
}

#[test]
fn no_seed_violates_anything() {
    let seeds = setting("HEARTH_SEED")
        .map_or(1..=setting("HEARTH_SEEDS").unwrap_or(SEEDS), |seed| seed..=seed);
    let (next, failed) = (AtomicU64::new(*seeds.start()), Mutex::new(Vec::new()));
    let started = std::time::Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed > *seeds.end() || failed.lock().unwrap().len() >= FAILURES_MAX {
                        return;
                    }
                    let output = run(&["--seed", &seed.to_string()]);
                    if !output.status.success() {
                        failed.lock().unwrap().push((seed, output));
                    }
                }
            });
        }
    });
    let count = seeds.end() - seeds.start() + 1;
    println!("{count} seeds in {:.0} s", started.elapsed().as_secs_f64());
    let failed = failed.into_inner().unwrap();
    for (seed, output) in &failed {
        let text = [&output.stdout[..], &output.stderr[..]].concat();
        println!("{}", String::from_utf8_lossy(&text));
        println!("{SIMULATION} --seed {seed} --shrink");
    }
    assert!(failed.is_empty(), "{} of {count} seeds", failed.len());
}

#[test]
fn same_seed_has_same_trace() {
    let folder = tempfile::tempdir().unwrap();
    for seed in 1..=4_u64 {
        let trace = |name: &str| {
            let path = folder.path().join(name);
            run(&["--seed", &seed.to_string(), "--trace", path.to_str().unwrap()]);
            std::fs::read(path).unwrap()
        };
        let (first, second) = (trace("first"), trace("second"));
        assert!(first.len() > 1_000, "seed {seed}");
        assert!(first == second, "seed {seed}");
    }
}
