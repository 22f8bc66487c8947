//! What fires is in the history once, what is pending arrives or is given up, and a stream has
//! neither gap nor repeat, whatever becomes of leaders and receivers. HEARTH_RUNS and
//! HEARTH_SEED lengthen and vary the runs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tests::{Behaviour, Cluster, Event, PATIENCE, Receiver, Request, Stream};

use crate::cluster::{assert_equal_states, settled};
use crate::durability::{random_after, setting};
use crate::failover::Lives;
use crate::options;
use crate::triggers::{history, trigger};

/// Memories that are created in a run.
const CREATED: u64 = 6;
/// `max_fires` of a trigger of each run.
const FIRES_MAX: u64 = 3;

/// How a receiver treats a delivery: by its name, so that it is the same for every attempt.
fn behave(request: &Request) -> Behaviour {
    let name: u32 =
        request.id().bytes().fold(0, |sum, byte| sum.wrapping_mul(31) + u32::from(byte));
    match (name % 8, request.before) {
        // Slow, and in time.
        (2, _) => Behaviour::Hang(Duration::from_millis(100)),
        (7, _) | (3, 0..=1) => Behaviour::status(500),
        (4, 0) => Behaviour::Reset,
        (5, 0) => Behaviour::Hang(Duration::from_millis(500)),
        (6, 0) => Behaviour::Answer(307, vec![("location", "http://127.0.0.1:1/".into())]),
        _ => Behaviour::status(200),
    }
}

/// Whether it may be given up: only what is answered 500 for good.
fn may_be_given_up(id: &str) -> bool {
    id.bytes().fold(0_u32, |sum, byte| sum.wrapping_mul(31) + u32::from(byte)) % 8 == 7
}

/// Reads the stream until it is told to stop, on another node whenever it ends.
async fn follow(cluster: Arc<Cluster>, stop: Arc<AtomicBool>, from: String) -> Vec<Event> {
    let (mut events, mut last) = (Vec::new(), from);
    for turn in 0.. {
        let node = cluster.at(turn % 3);
        let Ok(mut stream) = Stream::open(&node, "", Some(&last)).await else {
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        };
        loop {
            let next = tokio::time::timeout(Duration::from_millis(500), stream.next()).await;
            match next {
                Ok(Some(event)) if event.kind == "ready" => {}
                Ok(Some(event)) => {
                    last.clone_from(&event.id);
                    events.push(event);
                }
                Ok(None) => break,
                // A node that is held sends nothing and ends nothing: ask another one.
                Err(_) if stop.load(Ordering::Relaxed) => return events,
                Err(_) => break,
            }
        }
    }
    events
}

/// Stores memories once each, whatever becomes of the nodes.
async fn create(cluster: Arc<Cluster>, run: u64) -> Vec<String> {
    let agent = cluster.another_client();
    let mut ids = Vec::new();
    for number in 0..CREATED {
        let label = format!("memory {run} {number}");
        let started = Instant::now();
        for turn in 0.. {
            assert!(started.elapsed() < PATIENCE, "{label} is not stored");
            let ask = agent.ask_at(&cluster.at(turn % 3), Method::POST, "/agent/nodes");
            let ask = ask.header("Idempotency-Key", &label).json(&json!({"label": label}));
            let answer = tokio::time::timeout(Duration::from_secs(2), ask.try_send()).await;
            if let Ok(Ok(answer)) = answer
                && answer.status == StatusCode::CREATED
            {
                ids.push(answer.body["id"].as_str().unwrap().to_owned());
                break;
            }
        }
    }
    ids
}

/// What becomes of the leader in a run.
async fn disturb(lives: &mut Lives, run: u64, random: u64, arrived: (&AtomicUsize, usize)) {
    let cluster = Arc::clone(lives.cluster());
    let leader = cluster.leader().await;
    match run % 3 {
        // At any moment: between event and delivery as well.
        0 => {
            tokio::time::sleep(Duration::from_millis((random >> 8) % 60)).await;
            lives.kill(leader);
            lives.bring_back(leader).await;
        }
        // Just when a receiver has a request: sent, and not recorded.
        1 => {
            let ((arrived, before), started) = (arrived, Instant::now());
            while arrived.load(Ordering::Relaxed) == before {
                assert!(started.elapsed() < PATIENCE, "nothing arrives");
                tokio::time::sleep(Duration::from_micros(200)).await;
            }
            lives.kill(leader);
            lives.bring_back(leader).await;
        }
        // Held while it believes that it leads.
        _ => {
            tokio::time::sleep(Duration::from_millis((random >> 8) % 60)).await;
            lives.hold(leader);
            tokio::time::sleep(Duration::from_millis(1_500)).await;
            lives.go_on(leader);
        }
    }
}

/// A trigger of one run that fires a few times and no more, with the leader about to die.
async fn bounded_trigger(cluster: &Cluster, run: u64) -> String {
    let body = json!({
        "event": "on_store", "action": "notify", "max_fires": FIRES_MAX,
        "filter_label_pattern": format!("memory {run} "),
    });
    let started = Instant::now();
    loop {
        // Between leaders nobody makes triggers: nothing happened then.
        let answer = cluster.ask(Method::POST, "/triggers").json(&body).try_send().await;
        if let Ok(answer) = answer
            && answer.status == StatusCode::CREATED
        {
            return answer.body["id"].as_str().unwrap().to_owned();
        }
        assert!(started.elapsed() < PATIENCE, "no trigger is made");
    }
}

async fn outbox(cluster: &Cluster, status: &str) -> BTreeSet<String> {
    let (mut ids, mut cursor) = (BTreeSet::new(), String::new());
    loop {
        let path = format!(
            "/triggers/deliveries?consistency=linearizable&limit=200&status={status}{cursor}"
        );
        let Ok(answer) = cluster.ask(Method::GET, &path).try_send().await else { continue };
        if !answer.status.is_success() {
            continue;
        }
        let items = answer.body["items"].as_array().unwrap();
        ids.extend(items.iter().map(|item| item["id"].as_str().unwrap().to_owned()));
        match answer.body["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return ids,
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_fires_fires_once_and_what_is_owed_arrives_or_is_given_up() {
    let runs = setting("HEARTH_RUNS", 3);
    let cluster = options()
        .nodes(3)
        .env("HEARTH__WEBHOOKS__RETRY_SECONDS", "0.05, 0.1, 0.1, 0.2, 0.2, 0.2")
        .env("HEARTH__WEBHOOKS__TIMEOUT_MS", "200");
    let cluster = Arc::new(cluster.start());
    let mut lives = Lives::of(Arc::clone(&cluster));
    let arrived = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&arrived);
    let receiver = Receiver::start(move |request| {
        count.fetch_add(1, Ordering::Relaxed);
        behave(request)
    })
    .await;
    let config = json!({"url": receiver.url});
    let hook = json!({"event": "on_store", "action": "webhook", "action_config": config});
    let hook = trigger(&cluster, &hook).await["id"].as_str().unwrap().to_owned();
    let mut bounded = Vec::new();
    let nowhere = json!({"url": "http://127.0.0.1:1/"});
    let refused = json!({"event": "on_store", "action": "webhook", "action_config": nowhere, "max_fires": runs});
    let refused = trigger(&cluster, &refused).await["id"].as_str().unwrap().to_owned();
    let mut start = Stream::open(&cluster.at(0), "", None).await.ok().unwrap();
    let from = start.expect().await.id;
    drop(start);
    let stop = Arc::new(AtomicBool::new(false));
    let reader = tokio::spawn(follow(Arc::clone(&cluster), Arc::clone(&stop), from.clone()));
    let (mut ids, mut random) = (BTreeSet::new(), setting("HEARTH_SEED", 1));
    for run in 0..runs {
        random = random_after(random);
        bounded.push(bounded_trigger(&cluster, run).await);
        let before = arrived.load(Ordering::Relaxed);
        let creating = tokio::spawn(create(Arc::clone(&cluster), run));
        disturb(&mut lives, run, random >> 33, (&arrived, before)).await;
        ids.extend(creating.await.unwrap());
    }
    assert_eq!(ids.len() as u64, CREATED * runs);
    let started = Instant::now();
    while !outbox(&cluster, "pending").await.is_empty() {
        assert!(started.elapsed() < 2 * PATIENCE, "{:?}", outbox(&cluster, "pending").await);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    settled(&cluster).await;
    let node = cluster.at(0);
    // Each memory fired once.
    let of = async |id: &str| history(&node, &format!("&trigger_id={id}")).await;
    let fired = of(&hook).await;
    let subjects = |firings: &[Value]| -> Vec<String> {
        let mut ids: Vec<_> =
            firings.iter().map(|firing| firing["node_id"].as_str().unwrap().to_owned()).collect();
        ids.sort();
        ids
    };
    assert_eq!(subjects(&fired), ids.iter().cloned().collect::<Vec<_>>());
    for bounded in &bounded {
        assert_eq!(of(bounded).await.len() as u64, FIRES_MAX, "max_fires is met, not exceeded");
    }
    // Each delivery arrived, or was given up where the receiver never takes it.
    let given_up = outbox(&cluster, "dead_letter").await;
    let mut answered: BTreeMap<String, usize> = BTreeMap::new();
    let mut bodies: BTreeMap<String, String> = BTreeMap::new();
    for request in receiver.got() {
        *answered.entry(request.id().to_owned()).or_default() += 1;
        let first = bodies.entry(request.id().to_owned()).or_insert(request.text.clone());
        assert_eq!(*first, request.text, "what goes by one id is one message");
    }
    let pending: BTreeSet<String> =
        fired.iter().map(|firing| firing["delivery_id"].as_str().unwrap().to_owned()).collect();
    assert_eq!(pending.len(), ids.len(), "each firing owes one delivery");
    for id in &pending {
        assert!(answered.contains_key(id), "{id} was never sent");
        assert_eq!(given_up.contains(id), may_be_given_up(id), "{id}");
    }
    assert!(answered.keys().all(|id| pending.contains(id)), "something else was sent");
    let nowhere = of(&refused).await;
    assert_eq!(nowhere.len() as u64, runs);
    assert!(
        nowhere.iter().all(|firing| given_up.contains(firing["delivery_id"].as_str().unwrap()))
    );
    // The stream said all of it once, in order, though its reader went from node to node.
    stop.store(true, Ordering::Relaxed);
    let read = reader.await.unwrap();
    let mut again = Stream::open(&cluster.at(1), "", Some(&from)).await.ok().unwrap();
    assert_eq!(again.expect().await.kind, "ready");
    for (place, event) in read.iter().enumerate() {
        let expected = again.expect().await;
        assert_eq!((&event.id, &event.kind), (&expected.id, &expected.kind), "event {place}");
    }
    let mut all: Vec<_> = history(&node, "").await;
    all.reverse();
    let told: Vec<_> = read.iter().filter(|event| event.kind == "fired").collect();
    assert_eq!(told.len(), all.len(), "the stream tells of each firing");
    for (told, firing) in told.iter().zip(&all) {
        assert!(told.id.ends_with(&format!(".{}", firing["id"].as_str().unwrap())), "{firing}");
    }
    let created = read.iter().filter(|event| event.kind == "created").count() as u64;
    let delivered = read.iter().filter(|event| event.kind == "delivered").count();
    assert_eq!(created, CREATED * runs);
    assert_eq!(delivered, pending.len() - pending.iter().filter(|id| may_be_given_up(id)).count());
    let sent: usize = answered.values().sum();
    println!(
        "{runs} runs: {} firings, {sent} requests for {} deliveries, {} given up, {} events streamed",
        fired.len(),
        pending.len(),
        given_up.len(),
        read.len()
    );
    assert_equal_states(&node).await;
}
