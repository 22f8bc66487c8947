//! A receiver of webhooks with scripted behaviour: it responds, redirects, hangs, or resets the
//! connection.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::Value;

/// Longest body that is read, in bytes.
const BODY_BYTES_MAX: usize = 1 << 20;

/// A request of a delivery, as received.
#[derive(Debug, Clone)]
pub struct Delivery {
    /// Path and query.
    pub path: String,
    /// Headers, names in lower case.
    pub headers: BTreeMap<String, String>,
    /// The body.
    pub text: String,
    /// How many requests with the same `webhook-id` came before.
    pub before: usize,
}

impl Delivery {
    /// The body as JSON.
    #[track_caller]
    pub fn body(&self) -> Value {
        serde_json::from_str(&self.text).expect("the body is JSON")
    }

    /// A header.
    #[track_caller]
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).unwrap_or_else(|| panic!("no header {name}: {:?}", self.headers))
    }

    /// The id of the delivery.
    #[track_caller]
    pub fn id(&self) -> &str {
        self.header("webhook-id")
    }
}

/// What a receiver does with a request.
#[derive(Debug, Clone)]
pub enum Behaviour {
    /// Responds with this status, and these headers.
    Respond(u16, Vec<(&'static str, String)>),
    /// Responds 200 after a pause.
    Hang(Duration),
    /// Resets the connection.
    Reset,
}

impl Behaviour {
    /// Responds with this status.
    pub fn status(status: u16) -> Self {
        Self::Respond(status, Vec::new())
    }
}

/// A receiver on loopback.
pub struct Receiver {
    /// Where it listens.
    pub url: String,
    received: watch::Receiver<Vec<Delivery>>,
}

type Behave = dyn Fn(&Delivery) -> Behaviour + Send + Sync;

impl Receiver {
    /// Starts one that treats each request as `behave` returns.
    pub async fn start(behave: impl Fn(&Delivery) -> Behaviour + Send + Sync + 'static) -> Self {
        Self::start_at("127.0.0.1", behave).await
    }

    /// As [`Receiver::start`], at another loopback address.
    pub async fn start_at(
        host: &str,
        behave: impl Fn(&Delivery) -> Behaviour + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind((host, 0)).await.expect("a free port");
        let url = format!("http://{}/hook", listener.local_addr().expect("an address"));
        let (sender, received) = watch::channel(Vec::new());
        let (behave, sender): (Arc<Behave>, _) = (Arc::new(behave), Arc::new(sender));
        tokio::spawn(async move {
            let counts = Arc::<Mutex<HashMap<String, usize>>>::default();
            while let Ok((stream, _)) = listener.accept().await {
                let (behave, sender, counts) =
                    (Arc::clone(&behave), Arc::clone(&sender), Arc::clone(&counts));
                tokio::spawn(async move {
                    // A broken connection is an error of the sender.
                    let _: Option<()> = serve(stream, &*behave, &sender, &counts).await;
                });
            }
        });
        Self { url, received }
    }

    /// One that responds 200.
    pub async fn accepting() -> Self {
        Self::start(|_| Behaviour::status(200)).await
    }

    /// All requests so far.
    pub fn received(&self) -> Vec<Delivery> {
        self.received.borrow().clone()
    }

    /// Waits until `count` requests came. Returns at once when the last of them comes, while
    /// it has no response yet.
    pub async fn reach(&self, count: usize) {
        let mut received = self.received.clone();
        let reached = received.wait_for(|received| received.len() >= count);
        let reached = tokio::time::timeout(crate::PATIENCE, reached).await.is_ok();
        assert!(reached, "{} of {count} requests", self.received().len());
    }

    /// Waits until `count` requests came, and returns all.
    pub async fn wait_for(&self, count: usize) -> Vec<Delivery> {
        self.reach(count).await;
        self.received()
    }
}

async fn serve(
    stream: TcpStream,
    behave: &Behave,
    received: &watch::Sender<Vec<Delivery>>,
    counts: &Mutex<HashMap<String, usize>>,
) -> Option<()> {
    let mut stream = BufReader::new(stream);
    let mut request = read(&mut stream).await?;
    {
        let mut counts = counts.lock().ok()?;
        let count = counts.entry(request.headers.get("webhook-id")?.clone()).or_default();
        request.before = *count;
        *count += 1;
    }
    let behaviour = behave(&request);
    received.send_modify(|received| received.push(request));
    let (status, headers) = match behaviour {
        Behaviour::Respond(status, headers) => (status, headers),
        Behaviour::Hang(pause) => {
            tokio::time::sleep(pause).await;
            (200, Vec::new())
        }
        Behaviour::Reset => {
            // Closing with unread bytes resets the connection.
            stream.get_ref().set_zero_linger().ok()?;
            return None;
        }
    };
    let mut response = format!("HTTP/1.1 {status} X\r\ncontent-length: 0\r\nconnection: close\r\n");
    for (name, value) in headers {
        response += &format!("{name}: {value}\r\n");
    }
    stream.get_mut().write_all((response + "\r\n").as_bytes()).await.ok()
}

async fn read(stream: &mut BufReader<TcpStream>) -> Option<Delivery> {
    let mut line = String::new();
    stream.read_line(&mut line).await.ok()?;
    let path = line.split(' ').nth(1)?.to_owned();
    let mut headers = BTreeMap::new();
    loop {
        line.clear();
        stream.read_line(&mut line).await.ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let length: usize = headers.get("content-length")?.parse().ok()?;
    let mut body = vec![0; length.min(BODY_BYTES_MAX)];
    stream.read_exact(&mut body).await.ok()?;
    Some(Delivery { path, headers, text: String::from_utf8(body).ok()?, before: 0 })
}
