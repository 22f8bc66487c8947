//! Clients without a key reach the operator's listener, and through a web page also one on
//! loopback. They change nothing, and get no address of a node.

use std::process::Command;

use crate::*;

/// Every request to the routes of the cluster.
fn cluster_requests() -> [(Method, &'static str, Value); 12] {
    [
        (Method::GET, "/cluster", Value::Null),
        (Method::POST, "/cluster/members", json!({"id": 4, "address": "127.0.0.1:1"})),
        (Method::DELETE, "/cluster/members/2", Value::Null),
        (Method::POST, "/cluster/transfer", json!({"to": 2})),
        (Method::POST, "/cluster/verify", json!({})),
        (Method::GET, "/cluster/tenants", Value::Null),
        (Method::POST, "/cluster/tenants", json!({"name": "theirs"})),
        (Method::PATCH, "/cluster/tenants/1", json!({"state": "suspended"})),
        (Method::DELETE, "/cluster/tenants/1?name=default", Value::Null),
        (Method::GET, "/cluster/tiers", Value::Null),
        (Method::PUT, "/cluster/tiers/free", json!({"limits": {}})),
        (Method::DELETE, "/cluster/tiers/free", Value::Null),
    ]
}

/// A request to the operator's listener without a key.
fn bare(node: &Node, method: Method, path: &str) -> Request {
    Request(node.client.request(method, format!("{}{path}", node.ops())))
}

/// Leader, term and members.
async fn status(node: &Node) -> Value {
    let mut status = node.ops_request(Method::GET, "/cluster").send().await.ok();
    for member in status["members"].as_array_mut().unwrap() {
        member["lag"] = Value::Null;
        member["last_contact_ms"] = Value::Null;
    }
    json!([status["leader"], status["term"], status["members"]])
}

#[tokio::test]
async fn only_the_operator_key_opens_the_cluster() {
    let without_delays = options().env("FAILPOINTS", "authentication-delay=return");
    let cluster = without_delays.nodes(3).start();
    converged(&cluster).await;
    let before = status(&cluster).await;
    let foreign = cluster.operator_key.replace(char::is_numeric, "0");
    for (method, path, body) in cluster_requests() {
        let request = || bare(&cluster, method.clone(), path).json(&body);
        request().send().await.assert_error(401, "unauthorized");
        for key in ["", "op-hearth-", &foreign, &cluster.key] {
            let response = request().header("Authorization", &format!("Bearer {key}")).send().await;
            response.assert_error(401, "unauthorized");
            assert!(!response.body.to_string().contains("127.0.0.1"), "{}", response.body);
        }
    }
    assert_eq!(status(&cluster).await, before);
    // It is the key of no tenant.
    let as_agent = cluster.bare_request(Method::GET, "/api/v1/org");
    let as_agent = as_agent.header("Authorization", &format!("Bearer {}", cluster.operator_key));
    as_agent.send().await.assert_error(401, "unauthorized");
    for path in ["/livez", "/readyz", "/metrics", "/api/v1/status"] {
        bare(&cluster, Method::GET, path).send().await.ok();
    }
}

#[tokio::test]
async fn node_without_operator_key_refuses_operators() {
    let cluster = options().start();
    let path = cluster.data().join("hearth.toml");
    let mut config: toml::Table = std::fs::read_to_string(&path).unwrap().parse().unwrap();
    config["operator"].as_table_mut().unwrap().remove("key_file");
    std::fs::write(&path, config.to_string()).unwrap();
    cluster.crash().await;
    for (method, path, body) in cluster_requests() {
        let response = cluster.ops_request(method, path).json(&body).send().await;
        response.assert_error(403, "no_operator_key");
        assert!(string(&response.body["message"]).contains("operator.key_file"));
    }
    cluster.create(&json!({"label": "the node works"})).await;
}

/// DNS rebinding: the page's own name resolves to the node.
#[tokio::test]
async fn public_names_do_not_reach_the_listener() {
    let cluster = options().nodes(3).start();
    converged(&cluster).await;
    let before = status(&cluster).await;
    for host in ["evil.example", "evil.example:4281", "127.0.0.1.evil.example"] {
        for (method, path, body) in cluster_requests() {
            // A browser has no key. The host is rejected with one too.
            for request in [bare(&cluster, method.clone(), path), cluster.ops_request(method, path)]
            {
                let response = request.header("Host", host).json(&body).send().await;
                response.assert_error(403, "unknown_host");
            }
        }
        for path in ["/livez", "/readyz", "/metrics", "/api/v1/status"] {
            let response = bare(&cluster, Method::GET, path).header("Host", host).send().await;
            response.assert_error(403, "unknown_host");
        }
    }
    assert_eq!(status(&cluster).await, before);
    // As a scraper beside containers names the node.
    let scrape = bare(&cluster, Method::GET, "/metrics").header("Host", "node-1:7071");
    scrape.send().await.ok();
    cluster.kill();
    cluster.restart_with(&[("HEARTH__OPERATOR__HOSTS", "ops.example")]).await;
    let named = bare(&cluster, Method::GET, "/metrics").header("Host", "ops.example:4281");
    named.send().await.ok();
}

#[tokio::test]
async fn other_origins_do_not_reach_the_listener() {
    let cluster = options().nodes(3).start();
    converged(&cluster).await;
    let before = status(&cluster).await;
    for origin in ["http://evil.example", "null", "http://127.0.0.1:1"] {
        for (method, path, body) in cluster_requests() {
            let request = cluster.ops_request(method, path).header("Origin", origin);
            request.json(&body).send().await.assert_error(403, "wrong_origin");
        }
    }
    assert_eq!(status(&cluster).await, before);
    cluster.ops_request(Method::GET, "/cluster").header("Origin", cluster.ops()).send().await.ok();
}

#[tokio::test]
async fn every_listener_rejects_two_hosts() {
    let cluster = options().nodes(3).start();
    let pem = std::fs::read(cluster.folder().join("ca.pem")).unwrap();
    let authority = reqwest::Certificate::from_pem(&pem).unwrap();
    let http1 = reqwest::Client::builder().tls_certs_only([authority]).http1_only().no_proxy();
    let http1 = http1.build().unwrap();
    let peers = peer_port::client(&cluster, Some(cluster.folder()));
    let path = "/api/v1/status";
    let (public, ops) = (format!("{}{path}", cluster.url()), format!("{}{path}", cluster.ops()));
    for (client, url) in [
        (&http1, &ops),
        (&http1, &public),
        (&cluster.client, &public),
        (&peers, &peer_port::url(&cluster, "raft")),
    ] {
        let request = || Request(client.get(url));
        for other in ["localhost", "127.0.0.1"] {
            let two = request().header("Host", "localhost").header("Host", other);
            two.send().await.assert_error(400, "bad_host");
        }
    }
    // Over HTTP/2 the target of the request is a host too.
    let other = Request(cluster.client.get(&public)).header("Host", "evil.example");
    other.send().await.assert_error(400, "bad_host");
    cluster.create(&json!({"label": "the cluster works"})).await;
}

#[tokio::test]
async fn operators_changes_are_logged_with_their_results() {
    let cluster = options().nodes(3).start();
    converged(&cluster).await;
    let [_, next, node] = cluster.leader_first().await;
    let audit = || {
        let log = std::fs::read_to_string(node.data().join("node.log")).unwrap();
        log.lines().filter(|line| line.contains("operator request")).map(str::to_owned).collect()
    };
    let transfer = node.ops_request(Method::POST, "/cluster/transfer");
    transfer.json(&json!({"to": next.id()})).header("X-Request-Id", "change-1").send().await.ok();
    let add = node.ops_request(Method::POST, "/cluster/members");
    // The address forges a line.
    let body = json!({"id": 9, "address": "127.0.0.1:1\n2026-01-01 operator request"});
    assert!(!add.json(&body).send().await.status.is_success());
    node.ops_request(Method::GET, "/cluster").send().await.ok();
    let lines: Vec<String> = audit();
    assert_eq!(lines.len(), 2, "one line per change: {lines:?}");
    let transfer = format!("operation=Transfer({})", next.id());
    for part in [&transfer, "source=127.0.0.1:", "request_id=\"change-1\"", "result=\"done\""] {
        assert!(lines[0].contains(part), "{part}: {}", lines[0]);
    }
    let result = "is not the address of a node";
    for part in ["operation=Add { node: 9, address: ", "source=127.0.0.1:", result] {
        assert!(lines[1].contains(part), "{part}: {}", lines[1]);
    }
}

#[tokio::test]
async fn command_line_finds_the_operator_key() {
    let cluster = options().start();
    let run = |arguments: &[&str], key: &str| {
        let mut command = Command::new(BINARY);
        command.args(["cluster", "status"]).args(arguments).env_remove("HEARTH_OPERATOR_KEY");
        if !key.is_empty() {
            command.env("HEARTH_OPERATOR_KEY", key);
        }
        let ran = command.output().unwrap();
        (ran.status.success(), String::from_utf8([ran.stdout, ran.stderr].concat()).unwrap())
    };
    let (file, config) =
        (cluster.folder().join("operator.key"), cluster.data().join("hearth.toml"));
    let [file, config] = [file, config].map(|path| path.to_str().unwrap().to_owned());
    let key = cluster.operator_key.clone();
    for (arguments, key) in [
        (&["--ops", cluster.ops(), "--key-file", &file][..], ""),
        (&["--ops", cluster.ops(), "--key-file", &file], "op-hearth-wrong"),
        (&["--ops", cluster.ops()], &key),
        (&["--config", &config], ""),
    ] {
        let (succeeded, text) = run(arguments, key);
        assert!(succeeded && text.contains("Node 1 leads"), "{arguments:?}: {text}");
    }
    let (succeeded, text) = run(&["--ops", cluster.ops()], "");
    assert!(!succeeded && text.contains("--key-file"), "{text}");
    let (succeeded, text) = run(&["--ops", cluster.ops()], "op-hearth-wrong");
    assert!(!succeeded && text.contains("send the operator key"), "{text}");
}
