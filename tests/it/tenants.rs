//! The tenants of a cluster: an operator creates, limits, suspends and deletes them on any node.

use super::*;

fn path(tenant: &Value) -> String {
    format!("/cluster/tenants/{}", tenant["id"])
}

async fn change(node: &Node, tenant: &Value, body: Value) -> Value {
    node.ops_request(Method::PATCH, &path(tenant)).json(&body).send().await.ok()
}

/// Stores a memory with the key of a tenant.
async fn store(node: &Node, tenant: &Value, label: &str) -> Response {
    let request = node.request_as(tenant, Method::POST, "/agent/nodes");
    request.json(&json!({"label": label})).send().await
}

#[tokio::test]
async fn tenants_see_nothing_of_each_other() {
    let cluster = options().nodes(3).start();
    let one = create_tenant(&cluster, json!({"name": "one"})).await;
    let two = create_tenant(cluster.at(1), json!({"name": "two", "tier": "middle"})).await;
    converged(&cluster).await;
    let memory = store(cluster.at(2), &one, "the fox of one").await.ok();
    converged(&cluster).await;
    for node in cluster.nodes() {
        let get = |tenant, path: &str| node.request_as(tenant, Method::GET, path).send();
        let path = format!("/agent/nodes/{}", id(&memory));
        get(&one, &path).await.ok();
        get(&two, &path).await.assert_error(404, "not_found");
        assert_eq!(get(&two, "/agent/nodes").await.ok()["total"], 0);
        assert_eq!(get(&two, "/org").await.ok()["plan_tier"], "middle");
        let org = get(&two, "/org").await.ok();
        assert_eq!(
            (&org["nodes_limit"], &org["limits"]["memories"]),
            (&json!(50_000), &json!(50_000))
        );
        assert_eq!(org["limits"]["edges"], Value::Null);
        let search = node.request_as(&two, Method::POST, "/agent/search");
        let found = search.json(&json!({"query": "fox"})).send().await.ok();
        assert!(array(&found).is_empty());
    }
}

#[tokio::test]
async fn limits_and_suspension_hold_on_every_node() {
    let cluster = options().nodes(3).start();
    let small = create_tenant(&cluster, json!({"name": "small", "limits": {"memories": 2}})).await;
    assert_eq!(small["limits"]["memories"], json!({"max": 2, "used": 0, "own": true}));
    converged(&cluster).await;
    for at in 0..2 {
        store(cluster.at(at), &small, &format!("memory {at}")).await.ok();
    }
    store(cluster.at(2), &small, "one too many").await.assert_error(403, "storage_limit_reached");
    let changed = change(cluster.at(1), &small, json!({"limits": {"memories": null}})).await;
    assert_eq!(changed["limits"]["memories"], json!({"max": null, "used": 2, "own": true}));
    store(cluster.at(2), &small, "there is room now").await.ok();

    let mut stream =
        Stream::of(cluster.at(1).request_as(&small, Method::GET, "/events")).await.unwrap();
    change(&cluster, &small, json!({"state": "suspended"})).await;
    converged(&cluster).await;
    for node in cluster.nodes() {
        let list = node.request_as(&small, Method::GET, "/agent/nodes").send().await;
        list.assert_error(403, "tenant_suspended");
        store(node, &small, "no").await.assert_error(403, "tenant_suspended");
    }
    while stream.next().await.is_some() {}
    change(cluster.at(2), &small, json!({"state": "active"})).await;
    converged(&cluster).await;
    let list = cluster.request_as(&small, Method::GET, "/agent/nodes").send().await.ok();
    assert_eq!(list["total"], 3, "nothing is lost");
}

#[tokio::test]
async fn deleted_tenant_is_gone_from_every_node() {
    let cluster = options().nodes(3).start();
    let other = create_tenant(&cluster, json!({"name": "the other"})).await;
    converged(&cluster).await;
    for number in 0..20 {
        store(&cluster, &other, &format!("memory {number} of the other")).await.ok();
    }
    let kept = cluster.store(&json!({"label": "of the first tenant"})).await;
    let delete = |name: &str| {
        let path = format!("{}?name={name}", path(&other));
        cluster.at(1).ops_request(Method::DELETE, &path).send()
    };
    delete("the%20other").await.assert_error(409, "wrong_state");
    change(&cluster, &other, json!({"state": "suspended"})).await;
    delete("another").await.assert_error(409, "wrong_state");
    let deleted = delete("the%20other").await.ok();
    assert_eq!((&deleted["memories"], &deleted["remaining"]), (&json!(20), &json!(0)));
    converged(&cluster).await;
    for node in cluster.nodes() {
        let list = node.request_as(&other, Method::GET, "/agent/nodes").send().await;
        list.assert_error(401, "unauthorized");
        node.get(&format!("/agent/nodes/{kept}")).await;
        let missing = node.ops_request(Method::GET, &path(&other)).send().await;
        missing.assert_error(404, "not_found");
    }
    let verified = cluster.ops_request(Method::POST, "/cluster/verify").json(&json!({}));
    assert_eq!(verified.send().await.ok()["equal"], true);
    let next = create_tenant(&cluster, json!({"name": "next"})).await;
    assert!(next["id"].as_u64() > other["id"].as_u64(), "no id is used twice");
}

#[tokio::test]
async fn operator_runs_tenants_from_the_command_line() {
    let cluster = options().start();
    let ops = cluster.ops().to_owned();
    let tenant = async |arguments: &[&str]| {
        cluster.run(&[&["tenant", "--ops", &ops], arguments].concat()).await
    };
    let (_, created) = tenant(&["create", "team a", "--tier", "free", "--limit", "edges=7"]).await;
    assert!(created.contains("Tenant 2 (team a), active, tier free"), "{created}");
    assert!(created.contains("memories: 0 of 1000") && created.contains("edges: 0 of 7, its own"));
    let key = created.lines().find_map(|line| line.split_once("shown this once: ")).unwrap().1;
    let key = json!({ "key": key });
    store(&cluster, &key, "with the key that was printed").await.ok();
    let (_, list) = tenant(&["list"]).await;
    assert!(list.contains("team a") && list.contains("default"), "{list}");
    assert!(tenant(&["tier", "small", "--limit", "memories=1"]).await.0);
    let (_, changed) = tenant(&["change", "2", "--tier", "small", "--no-own-limits"]).await;
    assert!(changed.contains("memories: 1 of 1") && changed.contains("edges: 0 of unlimited"));
    let (is_deleted, reason) = tenant(&["tier", "small", "--delete"]).await;
    assert!(!is_deleted && reason.contains("tenants have this tier"), "{reason}");
    let (_, tiers) = tenant(&["tiers"]).await;
    assert!(
        tiers.contains("small: memories 1") && tiers.contains("enterprise (default): unlimited")
    );
    let (is_deleted, reason) = tenant(&["delete", "2", "--name", "team a"]).await;
    assert!(!is_deleted && reason.contains("suspend the tenant first"), "{reason}");
    assert!(tenant(&["suspend", "2"]).await.1.contains("suspended"));
    assert!(tenant(&["resume", "2"]).await.1.contains("active"));
    tenant(&["suspend", "2"]).await;
    let (is_deleted, text) = tenant(&["delete", "2", "--name", "team a"]).await;
    assert!(is_deleted && text.contains("1 memories") && text.contains("0 rows"), "{text}");
    let (is_known, reason) = tenant(&["show", "2"]).await;
    assert!(!is_known && reason.contains("does not exist"), "{reason}");
    let (is_valid, reason) = tenant(&["create", "x", "--limit", "memory=1"]).await;
    assert!(!is_valid && reason.contains("must be one of requests_per_minute"), "{reason}");
}

#[tokio::test]
async fn new_tenants_get_the_default_tier() {
    let cluster = options().start();
    let tier = async |body: Value| create_tenant(&cluster, body).await["tier"].clone();
    assert_eq!(tier(json!({"name": "one"})).await, "enterprise");
    let limits = json!({"limits": {"memories": 7}, "default": true});
    let put = cluster.ops_request(Method::PUT, "/cluster/tiers/small").json(&limits);
    assert_eq!(put.send().await.ok()["default"], true);
    assert_eq!(tier(json!({"name": "two"})).await, "small");
    assert_eq!(tier(json!({"name": "three", "tier": "enterprise"})).await, "enterprise");
    let tiers = cluster.ops_request(Method::GET, "/cluster/tiers").send().await.ok();
    let defaults = array(&tiers["tiers"]).iter().filter(|tier| tier["default"] == true);
    assert_eq!(defaults.map(|tier| string(&tier["name"])).collect::<Vec<_>>(), ["small"]);
    let delete = cluster.ops_request(Method::DELETE, "/cluster/tiers/small").send().await;
    delete.assert_error(409, "wrong_state");
}
