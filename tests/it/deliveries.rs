//! Faults of leaders and receivers change nothing about triggers: each firing is recorded once,
//! each delivery arrives or is dead-lettered, and the event stream has neither gap nor repeat.
//! HEARTH_RUNS and HEARTH_SEED lengthen and vary the runs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::*;

/// Memories that are created in a run.
const CREATED: u64 = 6;
/// `max_fires` of the bounded trigger of each run.
const FIRES_MAX: u64 = 3;

/// What a receiver does with a delivery: a function of its id, so equal for every attempt.
fn behaviour_number(id: &str) -> u32 {
    id.bytes().fold(0_u32, |sum, byte| sum.wrapping_mul(31) + u32::from(byte)) % 8
}

fn behave(delivery: &Delivery) -> Behaviour {
    match (behaviour_number(delivery.id()), delivery.before) {
        // Slow, but in time.
        (2, _) => Behaviour::Hang(Duration::from_millis(100)),
        (7, _) | (3, 0..=1) => Behaviour::status(500),
        (4, 0) => Behaviour::Reset,
        (5, 0) => Behaviour::Hang(Duration::from_millis(500)),
        (6, 0) => Behaviour::Respond(307, vec![("location", "http://127.0.0.1:1/".into())]),
        _ => Behaviour::status(200),
    }
}

/// Whether a delivery is dead-lettered: only those with a 500 for every attempt.
fn is_undeliverable(id: &str) -> bool {
    behaviour_number(id) == 7
}

/// Reads the event stream until `stop`, on the next node whenever a stream ends.
async fn follow(cluster: Arc<Cluster>, stop: Arc<AtomicBool>, from: String) -> Vec<Event> {
    let (mut events, mut last) = (Vec::new(), from);
    for turn in 0.. {
        let Ok(mut stream) = Stream::open(cluster.at(turn % 3), "", Some(&last)).await else {
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
                // A paused node neither sends nor ends: the reader tries another one.
                Err(_) if stop.load(Ordering::Relaxed) => return events,
                Err(_) => break,
            }
        }
    }
    events
}

/// Creates the memories of a run, each once, over all faults. Returns their ids.
async fn create(cluster: Arc<Cluster>, run: u64) -> Vec<String> {
    let agent = cluster.new_agent();
    let (mut ids, started) = (Vec::new(), Instant::now());
    for turn in 0.. {
        assert!(started.elapsed() < PATIENCE, "{} of {CREATED} memories", ids.len());
        let label = format!("memory {run} {}", ids.len());
        let request = agent.request(cluster.at(turn % 3), Method::POST, "/agent/nodes");
        let request = request.header("Idempotency-Key", &label).json(&json!({"label": label}));
        let response = tokio::time::timeout(Duration::from_secs(2), request.try_send()).await;
        if let Ok(Ok(response)) = response
            && response.status == StatusCode::CREATED
        {
            ids.push(id(&response.body).to_owned());
        }
        if ids.len() as u64 == CREATED {
            break;
        }
    }
    ids
}

/// Injects the fault of a run into the leader. `before` requests have arrived so far.
async fn disturb(leader: &Node, (run, random): (u64, u64), (receiver, before): (&Receiver, usize)) {
    let pause = Duration::from_millis((random >> 8) % 60);
    match run % 3 {
        // A crash at any moment, also between the event and its delivery.
        0 => {
            tokio::time::sleep(pause).await;
            leader.crash().await;
        }
        // A crash while a receiver has a request: sent, and its attempt not recorded.
        1 => {
            receiver.reach(before + 1).await;
            leader.crash().await;
        }
        // A pause longer than its lease.
        _ => {
            tokio::time::sleep(pause).await;
            leader.pause();
            tokio::time::sleep(Duration::from_millis(1_500)).await;
            leader.resume();
        }
    }
}

/// Creates a trigger that fires for a run's memories, at most [`FIRES_MAX`] times.
async fn bounded_trigger(cluster: &Cluster, run: u64) -> String {
    let body = json!({
        "event": "on_store", "action": "notify", "max_fires": FIRES_MAX,
        "filter_label_pattern": format!("memory {run} "),
    });
    // Without a leader the request fails and creates nothing.
    let create = async || {
        let request = cluster.request(Method::POST, "/triggers").json(&body);
        let response = request.try_send().await.ok()?;
        (response.status == StatusCode::CREATED).then(|| id(&response.body).to_owned())
    };
    eventually("a trigger is created", create, Option::is_some).await.expect("it is created")
}

/// Ids of all deliveries of a status.
async fn outbox(cluster: &Cluster, status: &str) -> BTreeSet<String> {
    let path = format!("/triggers/deliveries?consistency=linearizable&limit=200&status={status}");
    let items = pages("cursor", async |cursor| {
        let path = format!("{path}{cursor}");
        let page = async || cluster.request(Method::GET, &path).try_send().await.ok();
        let succeeded =
            |page: &Option<Response>| page.as_ref().is_some_and(|page| page.status.is_success());
        let page = eventually("deliveries are listed", page, succeeded).await;
        page.expect("it succeeded").body
    });
    let items = items.await;
    items.iter().map(|item| id(item).to_owned()).collect()
}

/// The triggers of the test, and what it created.
struct Expected {
    runs: u64,
    /// Fires for every memory; the receiver takes its deliveries.
    hook: String,
    /// Fires for the first `runs` memories; its URL has no receiver.
    unreachable: String,
    bounded: Vec<String>,
    memories: BTreeSet<String>,
}

#[tokio::test(flavor = "multi_thread")]
async fn firings_and_deliveries_survive_every_fault() {
    let runs = setting("HEARTH_RUNS", 3);
    let cluster = options()
        .nodes(3)
        .env("HEARTH__WEBHOOKS__RETRY_SECONDS", "0.05, 0.1, 0.1, 0.2, 0.2, 0.2")
        .env("HEARTH__WEBHOOKS__TIMEOUT_MS", "200");
    let cluster = Arc::new(cluster.start());
    let receiver = Receiver::start(behave).await;
    let hook = async |url: &str, max_fires: Option<u64>| {
        id(&create_webhook(&cluster, json!({"url": url}), max_fires).await).to_owned()
    };
    let mut expected = Expected {
        runs,
        hook: hook(&receiver.url, None).await,
        unreachable: hook("http://127.0.0.1:1/", Some(runs)).await,
        bounded: Vec::new(),
        memories: BTreeSet::new(),
    };
    let from = Stream::ready(&cluster, "", None).await.1.id;
    let stop = Arc::new(AtomicBool::new(false));
    let reader = tokio::spawn(follow(Arc::clone(&cluster), Arc::clone(&stop), from.clone()));
    let mut random = setting("HEARTH_SEED", 1);
    for run in 0..runs {
        random = random_after(random);
        expected.bounded.push(bounded_trigger(&cluster, run).await);
        let before = receiver.received().len();
        let creating = tokio::spawn(create(Arc::clone(&cluster), run));
        let leader = cluster.at(cluster.leader().await);
        disturb(leader, (run, random >> 33), (&receiver, before)).await;
        expected.memories.extend(creating.await.unwrap());
    }
    assert_eq!(expected.memories.len() as u64, CREATED * runs);
    let pending = async || outbox(&cluster, "pending").await;
    within(2 * PATIENCE, "no delivery is pending", pending, BTreeSet::is_empty).await;
    converged(&cluster).await;
    let arrived = assert_each_fired_and_arrived_once(&cluster, &expected, &receiver).await;
    stop.store(true, Ordering::Relaxed);
    let events = reader.await.unwrap();
    assert_eq!(count(&events, "created"), CREATED * runs);
    assert_eq!(count(&events, "delivered"), arrived);
    assert_stream_is_whole(cluster.at(1), &events, &from).await;
    assert_equal_states(&cluster).await;
}

fn count(events: &[Event], kind: &str) -> u64 {
    events.iter().filter(|event| event.kind == kind).count() as u64
}

/// Checks firings and deliveries; returns how many deliveries succeeded.
async fn assert_each_fired_and_arrived_once(
    cluster: &Cluster,
    expected: &Expected,
    receiver: &Receiver,
) -> u64 {
    let of =
        async |trigger: &str| trigger_history(cluster, &format!("&trigger_id={trigger}")).await;
    let column = |firings: &[Value], name: &str| -> Vec<String> {
        let mut all: Vec<_> =
            firings.iter().map(|firing| string(&firing[name]).to_owned()).collect();
        all.sort();
        all
    };
    let fired = of(&expected.hook).await;
    let memories: Vec<_> = expected.memories.iter().cloned().collect();
    assert_eq!(column(&fired, "node_id"), memories, "each memory fired once");
    for bounded in &expected.bounded {
        assert_eq!(of(bounded).await.len() as u64, FIRES_MAX, "max_fires is met, not exceeded");
    }
    let dead = outbox(cluster, "dead_letter").await;
    let mut requests: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for request in receiver.received() {
        requests.entry(request.id().to_owned()).or_default().push(request.text);
    }
    for (id, bodies) in &requests {
        assert!(bodies.iter().all(|body| *body == bodies[0]), "{id} has different bodies");
    }
    let deliveries: BTreeSet<_> = column(&fired, "delivery_id").into_iter().collect();
    assert_eq!(deliveries.len(), memories.len(), "each firing has one delivery");
    assert!(requests.keys().eq(&deliveries), "exactly the deliveries were sent");
    for id in &deliveries {
        assert_eq!(dead.contains(id), is_undeliverable(id), "{id}");
    }
    let unreachable = of(&expected.unreachable).await;
    assert_eq!(unreachable.len() as u64, expected.runs);
    assert!(column(&unreachable, "delivery_id").iter().all(|id| dead.contains(id)));
    let (runs, sent, dead) = (expected.runs, receiver.received().len(), dead.len());
    println!("{runs} runs: {sent} requests for {} deliveries, {dead} dead-lettered", fired.len());
    deliveries.iter().filter(|id| !is_undeliverable(id)).count() as u64
}

/// Checks that a stream, read over several nodes, equals one that is read at once, and holds
/// each firing of the history once.
async fn assert_stream_is_whole(node: &Node, events: &[Event], from: &str) {
    let (mut again, _) = Stream::ready(node, "", Some(from)).await;
    for (at, event) in events.iter().enumerate() {
        let expected = again.expect().await;
        assert_eq!((&event.id, &event.kind), (&expected.id, &expected.kind), "event {at}");
    }
    let mut firings = trigger_history(node, "").await;
    firings.reverse();
    let streamed: Vec<_> = events.iter().filter(|event| event.kind == "fired").collect();
    assert_eq!(streamed.len(), firings.len(), "the stream has each firing");
    for (event, firing) in streamed.iter().zip(&firings) {
        assert!(event.id.ends_with(&format!(".{}", id(firing))), "{firing}");
    }
    println!("{} events streamed", events.len());
}
