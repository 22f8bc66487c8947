//! An attacker that asks for responses and never reads them.

use std::time::Duration;

use futures::future::join_all;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_rustls::client::TlsStream;

/// A client that reads no body of its responses, while it answers pings.
pub(super) struct HeldBack {
    connection: JoinHandle<Result<(), h2::Error>>,
    requests: JoinHandle<()>,
}

impl HeldBack {
    /// Sends 250 GET requests with this window for the path of a URL, and waits until all are
    /// served, rejected or reset.
    pub(super) async fn start(
        stream: TlsStream<TcpStream>,
        (url, key): (String, &str),
        window: u32,
    ) -> Result<Self, h2::Error> {
        let mut client = h2::client::Builder::new();
        client.initial_window_size(window);
        let (mut sender, connection) = client.handshake::<_, &[u8]>(stream).await?;
        let connection = tokio::spawn(connection);
        let mut heads = Vec::new();
        for _ in 0..250 {
            let request = http::Request::get(&url).header("authorization", format!("Bearer {key}"));
            sender = sender.ready().await?;
            heads.push(sender.send_request(request.body(()).unwrap(), true)?.0);
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
