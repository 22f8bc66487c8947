//! Keys that climb: operations above their role, headers and paths that others interpret.

use std::collections::BTreeSet;

use super::attacker::connect_tls;
use super::*;

const UNKNOWN: &str = "0192d3a4-5b6c-7def-8123-456789abcdef";

/// The role that an operation requires. An operation that is new here requires `agent` to write.
fn required_role(method: &Method, path: &str) -> &'static str {
    let admins = ["/admin/", "/keys", "/namespaces/acl", "/import"];
    let is_admins = admins.iter().any(|of| path.starts_with(of));
    let changes = [Method::PATCH, Method::PUT].contains(method);
    let settings = ["/settings/thermo", "/settings/retention", "/settings/guard", "/org"];
    let is_setting = settings.contains(&path) && changes
        || ["/settings/retention/preview", "/settings/guard/preview"].contains(&path);
    let reads = [
        "/agent/search",
        "/agent/hot-context",
        "/agent/context",
        "/agent/embed",
        "/agent/backfill-embeddings",
        "/settings/thermo/preview",
        "/triggers/evaluate",
    ];
    // They capture nothing for a reader.
    let is_hook = path.starts_with("/hooks/");
    match is_admins || is_setting {
        true => "admin",
        false if *method == Method::GET || reads.contains(&path) || is_hook => "reader",
        false => "agent",
    }
}

#[tokio::test]
async fn no_operation_is_above_its_role() {
    let cluster = options().start();
    let roles = ["reader", "agent", "admin"];
    let mut keys = Vec::new();
    for role in roles {
        keys.push(cluster.post("/keys", &json!({"name": role, "role": role})).await);
    }
    let document = Document::committed();
    let (mut forbidden, mut tried) = (0, 0);
    for (method, path, _) in document.operations() {
        let Some(path) = path.strip_prefix("/api/v1") else { continue };
        if ["/events", "/status", "/openapi.json"].contains(&path) {
            continue;
        }
        let required = roles.iter().position(|role| *role == required_role(&method, path));
        let path = path.replace("{id}", UNKNOWN);
        for (at, key) in keys.iter().enumerate() {
            // Without a body: the role is checked before everything else.
            let response = cluster.request_as(key, method.clone(), &path).send().await;
            tried += 1;
            if Some(at) < required {
                response.assert_error(403, "forbidden");
                forbidden += 1;
            } else {
                assert_ne!(
                    response.status, 403,
                    "{method} {path} {}: {}",
                    roles[at], response.body
                );
            }
        }
    }
    assert!(forbidden > 30 && tried > 100, "{forbidden} of {tried}");
}

/// Without a key, with the text of one that does not exist, and with the operator's: on every operation
/// of the document, and on `/mcp`. Those that require no key are named.
#[tokio::test]
async fn requests_without_a_key_get_nothing() {
    let cluster = options().env("FAILPOINTS", "authentication-delay=return").start();
    let document = Document::committed();
    let mut open = BTreeSet::new();
    let mcp = [(Method::POST, "/mcp", &Value::Null)];
    for (method, path, operation) in document.operations().chain(mcp) {
        let path = path.replace("{id}", "01a22110-5bc3-75b7-a596-c83491ee9caa");
        let unknown = format!("Bearer {}x", &cluster.key[..cluster.key.len() - 1]);
        let of_operator = format!("Bearer {}", cluster.operator_key);
        for authorization in [None, Some(&unknown), Some(&of_operator)] {
            let request = cluster.bare_request(method.clone(), &path);
            let request = authorization
                .into_iter()
                .fold(request, |request, it| request.header("Authorization", it));
            let response = request.json(&json!({})).send().await;
            match response.status.is_success() {
                true => drop(open.insert(string(&operation["operationId"]))),
                false => response.assert_error(401, "unauthorized"),
            }
        }
    }
    assert_eq!(Vec::from_iter(open), ["check_liveness", "check_readiness", "get_status"]);
}

/// Headers, and fields of bodies, that a proxy or a framework could interpret.
#[tokio::test]
async fn headers_and_fields_change_no_role() {
    let cluster = options().start();
    let kept = cluster.store(&labelled("kept")).await;
    let key = cluster.post("/keys", &json!({"name": "climber", "role": "reader"})).await;
    let get = |path: &str| cluster.request_as(&key, Method::GET, path);
    let identity = get("/auth/verify").send().await.ok();
    let memory = format!("/agent/nodes/{kept}");
    for (name, value) in [
        ("X-Forwarded-For", "127.0.0.1"),
        ("X-Forwarded-Host", "localhost"),
        ("X-Forwarded-User", "admin"),
        ("X-Forwarded-Prefix", "/api/v1/admin"),
        ("Forwarded", "for=127.0.0.1;host=localhost"),
        ("X-Real-IP", "127.0.0.1"),
        ("X-Original-URL", "/api/v1/keys"),
        ("X-Rewrite-URL", "/api/v1/keys"),
        ("X-HTTP-Method-Override", "DELETE"),
        ("X-HTTP-Method", "DELETE"),
        ("X-Method-Override", "DELETE"),
        ("X-Tenant-Id", "2"),
        ("X-Role", "admin"),
        ("X-API-Key", &cluster.key),
        ("Cookie", &format!("key={}", cluster.key)),
        ("Proxy-Authorization", &format!("Bearer {}", cluster.key)),
    ] {
        let found = get("/auth/verify").header(name, value).send().await;
        assert_eq!(found.ok(), identity, "{name}");
        assert_eq!(id(&get(&memory).header(name, value).send().await.ok()), kept, "{name}");
        get("/keys").header(name, value).send().await.assert_error(403, "forbidden");
        let bare = cluster.bare_request(Method::GET, "/api/v1/keys").header(name, value);
        bare.send().await.assert_error(401, "unauthorized");
        let create = cluster.request_as(&key, Method::POST, "/keys").header(name, value);
        create.json(&json!({"role": "admin"})).send().await.assert_error(403, "forbidden");
    }
    let queries = ["_method=DELETE", "role=admin", "key=admin", "tenant_id=2", "agent_id=admin"];
    for query in queries {
        assert_eq!(id(&get(&format!("{memory}?{query}")).send().await.ok()), kept, "{query}");
        get(&format!("/keys?{query}")).send().await.assert_error(403, "forbidden");
    }
    // A key changes nothing of itself but its own namespace.
    let agent = cluster.post("/keys", &json!({"name": "agent", "role": "agent"})).await;
    let put = cluster.request_as(&agent, Method::PUT, "/namespaces/default");
    let body = json!({"namespace": "mine", "role": "admin", "id": "0", "name": "admin"});
    put.json(&body).send().await.ok();
    let found = cluster.request_as(&agent, Method::GET, "/auth/verify").send().await.ok();
    let expected = json!({"role": "agent", "agent_label": "agent", "namespace": "mine"});
    assert_fields(&found, expected);
    assert_eq!(array(&cluster.get("/keys").await["keys"]).len(), 3);
}

/// Spellings of the path of an admin's operation, sent as they are.
#[tokio::test]
async fn odd_paths_reach_no_operation_unchecked() {
    let cluster = options().start();
    let reader = cluster.post("/keys", &json!({"name": "reader", "role": "reader"})).await;
    let stream = connect_tls(&cluster, &cluster).await;
    let (mut sender, connection) = h2::client::handshake(stream).await.unwrap();
    let connection = tokio::spawn(connection);
    for path in [
        "/api/v1/keys",
        "/api/v1/keys/",
        "/api/v1//keys",
        "//api/v1/keys",
        "/api//v1/keys",
        "/api/v1/./keys",
        "/./api/v1/keys",
        "/api/v1/agent/../keys",
        "/api/v1/agent/%2e%2e/keys",
        "/api/v1/agent/%2E%2E%2Fkeys",
        "/api/v1/agent/..%2fkeys",
        "/api/v1/agent/..;/keys",
        "/api/v1/openapi.json/../keys",
        "/api/v1/openapi.json/%2e%2e/keys",
        "/api/v1/status/..;/keys",
        "/docs/../api/v1/keys",
        "/docs/%2e%2e/api/v1/keys",
        "/docs/..%2fapi/v1/keys",
        "/livez/../api/v1/keys",
        "/api/v1/keys;x",
        "/api/v1/keys;x=/livez",
        "/api/v1/keys%00",
        "/api/v1/keys%20",
        "/api/v1/keys%2f",
        "/api/v1/keys.json",
        "/api/v1/%6beys",
        "/api/v1/%256beys",
        "/api/v1/KEYS",
        "/API/V1/keys",
        "/api/v1\\keys",
        "/api/v2/../v1/keys",
        "/api/v1/keys?x=/livez",
    ] {
        for key in [None, Some(string(&reader["key"]))] {
            let authority = cluster.url().trim_start_matches("https://");
            let parts = http::uri::Builder::new().scheme("https").authority(authority);
            // What is no path at all cannot be sent.
            let Ok(uri) = parts.path_and_query(path).build() else { continue };
            let mut request = http::Request::get(uri);
            if let Some(key) = key {
                request = request.header("authorization", format!("Bearer {key}"));
            }
            sender = sender.ready().await.unwrap();
            let response = sender.send_request(request.body(()).unwrap(), true).unwrap().0;
            let status = response.await.unwrap().status().as_u16();
            let expected = if key.is_some() { [403, 404] } else { [401, 404] };
            assert!(expected.contains(&status) || status == 400, "{path}: {status}");
        }
    }
    connection.abort();
}
