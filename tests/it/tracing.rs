//! Traces of requests: one trace over the nodes that a request uses, without its texts. A collector that
//! does not respond delays no request.

use std::net::TcpListener;
use std::process::Command;
use std::time::{Duration, Instant};

use futures::future::join_all;
use tests::Process;

use super::*;

/// The trace of a client, and its span (the example of W3C Trace Context).
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CLIENT_SPAN: &str = "00f067aa0ba902b7";

/// The header of a client that traces its requests, or not.
fn traceparent(is_sampled: bool) -> String {
    format!("00-{TRACE}-{CLIENT_SPAN}-0{}", u8::from(is_sampled))
}

/// A collector, and the spans that it has.
struct Collector {
    process: Process,
    _folder: tempfile::TempDir,
}

impl Collector {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let script = format!("{}/clients/standards.py", env!("CARGO_MANIFEST_DIR"));
        let mut command = Command::new(installed("python"));
        let log = folder.path().join("collector.log");
        let process = Process::start(command.arg(script).arg("collect"), log);
        Self { process, _folder: folder }
    }

    async fn url(&self) -> String {
        let log = async || self.process.log();
        let log = eventually("the collector listens", log, |log| log.contains('\n')).await;
        log.lines().next().unwrap().to_owned()
    }

    fn spans(&self) -> Vec<Value> {
        let log = self.process.log();
        let complete = log.rsplit_once('\n').map_or("", |(lines, _)| lines);
        let spans = complete.lines().filter(|line| line.starts_with('{'));
        spans.map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The spans of the client's trace, once there are those of its requests and those that other nodes
    /// began for them. A span ends after those below it.
    async fn trace_of(&self, requests: usize, submits: usize) -> Vec<Value> {
        let spans = async || {
            let spans = self.spans().into_iter();
            spans.filter(|span| span["trace"] == TRACE).collect::<Vec<_>>()
        };
        let count = |spans: &Vec<Value>, holds: fn(&Value) -> bool| {
            spans.iter().filter(|span| holds(span)).count()
        };
        eventually("the collector has the spans", spans, |spans| {
            count(spans, |span| span["attributes"]["request_id"].is_string()) >= requests
                && count(spans, |span| span["name"] == "submit") >= submits
        })
        .await
    }
}

/// The only span with a name below a span.
fn below<'a>(spans: &'a [Value], parent: &Value, name: &str) -> &'a Value {
    let mut found = spans.iter().filter(|span| span["parent"] == *parent && span["name"] == name);
    let first = found.next().unwrap_or_else(|| panic!("no {name} below {parent}: {spans:#?}"));
    assert!(found.next().is_none(), "two {name} below {parent}: {spans:#?}");
    first
}

#[tokio::test]
async fn trace_follows_a_write_to_the_leader() {
    let collector = Collector::start();
    let cluster = options().nodes(3).env("HEARTH__TRACING__URL", &collector.url().await).start();
    let [leader, follower, _] = cluster.leader_first().await;
    let traced =
        |method, path| follower.request(method, path).header("traceparent", &traceparent(true));
    let created = traced(Method::POST, "/agent/nodes");
    let created = created.json(&labelled("a secret text")).send().await;
    let created_id = created.headers["x-request-id"].to_str().unwrap().to_owned();
    created.ok();
    let found = traced(Method::POST, "/agent/search?consistency=linearizable");
    let found = found.json(&json!({"query": "another secret"})).send().await;
    let found_id = found.headers["x-request-id"].to_str().unwrap().to_owned();
    found.ok();

    let spans = collector.trace_of(2, 1).await;
    let node_of =
        |span: &Value| span["attributes"]["node"].as_str().unwrap().parse::<u64>().unwrap();
    let client_span = json!(CLIENT_SPAN);
    let create = below(&spans, &client_span, "POST /api/v1/agent/nodes");
    assert_eq!(create["attributes"]["request_id"], created_id);
    assert_eq!(create["attributes"]["http.response.status_code"], "201");
    assert_eq!(create["attributes"]["tenant"], "1");
    assert_eq!((node_of(create), create["kind"].as_u64()), (follower.id(), Some(2)));
    assert_eq!(create["resource"]["service.name"], "hearth");
    below(&spans, &create["id"], "embed");
    below(&spans, &create["id"], "wait_applied");
    let forward = below(&spans, &create["id"], "forward");
    let submit = below(&spans, &forward["id"], "submit");
    assert_eq!((node_of(submit), submit["kind"].as_u64()), (leader.id(), Some(2)));
    assert_ne!(
        submit["resource"]["service.instance.id"],
        create["resource"]["service.instance.id"]
    );
    below(&spans, &submit["id"], "decide");
    let commit = below(&spans, &submit["id"], "commit");
    below(&spans, &commit["id"], "sync");
    below(&spans, &commit["id"], "apply");

    let search = below(&spans, &client_span, "POST /api/v1/agent/search");
    assert_eq!(search["attributes"]["request_id"], found_id);
    below(&spans, &search["id"], "embed");
    below(&spans, &search["id"], "read_index");
    let read = below(&spans, &search["id"], "read");
    for step in ["plan", "scan", "context", "rows"] {
        below(&spans, &read["id"], step);
    }
    for span in &spans {
        assert!(!span.to_string().contains("secret"), "{span}");
        let parent = spans.iter().find(|parent| parent["id"] == span["parent"]);
        let outer = parent.map_or(u64::MAX, |parent| parent["micros"].as_u64().unwrap());
        // The clocks of two spans are read one after the other.
        assert!(span["micros"].as_u64().unwrap() <= outer.saturating_add(1_000), "{spans:#?}");
    }
}

#[tokio::test]
async fn requests_are_traced_as_configured() {
    let collector = Collector::start();
    let url = collector.url().await;
    let cluster = options().start();
    cluster.kill();
    let sample = [("HEARTH__TRACING__ONE_OF", "10"), ("HEARTH__LOG__ONE_OF", "1")];
    let process = cluster.serve_with(&[("HEARTH__TRACING__URL", &url), sample[0], sample[1]]);
    cluster.ready().await;
    let send = async |header: Option<bool>| {
        let request = cluster.request(Method::GET, "/agent/nodes");
        let request = match header {
            None => request,
            Some(is_sampled) => request.header("traceparent", &traceparent(is_sampled)),
        };
        request.send().await.ok();
    };
    for _ in 0..100 {
        send(Some(false)).await;
    }
    for _ in 0..100 {
        send(None).await;
    }
    send(Some(true)).await;
    collector.trace_of(1, 0).await;
    let spans = collector.spans();
    let requests = |of_client: bool| {
        let is_request = |span: &&Value| span["attributes"]["request_id"].is_string();
        let requests = spans.iter().filter(is_request);
        requests.filter(|span| (span["trace"] == TRACE) == of_client).count()
    };
    // Besides, the harness has sent some.
    assert_eq!(requests(true), 1, "those of a client that traces none are not traced");
    assert!((10..=20).contains(&requests(false)), "{}", requests(false));
    let line = async || process.log();
    let has_ids = |log: &String| log.contains(&format!("trace_id={TRACE}"));
    eventually("the line of the request has its trace", line, has_ids).await;
}

#[tokio::test]
async fn clients_begin_few_traces_without_texts() {
    let collector = Collector::start();
    let url = collector.url().await;
    let cluster = options().env("HEARTH__TRACING__URL", &url).start();
    let requests = (0..300).map(|_| async {
        let request = cluster.bare_request(Method::from_bytes(b"SECRET").unwrap(), "/api/v1/org");
        let request = request.header("traceparent", &traceparent(true));
        request.header("tracestate", "vendor=secret").send().await.status
    });
    let started = Instant::now();
    join_all(requests).await;
    let seconds = started.elapsed().as_secs() as usize + 2;
    let spans = collector.trace_of(1, 0).await;
    assert!(spans.len() <= 50 * seconds, "{} spans in {seconds} s", spans.len());
    for span in &spans {
        assert!(!span.to_string().to_lowercase().contains("secret"), "{span}");
        assert_eq!((&span["parent"], &span["state"]), (&json!(CLIENT_SPAN), &json!("")));
    }
    let skipped = cluster.metric("hearth_traces_skipped_total").await;
    assert!(skipped >= 300.0 - 50.0 * seconds as f64, "{skipped} in {seconds} s");
}

#[tokio::test]
async fn silent_collector_delays_no_request() {
    // It accepts connections, and responds to nothing.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let cluster = options().start();
    cluster.kill();
    let all = ("HEARTH__TRACING__ONE_OF", "1");
    let mut process = cluster.serve_with(&[("HEARTH__TRACING__URL", &url), all]);
    cluster.ready().await;
    let took = async |is_traced: bool, is_write: bool| {
        let started = Instant::now();
        let label = format!("a note at {started:?}");
        let request = match is_write {
            true => cluster.request(Method::POST, "/agent/nodes").json(&labelled(label)),
            false => cluster.request(Method::GET, "/agent/nodes?search=fox"),
        };
        let request = match is_traced {
            true => request,
            false => request.header("traceparent", &traceparent(false)),
        };
        request.send().await.ok();
        started.elapsed()
    };
    let mut times = [Vec::new(), Vec::new()];
    // More spans than the queue holds.
    let spans = 6_000.0;
    while cluster.metric("hearth_spans_total").await < spans {
        for number in 0..400 {
            times[0].push(took(false, number % 2 == 0).await);
            times[1].push(took(true, number % 2 == 0).await);
        }
    }
    let [untraced, traced] = times.map(|mut times| {
        times.sort();
        times[times.len() / 2]
    });
    assert!(traced < 2 * untraced, "{traced:?} with spans, {untraced:?} without");
    assert_eq!(cluster.metric("hearth_spans_sent_total").await, 0.0);
    let started = Instant::now();
    assert!(process.stop().await);
    assert!(started.elapsed() < Duration::from_secs(30));
    let log = process.log();
    assert_eq!(log.matches("accepts no spans").count(), 1, "{log}");
}
