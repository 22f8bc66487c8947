//! Finds few faults that suffice for a violation: delta debugging (Zeller and Hildebrandt, 2002).

use std::collections::BTreeSet;
use std::io;
use std::process::{Command, Stdio};

use crate::plan::Choice;

/// Removes faults from a plan while the run still fails. Returns the numbers of the removed
/// ones; `None` if the run does not fail.
pub fn shrink(choice: &Choice) -> io::Result<Option<Vec<usize>>> {
    let mut removed = BTreeSet::new();
    if !fails(choice, &removed)? {
        return Ok(None);
    }
    let all = choice.plan().faults.len();
    let mut size = all.div_ceil(2);
    while size > 0 {
        let before = removed.len();
        let left: Vec<usize> = (0..all).filter(|number| !removed.contains(number)).collect();
        for part in left.chunks(size) {
            let without: BTreeSet<usize> = removed.iter().chain(part).copied().collect();
            if fails(choice, &without)? {
                removed = without;
            }
        }
        if removed.len() == before || size > 1 {
            size /= 2;
        }
    }
    Ok(Some(removed.into_iter().collect()))
}

/// Longest time of a run, in seconds.
const RUN_MAX: &str = "120";

/// Whether a run without these faults fails, or does not end. Each run is a process of its own.
fn fails(choice: &Choice, without: &BTreeSet<usize>) -> io::Result<bool> {
    let without: Vec<String> = without.iter().map(usize::to_string).collect();
    let mut run = Command::new("timeout");
    run.arg(RUN_MAX).arg(std::env::current_exe()?).args(choice.arguments());
    if !without.is_empty() {
        run.arg("--without").arg(without.join(","));
    }
    Ok(!run.stdout(Stdio::null()).stderr(Stdio::null()).status()?.success())
}
