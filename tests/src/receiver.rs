//! A receiver of webhooks that behaves as it is told: answers, refuses, redirects, hangs, or
//! ends the connection in the middle.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// Longest request that it reads, in bytes.
const BODY_BYTES_MAX: usize = 1 << 20;

/// A request as it came.
#[derive(Debug, Clone)]
pub struct Request {
    /// Path and query.
    pub path: String,
    /// Headers, names in lower case.
    pub headers: BTreeMap<String, String>,
    /// The body.
    pub text: String,
    /// How many requests of the same `webhook-id` came before.
    pub before: usize,
}

impl Request {
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

    /// What names the delivery.
    #[track_caller]
    pub fn id(&self) -> &str {
        self.header("webhook-id")
    }
}

/// What a receiver does with a request.
#[derive(Debug, Clone)]
pub enum Behaviour {
    /// Answers with this status, and these headers.
    Answer(u16, Vec<(&'static str, String)>),
    /// Answers nothing for so long, then 200.
    Hang(Duration),
    /// Ends the connection at once.
    Reset,
}

impl Behaviour {
    /// Answers with this status.
    pub fn status(status: u16) -> Self {
        Self::Answer(status, Vec::new())
    }
}

/// A receiver on loopback.
pub struct Receiver {
    /// Where it listens.
    pub url: String,
    got: Arc<Mutex<Vec<Request>>>,
}

type Behave = dyn Fn(&Request) -> Behaviour + Send + Sync;

impl Receiver {
    /// Starts one that treats each request as `behave` says.
    pub async fn start(behave: impl Fn(&Request) -> Behaviour + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}/hook", listener.local_addr().expect("an address"));
        let got = Arc::<Mutex<Vec<Request>>>::default();
        let (behave, log): (Arc<Behave>, _) = (Arc::new(behave), Arc::clone(&got));
        tokio::spawn(async move {
            let seen = Arc::<Mutex<HashMap<String, usize>>>::default();
            while let Ok((stream, _)) = listener.accept().await {
                let (behave, log, seen) =
                    (Arc::clone(&behave), Arc::clone(&log), Arc::clone(&seen));
                tokio::spawn(async move {
                    // A connection that breaks is the sender's to notice.
                    let _: Option<()> = serve(stream, &*behave, &log, &seen).await;
                });
            }
        });
        Self { url, got }
    }

    /// One that answers 200.
    pub async fn willing() -> Self {
        Self::start(|_| Behaviour::status(200)).await
    }

    /// All requests so far.
    pub fn got(&self) -> Vec<Request> {
        self.got.lock().expect("no test panics here").clone()
    }

    /// Waits until so many requests came.
    pub async fn wait_for(&self, count: usize) -> Vec<Request> {
        let started = std::time::Instant::now();
        loop {
            let got = self.got();
            if got.len() >= count {
                return got;
            }
            assert!(started.elapsed() < crate::PATIENCE, "{} of {count} requests", got.len());
            tokio::time::sleep(crate::POLL).await;
        }
    }
}

async fn serve(
    stream: TcpStream,
    behave: &Behave,
    log: &Mutex<Vec<Request>>,
    seen: &Mutex<HashMap<String, usize>>,
) -> Option<()> {
    let mut stream = BufReader::new(stream);
    let mut request = read(&mut stream).await?;
    {
        let mut seen = seen.lock().ok()?;
        let count = seen.entry(request.headers.get("webhook-id")?.clone()).or_default();
        request.before = *count;
        *count += 1;
    }
    let behaviour = behave(&request);
    log.lock().ok()?.push(request);
    let (status, headers) = match behaviour {
        Behaviour::Answer(status, headers) => (status, headers),
        Behaviour::Hang(pause) => {
            tokio::time::sleep(pause).await;
            (200, Vec::new())
        }
        Behaviour::Reset => {
            // The system answers what is unread with a reset.
            stream.get_ref().set_zero_linger().ok()?;
            return None;
        }
    };
    let mut answer = format!("HTTP/1.1 {status} X\r\ncontent-length: 0\r\nconnection: close\r\n");
    for (name, value) in headers {
        answer += &format!("{name}: {value}\r\n");
    }
    stream.get_mut().write_all((answer + "\r\n").as_bytes()).await.ok()
}

async fn read(stream: &mut BufReader<TcpStream>) -> Option<Request> {
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
    Some(Request { path, headers, text: String::from_utf8(body).ok()?, before: 0 })
}
