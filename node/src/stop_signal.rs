//! Waits for the request to stop: a signal, or the end of the parent process.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Waits for SIGINT or SIGTERM; with `while_stdin_open` also for the end of standard input.
pub(crate) async fn stop_requested(while_stdin_open: bool) {
    let Ok((mut interrupt, mut terminate)) = signals() else {
        tracing::error!("cannot receive signals: stopping");
        return;
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
        () = stdin_closed(), if while_stdin_open => {}
    }
}

/// SIGINT and SIGTERM.
pub(crate) fn signals() -> std::io::Result<(Signal, Signal)> {
    Ok((signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?))
}

/// Waits for the end of standard input. The parent process holds the other end of the pipe.
async fn stdin_closed() {
    let mut stdin = tokio::io::stdin();
    let mut nothing = tokio::io::sink();
    drop(tokio::io::copy(&mut stdin, &mut nothing).await);
}
