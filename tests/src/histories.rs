//! Clients that use objects at all levels of consistency while others do harm, and a check of what they saw:
//! registers (memories whose labels are numbers), a counter (how often feedback was given), and a set (memories
//! with a word, two for each element, which one command creates and another one deletes).

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures::future::join_all;
use reqwest::{Method, StatusCode};
use serde_json::json;
use simulation::history::{
    Counter, CounterOperation, Event, Linearizability, Model, Register, RegisterOperation, Set,
    SetOperation, Writes, check,
};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::{
    Agent, Cluster, Node, Request, Response, Value, array, id, random_after, setting, string,
};

const REGISTERS: usize = 2;
const CLIENTS: u64 = 4;
/// Between two requests of a client.
const PAUSE: Duration = Duration::from_millis(10);
/// After which a client gives up a request: of a write, the outcome is then unknown.
const PATIENCE: Duration = Duration::from_secs(3);
/// Elements of the set beyond which none is added.
const ELEMENTS: usize = 20;
/// Pairs of a set of operations and a value that are examined.
const BUDGET: usize = 1_000_000;

/// What the clients did.
#[derive(Default)]
struct Histories {
    registers: [Vec<Event<RegisterOperation>>; REGISTERS],
    counter: Vec<Event<CounterOperation>>,
    set: Vec<Event<SetOperation>>,
}

/// Objects, and the clients that use them.
pub struct Objects {
    shared: Arc<Shared>,
    clients: Vec<JoinHandle<()>>,
}

struct Shared {
    cluster: Arc<Cluster>,
    started: Instant,
    /// Ids of the registers.
    registers: Vec<String>,
    writes: [Mutex<Writes>; REGISTERS],
    /// How often feedback was given before.
    feedback: u64,
    /// That of the elements.
    word: String,
    /// Elements that no client deletes: their ids.
    elements: Mutex<Vec<(u64, Vec<Value>)>>,
    histories: Mutex<Histories>,
    /// The last number that was written.
    last: AtomicU64,
    stop: AtomicBool,
}

impl Objects {
    /// Creates objects, and starts their clients. Each sends to all nodes in random order.
    pub async fn start(cluster: &Arc<Cluster>) -> Self {
        let mut registers = Vec::new();
        for _ in 0..REGISTERS {
            registers.push(cluster.store(&json!({"label": "0"})).await);
        }
        let analytics = cluster.request(Method::GET, ANALYTICS);
        let analytics = analytics.header("X-Hearth-Consistency", "linearizable").send().await.ok();
        let (cluster, started) = (Arc::clone(cluster), Instant::now());
        let (feedback, word) = (feedback(&analytics), registers[0].replace('-', ""));
        let (writes, elements, histories, last, stop) = Default::default();
        let shared = Arc::new(Shared {
            cluster,
            started,
            registers,
            writes,
            feedback,
            word,
            elements,
            histories,
            last,
            stop,
        });
        let client = |number| tokio::spawn(Client::new(&shared, number).run());
        let clients = (1..=CLIENTS).map(client).collect();
        Self { shared, clients }
    }

    /// Ends the clients, and deletes the memories. Each history must be linearizable: one order of all
    /// operations explains all results, and keeps to their times. Returns how many operations there were.
    pub async fn checked(self) -> usize {
        self.shared.stop.store(true, Ordering::Relaxed);
        for ended in join_all(self.clients).await {
            ended.expect("a client ends");
        }
        let mut end = Client::new(&self.shared, 0);
        let elements = std::mem::take(&mut *self.shared.elements.lock().unwrap());
        let ids = elements.into_iter().flat_map(|(_, ids)| ids);
        end.delete(ids.chain(self.shared.registers.iter().map(|id| json!(id))).collect()).await;
        let Histories { registers, counter, set } = &*self.shared.histories.lock().unwrap();
        for register in registers {
            assert_linearizable(&Register, register);
        }
        assert_linearizable(&Counter, counter);
        assert_linearizable(&Set, set);
        registers.iter().map(Vec::len).sum::<usize>() + counter.len() + set.len()
    }
}

fn assert_linearizable<M: Model>(model: &M, history: &[Event<M::Operation>])
where
    M::Operation: Debug,
{
    assert_eq!(check(model, history, BUDGET), Linearizability::Holds, "{history:#?}");
}

const ANALYTICS: &str = "/analytics/recall";

/// How often feedback was given on the memories of one type.
fn feedback(analytics: &Value) -> u64 {
    let types = array(&analytics["stats"]);
    let episodic = types.iter().find(|it| it["memory_type"] == "episodic").expect("the type");
    episodic["relevant_count"].as_u64().expect("a number")
}

/// What a client has read.
struct Read {
    /// What was found was current at some moment since then.
    since: u64,
    /// The index that the node had reached at least, if the client waited for one.
    index: Option<u64>,
    body: Value,
}

struct Client {
    shared: Arc<Shared>,
    agent: Agent,
    random: u64,
    /// Of its last acknowledged write the index, and when it was called.
    written: Option<(u64, u64)>,
}

impl Client {
    fn new(shared: &Arc<Shared>, number: u64) -> Self {
        let (shared, agent) = (Arc::clone(shared), shared.cluster.new_agent());
        Self { shared, agent, random: number ^ setting("HEARTH_SEED", 0), written: None }
    }

    fn random(&mut self, below: usize) -> usize {
        self.random = random_after(self.random);
        (self.random >> 33) as usize % below
    }

    fn now(&self) -> u64 {
        self.shared.started.elapsed().as_nanos() as u64
    }

    fn record(&self, add: impl FnOnce(&mut Histories)) {
        add(&mut self.shared.histories.lock().unwrap());
    }

    async fn run(mut self) {
        while !self.shared.stop.load(Ordering::Relaxed) {
            match self.random(12) {
                0 | 1 => self.write_register().await,
                2..=5 => self.read_register().await,
                6 => self.rate().await,
                7 => self.read_counter().await,
                8 => self.add_element().await,
                9 => self.remove_element().await,
                _ => self.read_set().await,
            }
            sleep(PAUSE).await;
        }
    }

    /// Sends a request to some node. `None` without a response in time.
    async fn send(&mut self, request: impl FnOnce(&Agent, &Node) -> Request) -> Option<Response> {
        let shared = Arc::clone(&self.shared);
        let node = shared.cluster.at(self.random(3));
        timeout(PATIENCE, request(&self.agent, node).try_send()).await.ok()?.ok()
    }

    async fn write_register(&mut self) {
        let (register, called) = (self.random(REGISTERS), self.now());
        let shared = Arc::clone(&self.shared);
        let value = shared.last.fetch_add(1, Ordering::Relaxed) + 1;
        let path = format!("/agent/nodes/{}", shared.registers[register]);
        let body = json!({"label": value.to_string()});
        let sent =
            |agent: &Agent, node: &Node| agent.request(node, Method::PATCH, &path).json(&body);
        let returned = match self.send(sent).await {
            Some(response) if response.status == StatusCode::OK => {
                let index = response.number("x-hearth-index");
                shared.writes[register].lock().unwrap().add(index, value);
                self.written = Some((index, called));
                Some(self.now())
            }
            // Nothing happened.
            Some(Response { status: StatusCode::SERVICE_UNAVAILABLE, .. }) => return,
            Some(Response { status: StatusCode::GATEWAY_TIMEOUT, .. }) | None => None,
            Some(response) => panic!("{response:?}"),
        };
        let operation = RegisterOperation::Write(value);
        self.record(|it| it.registers[register].push(Event { called, returned, operation }));
    }

    /// Sends a request under an idempotency key until it has a response, and returns its body and when it was
    /// first called.
    async fn once(&mut self, path: &str, body: &Value) -> (u64, Value) {
        let (called, key) = (self.now(), format!("{} {}", self.shared.word, self.random));
        loop {
            let sent = |agent: &Agent, node: &Node| {
                let request = agent.request(node, Method::POST, path);
                request.header("Idempotency-Key", &key).json(body)
            };
            match self.send(sent).await {
                Some(response) if response.status.is_success() => {
                    self.written = Some((response.number("x-hearth-index"), called));
                    return (called, response.body);
                }
                Some(Response {
                    status: StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT,
                    ..
                })
                | None => sleep(PAUSE).await,
                Some(response) => panic!("{response:?}"),
            }
        }
    }

    async fn rate(&mut self) {
        let body = json!({"node_id": self.shared.registers[0], "signal": "relevant"});
        let (called, _) = self.once("/feedback", &body).await;
        let (returned, operation) = (Some(self.now()), CounterOperation::Add(1));
        self.record(|it| it.counter.push(Event { called, returned, operation }));
    }

    async fn add_element(&mut self) {
        if self.shared.elements.lock().unwrap().len() >= ELEMENTS {
            return;
        }
        let element = self.shared.last.fetch_add(1, Ordering::Relaxed) + 1;
        let half = |name: &str| json!({"label": format!("{} {element} {name}", self.shared.word)});
        let body = json!({"nodes": [half("one"), half("two")]});
        let (called, body) = self.once("/agent/nodes/batch", &body).await;
        let (returned, operation) = (Some(self.now()), SetOperation::Add(element));
        self.record(|it| it.set.push(Event { called, returned, operation }));
        let ids = array(&body["results"]).iter().map(|it| json!(id(it))).collect();
        self.shared.elements.lock().unwrap().push((element, ids));
    }

    async fn remove_element(&mut self) {
        let Some((element, ids)) = self.shared.elements.lock().unwrap().pop() else { return };
        let called = self.delete(ids).await;
        let (returned, operation) = (Some(self.now()), SetOperation::Remove(element));
        self.record(|it| it.set.push(Event { called, returned, operation }));
    }

    /// Deletes memories. Returns when that was called.
    async fn delete(&mut self, ids: Vec<Value>) -> u64 {
        let (called, body) = self.once("/agent/nodes/bulk-delete", &json!({"ids": ids})).await;
        assert_eq!(body["deleted"], ids.len(), "{body}");
        called
    }

    /// Reads at one of three levels. A linearizable read returns what was current between its call and its
    /// return; one of a state with a staleness, since then; one at an index, since the write with that index was
    /// called.
    async fn read(&mut self, path: &str) -> Option<Read> {
        let (called, written) = (self.now(), self.written);
        let level = self.random(3);
        let sent = |agent: &Agent, node: &Node| {
            let request = agent.request(node, Method::GET, path);
            match (level, written) {
                (1, _) => request.header("X-Hearth-Consistency", "linearizable"),
                (2, Some((index, _))) => request.header("X-Hearth-Min-Index", &index.to_string()),
                _ => request,
            }
        };
        let response = self.send(sent).await?;
        if response.status == StatusCode::SERVICE_UNAVAILABLE {
            return None;
        }
        assert_eq!(response.status, StatusCode::OK, "{response:?}");
        // The header is in whole milliseconds.
        let staleness = (response.number("x-hearth-staleness-ms") + 1) * 1_000_000;
        let (since, index) = match (level, written) {
            (1, _) => (called, None),
            (2, Some((index, since))) => (since, Some(index)),
            _ => (called.saturating_sub(staleness), None),
        };
        Some(Read { since, index, body: response.body })
    }

    async fn read_register(&mut self) {
        let register = self.random(REGISTERS);
        let path = format!("/agent/nodes/{}", self.shared.registers[register]);
        let Some(Read { since: called, index, body }) = self.read(&path).await else { return };
        let value: u64 = string(&body["label"]).parse().expect("a number");
        let value = (value > 0).then_some(value);
        if let Some(index) = index {
            let is_older = self.shared.writes[register].lock().unwrap().is_older(index, value);
            assert!(!is_older, "a read at {index} finds {value:?}");
        }
        let (returned, operation) = (Some(self.now()), RegisterOperation::Read(value));
        self.record(|it| it.registers[register].push(Event { called, returned, operation }));
    }

    async fn read_counter(&mut self) {
        let Some(Read { since: called, body, .. }) = self.read(ANALYTICS).await else { return };
        let operation = CounterOperation::Read(feedback(&body) - self.shared.feedback);
        let returned = Some(self.now());
        self.record(|it| it.counter.push(Event { called, returned, operation }));
    }

    /// Finds the memories with the word. Each element has two, or none.
    async fn read_set(&mut self) {
        let path = format!("/agent/nodes?search={}&page_size=100", self.shared.word);
        let Some(Read { since: called, body, .. }) = self.read(&path).await else { return };
        let labels = array(&body["items"]).iter().map(|it| string(&it["label"]).to_owned());
        let labels: BTreeSet<String> = labels.collect();
        let element = |label: &String| label.split(' ').nth(1)?.parse().ok();
        let elements: BTreeSet<u64> = labels.iter().filter_map(element).collect();
        let found = array(&body["items"]).len();
        assert_eq!((labels.len(), found), (2 * elements.len(), 2 * elements.len()), "{body}");
        let (returned, operation) = (Some(self.now()), SetOperation::Read(elements));
        self.record(|it| it.set.push(Event { called, returned, operation }));
    }
}
