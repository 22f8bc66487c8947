//! What runs beside or instead of a measurement: graphs, event streams, steady load, failovers,
//! restarts.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures::future::join_all;
use tests::Limit::AtMost;
use tests::{Cluster, Method, Node, Stream, Value, eventually, json, print_target};

use crate::measure;
use crate::work::Work;

const STREAMS_PER_AGENT: usize = 64;

/// Opens event streams and reads all their events.
pub async fn follow_events(cluster: &Cluster, streams: usize) {
    let agents: Vec<_> = (0..=streams / STREAMS_PER_AGENT).map(|_| cluster.new_agent()).collect();
    for number in 0..streams {
        let node = cluster.at(number % cluster.nodes().len());
        let request = agents[number / STREAMS_PER_AGENT].request(node, Method::GET, "/events");
        let mut stream = Stream::of(request).await.expect("an event stream");
        tokio::spawn(async move { while stream.next().await.is_some() {} });
    }
}

/// Full load on a healthy cluster causes no election.
pub async fn steady(work: &Arc<Work>, time: Duration) {
    let before = terms(&work.cluster).await;
    measure::print_header();
    measure::operation(work, "create", 64, time, &Arc::default()).await;
    let after = terms(&work.cluster).await;
    println!("\nterms before {before:?}, after {} s {after:?}", time.as_secs());
    assert_eq!(before, after, "an election took place");
}

async fn terms(cluster: &Cluster) -> Vec<u64> {
    join_all(cluster.nodes().map(Node::term)).await
}

/// Clients that create memories while leaders fail, spread over the nodes.
const WRITERS: usize = 16;
/// Pause of a writer after a failed request.
const WRITER_PAUSE: Duration = Duration::from_millis(20);

/// Creates memories until it is aborted, whatever fails.
async fn write(cluster: Arc<Cluster>, writer: usize) {
    let node = cluster.at(writer % cluster.nodes().len());
    loop {
        let create = node.request(Method::POST, "/agent/nodes");
        let create = create.json(&json!({"label": format!("beside failovers, {writer}")}));
        if !create.try_send().await.is_ok_and(|response| response.status.is_success()) {
            tokio::time::sleep(WRITER_PAUSE).await;
        }
    }
}

/// From the end of the leader's process, or from its pause with `freezes`, to the first write that
/// another node acknowledges, while [`WRITERS`] write.
pub async fn failovers(cluster: &Arc<Cluster>, count: usize, freezes: bool) {
    let mut seconds = Vec::new();
    let writers: Vec<_> =
        (0..WRITERS).map(|at| tokio::spawn(write(Arc::clone(cluster), at))).collect();
    for number in 0..count {
        let [leader, survivor] = cluster.leader_first().await;
        let killed = Instant::now();
        if freezes {
            leader.pause()
        } else {
            leader.kill()
        };
        let body = json!({"label": format!("after failover {number}")});
        // Without a pause, which would add to the time.
        loop {
            let request = survivor.request(Method::POST, "/agent/nodes").json(&body);
            if request.try_send().await.is_ok_and(|response| response.status.is_success()) {
                break;
            }
        }
        seconds.push(killed.elapsed().as_secs_f64());
        if freezes {
            leader.resume();
            let role = async || leader.status().await.map(|status| status["role"].clone());
            let follows = |role: &Option<Value>| *role == Some(json!("follower"));
            eventually("the old leader follows", role, follows).await;
        } else {
            leader.restart().await;
        }
    }
    writers.iter().for_each(tokio::task::JoinHandle::abort);
    seconds.sort_by(f64::total_cmp);
    let [median, first, last] = [count / 2, 0, count - 1].map(|at| seconds[at]);
    let lost = if freezes { "frozen" } else { "killed" };
    println!(
        "leader {lost} {count} times: first write after {median:.2} s at the median, {first:.2} to {last:.2} s"
    );
    let (median_max, last_max) = if freezes { (1.2, None) } else { (0.3, Some(0.6)) };
    print_target(&format!("median of seconds, leader {lost}"), median, AtMost(median_max));
    if let Some(last_max) = last_max {
        print_target(&format!("longest of seconds, leader {lost}"), last, AtMost(last_max));
    }
}

/// Start after a kill, which leaves the log to replay, and after an orderly stop.
pub async fn restart(cluster: &Cluster, memories: u64) {
    cluster.kill();
    for (after, stop) in [("a kill", true), ("an orderly stop", false)] {
        let started = Instant::now();
        cluster.restart().await;
        let seconds = started.elapsed().as_secs_f64();
        println!("\nStart with {memories} memories after {after}: {seconds:.2} s");
        if stop {
            cluster.shut_down().await;
        }
    }
}

/// The embedding model changes while clients create memories. Measures the time of the change, and the
/// longest time in which no create was acknowledged.
pub async fn model_change(work: &Work) {
    const DIMENSION: u64 = 512;
    let cluster = &work.cluster;
    let folder = cluster.folder().join("next-model");
    std::fs::create_dir(&folder).expect("a folder");
    std::fs::write(folder.join("dimension"), DIMENSION.to_string()).expect("a file");
    let folder = folder.to_str().expect("a path in UTF-8");
    // The last acknowledged create, and the longest time between two.
    let times = Arc::new(Mutex::new((Instant::now(), Duration::ZERO)));
    let write = |writer: usize| {
        let (cluster, times) = (Arc::clone(cluster), Arc::clone(&times));
        async move {
            for number in 0.. {
                let create = cluster.request(Method::POST, "/agent/nodes");
                let body = json!({"label": format!("beside the change {writer} {number}")});
                if create.json(&body).try_send().await.is_ok_and(|it| it.status.is_success()) {
                    let (last, longest) = &mut *locked(&times);
                    *longest = last.elapsed().max(*longest);
                    *last = Instant::now();
                } else {
                    tokio::time::sleep(WRITER_PAUSE).await;
                }
            }
        }
    };
    let writers: Vec<_> = (0..4).map(|writer| tokio::spawn(write(writer))).collect();
    let started = Instant::now();
    let (succeeded, text) = cluster.run(&["model", "--ops", cluster.ops(), "set", folder]).await;
    assert!(succeeded, "{text}");
    loop {
        let status = cluster.ops_request(Method::GET, "/cluster/model").send().await.ok();
        if status["next"].is_null() && status["model"]["dimension"] == DIMENSION {
            break;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let seconds = started.elapsed().as_secs_f64();
    // Until creates go on.
    let before = Instant::now();
    while locked(&times).0 < before {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    writers.iter().for_each(tokio::task::JoinHandle::abort);
    let longest = locked(&times).1.as_secs_f64();
    println!(
        "\nChange of the model of {} memories beside 4 clients: {seconds:.1} s; longest time without a \
         create: {longest:.2} s",
        work.memories
    );
}

fn locked<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A backup of all memories, one after 1,000 more, and a restoration.
pub async fn backup(work: &Work) {
    let cluster = &work.cluster;
    let place = tempfile::tempdir().expect("a folder");
    let place = place.path().to_str().expect("a path in UTF-8");
    let run = async |arguments: &[&str]| {
        let started = Instant::now();
        let (succeeded, text) = cluster.run(arguments).await;
        assert!(succeeded, "{text}");
        started.elapsed().as_secs_f64()
    };
    println!("\n| | memories | seconds | MB uploaded | MB in all |\n|---|---:|---:|---:|---:|");
    let create = async |what: &str, memories: u64| {
        let seconds = run(&["backup", "create", place, "--ops", cluster.ops()]).await;
        let status = cluster.ops_request(Method::GET, "/cluster/backups").send().await.ok();
        let megabytes = |name: &str| status["last"][name].as_u64().unwrap_or(0) / 1_000_000;
        let (uploaded, all) = (megabytes("uploaded_bytes"), megabytes("bytes"));
        println!("| {what} | {memories} | {seconds:.1} | {uploaded} | {all} |");
    };
    create("backup", work.memories).await;
    for number in 0..1_000 {
        cluster.create(&json!({"label": format!("after the backup {number}")})).await;
    }
    create("the next backup", work.memories + 1_000).await;
    let config = cluster.restored_config();
    let config = config.to_str().expect("a path in UTF-8");
    let seconds = run(&["restore", place, "--config", config]).await;
    println!("| restoration | {} | {seconds:.1} | | |", work.memories + 1_000);
}
