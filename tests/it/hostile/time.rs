//! Steps of wall clocks. No step of one clock moves cluster time, and no step of all clocks makes
//! it jump.
#![cfg(feature = "failpoints")]

use std::path::PathBuf;

use tempfile::TempDir;

use super::*;

const HOUR: i64 = 3_600;
const DAY: i64 = 24 * HOUR;
const YEARS: i64 = 3_650 * DAY;

/// A cluster whose nodes read the errors of their wall clocks from files.
struct Clocks {
    cluster: Cluster,
    folder: TempDir,
}

impl Clocks {
    async fn of(nodes: usize) -> Self {
        let this =
            Self { cluster: options().nodes(nodes).start(), folder: TempDir::new().unwrap() };
        converged(&this.cluster).await;
        // One after another, so that a majority runs all the time.
        for at in 0..nodes {
            this.cluster.at(at).kill();
            this.restart(at).await;
        }
        // Each node has applied a stamp in this process, so that its clock has a reference.
        this.cluster.create(&labelled("a stamp")).await;
        converged(&this.cluster).await;
        this
    }

    async fn restart(&self, at: usize) {
        let point = format!("wall-clock=return({})", self.file(at).display());
        self.cluster.at(at).restart_with(&[("FAILPOINTS", &point)]).await;
    }

    fn file(&self, at: usize) -> PathBuf {
        self.folder.path().join(at.to_string())
    }

    /// Makes the wall clock of a node wrong by these seconds.
    fn set(&self, at: usize, seconds: i64) {
        storage::file::replace(&self.file(at), seconds.to_string().as_bytes()).unwrap();
    }

    fn set_all(&self, seconds: i64) {
        (0..self.cluster.nodes().len()).for_each(|at| self.set(at, seconds));
    }

    /// Waits until the leader reports that its median is ahead of cluster time by about these
    /// seconds.
    async fn median_ahead(&self, seconds: i64) {
        let request = || self.cluster.ops_request(Method::GET, "/cluster/clock");
        let is_near = |clock: &Value| {
            let offset = clock["median_offset_ms"].as_i64();
            offset.is_some_and(|ms| (ms / 1_000 - seconds).abs() <= 30)
        };
        eventually("the median is known", async || request().send().await.ok(), is_near).await;
    }

    /// Runs `hearth cluster clock --set-to-median`.
    async fn set_to_median(&self) -> (bool, String) {
        self.cluster
            .run(&["cluster", "--ops", self.cluster.ops(), "clock", "--set-to-median"])
            .await
    }
}

/// Cluster time minus the wall clock of a node, in seconds.
async fn offset(node: &Node) -> f64 {
    node.metric("hearth_cluster_clock_offset_seconds").await
}

fn log_of(node: &Node) -> String {
    std::fs::read_to_string(node.data().join("served.log")).unwrap()
}

#[tokio::test]
async fn step_of_leaders_clock_cools_nothing() {
    let clocks = Clocks::of(3).await;
    let cluster = &clocks.cluster;
    let leader = cluster.leader().await;
    let [node, other] = cluster.leader_first().await;
    let hot = json!({"label": "hot", "initial_heat": 1.0, "decay_class": "volatile"});
    let id = node.store(&hot).await;
    for step in [10 * DAY, 0, -YEARS, YEARS] {
        clocks.set(leader, step);
        node.store_each((0..50).map(labelled)).await;
        let found = node.get(&format!("/agent/nodes/{id}")).await;
        assert!(float(&found["heat"]) > 0.99, "step {step}: {found}");
        let offset = offset(other).await;
        assert!(offset.abs() < 2.0, "step {step}: {offset}");
    }
    let steps = node.metric("hearth_clock_steps_total").await;
    let logged = log_of(node).matches("the wall clock of this machine stepped").count();
    assert_eq!((steps, logged), (4.0, 4), "{}", log_of(node));
    assert_eq!(other.metric("hearth_clock_steps_total").await, 0.0);
}

#[tokio::test]
async fn step_of_all_clocks_waits_for_an_operator() {
    let clocks = Clocks::of(3).await;
    let cluster = &clocks.cluster;
    let [leader] = cluster.leader_first().await;
    leader.create(&labelled("before the step")).await;
    clocks.set_all(HOUR);
    clocks.median_ahead(HOUR).await;
    leader.store_each((0..50).map(labelled)).await;
    for node in cluster.nodes() {
        let offset = offset(node).await;
        assert!((offset + HOUR as f64).abs() < 30.0, "{offset}");
    }
    let warning = "run `hearth cluster clock --set-to-median`";
    assert_eq!(log_of(leader).matches(warning).count(), 1, "{}", log_of(leader));
    let (succeeded, text) = clocks.set_to_median().await;
    assert!(succeeded && text.contains("Cluster time is"), "{text}");
    for node in cluster.nodes() {
        eventually("it is right", async || offset(node).await, |offset| offset.abs() < 2.0).await;
    }
    assert!(log_of(leader).contains("an operator moved cluster time"), "{}", log_of(leader));
    clocks.set_all(0);
    clocks.median_ahead(-HOUR).await;
    let (succeeded, text) = clocks.set_to_median().await;
    assert!(!succeeded && text.contains("it moves forward only"), "{text}");
    converged(cluster).await;
    assert_equal_states(leader).await;
}

#[tokio::test]
async fn restart_jumps_over_days_but_not_over_years() {
    let clocks = Clocks::of(1).await;
    for (error, expected) in [(5 * DAY, 0), (YEARS, 5 * DAY - YEARS)] {
        clocks.cluster.kill();
        clocks.set(0, error);
        clocks.restart(0).await;
        clocks.cluster.create(&labelled("after the downtime")).await;
        let offset = offset(&clocks.cluster).await;
        assert!((offset - expected as f64).abs() < 30.0, "{error}: {offset}");
    }
    assert!(
        log_of(&clocks.cluster).contains("cluster time differs"),
        "{}",
        log_of(&clocks.cluster)
    );
}

/// Neither certificates nor the dates of HTTP work with such a clock.
#[tokio::test]
async fn node_with_an_impossible_clock_stops() {
    let clocks = Clocks::of(3).await;
    for seconds in [3_000_000 * DAY, -25_000 * DAY] {
        let leader = clocks.cluster.leader().await;
        let [node, survivor] = clocks.cluster.leader_first().await;
        clocks.set(leader, seconds);
        // Another node takes over.
        let created = async || {
            let create = survivor.request(Method::POST, "/agent/nodes").json(&labelled("later"));
            create.try_send().await.is_ok_and(|response| response.status.is_success())
        };
        let stopped = async || log_of(node).contains("cannot be right");
        eventually("the node stops", stopped, |stopped| *stopped).await;
        eventually("writes go on", created, |created| *created).await;
        node.kill();
        clocks.set(leader, 0);
        clocks.restart(leader).await;
        converged(&clocks.cluster).await;
    }
}
