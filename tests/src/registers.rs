//! Clients that write and read registers at all levels of consistency while others do harm, and a check of
//! what they saw. A register is a memory whose label is a number.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures::future::join_all;
use reqwest::{Method, StatusCode};
use serde_json::json;
use simulation::history::{Event, Linearizability, Register, RegisterOperation, Writes, check};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::{Agent, Cluster, Response, eventually, random_after};

const REGISTERS: usize = 2;
const CLIENTS: u64 = 4;
/// Between two requests of a client.
const PAUSE: Duration = Duration::from_millis(10);
/// After which a client gives up a request: of a write, the outcome is then unknown.
const PATIENCE: Duration = Duration::from_secs(3);
/// Pairs of a set of operations and a value that are examined.
const BUDGET: usize = 1_000_000;

type History = Vec<Event<RegisterOperation>>;

/// Registers, and the clients that use them.
pub struct Registers {
    shared: Arc<Shared>,
    clients: Vec<JoinHandle<[History; REGISTERS]>>,
}

struct Shared {
    cluster: Arc<Cluster>,
    /// Paths of the memories.
    paths: Vec<String>,
    started: Instant,
    writes: [Mutex<Writes>; REGISTERS],
    /// The last number that was written.
    last: AtomicU64,
    stop: AtomicBool,
}

impl Registers {
    /// Creates registers, and starts their clients. Each sends to all nodes in random order.
    pub async fn start(cluster: &Arc<Cluster>) -> Self {
        let mut paths = Vec::new();
        for _ in 0..REGISTERS {
            let id = cluster.store(&json!({"label": "0"})).await;
            paths.push(format!("/agent/nodes/{id}"));
        }
        let (cluster, started) = (Arc::clone(cluster), Instant::now());
        let (writes, last, stop) = Default::default();
        let shared = Arc::new(Shared { cluster, paths, started, writes, last, stop });
        let client = |number| tokio::spawn(Client::new(&shared, number).run());
        let clients = (1..=CLIENTS).map(client).collect();
        Self { shared, clients }
    }

    /// Ends the clients, and deletes the registers. Each history must be linearizable: one order of all
    /// operations explains all results, and keeps to their times. Returns how many operations there were.
    pub async fn checked(self) -> usize {
        self.shared.stop.store(true, Ordering::Relaxed);
        let mut histories: [History; REGISTERS] = Default::default();
        for ended in join_all(self.clients).await {
            let of_client = ended.expect("a client ends");
            for (all, history) in histories.iter_mut().zip(of_client) {
                all.extend(history);
            }
        }
        for (path, history) in self.shared.paths.iter().zip(&histories) {
            let found = check(&Register, history, BUDGET);
            assert_eq!(found, Linearizability::Holds, "{path}: {history:#?}");
        }
        let Shared { cluster, paths, .. } = &*self.shared;
        for path in paths {
            let delete =
                async || cluster.request(Method::DELETE, path).try_send().await.is_ok_and(is_gone);
            eventually("a register is deleted", delete, |is_gone| *is_gone).await;
        }
        histories.iter().map(Vec::len).sum()
    }
}

fn is_gone(response: Response) -> bool {
    response.status.is_success() || response.status == StatusCode::NOT_FOUND
}

struct Client {
    shared: Arc<Shared>,
    agent: Agent,
    random: u64,
    histories: [History; REGISTERS],
    /// Of each register, the index of the last write of this client, and when it was called.
    written: [Option<(u64, u64)>; REGISTERS],
}

impl Client {
    fn new(shared: &Arc<Shared>, number: u64) -> Self {
        let (shared, agent) = (Arc::clone(shared), shared.cluster.new_agent());
        let (histories, written) = Default::default();
        Self { shared, agent, random: number, histories, written }
    }

    fn random(&mut self, below: usize) -> usize {
        self.random = random_after(self.random);
        (self.random >> 33) as usize % below
    }

    fn now(&self) -> u64 {
        self.shared.started.elapsed().as_nanos() as u64
    }

    async fn run(mut self) -> [History; REGISTERS] {
        while !self.shared.stop.load(Ordering::Relaxed) {
            let (register, node) = (self.random(REGISTERS), self.random(3));
            match self.random(4) {
                0 => self.write(register, node).await,
                level => self.read(register, node, level).await,
            }
            sleep(PAUSE).await;
        }
        self.histories
    }

    async fn write(&mut self, register: usize, node: usize) {
        let (value, called) = (self.shared.last.fetch_add(1, Ordering::Relaxed) + 1, self.now());
        let node = self.shared.cluster.at(node);
        let request = self.agent.request(node, Method::PATCH, &self.shared.paths[register]);
        let request = request.json(&json!({"label": value.to_string()}));
        let returned = match timeout(PATIENCE, request.try_send()).await {
            Ok(Ok(response)) => match response.status {
                StatusCode::OK => {
                    let index = response.number("x-hearth-index");
                    self.shared.writes[register].lock().unwrap().add(index, value);
                    self.written[register] = Some((index, called));
                    Some(self.now())
                }
                // Nothing happened.
                StatusCode::SERVICE_UNAVAILABLE => return,
                status => {
                    assert_eq!(status, StatusCode::GATEWAY_TIMEOUT, "{response:?}");
                    None
                }
            },
            Ok(Err(_)) | Err(_) => None,
        };
        let operation = RegisterOperation::Write(value);
        self.histories[register].push(Event { called, returned, operation });
    }

    /// A linearizable read returns what was current between its call and its return; one of a state with a
    /// staleness, since then; one at an index, since the write with that index was called.
    async fn read(&mut self, register: usize, node: usize, level: usize) {
        let (called, path) = (self.now(), &self.shared.paths[register]);
        let (node, written) = (self.shared.cluster.at(node), self.written[register]);
        let request = match (level, written) {
            (1, _) => {
                let path = format!("{path}?consistency=linearizable");
                self.agent.request(node, Method::GET, &path)
            }
            (2, Some((index, _))) => {
                let request = self.agent.request(node, Method::GET, path);
                request.header("X-Hearth-Min-Index", &index.to_string())
            }
            _ => self.agent.request(node, Method::GET, path),
        };
        let Ok(Ok(response)) = timeout(PATIENCE, request.try_send()).await else { return };
        if response.status == StatusCode::SERVICE_UNAVAILABLE {
            return;
        }
        assert_eq!(response.status, StatusCode::OK, "{response:?}");
        let since = match (level, written) {
            (1, _) => called,
            (2, Some((_, since))) => since,
            _ => {
                // The header is in whole milliseconds.
                let staleness = response.number("x-hearth-staleness-ms") + 1;
                called.saturating_sub(staleness * 1_000_000)
            }
        };
        let label = response.body["label"].as_str().and_then(|label| label.parse().ok());
        let value: u64 = label.expect("a number");
        let value = (value > 0).then_some(value);
        if let (2, Some((index, _))) = (level, written) {
            let is_older = self.shared.writes[register].lock().unwrap().is_older(index, value);
            assert!(!is_older, "a read at {index} finds {value:?}");
        }
        let operation = RegisterOperation::Read(value);
        let returned = Some(self.now());
        self.histories[register].push(Event { called: since, returned, operation });
    }
}
