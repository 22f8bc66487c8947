//! API keys: they end, they are rotated with an overlap, they may be bound to namespaces, and a
//! deleted one is invalid on every node within a second. Wrong keys delay their own network only.

use std::time::{Duration, Instant};

use futures::future::join_all;

use super::*;

async fn create_key(node: &Node, body: Value) -> Value {
    node.post("/keys", &body).await
}

fn list(node: &Node, key: &Value) -> Request {
    node.request_as(key, Method::GET, "/agent/nodes?limit=1")
}

fn store(node: &Node, key: &Value, body: &Value) -> Request {
    node.request_as(key, Method::POST, "/agent/nodes").json(body)
}

/// How long a key stays valid on some node.
async fn invalid_after(cluster: &Cluster, key: &Value) -> Duration {
    let started = Instant::now();
    for node in cluster.nodes() {
        let status = async || list(node, key).send().await.status;
        eventually("the key is invalid", status, |status| *status == 401).await;
    }
    started.elapsed()
}

#[tokio::test]
async fn deleted_key_ends_on_every_node_at_once() {
    let cluster = options().nodes(3).start();
    let key = create_key(&cluster, json!({"name": "leaver", "role": "agent"})).await;
    converged(&cluster).await;
    let mut streams = Vec::new();
    for node in cluster.nodes() {
        streams.push(Stream::of(node.request_as(&key, Method::GET, "/events")).await.unwrap());
    }
    cluster.delete(&format!("/keys/{}", id(&key))).await;
    let ended = async {
        for mut stream in streams {
            while stream.next().await.is_some() {}
        }
    };
    let started = Instant::now();
    let (took, ()) = tokio::join!(invalid_after(&cluster, &key), ended);
    assert!(took < Duration::from_secs(1), "valid for {took:?}");
    assert!(started.elapsed() < Duration::from_secs(2), "a stream for {:?}", started.elapsed());
    let label = json!({"label": "too late"});
    store(cluster.at(1), &key, &label).send().await.assert_error(401, "unauthorized");
}

#[tokio::test]
async fn key_with_an_end_ends_everywhere() {
    let cluster = options().nodes(3).start();
    let body = json!({"name": "guest", "expires_in_seconds": 5, "role": "admin"});
    let key = create_key(&cluster, body).await;
    converged(&cluster).await;
    for node in cluster.nodes() {
        list(node, &key).send().await.ok();
    }
    // An idle cluster stamps its clock each five seconds.
    let took = invalid_after(&cluster, &key).await;
    assert!(took > Duration::from_secs(3) && took < Duration::from_secs(13), "{took:?}");
    let keys = cluster.get("/keys").await;
    let of_admin = array(&keys["keys"]).iter().find(|other| other["id"] != key["id"]).unwrap();
    assert_eq!(of_admin["expires_at"], Value::Null);
    // The guest would be no admin for long.
    let delete = cluster.request(Method::DELETE, &format!("/keys/{}", id(of_admin)));
    delete.send().await.assert_error(409, "wrong_state");
}

#[tokio::test]
async fn keys_are_listed_in_pages() {
    let cluster = options().start();
    for at in 0..4 {
        create_key(&cluster, json!({"name": format!("agent {at}")})).await;
    }
    let all = cluster.get("/keys").await;
    let ids = |page: &Value| {
        array(&page["keys"]).iter().map(|key| string(&key["id"]).to_owned()).collect::<Vec<_>>()
    };
    assert_eq!((ids(&all).len(), &all["next_cursor"]), (5, &Value::Null));
    let (mut listed, mut path) = (Vec::new(), "/keys?limit=2".to_owned());
    for left in [3, 1, 0] {
        let page = cluster.get(&path).await;
        listed.extend(ids(&page));
        assert_eq!((listed.len(), page["next_cursor"].is_string()), (5 - left, left > 0));
        path = format!("/keys?limit=2&cursor={}", page["next_cursor"].as_str().unwrap_or_default());
    }
    assert_eq!(listed, ids(&all));
    let send = |path| cluster.request(Method::GET, path).send();
    send("/keys?limit=none").await.assert_error(400, "invalid_field");
    send("/keys?cursor=5").await.assert_error(400, "invalid_field");
}

#[tokio::test]
async fn rotated_key_has_both_texts_for_a_while() {
    let cluster = options().nodes(3).start();
    let old = create_key(&cluster, json!({"name": "worker"})).await;
    let stored = store(&cluster, &old, &json!({"label": "before"})).send().await.ok();
    let path = format!("/keys/{}/rotate", id(&old));
    let new = cluster.post(&path, &json!({"overlap_seconds": 6})).await;
    assert_eq!((&new["id"], &new["name"]), (&old["id"], &json!("worker")));
    assert_ne!(new["key"], old["key"]);
    converged(&cluster).await;
    for key in [&old, &new] {
        let list = join_all(cluster.nodes().map(|node| list(node, key).send())).await;
        assert!(list.iter().all(|response| response.status == StatusCode::OK));
    }
    let took = invalid_after(&cluster, &old).await;
    assert!(took > Duration::from_secs(3) && took < Duration::from_secs(14), "{took:?}");
    let get = cluster.request_as(&new, Method::GET, &format!("/agent/nodes/{}", id(&stored)));
    assert_eq!(get.send().await.ok()["label"], "before");
    // Without an overlap, the old text ends with the response, and its event streams end.
    let mut stream =
        Stream::of(cluster.at(2).request_as(&new, Method::GET, "/events")).await.unwrap();
    let newest = cluster.post(&path, &json!({"overlap_seconds": 0})).await;
    converged(&cluster).await;
    list(cluster.at(2), &new).send().await.assert_error(401, "unauthorized");
    list(cluster.at(2), &newest).send().await.ok();
    while stream.next().await.is_some() {}
}

#[tokio::test]
async fn bound_key_sees_its_namespaces_only() {
    let cluster = options().start();
    let body = json!({"name": "integration", "namespaces": ["tickets", "wiki"]});
    let key = create_key(&cluster, body).await;
    assert_eq!(key["namespaces"], json!(["tickets", "wiki"]));
    let secret = json!({"label": "the secret of finance", "namespace": "finance"});
    let secret = cluster.create(&secret).await;
    let ticket = json!({"label": "a ticket", "namespace": "tickets"});
    store(&cluster, &key, &ticket).send().await.ok();
    for namespace in ["finance", "default"] {
        let body = json!({"label": "no", "namespace": namespace});
        store(&cluster, &key, &body).send().await.assert_error(403, "namespace_forbidden");
    }
    let get = cluster.request_as(&key, Method::GET, &format!("/agent/nodes/{}", id(&secret)));
    get.send().await.assert_error(404, "not_found");
    let search = cluster.request_as(&key, Method::POST, "/agent/search");
    let found = search.json(&json!({"query": "secret ticket", "namespace": "*"})).send().await.ok();
    assert_eq!(labels(array(&found)), ["a ticket"]);
    // A rule can only take away.
    let allow = json!({"agent_id": "integration", "namespace": "finance", "policy": "allow"});
    cluster.post("/namespaces/acl", &allow).await;
    store(&cluster, &key, &json!({"label": "no", "namespace": "finance"}))
        .send()
        .await
        .assert_error(403, "namespace_forbidden");
    let admin = json!({"name": "bound admin", "role": "admin", "namespaces": ["wiki"]});
    cluster.assert_rejected("/keys", &admin, "namespaces").await;
    for names in [json!(["*"]), json!([])] {
        cluster.assert_rejected("/keys", &json!({"namespaces": names}), "namespaces").await;
    }
}

#[tokio::test]
async fn operator_replaces_a_lost_admin_key() {
    let cluster = options().start();
    let tenant = create_tenant(&cluster, json!({"name": "forgetful"})).await;
    let path = format!("/cluster/tenants/{}/keys", tenant["id"]);
    let created = cluster.ops_request(Method::POST, &path).json(&json!({})).send().await;
    assert_eq!(created.status, StatusCode::CREATED);
    let list = cluster.request_as(&created.body, Method::GET, "/keys").send().await.ok();
    assert_eq!(array(&list["keys"]).len(), 2);
    let lost = string(&tenant["key"]).strip_prefix("sk-hearth-").unwrap()[..16].to_owned();
    let delete = cluster.request_as(&created.body, Method::DELETE, &format!("/keys/{lost}"));
    delete.send().await.ok();
    cluster
        .request_as(&tenant, Method::GET, "/keys")
        .send()
        .await
        .assert_error(401, "unauthorized");
    let none = cluster.ops_request(Method::POST, "/cluster/tenants/77/keys").json(&json!({}));
    none.send().await.assert_error(404, "not_found");
}

#[tokio::test]
async fn wrong_keys_do_not_delay_a_right_one() {
    let cluster = options().start();
    let wrong = json!({"key": format!("sk-{}", "0".repeat(64))});
    let started = Instant::now();
    let guesses = join_all((0..60).map(|_| list(&cluster, &wrong).send()));
    let honest = async {
        let mut longest = Duration::ZERO;
        for _ in 0..50 {
            let sent = Instant::now();
            cluster.get("/agent/nodes?limit=1").await;
            longest = longest.max(sent.elapsed());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        longest
    };
    let (guesses, longest) = tokio::join!(guesses, honest);
    assert!(longest < Duration::from_secs(1), "{longest:?}");
    assert!(started.elapsed() > Duration::from_millis(1_900), "guesses cost time");
    let (unauthorized, limited): (Vec<_>, Vec<_>) =
        guesses.into_iter().partition(|response| response.status == StatusCode::UNAUTHORIZED);
    assert!(unauthorized.len() < 25, "{} waited at once", unauthorized.len());
    for response in limited {
        response.assert_error(429, "too_many_failures");
        assert!((1..=2).contains(&response.number("retry-after")));
    }
    assert_eq!(cluster.metric("hearth_failed_authentications_total").await, 60.0);
}

/// By creating or rotating keys, a key with an end would live for ever.
#[tokio::test]
async fn ending_key_makes_none_that_outlives_it() {
    let cluster = options().start();
    let admin = json!({"name": "temporary", "role": "admin", "expires_in_seconds": 3_600});
    let admin = create_key(&cluster, admin).await;
    let create = |seconds: Option<u64>| {
        let body = json!({"name": "next", "role": "admin", "expires_in_seconds": seconds});
        cluster.request_as(&admin, Method::POST, "/keys").json(&body).send()
    };
    create(None).await.assert_error(409, "wrong_state");
    create(Some(7_200)).await.assert_error(409, "wrong_state");
    create(Some(600)).await.ok();
    let rotate = |id: &Value| {
        let path = format!("/keys/{}/rotate", string(id));
        cluster.request_as(&admin, Method::POST, &path).json(&json!({})).send()
    };
    let lasting = create_key(&cluster, json!({"name": "lasting"})).await;
    rotate(&lasting["id"]).await.assert_error(409, "wrong_state");
    let rotated = rotate(&admin["id"]).await.ok();
    assert_eq!(rotated["expires_at"], admin["expires_at"]);
}

/// The namespace of the body, of the header, of the key, the only one of the key, `default`.
#[tokio::test]
async fn key_of_one_namespace_stores_without_naming_it() {
    let cluster = options().start();
    let bound = create_key(&cluster, json!({"name": "bound", "namespaces": ["home"]})).await;
    let own = json!({"name": "own", "namespace": "desk", "namespaces": ["home", "desk"]});
    let own = create_key(&cluster, own).await;
    let free = create_key(&cluster, json!({"name": "free"})).await;
    let namespace = async |key: &Value, body: Value| {
        string(&store(&cluster, key, &body).send().await.ok()["namespace"]).to_owned()
    };
    assert_eq!(namespace(&bound, labelled("one")).await, "home");
    assert_eq!(namespace(&own, labelled("two")).await, "desk");
    assert_eq!(namespace(&own, json!({"label": "three", "namespace": "home"})).await, "home");
    assert_eq!(namespace(&free, labelled("four")).await, "default");
    let with_header = store(&cluster, &own, &labelled("five")).header("X-Namespace", "home");
    assert_eq!(with_header.send().await.ok()["namespace"], "home");
    let batch = json!({"nodes": [labelled("six")]});
    let batch = cluster.request_as(&bound, Method::POST, "/agent/nodes/batch").json(&batch);
    batch.send().await.ok();
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params":
        {"name": "sulcus_remember", "arguments": {"content": "seven"}}});
    let call = cluster.client.post(format!("{}/mcp", cluster.url())).json(&call);
    let stored = Request(call.bearer_auth(string(&bound["key"]))).send().await.ok();
    let memory = &stored["result"]["structuredContent"]["memory"];
    assert_eq!(memory["namespace"], "home", "{stored}");
    let verify = cluster.request_as(&own, Method::GET, "/auth/verify").send().await.ok();
    assert_fields(
        &verify,
        json!({"key_id": own["id"], "role": "agent", "namespace": "desk",
        "default_namespace": "desk", "namespaces": ["home", "desk"], "expires_at": null}),
    );
    let verify = cluster.request_as(&bound, Method::GET, "/auth/verify").send().await.ok();
    assert_eq!(verify["default_namespace"], "home");
}
