//! Invalid input gets a 4xx with a stable error code, and stores nothing.

use super::*;

const UNKNOWN: &str = "/agent/nodes/0192d3a4-5b6c-7def-8123-456789abcdef";

/// Invalid values beside those that `bad_fields.rs` derives from docs/openapi.json.
#[tokio::test]
async fn invalid_fields_are_named() {
    let cluster = options().start();
    let nodes = "/agent/nodes";
    let with = |name: &str, value: Value| json!({"label": "x", name: value});
    let table = [
        (Method::POST, nodes, json!({"label": ""}), "label"),
        (Method::POST, nodes, with("min_heat", json!(1.5)), "min_heat"),
        (Method::POST, nodes, with("min_heat", json!(-0.1)), "min_heat"),
        (Method::POST, nodes, with("heat", json!(1e300)), "heat"),
        (Method::POST, nodes, with("namespace", json!("*")), "namespace"),
        (Method::PATCH, UNKNOWN, json!({"label": ""}), "label"),
        (Method::POST, "/agent/nodes/batch", json!({"nodes": [7]}), "nodes[0]"),
    ];
    for (method, path, body, field) in table {
        let response = cluster.send(method, path, &body).await;
        response.assert_invalid(field);
        assert!(!string(&response.body["request_id"]).is_empty());
    }
    assert_eq!(cluster.metric("hearth_memories").await, 0.0, "nothing was stored");
}

#[tokio::test]
async fn invalid_bodies_headers_and_paths_have_codes() {
    let cluster = options().start();
    let create = || cluster.request(Method::POST, "/agent/nodes");
    let request = |method, path: &str| cluster.request(method, path);
    let keyed = create().header("Idempotency-Key", &"k".repeat(256));
    let read = request(Method::GET, "/agent/nodes");
    let mut cases = vec![
        (create().raw("{\"label\": "), 400, "bad_json"),
        (create().raw("{\"heat\": NaN}"), 400, "bad_json"),
        (create().raw("[1]"), 400, "bad_json"),
        (create().raw(vec![b' '; (2 << 20) + 1]), 413, "too_large"),
        (keyed.json(&json!({"label": "x"})), 400, "invalid_field"),
        (request(Method::GET, "/agent/nowhere"), 404, "no_such_path"),
        (request(Method::PATCH, "/agent/nodes/7").json(&json!({})), 404, "not_found"),
        (request(Method::PUT, "/agent/nodes"), 405, "method_not_allowed"),
        (read.header("X-Hearth-Consistency", "no"), 400, "invalid_field"),
    ];
    for path in [UNKNOWN, &UNKNOWN.replace("0192", "0193")] {
        cases.push((request(Method::GET, path), 404, "not_found"));
        cases.push((request(Method::DELETE, path), 404, "not_found"));
        let patch = request(Method::PATCH, path).json(&json!({"is_pinned": true}));
        cases.push((patch, 404, "not_found"));
    }
    for (request, status, code) in cases {
        request.send().await.assert_error(status, code);
    }
    assert_eq!(cluster.metric("hearth_memories").await, 0.0, "nothing was stored");
}

#[tokio::test]
async fn endpoints_require_a_valid_key() {
    let cluster = options().env("FAILPOINTS", "authentication-delay=return").start();
    let (most, last) = cluster.key.split_at(cluster.key.len() - 1);
    let wrong = format!("Bearer {most}{}", if last == "0" { "1" } else { "0" });
    let own = format!("Bearer {}", cluster.key);
    for (method, path) in [
        (Method::POST, "/api/v1/agent/nodes"),
        (Method::GET, "/api/v1/agent/nodes"),
        (Method::GET, "/api/v1/agent/nodes/x"),
        (Method::PATCH, "/api/v1/agent/nodes/x"),
        (Method::DELETE, "/api/v1/agent/nodes/x"),
        (Method::POST, "/api/v1/agent/nodes/batch"),
        (Method::POST, "/api/v1/agent/search"),
        (Method::POST, "/api/v1/agent/hot-context"),
        (Method::GET, "/api/v1/agent/hot_nodes"),
    ] {
        let bare = cluster.bare_request(method.clone(), path).send().await;
        assert_eq!(bare.status, 401, "{method} {path}");
        assert_eq!(bare.headers["www-authenticate"], "Bearer");
        for bad in ["Bearer", "Bearer sk-", "Basic eDp5", &wrong, &own.replace("Bearer", "Token")] {
            let request = cluster.bare_request(method.clone(), path).header("Authorization", bad);
            assert_eq!(request.send().await.status, 401, "{method} {path} {bad}");
        }
    }
}

/// curl fails over HTTP/2 when the response comes before its body is sent, unless the server
/// reads the body.
#[tokio::test]
async fn early_rejections_reach_the_client() {
    let cluster = options().start();
    let body = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(body.path(), vec![b'x'; 3 << 20]).unwrap();
    let data = format!("@{}", body.path().display());
    for (method, path, key, expected) in [
        ("POST", "agent/nodes", "Authorization: Bearer wrong".to_owned(), "401"),
        ("PUT", "agent/nodes", format!("Authorization: Bearer {}", cluster.key), "405"),
        ("POST", "nowhere", format!("Authorization: Bearer {}", cluster.key), "404"),
        ("POST", "agent/nodes", format!("Authorization: Bearer {}", cluster.key), "413"),
    ] {
        for round in 0..5 {
            let curl = std::process::Command::new("curl")
                .args(["--silent", "--output", "/dev/null", "--write-out", "%{http_code}"])
                .args(["--max-time", "20", "--http2", "--cacert", string(&cluster.info["ca"])])
                .args(["--request", method, "--header", &key, "--data-binary", &data])
                .arg(format!("{}/api/v1/{path}", cluster.url()))
                .output()
                .unwrap();
            let code = String::from_utf8_lossy(&curl.stdout).into_owned();
            let is_expected = curl.status.success() && code == expected;
            assert!(is_expected, "{method} {path} {round}: {code} {curl:?}");
        }
    }
}

#[tokio::test]
async fn namespace_header_is_validated_like_the_body() {
    let cluster = options().start();
    let create = |namespace: &str, key: &str| {
        let request =
            cluster.request(Method::POST, "/agent/nodes").header("X-Namespace", namespace);
        request.header("Idempotency-Key", key).json(&json!({"label": "x"})).send()
    };
    assert_eq!(create("*", "a").await.status, 400);
    assert_eq!(create("one", "b").await.status, 201);
    assert_eq!(create("two", "b").await.status, 422, "another request");
    let odd = reqwest::header::HeaderValue::from_bytes(b"m\xfcnchen").unwrap();
    let url = format!("{}/api/v1/agent/nodes", cluster.url());
    let request = cluster.client.post(url).bearer_auth(&cluster.key).header("X-Namespace", odd);
    assert_eq!(request.body("{\"label\": \"x\"}").send().await.unwrap().status(), 400);
    let response = cluster.request(Method::GET, "/agent/nodes/%ff").send().await;
    assert_eq!(response.status, 404, "the id of nothing");
}

/// Errors before and around the handlers have the same body as theirs.
#[tokio::test]
async fn every_error_has_code_and_request_id() {
    let cluster = options().start();
    let many = (0..101).fold(cluster.bare_request(Method::GET, "/api/v1/status"), |request, at| {
        request.header(&format!("x-header-{at}"), "1")
    });
    many.send().await.assert_error(431, "too_many_headers");
    let deep = format!("{}1{}", r#"{"a":"#.repeat(500), "}".repeat(500));
    let deep = format!(r#"{{"action": "noted", "metadata": {deep}}}"#);
    let deep = cluster.request(Method::POST, "/activity").raw(deep).send().await;
    assert!(string(&deep.body["message"]).contains("127 levels"), "{}", deep.body);
    let options = cluster.bare_request(Method::OPTIONS, "/api/v1/agent/nodes").send().await;
    options.assert_error(405, "method_not_allowed");
    let mcp = |name: &str, value: &str| {
        let request = cluster.client.post(format!("{}/mcp", cluster.url()));
        let request = request.bearer_auth(&cluster.key).header(name, value);
        Request(request.json(&json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}))).send()
    };
    mcp("Origin", "https://elsewhere.example").await.assert_error(403, "wrong_origin");
    let listed = cluster.request(Method::GET, "/agent/nodes").send().await;
    assert_eq!(listed.headers["cache-control"], "no-store");
    for path in ["/status", "/no_such_path", "/keys"] {
        let response = cluster.request(Method::PUT, path).send().await;
        assert_eq!(response.headers["cache-control"], "no-store", "{path}");
    }
    let operator = cluster.ops_request(Method::GET, "/api/v1/status").send().await;
    assert_eq!(operator.headers["cache-control"], "no-store");
    assert!(!listed.headers.contains_key("strict-transport-security"), "of an address");
    let named = cluster.request(Method::GET, "/agent/nodes").header("Host", "hearth.example");
    let named = named.send().await;
    assert_eq!(named.headers["strict-transport-security"], "max-age=31536000");
}
