//! Event streams are limited in number and time. When one ends, its reader resumes on another
//! node without gap or repeat. `events.rs` holds the content of streams.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use futures::future::join_all;

use super::*;

/// The next events, which must be `created`.
async fn created(stream: &mut Stream, events: usize) -> Vec<Event> {
    let created = stream.take(events).await;
    assert!(created.iter().all(|event| event.kind == "created"), "{created:?}");
    created
}

fn event_labels(events: &[Event]) -> Vec<&str> {
    labels(events.iter().map(|event| &event.data))
}

#[tokio::test]
async fn stopping_node_ends_streams_and_another_resumes_them() {
    let cluster = options().nodes(3).start();
    let stopping = cluster.at(2);
    let (mut stream, _) = Stream::ready(stopping, "", None).await;
    cluster.create(&json!({"label": "before"})).await;
    let last = created(&mut stream, 1).await.remove(0).id;
    stopping.terminate();
    // An orderly end, which a reader distinguishes from a broken connection.
    let end = tokio::time::timeout(PATIENCE, stream.try_next()).await.expect("an end in time");
    assert_eq!(end.expect("an end, not a broken connection"), None);
    stopping.wait_gone().await;
    cluster.store_each(["while", "no", "reader"].map(labelled)).await;
    let (mut later, _) = Stream::ready(cluster.at(1), "", Some(&last)).await;
    assert_eq!(event_labels(&created(&mut later, 3).await), ["while", "no", "reader"]);
}

#[tokio::test]
async fn node_serves_256_streams_and_rejects_more() {
    let cluster = options().start();
    let agents = [cluster.new_agent(), cluster.new_agent(), cluster.new_agent()];
    let tenants =
        ["one", "two", "three"].map(|name| create_tenant(&cluster, json!({"name": name})));
    let tenants = join_all(tenants).await;
    let mut keys = Vec::new();
    for at in 0..6 {
        let create = cluster.request_as(&tenants[at / 3], Method::POST, "/keys");
        let body = json!({"name": format!("reader {at}"), "role": "reader"});
        keys.push(create.json(&body).send().await.body);
    }
    let stream = |agent: usize, key: &Value| agents[agent].get_as(&cluster, key, "/events");
    let rejected = async |key: &Value| {
        stream(2, key).send().await.assert_error(429, "too_many_streams");
    };
    let mut streams = Vec::new();
    // A key has a quarter of the streams, and a tenant half of them.
    for (at, key) in [0, 1, 3, 4].into_iter().enumerate() {
        for number in 0..64 {
            let agent = (64 * at + number) % 2;
            streams.push(Stream::of(stream(agent, &keys[key])).await.unwrap());
        }
        rejected(&keys[key]).await;
    }
    rejected(&keys[2]).await;
    rejected(&keys[5]).await;
    assert_eq!(cluster.metric("hearth_event_streams").await, 256.0);
    let one_more = || stream(2, &tenants[2]);
    one_more().send().await.assert_error(503, "too_many_streams");
    for (tenant, streams) in tenants.iter().zip(streams.chunks_mut(128)) {
        let create = cluster.request_as(tenant, Method::POST, "/agent/nodes");
        create.json(&json!({"label": "sent to all"})).send().await.ok();
        for stream in streams {
            assert_eq!(stream.expect().await.kind, "ready");
            assert_eq!(event_labels(&created(stream, 1).await), ["sent to all"]);
        }
    }
    // A closed stream returns its permit.
    streams.pop();
    let another = async || Stream::of(one_more()).await;
    eventually("another stream opens", another, Result::is_ok).await.ok();
}

#[tokio::test]
async fn tenant_has_its_own_limit_of_streams() {
    let cluster = options().start();
    let tenant = create_tenant(&cluster, json!({"name": "small", "limits": {"streams": 2}})).await;
    let stream = || cluster.request_as(&tenant, Method::GET, "/events");
    let open = [Stream::of(stream()).await.unwrap(), Stream::of(stream()).await.unwrap()];
    stream().send().await.assert_error(429, "too_many_streams");
    // A lower limit ends no stream.
    let path = format!("/cluster/tenants/{}", tenant["id"]);
    let change = cluster.ops_request(Method::PATCH, &path);
    change.json(&json!({"limits": {"streams": 0}})).send().await.ok();
    drop(open);
    let streams = async || cluster.metric("hearth_event_streams").await;
    eventually("the streams end", streams, |streams| *streams == 0.0).await;
    stream().send().await.assert_error(429, "too_many_streams");
}

#[tokio::test]
async fn installed_snapshot_leaves_no_gap_in_a_stream() {
    let cluster = options().nodes(3).eager_compaction("1").start();
    let [leader, paused] = cluster.leader_first().await;
    let (mut stream, _) = Stream::ready(paused, "", None).await;
    leader.create(&json!({"label": "0"})).await;
    let mut last = created(&mut stream, 1).await.remove(0).id;
    converged(&cluster).await;
    let behind = paused.metric("hearth_raft_last_log_index").await;
    // Names the current state folder: another one after a snapshot is installed.
    let current = paused.data().join("state/CURRENT");
    let state = std::fs::read_to_string(&current).unwrap();
    paused.pause();
    let mut stored = 1;
    let purged = async || {
        leader.store_each((stored..stored + 10).map(labelled)).await;
        stored += 10;
        leader.metric("hearth_raft_purged_index").await
    };
    // Far more entries than the sockets of the paused node hold.
    eventually("the log is compacted", purged, |purged| *purged > behind + 300.0).await;
    paused.resume();
    leader.create(&json!({"label": stored.to_string()})).await;
    let mut received = Vec::new();
    while received.len() < stored {
        match tokio::time::timeout(PATIENCE, stream.next()).await.expect("an event in time") {
            Some(event) if event.kind == "created" => {
                received.push(string(&event.data["label"]).to_owned());
                last = event.id;
            }
            Some(_) => {}
            // The node ended the stream because it may be stale: the reader resumes.
            None => {
                paused.ready().await;
                (stream, _) = Stream::ready(paused, "", Some(&last)).await;
            }
        }
    }
    let all: Vec<String> = (1..=stored).map(|number| number.to_string()).collect();
    assert_eq!(received, all);
    assert_ne!(std::fs::read_to_string(&current).unwrap(), state, "a snapshot was installed");
}

/// Concurrently, because each of the three waits for a timer of the node.
#[tokio::test]
async fn streams_are_bounded_in_time() {
    tokio::join!(
        idle_streams_send_checkpoints(),
        stalled_readers_lose_their_streams(),
        trimmed_events_are_gone()
    );
}

/// A stream without matching events sends its position, at which its reader can resume.
async fn idle_streams_send_checkpoints() {
    let cluster = options().start();
    let (mut rare, _) = Stream::ready(&cluster, "?kind=archived", None).await;
    let (mut all, _) = Stream::ready(&cluster, "", None).await;
    cluster.create(&json!({"label": "filtered out"})).await;
    let passed = all.expect().await;
    let checkpoint = rare.expect().await;
    assert_eq!((checkpoint.kind.as_str(), &checkpoint.data), ("checkpoint", &json!({})));
    let entry = |event: &Event| event.id.rsplit_once('.').unwrap().0.to_owned();
    assert_eq!(entry(&checkpoint), entry(&passed));
    cluster.create(&json!({"label": "after the checkpoint"})).await;
    let (mut later, _) = Stream::ready(&cluster, "", Some(&checkpoint.id)).await;
    assert_eq!(event_labels(&created(&mut later, 1).await), ["after the checkpoint"]);
}

/// A reader that reads nothing loses its stream, and over HTTP/1.1 its connection.
async fn stalled_readers_lose_their_streams() {
    let cluster = options().start();
    let mut ids = Vec::new();
    for _ in 0..10 {
        let nodes = vec![json!({"label": "x".repeat(120)}); 50];
        let created = cluster.post("/agent/nodes/batch", &json!({"nodes": nodes})).await;
        ids.extend(array(&created["results"]).iter().map(|memory| memory["id"].clone()));
    }
    // On a connection of its own, because all requests on it end with it.
    let admin = json!({"key": &cluster.key});
    let reader = cluster.new_agent();
    let before = connections(&cluster);
    let mut over_http2 = Stream::of(reader.get_as(&cluster, &admin, "/events")).await.unwrap();
    assert_eq!(over_http2.expect().await.kind, "ready");
    let mut curl = stalled_curl(&cluster);
    let streams = async || cluster.metric("hearth_event_streams").await;
    eventually("curl opens a stream", streams, |streams| *streams >= 2.0).await;
    assert_eq!(connections(&cluster), before + 2);
    // More than the buffers of a connection hold: 2 MB per stream over HTTP/2.
    let started = Instant::now();
    for round in 0..20 {
        let body = json!({"ids": ids, "is_pinned": round % 2 == 0});
        assert_eq!(cluster.post("/agent/nodes/bulk-patch", &body).await["updated"], 500);
    }
    let open = async || {
        // Keeps the connection of this test's own requests open.
        cluster.get("/agent/nodes?limit=1").await;
        (streams().await, connections(&cluster))
    };
    let ended = |open: &(f64, usize)| open.0 == 0.0 && open.1 <= before;
    eventually("the node ends both streams", open, ended).await;
    assert!(started.elapsed() > Duration::from_secs(20), "{:?}", started.elapsed());
    drop(over_http2);
    // Its output is read only now: the buffered events, then a broken connection.
    let output = std::io::read_to_string(curl.stdout.take().unwrap()).unwrap();
    assert!(output.contains("event: updated"));
    assert!(!curl.wait().unwrap().success());
}

/// curl with an event stream over HTTP/1.1, whose output stays unread.
fn stalled_curl(cluster: &Cluster) -> Child {
    Command::new("curl")
        .args(["--silent", "--no-buffer", "--http1.1", "--max-time", "120", "--cacert"])
        .arg(string(&cluster.info["ca"]))
        .args(["--header", &format!("Authorization: Bearer {}", cluster.key)])
        .arg(format!("{}/api/v1/events", cluster.url()))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Open connections of clients to a single node.
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

/// A cursor before the oldest event is rejected with the oldest cursor.
async fn trimmed_events_are_gone() {
    if cfg!(not(feature = "failpoints")) {
        return;
    }
    let cluster = options().env("FAILPOINTS", "journal-events-max=return(5)").start();
    let (mut stream, _) = Stream::ready(&cluster, "", None).await;
    cluster.store_each((0..20).map(labelled)).await;
    let all = created(&mut stream, 20).await;
    // The journal is trimmed once per minute.
    let resume = async || Stream::open(&cluster, "", Some(&all[0].id)).await;
    let rejected = within(2 * PATIENCE, "the journal is trimmed", resume, Result::is_err).await;
    let Err(Some((status, body))) = rejected else { panic!("no response") };
    assert_eq!((status, &body["error"]), (StatusCode::GONE, &json!("events_gone")));
    let (mut rest, _) = Stream::ready(&cluster, "", body["oldest"].as_str()).await;
    assert_eq!(created(&mut rest, 5).await, all[15..]);
}
