//! The alerts of `deploy/alerts.yml` are valid, fire for their causes, and ask for metrics that nodes
//! have. So do the dashboards of `deploy/grafana`. The metrics follow the conventions of Prometheus.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

fn deploy(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy").join(name)
}

fn rules() -> String {
    std::fs::read_to_string(deploy("alerts.yml")).unwrap()
}

fn program(name: &str) -> Command {
    let path = cache().join("prometheus/usr/bin").join(name);
    assert!(path.exists(), "run `make clients` first: {} is missing", path.display());
    Command::new(path)
}

fn promtool(arguments: &[&str]) {
    let ran = program("promtool").args(arguments).current_dir(deploy("")).output().unwrap();
    let text = String::from_utf8([ran.stdout, ran.stderr].concat()).unwrap();
    assert!(ran.status.success(), "promtool {arguments:?}: {text}");
}

/// The names of all alerts.
fn names() -> Vec<String> {
    let rules = rules();
    let names = rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: "));
    names.map(str::to_owned).collect()
}

/// The metrics that the rules name.
fn metrics() -> BTreeSet<String> {
    let rules = rules();
    let words = rules.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("hearth_")).map(str::to_owned).collect()
}

#[test]
fn alerts_are_valid_and_fire_for_their_causes() {
    promtool(&["check", "rules", "alerts.yml"]);
    promtool(&["test", "rules", "alerts_test.yml"]);
    let tests = std::fs::read_to_string(deploy("alerts_test.yml")).unwrap();
    let manual = std::fs::read_to_string(deploy("../docs/alerts.md")).unwrap();
    assert!(names().len() > 20);
    for name in names() {
        assert!(tests.contains(&format!("alertname: {name}\n")), "no test of {name}");
        assert!(manual.contains(&format!("\n## {name}\n")), "docs/alerts.md lacks {name}");
        let runbook = format!("runbook_url: \"docs/alerts.md#{}\"\n", name.to_lowercase());
        assert!(rules().contains(&runbook), "deploy/alerts.yml lacks {runbook}");
    }
}

/// A Prometheus that scrapes all nodes of a cluster each second.
struct Prometheus {
    child: Child,
    url: String,
    _folder: tempfile::TempDir,
}

impl Prometheus {
    fn start(cluster: &Cluster) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let targets: Vec<_> =
            cluster.nodes().map(|node| node.ops().trim_start_matches("http://")).collect();
        let config = json!({
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [deploy("alerts.yml")],
            "scrape_configs": [{"job_name": "hearth", "static_configs": [{"targets": targets}]}],
        });
        // YAML contains JSON.
        std::fs::write(folder.path().join("prometheus.yml"), config.to_string()).unwrap();
        let port = free_address().port();
        let child = program("prometheus")
            .current_dir(folder.path())
            .arg("--config.file=prometheus.yml")
            .arg("--storage.tsdb.path=data")
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self { child, url: format!("http://127.0.0.1:{port}"), _folder: folder }
    }

    /// Data of a successful request to its API.
    async fn get(&self, cluster: &Cluster, path: &str, query: &str) -> Option<Value> {
        let url = format!("{}/api/v1/{path}", self.url);
        let request = cluster.client.get(url).query(&[("query", query)]);
        let body: Value = request.send().await.ok()?.json().await.ok()?;
        (body["status"] == "success").then(|| body["data"].clone())
    }

    /// Number of series that a query finds.
    async fn count(&self, cluster: &Cluster, query: &str) -> usize {
        let found = self.get(cluster, "query", query).await;
        found.map_or(0, |data| array(&data["result"]).len())
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

#[tokio::test]
async fn prometheus_finds_every_metric_of_the_alerts() {
    let place = tempfile::tempdir().unwrap();
    let options = options().nodes(3).env("HEARTH__BACKUP__URL", place.path().to_str().unwrap());
    let cluster = options.start();
    cluster.create(&labelled("a memory")).await;
    let prometheus = Prometheus::start(&cluster);
    let up = async || prometheus.count(&cluster, "up == 1").await;
    eventually("all nodes are scraped", up, |nodes| *nodes == 3).await;
    for metric in metrics() {
        let series = async || prometheus.count(&cluster, &metric).await;
        let what = format!("{metric} has series");
        eventually(&what, series, |series| *series > 0).await;
    }
    let evaluated = async || {
        let data = prometheus.get(&cluster, "rules", "").await.unwrap_or_default();
        let groups = data["groups"].as_array().cloned().unwrap_or_default();
        let rules = groups.iter().flat_map(|group| array(&group["rules"]).clone());
        rules.filter(|rule| rule["health"] == "ok").count()
    };
    eventually("every rule is evaluated", evaluated, |rules| *rules == names().len()).await;
    // Without a majority, a node that is left has no contact with a leader.
    cluster.at(1).kill();
    cluster.at(2).kill();
    let firing = async |alert: &str| {
        let query = format!("ALERTS{{alertname=\"{alert}\",alertstate=\"firing\"}}");
        prometheus.count(&cluster, &query).await
    };
    for alert in ["HearthNoLeader", "HearthQuorumLost"] {
        eventually(alert, async || firing(alert).await, |alerts| *alerts > 0).await;
    }
}

/// What a dashboard shows without its cause.
const EMPTY: [&str; 4] = [
    // No alert fires, no request fails.
    "ALERTS{alertname=~\"Hearth.+\", alertstate=\"firing\"}",
    "status=~\"5..\"",
    // The first scheduled backup takes a minute.
    "hearth_backup_newest_timestamp_seconds",
    // No tenant has reached a limit.
    "hearth_tenant_rejected_total",
];

/// Title of the panel and expression of each target in `panels`.
fn expressions(panels: &Value) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for panel in array(panels) {
        if panel["panels"].is_array() {
            found.extend(expressions(&panel["panels"]));
        }
        for target in panel["targets"].as_array().into_iter().flatten() {
            let mut text = string(&target["expr"]).to_owned();
            for (variable, value) in [
                ("$__rate_interval", "1m"),
                ("$__range", "1h"),
                ("$job", "hearth"),
                ("$instance", ".+"),
                ("$tenant", ".+"),
            ] {
                text = text.replace(variable, value);
            }
            assert!(!text.contains('$'), "{text}");
            found.push((string(&panel["title"]).to_owned(), text));
        }
    }
    found
}

#[tokio::test]
async fn prometheus_answers_every_dashboard() {
    let place = tempfile::tempdir().unwrap();
    let options = options().nodes(3).env("HEARTH__BACKUP__URL", place.path().to_str().unwrap());
    let cluster = options.start();
    let prometheus = Prometheus::start(&cluster);
    let (mut files, texts) = (0, AtomicUsize::new(0));
    for file in std::fs::read_dir(deploy("grafana")).unwrap().map(Result::unwrap) {
        let board: Value = serde_json::from_slice(&std::fs::read(file.path()).unwrap()).unwrap();
        files += 1;
        for (title, expression) in expressions(&board["panels"]) {
            let what = format!("{:?}, {title}: {expression} has data", file.file_name());
            let answered = async || {
                // Rates need requests at each scrape, and texts that no cache has.
                let text = format!("memory {}", texts.fetch_add(1, Ordering::Relaxed));
                cluster.create(&labelled(&text)).await;
                cluster.post("/agent/search", &json!({"query": text})).await;
                drop(cluster.get("/agent/hot_nodes").await);
                drop(cluster.bare_request(Method::GET, "/api/v1/agent/nodes").try_send().await);
                prometheus.get(&cluster, "query", &expression).await
            };
            let is_answered = |data: &Option<Value>| {
                let has_cause = !EMPTY.iter().any(|empty| expression.contains(empty));
                data.as_ref().is_some_and(|it| !has_cause || !array(&it["result"]).is_empty())
            };
            eventually(&what, answered, is_answered).await;
        }
    }
    assert_eq!(files, 4);
}

#[tokio::test]
async fn metrics_follow_the_conventions_of_prometheus() {
    let cluster = options().nodes(3).start();
    cluster.create(&labelled("a memory")).await;
    let text = cluster.client.get(format!("{}/metrics", cluster.ops())).send().await;
    let text = text.unwrap().text().await.unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), &text).unwrap();
    let mut command = program("promtool");
    command.args(["check", "metrics"]).stdin(file.reopen().unwrap());
    let checked = command.output().unwrap();
    let said = String::from_utf8([checked.stdout, checked.stderr].concat()).unwrap();
    assert!(checked.status.success() && said.is_empty(), "{said}");
    for name in ["process_resident_memory_bytes", "hearth_log_sync_seconds_bucket"] {
        assert!(text.contains(name), "{name}");
    }
}
