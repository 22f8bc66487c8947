//! A connection between two nodes. It carries many calls at a time, each with a number.
//!
//! An upgrade of HTTP/1.1 (RFC 9110, section 7.8) opens it. Then both sides send frames (`frame.rs`).
//!
//! # Invariants
//! - The receiver returns one frame for each call, in any order.
//! - The caller reads responses also while it writes calls. Otherwise both sides could wait for
//!   each other with full buffers.
//! - A call that was not written has no effect. One that was written and has no response may have one.
//! - The receiver may request that the connection ends. The caller then writes no further calls, and
//!   closes it after the last response.

use std::collections::HashMap;
use std::io;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::FusedFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt, SinkExt, StreamExt, TryStreamExt};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio_util::codec::{Framed, FramedRead, FramedWrite};

use crate::error::Claim;
use crate::network::frame::{CLOSING, FAILED, MESSAGE, NOT_READ, Returned, codec, frame, parse};
use crate::network::message::{MESSAGE_BYTES_MAX, RpcError};

/// Name of this protocol in the upgrade.
pub(crate) const PROTOCOL: &str = "hearth-calls-1";
/// Calls of a connection at a time: one per client request, and those of Raft. Further ones wait.
pub const CALLS_MAX: usize = 2_048 + 64;
/// Calls that are written together.
const CALLS_PER_WRITE: usize = 64;
/// Characters of an error text of a peer that are kept.
pub(crate) const REASON_CHARS_MAX: usize = 300;

/// The caller's side. It is opened by its first call, and ends with an error or when it is dropped.
pub(crate) struct Connection {
    calls: mpsc::UnboundedSender<Call>,
    /// Bounds the calls that wait to be written or for their response.
    permits: Arc<Semaphore>,
}

struct Call {
    message: Vec<u8>,
    /// Taken when it is written, or when its caller gives up before.
    claim: Claim,
    caller: Caller,
}

/// Where a response goes.
struct Caller {
    response: oneshot::Sender<Result<Bytes, RpcError>>,
    _permit: OwnedSemaphorePermit,
}

impl Caller {
    /// A caller that does not wait any longer needs no response.
    fn send(self, response: Result<Bytes, RpcError>) {
        drop(self.response.send(response));
    }
}

impl Connection {
    /// Opens a connection in a task of its own. Calls wait until it is open.
    pub(crate) fn open<S: AsyncRead + AsyncWrite + Send + 'static>(
        connecting: impl Future<Output = Result<S, String>> + Send + 'static,
    ) -> Self {
        let (calls, waiting) = mpsc::unbounded_channel();
        tokio::spawn(carry(connecting, waiting));
        Self { calls, permits: Arc::new(Semaphore::new(CALLS_MAX)) }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.calls.is_closed()
    }

    /// Starts a call. Its response follows in the returned future, which keeps the connection open. A
    /// caller that gives up and can take `claim` is sure that the call was not written.
    pub(crate) fn call(
        &self,
        message: Vec<u8>,
        claim: Claim,
    ) -> impl Future<Output = Result<Bytes, RpcError>> + Send + use<> {
        let (calls, permits) = (self.calls.clone(), Arc::clone(&self.permits));
        async move {
            if message.len() > MESSAGE_BYTES_MAX {
                return Err(RpcError::NotSent("the message is too long".into()));
            }
            let not_sent = || RpcError::NotSent("the connection has just ended".into());
            let permit = permits.acquire_owned().await.map_err(|_| not_sent())?;
            let (response, responded) = oneshot::channel();
            let call = Call { message, claim, caller: Caller { response, _permit: permit } };
            calls.send(call).map_err(|_| not_sent())?;
            responded.await.map_err(|_| RpcError::Lost("the connection was lost".into()))?
        }
    }
}

/// Opens a connection and carries calls until it ends. Those that were not written then have no
/// effect.
async fn carry<S: AsyncRead + AsyncWrite>(
    connecting: impl Future<Output = Result<S, String>>,
    mut calls: mpsc::UnboundedReceiver<Call>,
) {
    let reason = match connecting.await {
        Ok(stream) => match exchange(stream, &mut calls).await {
            Ok(()) => "the peer has closed the connection".into(),
            Err(error) => error.to_string(),
        },
        Err(reason) => reason,
    };
    calls.close();
    while let Some(call) = calls.recv().await {
        call.caller.send(Err(RpcError::NotSent(reason.clone())));
    }
}

/// Writes calls and reads their responses. After the last call it waits for all responses.
async fn exchange<S: AsyncRead + AsyncWrite>(
    stream: S,
    calls: &mut mpsc::UnboundedReceiver<Call>,
) -> io::Result<()> {
    let (read, write) = tokio::io::split(stream);
    let (callers, closing) = (Mutex::new(HashMap::new()), Notify::new());
    let writing = async {
        let mut write = FramedWrite::new(write, codec());
        let (mut batch, mut number) = (Vec::new(), 0);
        loop {
            let received = tokio::select! {
                received = calls.recv_many(&mut batch, CALLS_PER_WRITE) => received,
                () = closing.notified() => {
                    calls.close();
                    continue;
                }
            };
            if received == 0 {
                break;
            }
            for Call { message, claim, caller } in batch.drain(..) {
                // Its caller has given up. Unwritten, it has no effect.
                if caller.response.is_closed() || !claim.take() {
                    continue;
                }
                number += 1;
                callers.lock().insert(number, caller);
                write.feed(frame(number, MESSAGE, &message)).await?;
            }
            SinkExt::<Bytes>::flush(&mut write).await?;
        }
        SinkExt::<Bytes>::close(&mut write).await?;
        std::future::pending().await
    };
    let reading = async {
        let mut read = FramedRead::new(read, codec());
        while let Some(frame) = read.try_next().await? {
            let (number, kind, message) = parse(frame)?;
            if kind == CLOSING {
                closing.notify_one();
                continue;
            }
            let caller: Option<Caller> = callers.lock().remove(&number);
            let caller = caller.ok_or_else(|| io::Error::other("a response without a call"))?;
            caller.send(response(kind, message));
        }
        Ok(())
    };
    tokio::select! {
        ended = writing => ended,
        ended = reading => ended,
    }
}

fn response(kind: u8, message: Bytes) -> Result<Bytes, RpcError> {
    let reason = || String::from_utf8_lossy(&message).chars().take(REASON_CHARS_MAX).collect();
    match kind {
        MESSAGE => Ok(message),
        NOT_READ => Err(RpcError::NotSent(reason())),
        FAILED => Err(RpcError::Lost(reason())),
        kind => Err(RpcError::Lost(format!("a response of the unknown kind {kind}"))),
    }
}

/// The receiver's side: runs calls until the caller closes the connection, and requests that once
/// `closing` completes. All calls run in the task of the caller of this function.
///
/// # Errors
/// Those of the connection, and `InvalidData` for a frame that is too long or too short.
pub(crate) async fn serve<F: Future<Output = Returned>>(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    run: impl Fn(Bytes) -> F,
    closing: impl Future<Output = ()>,
) -> io::Result<()> {
    let mut frames = Framed::new(stream, codec());
    let mut running = FuturesUnordered::new();
    let mut closing = std::pin::pin!(closing.fuse());
    let mut is_open = true;
    while is_open || !running.is_empty() {
        tokio::select! {
            () = &mut closing, if !closing.is_terminated() => {
                frames.feed(frame(0, CLOSING, &[])).await?;
                SinkExt::<Bytes>::flush(&mut frames).await?;
            }
            frame = frames.try_next(), if is_open && running.len() < CALLS_MAX => match frame? {
                Some(frame) => {
                    let (number, kind, message) = parse(frame)?;
                    running.push(numbered(number, kind, message, &run));
                }
                None => is_open = false,
            },
            Some(returned) = running.next() => {
                let mut next = Some(returned);
                while let Some((number, returned)) = next {
                    let (kind, message) = returned.parts();
                    frames.feed(frame(number, kind, message)).await?;
                    // All responses that are ready are written together.
                    next = running.next().now_or_never().flatten();
                }
                SinkExt::<Bytes>::flush(&mut frames).await?;
            }
        }
    }
    Ok(())
}

async fn numbered<F: Future<Output = Returned>>(
    number: u64,
    kind: u8,
    message: Bytes,
    run: impl Fn(Bytes) -> F,
) -> (u64, Returned) {
    let returned = match kind {
        // A panic ends this call alone. Its message is in the log, by the hook of panics.
        MESSAGE => AssertUnwindSafe(run(message)).catch_unwind().await,
        kind => Ok(Returned::NotRead(format!("a call of the unknown kind {kind}"))),
    };
    let failed = |reason: &str| Returned::Failed(reason.into());
    let returned = match returned {
        Ok(returned) if returned.parts().1.len() > MESSAGE_BYTES_MAX => {
            failed("the response is too long")
        }
        Ok(returned) => returned,
        Err(_) => failed("the call has panicked"),
    };
    (number, returned)
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
    use tokio::sync::Notify;

    use super::*;

    fn open(stream: DuplexStream) -> Connection {
        Connection::open(std::future::ready(Ok(stream)))
    }

    async fn serve<F: Future<Output = Returned>>(
        stream: DuplexStream,
        run: impl Fn(Bytes) -> F,
    ) -> io::Result<()> {
        super::serve(stream, run, pending()).await
    }

    async fn echo(message: Bytes) -> Returned {
        Returned::Message(message.to_vec())
    }

    #[tokio::test]
    async fn responses_reach_their_callers_in_any_order() {
        let (near, far) = tokio::io::duplex(1 << 10);
        tokio::spawn(serve(far, async |message| {
            // Later calls return first.
            tokio::time::sleep(Duration::from_millis(60 - 2 * u64::from(message[0]))).await;
            echo(message).await
        }));
        let connection = open(near);
        let calls = (0..30_u8).map(|call| connection.call(vec![call; 100], Claim::default()));
        let responses = futures::future::join_all(calls).await;
        for (call, response) in (0..).zip(responses) {
            assert_eq!(response.unwrap(), vec![call; 100]);
        }
    }

    #[tokio::test]
    async fn both_sides_write_more_than_the_buffers_hold() {
        let (near, far) = tokio::io::duplex(1 << 10);
        tokio::spawn(serve(far, echo));
        let connection = open(near);
        let calls = (0..2 * CALLS_MAX).map(|_| connection.call(vec![7; 10_000], Claim::default()));
        let responses =
            tokio::time::timeout(Duration::from_secs(30), futures::future::join_all(calls));
        assert!(responses.await.unwrap().into_iter().all(|one| one.unwrap().len() == 10_000));
    }

    #[tokio::test]
    async fn calls_that_were_not_written_have_no_effect() {
        let connection = Connection::open::<DuplexStream>(async { Err("refused".into()) });
        let Err(RpcError::NotSent(reason)) = connection.call(vec![1], Claim::default()).await
        else {
            panic!()
        };
        assert_eq!(reason, "refused");
        assert!(matches!(
            connection.call(vec![1], Claim::default()).await,
            Err(RpcError::NotSent(_))
        ));
        assert!(connection.is_closed());
        let (near, _far) = tokio::io::duplex(1 << 10);
        let too_long = open(near).call(vec![0; MESSAGE_BYTES_MAX + 1], Claim::default()).await;
        assert!(matches!(too_long, Err(RpcError::NotSent(_))));
    }

    #[tokio::test]
    async fn abandoned_calls_are_not_written() {
        let (near, far) = tokio::io::duplex(1 << 10);
        let (connected, connecting) = oneshot::channel::<DuplexStream>();
        let connecting = async { connecting.await.map_err(|error| error.to_string()) };
        let connection = Connection::open(connecting);
        let abandoned = connection.call(vec![1], Claim::default()).now_or_never();
        assert!(abandoned.is_none(), "it waits for the connection");
        let (received, mut calls) = mpsc::unbounded_channel();
        tokio::spawn(serve(far, move |message: Bytes| {
            let _ = received.send(message[0]);
            echo(message)
        }));
        connected.send(near).unwrap();
        assert_eq!(connection.call(vec![2], Claim::default()).await.unwrap(), vec![2]);
        assert_eq!(calls.try_recv().unwrap(), 2, "the other call has no effect");
    }

    #[tokio::test]
    async fn panic_ends_its_call_alone() {
        let (near, far) = tokio::io::duplex(1 << 10);
        tokio::spawn(serve(far, async |message| {
            assert_ne!(message[0], 1, "the second call panics");
            echo(message).await
        }));
        let connection = open(near);
        let calls = (0..3_u8).map(|call| connection.call(vec![call], Claim::default()));
        let [first, second, third] = &futures::future::join_all(calls).await[..] else { panic!() };
        assert!(first.is_ok() && third.is_ok());
        let Err(RpcError::Lost(reason)) = second else { panic!("{second:?}") };
        assert_eq!(reason, "the call has panicked");
    }

    #[tokio::test]
    async fn calls_without_a_response_are_lost() {
        let (near, far) = tokio::io::duplex(1 << 10);
        let (received, connection) = (Arc::new(Notify::new()), open(near));
        let serving = tokio::spawn({
            let received = Arc::clone(&received);
            serve(far, move |_| {
                received.notify_one();
                pending()
            })
        });
        let call = tokio::spawn(connection.call(vec![1], Claim::default()));
        received.notified().await;
        serving.abort();
        assert!(matches!(call.await.unwrap(), Err(RpcError::Lost(_))));
    }

    #[tokio::test]
    async fn receiver_ends_a_connection_without_losing_calls() {
        let (near, far) = tokio::io::duplex(1 << 10);
        let (connection, close) = (open(near), Arc::new(Notify::new()));
        let closing = Arc::clone(&close);
        let serving = tokio::spawn(async move {
            super::serve(far, echo, async { closing.notified().await }).await
        });
        let mut calls = Vec::new();
        for number in 0..100_u8 {
            calls.push(connection.call(vec![number], Claim::default()));
            if number == 50 {
                close.notify_one();
            }
        }
        for (number, response) in (0..).zip(futures::future::join_all(calls).await) {
            match response {
                Ok(response) => assert_eq!(response, vec![number]),
                Err(error) => assert!(matches!(error, RpcError::NotSent(_)), "{error}"),
            }
        }
        serving.await.unwrap().unwrap();
        let later = connection.call(vec![1], Claim::default()).await;
        assert!(connection.is_closed() && matches!(later, Err(RpcError::NotSent(_))));
    }

    #[tokio::test]
    async fn caller_knows_whether_its_call_was_written() {
        let (connected, connecting) = oneshot::channel::<DuplexStream>();
        let connecting = async { connecting.await.map_err(|error| error.to_string()) };
        let (connection, claims) =
            (Connection::open(connecting), [(); 2].map(|()| Claim::default()));
        let early = connection.call(vec![1], claims[0].clone()).now_or_never();
        assert!(early.is_none() && claims[0].take(), "it was not written");
        let (near, far) = tokio::io::duplex(1 << 10);
        let received = Arc::new(Notify::new());
        let receiving = Arc::clone(&received);
        tokio::spawn(serve(far, move |_| {
            receiving.notify_one();
            pending()
        }));
        connected.send(near).unwrap();
        tokio::select! {
            _ = connection.call(vec![2], claims[1].clone()) => unreachable!("it has no response"),
            () = received.notified() => {}
        }
        assert!(!claims[1].take(), "it was written");
    }

    #[tokio::test]
    async fn running_calls_complete_after_the_connection_is_dropped() {
        let (near, far) = tokio::io::duplex(1 << 10);
        let [received, returned] = [(); 2].map(|()| Arc::new(Notify::new()));
        let (notify, wait) = (Arc::clone(&received), Arc::clone(&returned));
        let serving = tokio::spawn(serve(far, move |message| {
            let (notify, wait) = (Arc::clone(&notify), Arc::clone(&wait));
            async move {
                notify.notify_one();
                wait.notified().await;
                echo(message).await
            }
        }));
        let connection = open(near);
        let call = tokio::spawn(connection.call(vec![1], Claim::default()));
        received.notified().await;
        drop(connection);
        returned.notify_one();
        assert_eq!(call.await.unwrap().unwrap(), vec![1]);
        serving.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn unreadable_frames_are_rejected() {
        let (near, far) = tokio::io::duplex(1 << 20);
        tokio::spawn(serve(far, async |_| Returned::NotRead("format 9".into())));
        let Err(RpcError::NotSent(reason)) = open(near).call(vec![9], Claim::default()).await
        else {
            panic!()
        };
        assert_eq!(reason, "format 9");
        for frame in [&[0xff; 64][..], &[0, 0, 0, 3, 1, 2, 3], &[0, 0, 0]] {
            let (mut near, far) = tokio::io::duplex(1 << 20);
            near.write_all(frame).await.unwrap();
            near.shutdown().await.unwrap();
            let error = serve(far, echo).await.unwrap_err();
            assert!(!error.to_string().is_empty(), "{frame:?}");
        }
        let (mut near, far) = tokio::io::duplex(1 << 20);
        near.write_all(&[0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 5, 77]).await.unwrap();
        near.shutdown().await.unwrap();
        serve(far, echo).await.unwrap();
        let mut answer = Vec::new();
        near.read_to_end(&mut answer).await.unwrap();
        assert_eq!(answer[4..13], [0, 0, 0, 0, 0, 0, 0, 5, NOT_READ]);
    }
}
