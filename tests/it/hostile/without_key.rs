//! An attacker without a key, who sends whatever may do harm to the public port, for HEARTH_SECONDS:
//! no TLS, changed frames of HTTP/2, changed requests of HTTP/1, wrong keys. HEARTH_SEED varies it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fastrand::Rng;
use futures::future::join_all;
use storage::model::api_key::KeyText;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::attacker::{
    ALONE, address, assert_served, connect_from, frame, latency, memory_mb, over_tls, preface, tls,
};
use super::random_requests::{RandomRequests, SECRET, assert_documented, assert_tells_nothing};
use super::*;
use crate::fuzz::changed;

/// Connections at a time.
const CONNECTIONS: u64 = 12;
/// Longest time for which a connection is read.
const READ_TIME: Duration = Duration::from_secs(2);
/// Memory that the attack may take, in MB.
const GROWTH_MAX: u64 = 256;

/// One of the attacker's connections after the other.
struct Attacker {
    cluster: Arc<Cluster>,
    requests: RandomRequests,
    /// The first bytes of a client of TLS.
    hello: Vec<u8>,
    responses: u64,
}

impl Attacker {
    fn new(cluster: &Arc<Cluster>, seed: u64) -> Self {
        let config = tls(cluster, true).config().clone();
        let mut client = rustls::ClientConnection::new(config, "127.0.0.1".try_into().unwrap());
        let mut hello = Vec::new();
        client.as_mut().unwrap().write_tls(&mut hello).unwrap();
        let requests = RandomRequests::new(seed, Vec::new(), &Value::Null);
        Self { cluster: Arc::clone(cluster), requests, hello, responses: 0 }
    }

    fn random(&mut self) -> &mut Rng {
        &mut self.requests.random
    }

    /// A text in the place of a key: near a key, or far from one.
    fn key(&mut self) -> String {
        let key = self.cluster.key.clone();
        let end = self.random().usize(0..key.len());
        match self.random().u8(0..9) {
            0 => key[..end].to_owned(),
            1 => format!("{key}0"),
            2 => key.to_uppercase(),
            3 => format!("sk-{}", self.random().u64(..)),
            4 => format!("sk-hearth-{:072x}", self.random().u128(..)),
            5 => "\t".repeat(end),
            // Its id and its checksum are right.
            7 => {
                let id = KeyText::id_of(&key).unwrap();
                let mut secret = [0; 32];
                self.random().fill(&mut secret);
                KeyText::of(id, secret).as_str().to_owned()
            }
            6 => format!("{}x{}", &key[..end], &key[end + 1..]),
            _ => String::new(),
        }
    }

    /// Requests of HTTP/1, most of them changed.
    fn http1(&mut self) -> Vec<u8> {
        let mut all = Vec::new();
        for _ in 0..self.random().usize(1..4) {
            let mut sent = self.requests.request();
            let name = ["Authorization", "X-Api-Key", "Cookie", "Proxy-Authorization"];
            let name = name[self.random().usize(0..4)];
            let key = self.key();
            sent.headers.push((name.into(), format!("Bearer {key}")));
            all.push(sent.text());
        }
        let whole = all.concat();
        if self.requests.random.bool() { whole } else { changed(&mut self.requests.random, &all) }
    }

    /// Frames of HTTP/2, most of them changed.
    fn http2(&mut self) -> Vec<u8> {
        let paths = ["/", "/api/v1/agent/nodes", "/api/v1/keys", "/mcp", "/metrics"];
        let path = paths[self.random().usize(0..paths.len())];
        // GET, https, the path, and the host "h".
        let head = [&[0x82, 0x87, 0x04, path.len() as u8], path.as_bytes(), &[0x41, 1, b'h']];
        let get = |stream| frame(1, 5, stream, &head.concat());
        let seeds = [
            [preface(), get(1), get(3), frame(3, 0, 3, &[0, 0, 0, 8])].concat(),
            [preface(), frame(6, 0, 0, &[0; 8]), frame(8, 0, 0, &[0, 0, 255, 255]), get(1)]
                .concat(),
            [preface(), frame(1, 4, 1, &[0x83, 0x87, 0x84]), frame(0, 1, 1, b"{}")].concat(),
            [preface(), frame(1, 1, 1, &[0x82]), frame(9, 4, 1, &[0x87, 0x84]), get(5)].concat(),
        ];
        changed(self.random(), &seeds)
    }

    /// Opens a connection, sends something, and reads what comes back.
    async fn attack(&mut self) {
        let (source, way) = (self.random().u8(2..=254), self.random().u8(0..8));
        let stream = connect_from(source, address(self.cluster.url())).await;
        let h2 = (1..3).contains(&way);
        let bytes = match way {
            0 => {
                changed(&mut self.requests.random, &[self.hello.clone(), b"GET / HTTP/1.1".into()])
            }
            1 | 2 => self.http2(),
            _ => self.http1(),
        };
        let received = match way {
            0 => match stream {
                Ok(stream) => self.exchange(stream, &bytes).await,
                Err(_) => return,
            },
            _ => match over_tls(&tls(&self.cluster, h2), stream).await {
                Ok(stream) => self.exchange(stream, &bytes).await,
                Err(_) => return,
            },
        };
        let sent = String::from_utf8_lossy(&bytes);
        assert_tells_nothing(&sent, &String::from_utf8_lossy(&received));
        if way > 2 {
            self.responses += assert_responses(&sent, &received);
        }
    }

    /// Sends bytes in pieces, and reads for a while.
    async fn exchange(
        &mut self,
        stream: impl AsyncRead + AsyncWrite + Unpin,
        bytes: &[u8],
    ) -> Vec<u8> {
        let (mut reader, mut writer) = tokio::io::split(stream);
        let piece = self.random().usize(1..=bytes.len().max(1) + 1);
        let (is_quick, closes) = (self.random().u8(0..30) > 0, self.random().bool());
        let write = async {
            for piece in bytes.chunks(piece.max(16)) {
                if writer.write_all(piece).await.is_err() {
                    return;
                }
            }
            if closes {
                writer.shutdown().await.ok();
            }
        };
        let mut received = Vec::new();
        let read = async {
            let patience = if is_quick { READ_TIME / 40 } else { READ_TIME };
            tokio::time::timeout(patience, reader.read_to_end(&mut received)).await.ok();
        };
        tokio::join!(write, read);
        received
    }
}

/// Asserts that the whole ones of these responses are known, and returns their number.
fn assert_responses(sent: &str, mut received: &[u8]) -> u64 {
    let mut responses = 0;
    while let Some(end) = received.windows(4).position(|four| four == b"\r\n\r\n") {
        let head = std::str::from_utf8(&received[..end]).unwrap().to_lowercase();
        let versions = ["http/1.1 ", "http/1.0 "].into_iter();
        let mut rest = versions.filter_map(|version| head.strip_prefix(version));
        let status = rest.next().and_then(|rest| rest[..3].parse().ok());
        let status = status.unwrap_or_else(|| panic!("no response: {head} to {sent}"));
        let length =
            head.split("content-length: ").nth(1).and_then(|rest| rest.split("\r\n").next());
        // Files and streams are in chunks.
        let Some(length) = length.and_then(|length| length.parse::<usize>().ok()) else { break };
        let Some(body) = received.get(end + 4..end + 4 + length) else { break };
        let is_head = sent.starts_with("HEAD");
        if !is_head {
            assert_documented(&sent, status, &String::from_utf8_lossy(body));
        }
        assert!(is_head || head.contains("x-request-id: "), "{head} to {sent}");
        received = &received[end + 4 + length..];
        responses += 1;
    }
    responses
}

#[tokio::test(flavor = "multi_thread")]
async fn attacker_without_a_key_finds_nothing() {
    let _alone = ALONE.lock().await;
    let cluster = Arc::new(options().nodes(3).start());
    for number in 0..20 {
        let label = format!("{SECRET} {number} keeps the treasure");
        cluster.create(&json!({"label": label, "namespace": SECRET, "tags": [SECRET]})).await;
    }
    cluster.post("/keys", &json!({"name": SECRET})).await;
    let keys = async || {
        array(&cluster.get("/keys").await["keys"])
            .iter()
            .map(|key| id(key).to_owned())
            .collect::<Vec<_>>()
    };
    let keys_before = keys().await;
    let get = || cluster.request(Method::GET, "/agent/nodes?page_size=5");
    let (quiet, before) = (latency(get).await, memory_mb(&cluster, "VmRSS"));

    let seed = setting("HEARTH_SEED", 1);
    let until = Instant::now() + Duration::from_secs(setting("HEARTH_SECONDS", 10));
    let attackers = (0..CONNECTIONS).map(|number| {
        let mut attacker = Attacker::new(&cluster, seed * CONNECTIONS + number);
        tokio::spawn(async move {
            let mut connections = 0;
            while Instant::now() < until {
                attacker.attack().await;
                connections += 1;
            }
            (connections, attacker.responses)
        })
    });
    let attackers: Vec<_> = attackers.collect();
    let mut worst = Duration::ZERO;
    while Instant::now() < until {
        worst = worst.max(latency(get).await);
    }
    let ended = join_all(attackers).await.into_iter().map(Result::unwrap);
    let (connections, responses) = ended.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    let growth = memory_mb(&cluster, "VmRSS").saturating_sub(before);
    println!(
        "HEARTH_SEED={seed}: {connections} connections, {responses} responses, {growth} MB more; \
         {quiet:?} without, {worst:?} with the attack"
    );
    assert!(connections > 20 && responses > 20, "{connections} connections, {responses} responses");
    assert!(growth < GROWTH_MAX, "{growth} MB");
    assert_served(quiet, worst);
    assert_eq!(keys().await, keys_before);
    assert_eq!(cluster.metric("hearth_memories").await, 20.0);
    converged(&cluster).await;
    assert_equal_states(&cluster).await;
}
