//! Published clients work unmodified: the Python client, synchronous and asynchronous, and its
//! LangChain integration. So do the reference verifier of Standard Webhooks and a published
//! reader of server-sent events.

use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStdout, Command, Stdio};

use super::*;

/// The Python of the clients, with a script and the authority of a cluster.
fn python(cluster: &Cluster, script: &str) -> Command {
    let mut command = Command::new(installed("python"));
    command.arg(format!("{}/clients/{script}", env!("CARGO_MANIFEST_DIR")));
    command.env("SSL_CERT_FILE", cluster.folder().join("ca.pem"));
    command
}

fn run(calls: &str) {
    let cluster = options().nodes(3).start();
    let info = cluster.folder().join("cluster.json");
    std::fs::write(&info, cluster.info.to_string()).unwrap();
    let ran = python(&cluster, "published.py").arg(&info).arg(calls).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success() && out.contains("all checks passed"), "{out}{err}");
}

#[test]
fn published_clients_work_across_nodes() {
    run("spread");
}

#[test]
fn published_clients_work_on_one_node() {
    run("one");
}

/// A run of `standards.py`, and the lines that it prints.
struct Standards {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Standards {
    fn start(cluster: &Cluster, arguments: &[&str]) -> Self {
        let mut command = python(cluster, "standards.py");
        let mut child = command.args(arguments).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    fn line(&mut self) -> String {
        tokio::task::block_in_place(|| self.lines.next().expect("a line").unwrap())
    }
}

impl Drop for Standards {
    fn drop(&mut self) {
        // It may have ended by itself.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn reference_verifier_accepts_webhook_signatures() {
    let cluster = options().nodes(3).start();
    let (old, new) =
        ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD");
    let mut receiver = Standards::start(&cluster, &["verify", "2", old, new]);
    let config = json!({"url": receiver.line(), "webhook_secret": old});
    let created = create_webhook(&cluster, config, None).await;
    cluster.create(&json!({"label": "größe 京都"})).await;
    assert_eq!(receiver.line(), "valid signatures: 1");
    let rotate = json!({"action_config": {"webhook_secret": new}});
    let path = format!("/triggers/{}", id(&created));
    cluster.patch(&path, &rotate).await;
    cluster.create(&json!({"label": "red fox"})).await;
    assert_eq!(receiver.line(), "valid signatures: 2");
}

#[tokio::test(flavor = "multi_thread")]
async fn sse_reader_resumes_after_a_leader_crash() {
    let cluster = options().nodes(3).start();
    // The leader's stream first, so that it breaks.
    let nodes @ [leader, survivor, _] = cluster.leader_first().await;
    let urls = nodes.map(Node::url).join(",");
    let mut reader = Standards::start(&cluster, &["follow", &urls, &cluster.key]);
    assert_eq!(reader.line(), "ready");
    let mut expected = Vec::new();
    for number in 0..40 {
        let label = if number == 39 { "the end".to_owned() } else { format!("memory {number}") };
        if number == 20 {
            leader.kill();
        }
        let store = async || {
            let request = survivor.request(Method::POST, "/agent/nodes");
            let request = request.header("Idempotency-Key", &label);
            request.json(&json!({"label": label})).send().await
        };
        eventually("a memory is stored", store, |response| response.status.is_success()).await;
        expected.push(label);
    }
    let mut read = Vec::new();
    while read.last().is_none_or(|label| label != "the end") {
        let line = reader.line();
        if line != "ready" {
            read.push(line);
        }
    }
    assert_eq!(read, expected);
}
