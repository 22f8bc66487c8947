//! `hearth serve --check` finds what would keep a node from working, and says what to mend. It
//! changes nothing. Certificates that change are used without a restart or a signal.

use super::*;

/// Runs the check with the configuration of the first node.
async fn check(cluster: &Cluster, environment: &[(&str, &str)]) -> (bool, String) {
    let config = cluster.data().join("hearth.toml");
    let mut command = tokio::process::Command::new(cluster.binary());
    command.args(["serve", "--check", "--config"]).arg(config).envs(environment.iter().copied());
    let ran = command.output().await.unwrap();
    let text = String::from_utf8([ran.stdout, ran.stderr].concat()).unwrap();
    (ran.status.success(), text)
}

/// Creates the certificate of the first node again.
async fn renew(cluster: &Cluster, host: &str, days: &str) {
    let folder = cluster.folder().to_str().unwrap();
    let arguments = ["certs", "--renew", "--folder", folder, "--node", "1", "--days", days];
    let (succeeded, text) = cluster.run(&[&arguments[..], &["--host", host]].concat()).await;
    assert!(succeeded, "{text}");
}

#[tokio::test]
async fn check_names_what_is_wrong() {
    let cluster = options().nodes(3).start();
    let (succeeded, text) = check(&cluster, &[]).await;
    assert!(succeeded, "{text}");
    for found in [
        "[+] certificates: public expires in 396 days",
        "[+] peer certificate: valid for 127.0.0.1",
        "of node 1",
        "MiB free, reserve 64 MiB",
        "accepts connections",
        "is in use, perhaps by this node",
    ] {
        assert!(text.contains(found), "{found}: {text}");
    }
    for (name, value, wrong) in [
        ("HEARTH__PEER__ADDRESS", "elsewhere.example:4282", "[-] peer certificate: another node"),
        ("HEARTH__NODE__ID", "9", "belongs to node 1"),
        ("HEARTH__WEBHOOKS__KEY", "/no/such/file", "[-] cluster key: webhooks.key /no/such/file"),
        ("HEARTH__EMBEDDER__KIND", "onnx", "model"),
        ("HEARTH__CLUSTER__MEMBERS", "1=no-such-host.invalid:1", "[-] member: cannot resolve"),
        ("HEARTH__PUBLIC__LISTEN", "192.0.2.1:1", "cannot listen on 192.0.2.1:1"),
    ] {
        let no_model = ("HEARTH__EMBEDDER__MODEL", "/no/such/folder");
        let (succeeded, text) = check(&cluster, &[(name, value), no_model]).await;
        assert!(!succeeded && text.contains(wrong), "{name}: {text}");
    }
    let (succeeded, text) = check(&cluster, &[("HEARTH_NODE__ID", "1")]).await;
    assert!(!succeeded && text.contains("write HEARTH__NODE__ID"), "{text}");
    renew(&cluster, "127.0.0.1", "9").await;
    let (succeeded, text) = check(&cluster, &[]).await;
    assert!(!succeeded && text.contains("expires in 8 days: renew it"), "{text}");
}

#[tokio::test]
async fn changed_certificates_are_used_without_a_signal() {
    let cluster = options().nodes(3).start();
    let expiry = "hearth_certificate_expires_timestamp_seconds{certificate=\"peer\"}";
    let before = cluster.metrics(expiry).await;
    renew(&cluster, "127.0.0.1", "30").await;
    let expires_at = async || cluster.metrics(expiry).await;
    eventually("the new one is used", expires_at, |after| *after < before).await;
    let log = std::fs::read_to_string(cluster.data().join("node.log")).unwrap();
    assert!(!log.contains("reload failed"), "{log}");
    cluster.create(&labelled("the cluster works")).await;
    assert_equal_states(&cluster).await;
}
