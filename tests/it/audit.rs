//! The audit log: who did what from where, on every node, and hash chains in which a changed byte is
//! found.

use std::collections::BTreeSet;

use super::*;

async fn items(node: &Node, chain: &str) -> Vec<Value> {
    let path = format!("/admin/audit?chain={chain}&order=asc&consistency=linearizable&limit=2");
    pages("cursor", async |cursor| node.get(&format!("{path}{cursor}")).await).await
}

fn actions(items: &[Value]) -> Vec<&str> {
    items.iter().map(|item| string(&item["action"])).collect()
}

/// The options that name a cluster and its key to `hearth audit`.
fn address(cluster: &Cluster) -> Vec<String> {
    let key = cluster.folder().join("admin.key");
    std::fs::write(&key, &cluster.key).unwrap();
    let (ca, key) = (cluster.folder().join("ca.pem"), key);
    let path = |path: std::path::PathBuf| path.to_str().unwrap().to_owned();
    vec![
        "--url".into(),
        cluster.url().into(),
        "--ca".into(),
        path(ca),
        "--key-file".into(),
        path(key),
    ]
}

#[tokio::test]
async fn acts_are_listed_on_every_node() {
    let cluster = options().nodes(3).start();
    let key = cluster.post("/keys", &json!({"name": "helper", "role": "agent"})).await;
    let memory = cluster.store(&json!({"label": "a secret of the agent"})).await;
    converged(&cluster).await;
    let as_agent = |method, path: &str| cluster.at(1).request_as(&key, method, path);
    as_agent(Method::DELETE, &format!("/agent/nodes/{memory}")).send().await.ok();
    let rule = json!({"agent_id": "helper", "namespace": "closed", "policy": "deny"});
    cluster.at(2).post("/namespaces/acl", &rule).await;
    cluster.patch("/settings/thermo", &json!({"recall": {"heat_weight": 0.5}})).await;
    for node in cluster.nodes() {
        let found = items(node, "administration").await;
        assert_eq!(actions(&found), ["key.create", "access_rule.change", "settings.change"]);
        assert_fields(&found[0]["actor"], json!({"kind": "key", "name": "admin", "role": "admin"}));
        assert_eq!(found[0]["source"], "127.0.0.1");
        assert_eq!(found[2]["after"], json!({"recall.heat_weight": "0.5"}));
        assert_eq!(found[1]["previous_hash"], found[0]["hash"]);
        let query = format!("/admin/audit?chain=data&action=memory.delete&key_id={}", id(&key));
        let deleted = node.get(&query).await;
        assert_eq!(deleted["items"][0]["target"], format!("memory {memory}"));
        assert_eq!(deleted["items"][0]["actor"]["name"], "helper");
        assert!(!deleted.to_string().contains("secret"), "no text of a memory");
    }
    let own = cluster.request_as(&key, Method::GET, "/admin/audit").send().await;
    own.assert_error(403, "forbidden");
    let other = cluster.request(Method::GET, "/admin/audit?chain=other").send().await;
    other.assert_invalid("chain");
}

#[tokio::test]
async fn new_kinds_of_use_are_listed_once() {
    let cluster = options().start();
    let key = cluster.post("/keys", &json!({"name": "helper", "role": "agent"})).await;
    let list = |client: &str| {
        let get = cluster.request_as(&key, Method::GET, "/agent/nodes");
        get.header("User-Agent", client).send()
    };
    for client in ["notes/1.0", "notes/1.0", "curl/8"] {
        list(client).await.ok();
    }
    let path = format!("/admin/audit?chain=data&action=key.use&key_id={}", id(&key));
    let uses = async || array(&cluster.get(&path).await["items"]).clone();
    let found = eventually("both are listed", uses, |uses| uses.len() >= 2).await;
    let mut clients: Vec<_> = found.iter().map(|item| string(&item["after"]["client"])).collect();
    clients.sort_unstable();
    assert_eq!(clients, ["curl/8", "notes/1.0"]);
    assert_eq!(found[0]["after"]["operations_of"], "reader");
    // A tool that writes is another kind of use than one that reads.
    let call = |name: &str, arguments: Value| {
        let request = cluster.client.post(format!("{}/mcp", cluster.url()));
        let request = request.bearer_auth(string(&key["key"])).header("User-Agent", "agent/1");
        let params = json!({"name": name, "arguments": arguments});
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        Request(request).json(&body).send()
    };
    call("sulcus_search", json!({"query": "x"})).await.ok();
    call("sulcus_remember", json!({"content": "x"})).await.ok();
    let found = eventually("both are listed", uses, |uses| uses.len() >= 4).await;
    let of_agent = found.iter().filter(|item| item["after"]["client"] == "agent/1");
    let roles: BTreeSet<_> =
        of_agent.map(|item| string(&item["after"]["operations_of"]).to_owned()).collect();
    assert_eq!(roles, ["agent", "reader"].map(String::from).into());
}

#[tokio::test]
async fn changed_byte_of_an_export_is_found() {
    let cluster = options().start();
    for number in 0..5 {
        cluster.post("/keys", &json!({"name": format!("key {number}")})).await;
    }
    let address = address(&cluster);
    let run = async |arguments: &[&str]| {
        let options: Vec<_> = address.iter().map(String::as_str).collect();
        cluster.run(&[&["audit"], &options[..], arguments].concat()).await
    };
    let (is_intact, text) = run(&["verify"]).await;
    assert!(
        is_intact
            && text.contains("administration: intact, entries 1 to 5, head administration:5:"),
        "{text}"
    );
    let (is_exported, export) = run(&["export"]).await;
    assert!(is_exported && export.lines().count() == 5, "{export}");
    let head = text.split("head ").nth(1).unwrap().lines().next().unwrap();
    assert!(run(&["verify", "--head", head]).await.0);
    let (is_intact, text) = run(&["verify", "--head", &head.replace(":5:", ":4:")]).await;
    assert!(!is_intact && text.contains("is not in the chain"), "{text}");
    let file = cluster.folder().join("audit.jsonl");
    let path = file.to_str().unwrap();
    let mut changes = vec![(export.clone(), true)];
    changes.push((export.replacen("key 3", "key 8", 1), false));
    let mut lines: Vec<_> = export.lines().collect();
    lines.remove(2);
    changes.push((lines.join("\n"), false));
    changes.push((export.replacen("127.0.0.1", "127.0.0.2", 1), false));
    for (content, expected) in changes {
        std::fs::write(&file, &content).unwrap();
        let (is_intact, text) = run(&["verify", "--file", path]).await;
        assert_eq!(is_intact, expected, "{text}");
    }
}

#[tokio::test]
async fn operator_has_a_log_of_its_own() {
    let cluster = options().nodes(3).start();
    let tenant = create_tenant(&cluster, json!({"name": "team"})).await;
    let to = (cluster.leader().await + 1) % 3 + 1;
    let transfer = cluster.ops_request(Method::POST, "/cluster/transfer");
    transfer.json(&json!({"to": to})).send().await.ok();
    let log = cluster.at(2).ops_request(Method::GET, "/cluster/audit").send().await.ok();
    assert_eq!(actions(array(&log["items"])), ["leader.transfer", "tenant.create"]);
    assert_fields(&log["items"][0]["after"], json!({"result": "done"}));
    assert_eq!(log["items"][0]["target"], format!("node {to}"));
    let of_tenant = cluster.request_as(&tenant, Method::GET, "/admin/audit").send().await.ok();
    assert_eq!(actions(array(&of_tenant["items"])), ["tenant.create"]);
    assert_eq!(of_tenant["items"][0]["actor"]["kind"], "operator");
    let ops = cluster.ops().to_owned();
    let (is_intact, text) = cluster.run(&["cluster", "--ops", &ops, "audit", "verify"]).await;
    assert!(
        is_intact
            && text.contains("administration: intact, entries 1 to 2, head administration:2:"),
        "{text}"
    );
}
