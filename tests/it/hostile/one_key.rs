//! An attacker with the key of an agent, who sends whatever may do harm to every node, for
//! HEARTH_SECONDS. HEARTH_SEED varies it. A namespace, the settings and another tenant are closed to
//! the key: no response tells of them, and nothing of them changes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::join_all;

use super::attacker::ALONE;
use super::random_requests::{
    RandomRequests, SECRET, Sent, assert_documented, assert_tells_nothing,
};
use super::*;

/// Requests at a time.
const CLIENTS: u64 = 8;
/// Ids of its own that the attacker remembers.
const OWN_IDS_MAX: usize = 200;
/// How long an endless response is read.
const READ_TIME: Duration = Duration::from_millis(300);

/// What is closed to the key, without what time changes of it.
async fn protected(cluster: &Cluster, other: &Value) -> Vec<Value> {
    let mut all = Vec::new();
    let own = json!({"key": cluster.key});
    for (key, paths) in [
        (&own, &["/agent/nodes?namespace=closed&sort=created_at&page_size=100"][..]),
        (&own, &["/settings/thermo", "/settings/retention", "/namespaces/acl", "/org", "/keys"]),
        (other, &["/agent/nodes?namespace=*&sort=created_at&page_size=100", "/org", "/keys"]),
        (other, &["/agent/graph/status", "/triggers", "/settings/thermo"]),
    ] {
        for path in paths {
            let mut body = cluster.request_as(key, Method::GET, path).send().await.ok();
            remove(&mut body, &["heat", "current_heat", "last_used_at", "uses", "usage"]);
            // A key may choose its own namespace, also the attacker's.
            for key in body["keys"].as_array_mut().into_iter().flatten() {
                key.as_object_mut().unwrap().retain(|name, _| name != "namespace");
            }
            all.push(body);
        }
    }
    all
}

fn remove(value: &mut Value, names: &[&str]) {
    if let Value::Object(object) = value {
        object.retain(|name, _| !names.contains(&name.as_str()));
        object.values_mut().for_each(|value| remove(value, names));
    } else if let Value::Array(values) = value {
        values.iter_mut().for_each(|value| remove(value, names));
    }
}

/// Stores what is closed. Returns the ids of it.
async fn fill(cluster: &Cluster, other: &Value) -> Vec<String> {
    let mut ids = Vec::new();
    let own = json!({"key": cluster.key});
    for (key, namespace) in [(&own, "closed"), (other, "default")] {
        let post = async |path: &str, body: Value| {
            cluster.request_as(key, Method::POST, path).json(&body).send().await.ok()
        };
        let first = ids.len();
        for number in 0..10 {
            let label = format!("{SECRET} {number} keeps the treasure of {namespace}");
            let memory = json!({"label": label, "namespace": namespace, "key_points": [SECRET],
                "is_pinned": true, "metadata": {"owner": SECRET}});
            ids.push(id(&post("/agent/nodes", memory).await).to_owned());
        }
        for pair in ids[first..].windows(2) {
            post("/agent/graph/relate", json!({"source_id": pair[0], "target_id": pair[1]})).await;
        }
        let trigger = json!({"event": "on_recall", "action": "notify", "name": SECRET,
            "filter_namespace": namespace});
        ids.push(id(&post("/triggers", trigger).await).to_owned());
        ids.push(id(&post("/keys", json!({"name": format!("{SECRET} key")})).await).to_owned());
    }
    ids
}

/// The attacker's clients.
struct Attacker {
    cluster: Arc<Cluster>,
    key: String,
    requests: RandomRequests,
    closed_ids: usize,
    /// Responses by their status.
    statuses: std::collections::BTreeMap<u16, u64>,
}

impl Attacker {
    async fn attack(&mut self) {
        let sent = self.requests.request();
        let node = self.cluster.at(self.requests.random.usize(0..3));
        let url = format!("{}{}", node.url(), sent.path);
        let mut request = node.client.request(sent.method.clone(), url).bearer_auth(&self.key);
        for (name, value) in &sent.headers {
            request = request.header(name, value);
        }
        let mut response = match request.body(sent.body.clone()).send().await {
            Ok(response) => response,
            // HTTP itself rejects some headers.
            Err(error) => return assert!(error.is_request() || error.is_builder(), "{error:?}"),
        };
        let status = response.status().as_u16();
        assert!(response.headers().contains_key("x-request-id"), "{status} to {sent}");
        let mut body = Vec::new();
        let read = async {
            while let Ok(Some(part)) = response.chunk().await {
                body.extend_from_slice(&part);
            }
        };
        let is_endless = sent.path.starts_with("/api/v1/events");
        let time = if is_endless { READ_TIME } else { PATIENCE };
        let is_whole = tokio::time::timeout(time, read).await.is_ok();
        assert!(is_whole || is_endless, "no end of the response to {sent}");
        let text = String::from_utf8_lossy(&body);
        *self.statuses.entry(status).or_default() += 1;
        assert_tells_nothing(&sent, &text);
        if sent.path != "/readyz" {
            assert_documented(&sent, status, &text);
        }
        self.remember(&sent, &text);
    }

    /// Keeps the id of what a request created.
    fn remember(&mut self, sent: &Sent, text: &str) {
        let response: Value = serde_json::from_str(text).unwrap_or_default();
        let result = &response["result"]["structuredContent"];
        let created =
            [&response["id"], &response["node_id"], &result["memory_id"], &result["trigger"]["id"]];
        if sent.method == Method::POST
            && let Some(id) = created.iter().find_map(|id| id.as_str())
        {
            let ids = &mut self.requests.ids;
            if ids.len() == self.closed_ids + OWN_IDS_MAX {
                ids.remove(self.closed_ids);
            }
            ids.push(id.to_owned());
        }
    }
}

/// Stores memories in a namespace that is closed to the attacker until `until`. Returns their number.
async fn honest(cluster: Arc<Cluster>, until: Instant) -> u64 {
    let mut stored = 0;
    while Instant::now() < until {
        let memory = json!({"label": format!("{SECRET} of hour {stored}"), "namespace": "honest"});
        let id = cluster.store(&memory).await;
        let found = cluster.get(&format!("/agent/nodes/{id}")).await;
        assert_eq!(found["label"], memory["label"]);
        stored += 1;
    }
    stored
}

#[tokio::test(flavor = "multi_thread")]
async fn attacker_with_a_key_finds_nothing() {
    let _alone = ALONE.lock().await;
    let cluster = Arc::new(options().nodes(3).start());
    let key = denied_key(&cluster).await;
    let rule = json!({"agent_id": "outsider", "namespace": "honest", "policy": "deny"});
    cluster.post("/namespaces/acl", &rule).await;
    let other = create_tenant(&cluster, json!({"name": SECRET})).await;
    converged(&cluster).await;
    let ids = fill(&cluster, &other).await;
    let before = protected(&cluster, &other).await;
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    let list = cluster.client.post(format!("{}/mcp", cluster.url())).json(&list);
    let list = Request(list.bearer_auth(string(&key["key"]))).send().await.ok();
    let tools = &list["result"]["tools"];
    assert!(array(tools).len() > 5, "{list}");

    let seed = setting("HEARTH_SEED", 1);
    let until = Instant::now() + Duration::from_secs(setting("HEARTH_SECONDS", 10));
    let honest = tokio::spawn(honest(Arc::clone(&cluster), until));
    let attackers = (0..CLIENTS).map(|number| {
        let requests = RandomRequests::new(seed * CLIENTS + number, ids.clone(), tools);
        let (cluster, key) = (Arc::clone(&cluster), string(&key["key"]).to_owned());
        let (closed_ids, statuses) = (ids.len(), Default::default());
        let mut attacker = Attacker { cluster, key, requests, closed_ids, statuses };
        tokio::spawn(async move {
            while Instant::now() < until {
                attacker.attack().await;
            }
            attacker.statuses
        })
    });
    let mut statuses = std::collections::BTreeMap::<u16, u64>::new();
    for ended in join_all(attackers.collect::<Vec<_>>()).await {
        for (status, count) in ended.unwrap() {
            *statuses.entry(status).or_default() += count;
        }
    }
    let stored = honest.await.unwrap();
    println!("HEARTH_SEED={seed}: {statuses:?}; {stored} honest memories");
    let succeeded: u64 = statuses.range(200..300).map(|(_, count)| count).sum();
    assert!(succeeded > 20 && statuses[&400] > 20 && stored > 0, "{statuses:?}, {stored}");
    converged(&cluster).await;
    assert_eq!(protected(&cluster, &other).await, before);
    let list = cluster.get("/agent/nodes?namespace=honest&page_size=1").await;
    assert_eq!(list["total"], stored);
    assert_equal_states(&cluster).await;
}
