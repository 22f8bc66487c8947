//! The published Python client (synchronous and asynchronous) and its LangChain
//! integration work unmodified: base URL, key and authority are all that is theirs.

use std::path::PathBuf;
use std::process::Command;

use crate::options;

/// A program of what `deploy/setup/clients.sh` installs.
pub(crate) fn installed(program: &str) -> PathBuf {
    let from = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let cache = from("HEARTH_CACHE")
        .or_else(|| from("XDG_CACHE_HOME").map(|cache| cache.join("hearth")))
        .or_else(|| from("HOME").map(|home| home.join(".cache/hearth")));
    cache.unwrap().join("clients/bin").join(program)
}

fn run(calls: &str) {
    let cluster = options().nodes(3).start();
    let info = cluster.folder().join("cluster.json");
    std::fs::write(&info, cluster.info.to_string()).unwrap();
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("clients/published.py");
    let ran = Command::new(installed("python"))
        .arg(script)
        .arg(&info)
        .arg(calls)
        .env("SSL_CERT_FILE", cluster.folder().join("ca.pem"))
        .output()
        .unwrap();
    let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success() && out.contains("all is as it was told"), "{out}{err}");
}

#[test]
fn the_published_clients_work_with_each_call_on_another_node() {
    run("spread");
}

#[test]
fn the_published_clients_work_on_one_node_and_wait_for_nothing() {
    run("one");
}
