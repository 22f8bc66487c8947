//! An attacker that asks for responses and never reads them.

use std::io::Cursor;
use std::time::Duration;

use futures::future::join_all;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_rustls::client::TlsStream;

/// A GET request for a URL.
pub(super) fn get(url: &str, key: &str) -> http::Request<Vec<u8>> {
    let request = http::Request::get(url).header("authorization", format!("Bearer {key}"));
    request.body(Vec::new()).unwrap()
}

/// A client that reads no body of its responses, while it answers pings.
pub(super) struct HeldBack {
    connection: JoinHandle<Result<(), h2::Error>>,
    requests: JoinHandle<()>,
}

impl HeldBack {
    /// Sends a request 250 times with this window, and waits until all are served, rejected or
    /// reset.
    pub(super) async fn start(
        stream: TlsStream<TcpStream>,
        request: http::Request<Vec<u8>>,
        window: u32,
    ) -> Result<Self, h2::Error> {
        let mut client = h2::client::Builder::new();
        client.initial_window_size(window);
        let (mut sender, connection) = client.handshake(stream).await?;
        let connection = tokio::spawn(connection);
        let mut heads = Vec::new();
        for _ in 0..250 {
            sender = sender.ready().await?;
            let head = request.clone().map(drop);
            let (response, mut body) = sender.send_request(head, false)?;
            body.send_data(Cursor::new(request.body().clone()), true)?;
            heads.push(response);
        }
        let heads = join_all(heads).await;
        let requests = tokio::spawn(async move {
            std::future::pending::<()>().await;
            drop((heads, sender));
        });
        Ok(Self { connection, requests })
    }

    /// Waits until the node ends the connection.
    pub(super) async fn ended(self) {
        let ended = tokio::time::timeout(Duration::from_secs(60), self.connection).await;
        assert!(ended.is_ok(), "a stalled connection is still open");
        self.requests.abort();
    }

    pub(super) fn is_open(&self) -> bool {
        !self.connection.is_finished()
    }

    pub(super) fn abort(self) {
        self.connection.abort();
        self.requests.abort();
    }
}
