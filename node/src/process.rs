//! The process of a node: its log lines, to standard error as text or JSON, the request to stop, a
//! signal or the end of the parent process, and the request to reload, a signal.

use std::io::IsTerminal;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing_subscriber::EnvFilter;

use crate::config::{Log, LogFormat};
use crate::error::{cannot, text};

/// Configures logging of the whole process. It can be called once.
pub(crate) fn start_logging(log: &Log) -> Result<(), String> {
    let filter = EnvFilter::try_new(&log.filter).map_err(|error| format!("log.filter: {error}"))?;
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        // A node outlives its terminal. Its failed writes must not end a task.
        .log_internal_errors(false);
    match log.format {
        LogFormat::Text => lines.try_init(),
        LogFormat::Json => lines.json().try_init(),
    }
    .map_err(text)
}

/// Waits for SIGINT or SIGTERM; with `while_stdin_open` also for the end of standard input.
pub(crate) async fn stop_requested(while_stdin_open: bool) {
    let Ok((mut interrupt, mut terminate)) = signals() else {
        tracing::error!("cannot receive signals: stopping");
        return;
    };
    // The parent process holds the other end of the pipe.
    let (mut stdin, mut sink) = (tokio::io::stdin(), tokio::io::sink());
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
        _ = tokio::io::copy(&mut stdin, &mut sink), if while_stdin_open => {}
    }
}

/// SIGHUP, which does not end the process from here on.
pub(crate) fn hangups() -> Result<Signal, String> {
    signal(SignalKind::hangup()).map_err(cannot("receive signals"))
}

/// SIGINT and SIGTERM.
pub(crate) fn signals() -> std::io::Result<(Signal, Signal)> {
    Ok((signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?))
}
