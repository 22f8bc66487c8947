//! What an operator sends with a report of a fault: all that it needs, no key, and no text of a memory.

use super::*;

#[tokio::test]
async fn bundle_has_what_a_report_needs() {
    let cluster = options().nodes(3).start();
    cluster.create(&json!({"label": "PLANTED text", "metadata": {"of": "PLANTED"}})).await;
    cluster.post("/agent/search", &json!({"query": "PLANTED question"})).await;
    let other = cluster.post("/keys", &json!({"name": "agent", "role": "agent"})).await;
    let (data, out) = (cluster.data(), cluster.folder().join("bundle.txt"));
    let file = |name: &str| data.join(name).to_str().unwrap().to_owned();
    let arguments =
        ["debug", "bundle", "--config", &file("hearth.toml"), "--log", &file("node.log")];
    let to = ["--out", out.to_str().unwrap()];
    let (succeeded, said) = cluster.run(&[&arguments[..], &to].concat()).await;
    assert!(succeeded && said.contains("Read it before you send it"), "{said}");
    let bundle = std::fs::read_to_string(&out).unwrap();
    for needed in [
        "commit development",
        "reserve_bytes",
        "[+] ",
        "\"leader\": ",
        "hearth_failure_tolerance",
        "log.mark",
        "MemTotal",
        "node::serve: listening",
    ] {
        assert!(bundle.contains(needed), "{needed}: {bundle}");
    }
    let secret = |name: &str| std::fs::read_to_string(cluster.folder().join(name)).unwrap();
    let keys = [&cluster.key, &cluster.operator_key, string(&other["key"])].map(str::to_owned);
    let files = ["cluster.key", "operator.key"].map(|name| secret(name).trim().to_owned());
    let planted = ["PLANTED", "PRIVATE KEY", "BEGIN CERTIFICATE"].map(str::to_owned);
    for secret in keys.iter().chain(&files).chain(&planted) {
        assert!(!bundle.contains(secret.as_str()), "it has a secret");
    }
}
