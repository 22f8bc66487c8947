//! The process of a node: its environment, the request to stop, a signal or the end of the parent
//! process, and the request to reload, a signal.

use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::fs::Mode;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::{JoinError, JoinHandle};

use crate::embed::NO_TELEMETRY;
use crate::error::cannot;

/// Makes sure that libraries find [`NO_TELEMETRY`] in the environment: replaces this process by the
/// same program with it, once. A process cannot change its own environment safely.
pub(crate) fn without_telemetry() -> Result<(), String> {
    let (name, value) = NO_TELEMETRY;
    if std::env::var_os(name).is_some_and(|found| found == value) {
        return Ok(());
    }
    let program = std::env::current_exe().map_err(cannot("find this program"))?;
    let mut arguments = std::env::args_os();
    let mut same = Command::new(program);
    same.env(name, value);
    if let Some(own_name) = arguments.next() {
        same.arg0(own_name);
    }
    // It returns only if it fails.
    Err(cannot("start this program again")(same.args(arguments).exec()))
}

/// Lets only the user of this process read the files that it creates: they hold memories and keys.
pub(crate) fn keep_files_private() {
    rustix::process::umask(Mode::RWXG | Mode::RWXO);
}

/// The result of a blocking part of a task; `None` if the runtime ends. Goes on with a panic of it.
pub(crate) async fn finished<T>(part: JoinHandle<T>) -> Option<T> {
    match part.await.map_err(JoinError::try_into_panic) {
        Ok(result) => Some(result),
        Err(Ok(panic)) => std::panic::resume_unwind(panic),
        Err(Err(_)) => None,
    }
}

/// The instruction sets that RocksDB is compiled for (`deploy/setup/rocksdb.py`), and whether this
/// processor has them. On ARM, RocksDB itself chooses when it runs.
fn instruction_sets() -> Vec<(&'static str, bool)> {
    #[cfg(target_arch = "x86_64")]
    return vec![
        ("SSE4.2", std::arch::is_x86_feature_detected!("sse4.2")),
        ("PCLMULQDQ", std::arch::is_x86_feature_detected!("pclmulqdq")),
    ];
    #[cfg(not(target_arch = "x86_64"))]
    Vec::new()
}

/// An error that names an instruction set that this build needs and the processor lacks. Without
/// the check, the kernel ends the process at some later instruction.
pub(crate) fn check_processor() -> Result<(), String> {
    check_instruction_sets(&instruction_sets())
}

fn check_instruction_sets(sets: &[(&str, bool)]) -> Result<(), String> {
    match sets.iter().find(|(_, is_present)| !is_present) {
        None => Ok(()),
        Some((name, _)) => Err(format!(
            "this build needs the instruction set {name}, which this processor lacks: \
             remove it from deploy/setup/rocksdb.py and node/src/process.rs, and build again"
        )),
    }
}

/// The request to stop: SIGINT or SIGTERM; with `while_stdin_open` also the end of standard input. From
/// this call on, signals end the process in no other way.
pub(crate) fn stop_request(
    while_stdin_open: bool,
) -> Result<impl Future<Output = ()> + Send, String> {
    let (mut interrupt, mut terminate) = signals().map_err(cannot("receive signals"))?;
    Ok(async move {
        // The parent process holds the other end of the pipe.
        let (mut stdin, mut sink) = (tokio::io::stdin(), tokio::io::sink());
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = tokio::io::copy(&mut stdin, &mut sink), if while_stdin_open => {}
        }
    })
}

/// SIGHUP, which does not end the process from here on.
pub(crate) fn hangups() -> Result<Signal, String> {
    signal(SignalKind::hangup()).map_err(cannot("receive signals"))
}

/// SIGINT and SIGTERM.
pub(crate) fn signals() -> std::io::Result<(Signal, Signal)> {
    Ok((signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_instruction_set_is_named() {
        assert_eq!(check_processor(), Ok(()));
        let error = check_instruction_sets(&[("SSE4.2", true), ("PCLMULQDQ", false)]).unwrap_err();
        assert!(error.contains("instruction set PCLMULQDQ"), "{error}");
    }
}
