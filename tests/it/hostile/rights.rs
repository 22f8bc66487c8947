//! Keys that read firings of other keys' triggers, or redirect their webhooks.

use super::*;

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// A key that is denied a namespace.
struct Outsider<'a> {
    cluster: &'a Cluster,
    key: Value,
    /// Id of an event before all that it reads.
    start: String,
}

impl<'a> Outsider<'a> {
    async fn new(cluster: &'a Cluster) -> Self {
        let key = denied_key(cluster).await;
        let (_, ready) = Stream::ready(cluster, "", None).await;
        Self { cluster, key, start: ready.id }
    }

    async fn send(&self, method: Method, path: &str, body: &Value) -> Response {
        self.cluster.request_as(&self.key, method, path).json(body).send().await
    }

    /// All that it reads about triggers, as one text, and all events of its stream so far.
    async fn read_all(&self) -> (String, Vec<Event>) {
        let mut texts = String::new();
        let lists =
            ["/triggers", "/triggers/history?kind=all", "/triggers/deliveries", "/activity"];
        for path in lists {
            texts += &self.send(Method::GET, path, &json!({})).await.ok().to_string();
        }
        let end = self.cluster.store(&json!({"label": "the end", "namespace": "end"})).await;
        let request = self.cluster.request_as(&self.key, Method::GET, "/events");
        let request = request.header("Last-Event-ID", &self.start);
        let mut stream = Stream::of(request).await.expect("an event stream");
        let mut events = Vec::new();
        loop {
            let event = stream.expect().await;
            if event.kind == "created" && event.data["node_id"] == end.as_str() {
                return (texts, events);
            }
            texts += &event.data.to_string();
            events.push(event);
        }
    }
}

fn notify(name: &str) -> Value {
    let config = json!({"message": format!("{name} reports {{label}}")});
    json!({
        "event": "on_store", "action": "notify", "name": name, "filter_namespace": "open",
        "action_config": config,
    })
}

#[tokio::test]
async fn restricted_key_sees_firings_of_its_own_triggers() {
    let cluster = options().env("HEARTH__WEBHOOKS__RETRY_SECONDS", "0.05").start();
    let outsider = Outsider::new(&cluster).await;
    let receiver = Receiver::start(|_| Behaviour::status(418)).await;
    create_trigger(&cluster, &notify("Covert")).await;
    let hook = json!({
        "event": "on_store", "action": "webhook", "name": "Covert hook",
        "filter_label_pattern": "fox", "action_config": {"url": receiver.url},
    });
    create_trigger(&cluster, &hook).await;
    outsider.send(Method::POST, "/triggers", &notify("Mine")).await;
    cluster.create(&json!({"label": "red fox", "namespace": "open"})).await;
    let dead = async || cluster.get("/triggers/deliveries?status=dead_letter").await;
    let dead = eventually("a dead letter", dead, |dead| array(&dead["items"]).len() == 1).await;
    let (texts, events) = outsider.read_all().await;
    assert!(!texts.contains("Covert") && !texts.contains("teapot"), "{texts}");
    let of_triggers = |event: &&Event| event.data["metadata"]["trigger_id"].is_string();
    let names = events.iter().filter(of_triggers).map(|event| &event.data["metadata"]);
    let names: Vec<_> = names.map(|metadata| string(&metadata["trigger_name"])).collect();
    assert_eq!(names, ["Mine"]);
    assert_eq!(texts.matches("Mine reports red fox").count(), 3, "{texts}");
    // It makes no dead letter of another key pending again.
    let path = "/triggers/deliveries/replay";
    let one = json!({"id": dead["items"][0]["id"]});
    outsider.send(Method::POST, path, &one).await.assert_error(404, "not_found");
    let all = outsider.send(Method::POST, path, &json!({})).await.ok();
    assert_eq!(all, json!({"replayed": 0, "has_more": false}));
    assert_eq!(receiver.received().len(), 2);
}

#[tokio::test]
async fn firing_hides_the_label_of_closed_memories() {
    let cluster = options().start();
    let outsider = Outsider::new(&cluster).await;
    outsider.send(Method::POST, "/triggers", &notify("Mine")).await;
    let tag = json!({"event": "on_store", "action": "tag", "filter_namespace": "open"});
    outsider.send(Method::POST, "/triggers", &tag).await;
    let memory = json!({"label": "Zanzibar keeps treasure", "namespace": "open"});
    let moved = cluster.store(&memory).await;
    let deleted = cluster.store(&memory).await;
    for id in [&moved, &deleted] {
        let path = format!("/agent/nodes/{id}");
        cluster.patch(&path, &json!({"namespace": "closed"})).await;
    }
    cluster.delete(&format!("/agent/nodes/{deleted}")).await;
    let (texts, events) = outsider.read_all().await;
    assert!(!texts.to_lowercase().contains("zanzibar"), "{texts}");
    let fired = events.iter().filter(|event| event.kind == "fired");
    assert_eq!(fired.count(), 4, "the firings remain: {events:?}");
    let history = outsider.send(Method::GET, "/triggers/history", &json!({})).await.ok();
    assert_fields(&history["items"][0], json!({"node_label": null, "result": "", "action": "tag"}));
    // A key with access to all namespaces reads all of it.
    let all = trigger_history(&cluster, "").await;
    assert!(all.iter().all(|item| item["node_label"] == "Zanzibar keeps treasure"), "{all:?}");
}

#[tokio::test]
async fn only_owners_and_admins_redirect_webhooks() {
    let cluster = options().start();
    let mut keys = Vec::new();
    for name in ["owner", "other"] {
        keys.push(cluster.post("/keys", &json!({"name": name, "role": "agent"})).await);
    }
    let [owner, other] = &keys[..] else { panic!() };
    let receiver = Receiver::accepting().await;
    let elsewhere = Receiver::accepting().await;
    let body = json!({
        "event": "on_store", "action": "webhook",
        "action_config": {"url": receiver.url, "webhook_secret": SECRET},
    });
    let created = cluster.request_as(owner, Method::POST, "/triggers").json(&body).send().await;
    let path = format!("/triggers/{}", id(&created.ok()));
    let patch = |key: &Value, config: Value| {
        let request = cluster.request_as(key, Method::PATCH, &path);
        request.json(&json!({"action_config": config})).send()
    };
    let stolen = [
        json!({"url": elsewhere.url}),
        json!({"webhook_secret": "a secret of another key"}),
        json!({"webhook_secret": null}),
    ];
    for config in &stolen {
        patch(other, config.clone()).await.assert_error(403, "not_owner");
    }
    // It may change the rest, and repeat what is set.
    patch(other, json!({"url": receiver.url})).await.ok();
    let request = cluster.request_as(other, Method::PATCH, &path);
    request.json(&json!({"name": "renamed"})).send().await.ok();
    cluster.create(&json!({"label": "x"})).await;
    receiver.wait_for(1).await;
    let moved = patch(owner, stolen[0].clone()).await.ok();
    assert_fields(&moved["action_config"], json!({"url": elsewhere.url, "signed": true}));
    let request = cluster.request(Method::PATCH, &path);
    let back = json!({"action_config": {"url": receiver.url}});
    assert_eq!(request.json(&back).send().await.ok()["action_config"]["signed"], true);
    // Without its owner's key, an admin takes a signed webhook over.
    let gone = format!("/keys/{}", string(&owner["id"]));
    cluster.delete(&gone).await;
    for config in &stolen {
        patch(other, config.clone()).await.assert_error(403, "not_owner");
    }
    let request = cluster.request_as(other, Method::PATCH, &path);
    request.json(&json!({"name": "taken over"})).send().await.ok();
    patch(other, stolen[0].clone()).await.assert_error(403, "not_owner");
    assert!(elsewhere.received().is_empty());
}

#[tokio::test]
async fn only_owners_change_what_triggers_say() {
    let cluster = options().start();
    let owner = cluster.post("/keys", &json!({"name": "owner", "role": "agent"})).await;
    let other = cluster.post("/keys", &json!({"name": "other", "role": "agent"})).await;
    for (action, config, forged) in [
        ("notify", json!({"message": "stored"}), json!({"message": "Pay now."})),
        ("tag", json!({"tag": "seen"}), json!({"tag": "trusted"})),
        ("boost", json!({"strength": 0.1}), json!({"strength": 0.9})),
    ] {
        let body = json!({"event": "on_store", "action": action, "action_config": config});
        let created =
            cluster.request_as(&owner, Method::POST, "/triggers").json(&body).send().await;
        let path = format!("/triggers/{}", id(&created.ok()));
        let patch = |key: &Value, body: Value| {
            cluster.request_as(key, Method::PATCH, &path).json(&body).send()
        };
        let forged = json!({"action_config": forged});
        patch(&other, forged.clone()).await.assert_error(403, "not_owner");
        patch(&other, json!({"enabled": false, "action_config": config})).await.ok();
        patch(&owner, forged).await.ok();
    }
}

#[tokio::test]
async fn triggers_do_not_tell_of_closed_ends() {
    let cluster = options().start();
    let outsider = Outsider::new(&cluster).await;
    let trigger = json!({"event": "on_relate", "action": "notify", "name": "Edges"});
    outsider.send(Method::POST, "/triggers", &trigger).await.ok();
    let store = async |label: &str, namespace: &str| {
        cluster.store(&json!({"label": label, "namespace": namespace})).await
    };
    let (source, other) = (store("one", "open").await, store("two", "open").await);
    let closed = store("three", "closed").await;
    for target in [&closed, &other] {
        let edge = json!({"source_id": source, "target_id": target});
        cluster.post("/agent/graph/relate", &edge).await;
    }
    let history = outsider.send(Method::GET, "/triggers/history", &json!({})).await.ok();
    assert_eq!(array(&history["items"]).len(), 1, "{history}");
}

/// The vector of a text that was embedded before is cached, so its search takes less time. That must
/// not tell a key which texts a namespace contains that is closed to it.
#[tokio::test]
async fn cached_vectors_tell_of_no_closed_texts() {
    let cluster = options().start();
    let restricted = denied_key(&cluster).await;
    let closed = json!({"label": "salary of employee 7", "namespace": "closed"});
    cluster.create(&closed).await;
    let cached = async |key: &Value, query: &str| {
        let before = cluster.metric("hearth_embedder_cached_total").await;
        let request = cluster.request_as(key, Method::POST, "/agent/search");
        request.json(&json!({"query": query})).send().await.ok();
        cluster.metric("hearth_embedder_cached_total").await > before
    };
    let query = "salary of employee 7";
    assert!(cached(&json!({"key": cluster.key}), query).await, "all namespaces are open to it");
    assert!(!cached(&restricted, query).await);
    assert!(cached(&restricted, query).await, "its own search");
    assert!(!cached(&denied_key(&cluster).await, query).await, "the search of another key");
}
