//! Runs the fuzz target that HEARTH_TARGET names under libFuzzer. Its seeds are written into its corpus first.
//! Without the variable, prints the names of all targets.
#![no_main]

use std::path::Path;
use std::process::exit;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use storage::fuzz::Target;

static TARGET: LazyLock<Target> = LazyLock::new(|| {
    let crates = [storage::fuzz::TARGETS, raft::fuzz::TARGETS, api::fuzz::TARGETS, node::fuzz::TARGETS];
    let targets = crates.concat();
    let name = std::env::var("HEARTH_TARGET").unwrap_or_default();
    targets.iter().copied().find(|target| target.name == name).unwrap_or_else(|| {
        targets.iter().for_each(|target| println!("{}", target.name));
        exit(i32::from(!name.is_empty()))
    })
});

fn write_seeds() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(TARGET.name);
    std::fs::create_dir_all(&folder).expect("a folder for the corpus");
    for (number, seed) in (TARGET.seeds)().iter().enumerate() {
        std::fs::write(folder.join(format!("seed-{number}")), seed).expect("a file of the corpus");
    }
}

fuzz_target!(init: write_seeds(), |bytes: &[u8]| (TARGET.run)(bytes));
