//! Event streams have bounds, in number and in time; where one ends, its reader goes on
//! elsewhere without gap or repeat. What they carry is in `events.rs`.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tests::{Cluster, Event, PATIENCE, Stream};

use crate::cluster::settled;
use crate::options;

async fn open(cluster: &Cluster, at: usize, query: &str, last: Option<&str>) -> Stream {
    let stream = Stream::open(&cluster.at(at), query, last).await;
    let mut stream = stream.unwrap_or_else(|rejection| panic!("{rejection:?}"));
    assert_eq!(stream.expect().await.kind, "ready");
    stream
}

/// Labels of the memories that the next events created.
async fn created(stream: &mut Stream, events: usize) -> Vec<Event> {
    let mut created = Vec::new();
    for _ in 0..events {
        created.push(stream.expect().await);
    }
    assert!(created.iter().all(|event| event.kind == "created"), "{created:?}");
    created
}

fn labels(events: &[Event]) -> Vec<&str> {
    events.iter().map(|event| event.data["label"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_node_that_stops_ends_its_streams_and_another_one_goes_on() {
    let cluster = options().nodes(3).start();
    let mut stream = open(&cluster, 2, "", None).await;
    cluster.create(&json!({"label": "before"})).await;
    let last = created(&mut stream, 1).await.remove(0).id;
    tests::signal(cluster.at(2).pid(), "TERM");
    // In order: a reader can tell an end from a broken connection.
    let end = tokio::time::timeout(PATIENCE, stream.try_next()).await.expect("an end in time");
    assert_eq!(end.expect("an end, not a broken connection"), None);
    cluster.at(2).gone();
    for label in ["while", "nobody", "reads"] {
        cluster.create(&json!({"label": label})).await;
    }
    let mut later = open(&cluster, 1, "", Some(&last)).await;
    assert_eq!(labels(&created(&mut later, 3).await), ["while", "nobody", "reads"]);
}

#[tokio::test]
async fn no_more_streams_than_a_node_may_send_and_others_are_served_beside_them() {
    let cluster = options().start();
    let agents = [cluster.another_client(), cluster.another_client(), cluster.another_client()];
    let mut streams = Vec::new();
    for at in 0..256 {
        let ask = agents[at % 2].ask(&cluster, Method::GET, "/events");
        let stream = Stream::of(ask).await;
        streams.push(stream.unwrap_or_else(|rejection| panic!("{rejection:?}")));
    }
    assert_eq!(cluster.metric("hearth_event_streams").await, 256.0);
    let one_more = || Stream::of(agents[2].ask(&cluster, Method::GET, "/events"));
    let Err(Some((status, body))) = one_more().await else { panic!("no rejection") };
    assert_eq!(
        (status, &body["error"]),
        (StatusCode::SERVICE_UNAVAILABLE, &json!("too_many_streams"))
    );
    cluster.create(&json!({"label": "told to all"})).await;
    for stream in &mut streams {
        assert_eq!(stream.expect().await.kind, "ready");
        assert_eq!(labels(&created(stream, 1).await), ["told to all"]);
    }
    // The place of one that is closed is another one's.
    streams.pop();
    let started = Instant::now();
    while let Err(rejection) = one_more().await {
        assert!(started.elapsed() < PATIENCE, "{rejection:?}");
    }
}

#[tokio::test]
async fn a_copy_of_the_state_under_a_stream_leaves_no_gap() {
    let cut = options().nodes(3).env("HEARTH__RAFT__CUT_BYTES", "1");
    let cut = cut.env("HEARTH__RAFT__CUT_HOLD_SECONDS", "1");
    let cluster = cut.env("HEARTH__RAFT__CUT_KEEP_ENTRIES", "5").start();
    let leader = cluster.leader().await;
    let held = (leader + 1) % 3;
    let mut stream = open(&cluster, held, "", None).await;
    cluster.at(leader).create(&json!({"label": "0"})).await;
    let mut last = created(&mut stream, 1).await.remove(0).id;
    settled(&cluster).await;
    let behind = cluster.at(held).metric("hearth_raft_last_log_index").await;
    // Counts the states that a node has had: one more when a copy takes the place of the last.
    let current = cluster.at(held).data().join("state/CURRENT");
    let state = std::fs::read_to_string(&current).unwrap();
    tests::signal(cluster.at(held).pid(), "STOP");
    let (mut stored, started) = (1, Instant::now());
    // What waits in the sockets of the one that is held is far less than that.
    while cluster.at(leader).metric("hearth_raft_purged_index").await <= behind + 300.0 {
        assert!(started.elapsed() < PATIENCE, "the log is not cut");
        cluster.at(leader).create(&json!({"label": stored.to_string()})).await;
        stored += 1;
    }
    tests::signal(cluster.at(held).pid(), "CONT");
    cluster.at(leader).create(&json!({"label": stored.to_string()})).await;
    let mut seen = Vec::new();
    while seen.len() < stored {
        match tokio::time::timeout(PATIENCE, stream.next()).await.expect("an event in time") {
            Some(event) if event.kind == "created" => {
                seen.push(event.data["label"].as_str().unwrap().to_owned());
                last = event.id;
            }
            Some(_) => {}
            // Held for too long to know that it knew everything: the reader comes again.
            None => {
                cluster.at(held).ready().await;
                stream = open(&cluster, held, "", Some(&last)).await;
            }
        }
    }
    let all: Vec<String> = (1..=stored).map(|number| number.to_string()).collect();
    assert_eq!(seen, all);
    assert_ne!(std::fs::read_to_string(&current).unwrap(), state, "a copy was installed");
}

/// What takes its time: side by side, so that it takes it once.
#[tokio::test]
async fn streams_are_bounded_in_time() {
    tokio::join!(who_waits_for_what_is_rare(), who_takes_nothing(), what_is_forgotten());
}

/// A reader of what does not happen learns how far the stream has come, and goes on there.
async fn who_waits_for_what_is_rare() {
    let cluster = options().start();
    let mut rare = open(&cluster, 0, "?kind=archived", None).await;
    let mut all = open(&cluster, 0, "", None).await;
    cluster.create(&json!({"label": "not asked for"})).await;
    let passed = all.expect().await;
    let place = rare.expect().await;
    assert_eq!((place.kind.as_str(), &place.data), ("checkpoint", &json!({})));
    let entry = |event: &Event| event.id.rsplit_once('.').unwrap().0.to_owned();
    assert_eq!(entry(&place), entry(&passed));
    cluster.create(&json!({"label": "after the place"})).await;
    let mut later = open(&cluster, 0, "", Some(&place.id)).await;
    assert_eq!(labels(&created(&mut later, 1).await), ["after the place"]);
}

/// A reader that takes nothing loses its stream, and over HTTP/1.1 its connection.
async fn who_takes_nothing() {
    let cluster = options().start();
    let post = async |path: &str, body: Value| {
        cluster.ask(Method::POST, path).json(&body).send().await.ok()
    };
    let mut ids = Vec::new();
    for _ in 0..10 {
        let nodes = vec![json!({"label": "x".repeat(120)}); 50];
        let made = post("/agent/nodes/batch", json!({"nodes": nodes})).await;
        let made = made["results"].as_array().unwrap().iter();
        ids.extend(made.map(|memory| memory["id"].clone()));
    }
    let over_http2 = open(&cluster, 0, "", None).await;
    let before = connections(&cluster);
    let mut curl = stalled_curl(&cluster);
    let started = Instant::now();
    while cluster.metric("hearth_event_streams").await < 2.0 {
        assert!(started.elapsed() < PATIENCE, "curl gets no stream");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(connections(&cluster), before + 1);
    // More than connections hold on their way, 2 MB of a stream over HTTP/2.
    let started = Instant::now();
    for round in 0..20 {
        let body = json!({"ids": ids, "is_pinned": round % 2 == 0});
        assert_eq!(post("/agent/nodes/bulk-patch", body).await["updated"], 500);
    }
    while cluster.metric("hearth_event_streams").await > 0.0 || connections(&cluster) > before {
        assert!(started.elapsed() < PATIENCE, "nobody ends them: {}", connections(&cluster));
        // Keeps the connection of this test's own requests as it is.
        cluster.ask(Method::GET, "/agent/nodes?limit=1").send().await.ok();
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(started.elapsed() > Duration::from_secs(20), "{:?}", started.elapsed());
    drop(over_http2);
    // Its output is read only now: what was on its way, and then a connection that is gone.
    let output = std::io::read_to_string(curl.stdout.take().unwrap()).unwrap();
    assert!(output.contains("event: updated"));
    assert!(!curl.wait().unwrap().success());
}

/// curl with an event stream over HTTP/1.1 whose output nobody reads.
fn stalled_curl(cluster: &Cluster) -> Child {
    Command::new("curl")
        .args(["--silent", "--no-buffer", "--http1.1", "--max-time", "120", "--cacert"])
        .arg(cluster.info["ca"].as_str().unwrap())
        .args(["--header", &format!("Authorization: Bearer {}", cluster.key())])
        .arg(format!("{}/api/v1/events", cluster.url()))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Connections that a node of one has open to agents.
fn connections(cluster: &Cluster) -> usize {
    let port: u16 = cluster.url().rsplit(':').next().unwrap().parse().unwrap();
    let local = format!("0100007F:{port:04X}");
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let is_open = |line: &&str| {
        let mut fields = line.split_whitespace().skip(1);
        // 01: established.
        fields.next() == Some(&local) && fields.nth(1) == Some("01")
    };
    table.lines().filter(is_open).count()
}

/// A reader of what is gone is told after which event to begin.
async fn what_is_forgotten() {
    if cfg!(not(feature = "failpoints")) {
        return;
    }
    let cluster = options().env("FAILPOINTS", "journal-events-max=return(5)").start();
    let mut stream = open(&cluster, 0, "", None).await;
    for number in 0..20 {
        cluster.create(&json!({"label": number.to_string()})).await;
    }
    let all = created(&mut stream, 20).await;
    let started = Instant::now();
    // Upkeep comes once a minute.
    let (status, body) = loop {
        match Stream::open(&cluster.at(0), "", Some(&all[0].id)).await {
            Err(Some(rejection)) => break rejection,
            Err(None) => panic!("no answer"),
            Ok(_) => tokio::time::sleep(Duration::from_millis(200)).await,
        }
        assert!(started.elapsed() < 2 * PATIENCE, "nothing is forgotten");
    };
    assert_eq!((status, &body["error"]), (StatusCode::GONE, &json!("events_gone")));
    let mut rest = open(&cluster, 0, "", body["oldest"].as_str()).await;
    assert_eq!(created(&mut rest, 5).await, all[15..]);
}
