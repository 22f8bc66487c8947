//! A newcomer's first hour: the commands of the README do what it says, line by line, and the examples
//! run.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::*;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// The section of the README with the first use.
fn first_use() -> String {
    let readme = std::fs::read_to_string(format!("{ROOT}/README.md")).unwrap();
    let (_, rest) = readme.split_once("\n## First use\n").expect("the section");
    rest.split_once("\n## ").expect("the next section").0.to_owned()
}

/// The commands of a section, with their continuations.
fn commands(section: &str) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    let mut continues = false;
    for line in section.lines().filter_map(|line| line.strip_prefix("    ")) {
        let known = ["make ", "export ", "hearth ", "curl ", "pip "];
        if continues {
            let last = all.last_mut().unwrap();
            *last += &format!("\n{line}");
        } else if known.iter().any(|word| line.starts_with(word)) {
            all.push(line.to_owned());
        } else {
            continue;
        }
        continues = line.ends_with('\\');
    }
    all
}

/// Runs a shell script in a folder, with the binary under test as `hearth`, and returns what it prints.
fn shell(folder: &Path, script: &str) -> String {
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    let mut command = Command::new("bash");
    command.args(["-euo", "pipefail", "-c", script]).current_dir(folder).env("PATH", path);
    command.env("HEARTH_PROFILES", folder.join("profiles.toml"));
    let output = tokio::task::block_in_place(|| command.output().unwrap());
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{script}\n{out}{err}");
    out.into_owned()
}

/// A public port of a node of the cluster in `folder`.
fn port(folder: &Path, node: usize) -> String {
    let config = folder.join(format!("cluster/node-{node}/hearth.toml"));
    let config = std::fs::read_to_string(config).unwrap();
    let public = config.split_once("[public]").unwrap().1;
    let listen = public.lines().find(|line| line.starts_with("listen")).unwrap();
    listen.rsplit_once(':').unwrap().1.trim_matches('"').to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn readme_works_line_by_line() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::os::unix::fs::symlink(BINARY, folder.join("hearth")).unwrap();
    let section = first_use();
    let commands = commands(&section);
    assert!(commands[0].starts_with("make install ") && commands[1].starts_with("export PATH="));
    let dev = commands[2].split_once('#').unwrap().0.trim();
    assert_eq!(dev, "hearth dev --nodes 3 --data cluster");
    // Other ports: the README's may be in use.
    let dev = format!("exec {dev} --base-port 0 --embedder hashing");
    let mut cluster = Command::new("bash");
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    cluster.args(["-c", &dev]).current_dir(folder).env("PATH", path).stdout(Stdio::piped());
    cluster.env("HEARTH_PROFILES", folder.join("profiles.toml"));
    let mut cluster = Killed(cluster.spawn().unwrap());
    let lines = BufReader::new(cluster.0.stdout.take().unwrap()).lines();
    let mut lines = lines.map_while(Result::ok);
    tokio::task::block_in_place(|| lines.find(|line| line.contains("Ctrl-C"))).expect("it starts");
    let [first, second] = [1, 2].map(|node| port(folder, node));
    let with_ports = |text: &str| text.replace("4200", &first).replace("4203", &second);
    // What is exported holds for all that follows.
    let (installs, rest): (Vec<_>, Vec<_>) =
        commands[3..].iter().partition(|command| command.starts_with("pip "));
    assert_eq!(installs.len(), 1, "the package that the tests have installed");
    let rest: Vec<_> = rest.into_iter().cloned().collect();
    let printed = shell(folder, &with_ports(&rest.join("\n")));
    let label = "The user prefers metric units.";
    // By the commands, then by curl.
    assert!(printed.matches(label).count() >= 3, "{printed}");
    let (_, python) = section.split_once("```python\n").unwrap();
    let (python, _) = python.split_once("```").unwrap();
    std::fs::write(folder.join("first.py"), with_ports(python)).unwrap();
    let exports = rest.iter().filter(|command| command.starts_with("export "));
    let exports: Vec<_> = exports.cloned().collect();
    let python = installed("python").display().to_string();
    let printed = shell(folder, &format!("{}\n{python} first.py", exports.join("\n")));
    assert!(printed.contains(label), "{printed}");
}

/// A process that ends with the test.
struct Killed(std::process::Child);

impl Drop for Killed {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// An example with the environment that it names.
fn example(cluster: &Cluster, program: &Path, file: &str) -> Command {
    let mut command = Command::new(program);
    command.arg(format!("{ROOT}/deploy/examples/{file}"));
    let ca = cluster.folder().join("ca.pem");
    command.env("HEARTH_URL", cluster.url()).env("HEARTH_API_KEY", &cluster.key);
    command.env("HEARTH_CA", &ca).env("SSL_CERT_FILE", &ca);
    command
}

fn printed(mut command: Command) -> String {
    let output = tokio::task::block_in_place(|| command.output().unwrap());
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {error}");
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn examples_of_agents_remember() {
    let cluster = options().start();
    let python = installed("python");
    let text = printed(example(&cluster, &python, "agent.py"));
    let last = text.lines().last().unwrap();
    assert!(last.starts_with("agent: I know:") && last.contains("metric units"), "{text}");
    let text = printed(example(&cluster, &python, "agent_mcp.py"));
    assert!(text.contains("sulcus_remember") && text.contains("metric units"), "{text}");
    let text = printed(example(&cluster, &PathBuf::from("bash"), "curl.sh"));
    assert!(text.matches("metric units").count() >= 4, "{text}");
    printed(example(&cluster, &PathBuf::from("bash"), "curl.sh"));
    let list = cluster.get("/agent/nodes?tags=units").await;
    assert_eq!(list["total"], 1, "the second run stores nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn example_receiver_checks_signatures() {
    let cluster = options().start();
    let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    let mut command = example(&cluster, &installed("python"), "webhook_receiver.py");
    command.arg("0").env("WEBHOOK_SECRET", secret).stdout(Stdio::piped());
    let mut receiver = Killed(command.spawn().unwrap());
    let mut lines = BufReader::new(receiver.0.stdout.take().unwrap()).lines();
    let mut line = || tokio::task::block_in_place(|| lines.next().unwrap().unwrap());
    let url = line().split_once("http").map(|(_, rest)| format!("http{rest}")).unwrap();
    create_webhook(&cluster, json!({"url": url, "webhook_secret": secret}), None).await;
    cluster.create(&json!({"label": "red fox"})).await;
    assert_eq!(line(), "fired: red fox");
    // A wrong signature, an old delivery with its own signature, and the check itself.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let key = STANDARD.decode(&secret["whsec_".len()..]).unwrap();
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &key);
    let body = json!({"node": {"label": "again"}}).to_string();
    let signature = |time: u64| {
        let tag = ring::hmac::sign(&key, format!("msg_1.{time}.{body}").as_bytes());
        format!("v1,{}", STANDARD.encode(tag))
    };
    for (time, signature, status) in [
        (now, "v1,AAAA".to_owned(), StatusCode::UNAUTHORIZED),
        (now, signature(now - 1), StatusCode::UNAUTHORIZED),
        (now - 3_600, signature(now - 3_600), StatusCode::UNAUTHORIZED),
        (now, signature(now), StatusCode::NO_CONTENT),
    ] {
        let sent = reqwest::Client::new().post(&url).body(body.clone());
        let sent = sent.header("webhook-id", "msg_1").header("webhook-signature", &signature);
        let sent = sent.header("webhook-timestamp", time.to_string()).send().await.unwrap();
        assert_eq!(sent.status(), status, "{time} {signature}");
    }
}
