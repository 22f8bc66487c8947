//! A drop-in for the reference memory server of the Model Context Protocol: its nine tools over memories.
//! Two writers at once lose nothing.

use std::collections::BTreeSet;

use super::*;

fn graph_options() -> Options {
    options().env("HEARTH__MCP__PROFILE", "knowledge-graph")
}

async fn result(node: &Node, name: &str, arguments: Value) -> Value {
    let request = node.client.post(format!("{}/mcp", node.url()));
    let params = json!({"name": name, "arguments": arguments});
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    let response = Request(request.bearer_auth(&node.key)).json(&body).send().await;
    response.body["result"].clone()
}

#[tokio::test]
async fn graph_has_no_prompts_about_other_tools() {
    let node = graph_options().start();
    let request = node.client.post(format!("{}/mcp", node.url()));
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "prompts/list", "params": {}});
    let response = Request(request.bearer_auth(&node.key)).json(&body).send().await;
    assert_eq!(response.body["result"]["prompts"], json!([]));
}

/// The result of a tool, which must succeed.
async fn call(node: &Node, name: &str, arguments: Value) -> Value {
    let result = result(node, name, arguments).await;
    assert_eq!(result["isError"], false, "{name}: {result}");
    result["structuredContent"].clone()
}

fn entity(name: &str, kind: &str, observations: &[&str]) -> Value {
    json!({"name": name, "entityType": kind, "observations": observations})
}

fn relation(from: &str, kind: &str, to: &str) -> Value {
    json!({"from": from, "to": to, "relationType": kind})
}

fn names(graph: &Value) -> Vec<&str> {
    array(&graph["entities"]).iter().map(|entity| string(&entity["name"])).collect()
}

/// Relations as texts, in order.
fn relations(graph: &Value) -> BTreeSet<String> {
    let text = |it: &Value| {
        let [from, kind, to] = ["from", "relationType", "to"].map(|name| string(&it[name]));
        format!("{from} {kind} {to}")
    };
    array(&graph["relations"]).iter().map(text).collect()
}

async fn fill(node: &Node) {
    let entities = json!({"entities": [
        entity("Alice", "person", &["works at Acme Corp", "likes programming"]),
        entity("Bob", "person", &["works at TechCo"]),
        entity("Acme Corp", "company", &["makes anvils"]),
    ]});
    assert_eq!(call(node, "create_entities", entities.clone()).await, entities);
    let edges = json!({"relations": [
        relation("Alice", "works_at", "Acme Corp"),
        relation("Bob", "knows", "Alice"),
        relation("Alice", "knows", "Bob"),
        relation("Alice", "trusts", "Alice"),
    ]});
    assert_eq!(call(node, "create_relations", edges.clone()).await, edges);
}

#[tokio::test]
async fn entities_and_relations_are_created_once() {
    let cluster = graph_options().nodes(3).start();
    let node = cluster.at(1);
    assert_eq!(call(node, "read_graph", json!({})).await, json!({"entities": [], "relations": []}));
    fill(node).await;
    let again =
        json!({"entities": [entity("Alice", "robot", &["is new"]), entity("Eve", "person", &[])]});
    let created = call(node, "create_entities", again).await;
    assert_eq!(names(&created), ["Eve"]);
    let edges = json!({"relations": [relation("Alice", "knows", "Bob")]});
    assert_eq!(call(node, "create_relations", edges).await["relations"], json!([]));
    let graph = call(cluster.at(2), "read_graph", json!({})).await;
    assert_eq!(names(&graph), ["Alice", "Bob", "Acme Corp", "Eve"]);
    let expected = entity("Alice", "person", &["works at Acme Corp", "likes programming"]);
    assert_eq!(graph["entities"][0], expected);
    assert_eq!(relations(&graph).len(), 4);
    for name in ["create_entities", "create_relations", "add_observations"] {
        let field = name.split_once('_').unwrap().1;
        call(node, name, json!({field: []})).await;
    }
}

/// What concerns entities that exist is stored.
#[tokio::test]
async fn missing_entities_are_named() {
    let cluster = graph_options().start();
    fill(&cluster).await;
    let ghost = relation("Alice", "knows", "Ghost");
    let rejected = result(&cluster, "create_relations", json!({"relations": [ghost]})).await;
    assert_eq!(rejected["isError"], true);
    let text = string(&rejected["content"][0]["text"]);
    assert!(text.contains("Entity with name Ghost not found"), "{text}");
    let both = json!({"relations": [ghost, relation("Alice", "trusts", "Bob")]});
    let created = call(&cluster, "create_relations", both).await;
    assert_eq!(relations(&created), ["Alice trusts Bob".to_owned()].into());
    assert_eq!(created["missingEntities"], json!(["Ghost"]));
    let of = |name: &str| json!({"entityName": name, "contents": ["is known"]});
    let both = json!({"observations": [of("Ghost"), of("Bob")]});
    let added = call(&cluster, "add_observations", both).await;
    let expected = json!([{"entityName": "Bob", "addedObservations": ["is known"]}]);
    assert_eq!((&added["results"], &added["missingEntities"]), (&expected, &json!(["Ghost"])));
}

/// Programs call tools in parallel: relations may arrive before the entities.
#[tokio::test]
async fn parallel_calls_lose_no_relation() {
    let cluster = graph_options().nodes(3).start();
    let create = async |number: usize| {
        let name = format!("part {number}");
        let new = json!({"entities": [entity(&name, "part", &[])]});
        call(cluster.at(number % 3), "create_entities", new).await;
    };
    let relate = async |number: usize| {
        let [from, to] = [number, (number + 1) % 20].map(|number| format!("part {number}"));
        let new = json!({"relations": [relation(&from, "touches", &to)]});
        call(cluster.at(number % 3), "create_relations", new).await;
    };
    let relations_of_all = futures::future::join_all((0..20).map(relate));
    tokio::join!(relations_of_all, futures::future::join_all((0..20).map(create)));
    let graph = call(&cluster, "read_graph", json!({})).await;
    assert_eq!((names(&graph).len(), relations(&graph).len()), (20, 20));
}

#[tokio::test]
async fn observations_are_added_once_and_deleted() {
    let cluster = graph_options().start();
    fill(&cluster).await;
    let add = |texts: &[&str]| json!({"observations": [{"entityName": "Bob", "contents": texts}]});
    call(&cluster, "add_observations", add(&["likes coffee"])).await;
    let added = call(&cluster, "add_observations", add(&["likes coffee", "has a dog"])).await;
    let expected = json!([{"entityName": "Bob", "addedObservations": ["has a dog"]}]);
    assert_eq!(added["results"], expected);
    let ghost = json!({"observations": [{"entityName": "Ghost", "contents": ["x"]}]});
    assert_eq!(result(&cluster, "add_observations", ghost).await["isError"], true);
    let delete = json!({"deletions": [
        {"entityName": "Bob", "observations": ["likes coffee"]},
        {"entityName": "Ghost", "observations": ["x"]},
    ]});
    let deleted = call(&cluster, "delete_observations", delete).await;
    assert_eq!(deleted["message"], "Deleted 1 of 2 observations");
    let bob = call(&cluster, "open_nodes", json!({"names": ["Bob"]})).await;
    assert_eq!(bob["entities"][0]["observations"], json!(["works at TechCo", "has a dog"]));
    // They are memories.
    let found = cluster.post("/agent/search", &json!({"query": "dog", "limit": 1})).await;
    assert_eq!(found[0]["label"], "has a dog");
}

#[tokio::test]
async fn nodes_are_found_with_their_relations() {
    let cluster = graph_options().start();
    fill(&cluster).await;
    let search = async |query: &str| call(&cluster, "search_nodes", json!({"query": query})).await;
    assert_eq!(names(&search("ALICE").await), ["Alice"]);
    assert_eq!(names(&search("company").await), ["Acme Corp"]);
    assert_eq!(names(&search("anvil").await), ["Acme Corp"]);
    let acme = search("Acme").await;
    assert_eq!(names(&acme), ["Alice", "Acme Corp"]);
    assert_eq!(relations(&acme).len(), 4);
    assert_eq!(search("nothing").await, json!({"entities": [], "relations": []}));
    let open = async |all: &[&str]| call(&cluster, "open_nodes", json!({"names": all})).await;
    let bob = open(&["Bob", "Ghost"]).await;
    assert_eq!(names(&bob), ["Bob"]);
    let expected = ["Alice knows Bob", "Bob knows Alice"].map(String::from);
    assert_eq!(relations(&bob), BTreeSet::from(expected));
    assert_eq!(open(&[]).await, json!({"entities": [], "relations": []}));
}

#[tokio::test]
async fn deletions_take_what_belongs_to_an_entity() {
    let cluster = graph_options().start();
    fill(&cluster).await;
    let one = json!({"relations": [relation("Bob", "knows", "Alice")]});
    call(&cluster, "delete_relations", one).await;
    let left = relations(&call(&cluster, "read_graph", json!({})).await);
    assert!(left.contains("Alice knows Bob") && !left.contains("Bob knows Alice"), "{left:?}");
    let deleted =
        call(&cluster, "delete_entities", json!({"entityNames": ["Alice", "Ghost"]})).await;
    assert_eq!(deleted["message"], "Deleted 1 of 2 entities. Not found: Ghost");
    let graph = call(&cluster, "read_graph", json!({})).await;
    assert_eq!((names(&graph), &graph["relations"]), (vec!["Bob", "Acme Corp"], &json!([])));
    // Bob and Acme Corp, with one statement each.
    let memories = cluster.get("/agent/nodes").await;
    assert_eq!(memories["total"], 4);
    // What cannot be deleted is said, and the entity stays with it.
    let locked = array(&memories["items"]).iter().find(|it| it["label"] == "works at TechCo");
    let locked = format!("/agent/nodes/{}", string(&locked.unwrap()["id"]));
    cluster.patch(&locked, &json!({"is_locked": true})).await;
    let bob = json!({"entityNames": ["Bob"]});
    let failed = result(&cluster, "delete_entities", bob.clone()).await;
    assert_eq!(failed["isError"], true, "{failed}");
    assert_eq!(names(&call(&cluster, "read_graph", json!({})).await), ["Bob", "Acme Corp"]);
    cluster.patch(&locked, &json!({"is_locked": false})).await;
    call(&cluster, "delete_entities", bob).await;
    assert_eq!(cluster.get("/agent/nodes").await["total"], 2);
}

#[tokio::test]
async fn two_writers_at_once_lose_nothing() {
    let cluster = graph_options().nodes(3).start();
    let all = json!({"entities": [entity("Shared", "topic", &[])]});
    let first = call(cluster.at(0), "create_entities", all.clone());
    let (first, second) = tokio::join!(first, call(cluster.at(1), "create_entities", all));
    assert_eq!(names(&first).len() + names(&second).len(), 1, "one of them created it");
    let write = async |at: usize| {
        let node = cluster.at(at);
        for number in 0..20 {
            let own = format!("writer {at}, statement {number}");
            let common = format!("statement {number}");
            let contents = json!([own, common]);
            let add = json!({"observations": [{"entityName": "Shared", "contents": contents}]});
            call(node, "add_observations", add).await;
            let name = format!("entity {number}");
            let new =
                json!({"entities": [entity(&name, "thing", &[]), entity(&own, "thing", &[])]});
            call(node, "create_entities", new).await;
            let edges = json!({"relations": [relation("Shared", "has", &name)]});
            call(node, "create_relations", edges).await;
        }
    };
    tokio::join!(write(0), write(1));
    let graph = call(cluster.at(2), "read_graph", json!({})).await;
    assert_eq!(names(&graph).len(), 1 + 20 + 40);
    assert_eq!(array(&graph["entities"][0]["observations"]).len(), 20 + 40);
    assert_eq!(relations(&graph).len(), 20);
}

#[tokio::test]
async fn profile_has_the_nine_tools_by_role() {
    let cluster = graph_options().start();
    let reader = cluster.post("/keys", &json!({"name": "reader", "role": "reader"})).await;
    let tools = async |key: &str| {
        let request = cluster.client.post(format!("{}/mcp", cluster.url())).bearer_auth(key);
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}});
        let listed = Request(request).json(&body).send().await.body["result"]["tools"].take();
        array(&listed).iter().map(|tool| string(&tool["name"]).to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(tools(&cluster.key).await.len(), 9);
    assert_eq!(tools(string(&reader["key"])).await, ["read_graph", "search_nodes", "open_nodes"]);
}

/// They find by themselves what is there, so a repetition would find what was stored since.
#[tokio::test]
async fn tools_that_write_take_no_idempotency_key() {
    let node = graph_options().start();
    fill(&node).await;
    let before = call(&node, "read_graph", json!({})).await;
    let pair = json!({"relations": [relation("Bob", "knows", "Alice")]});
    let gone = json!({"entityName": "Bob", "observations": ["works at TechCo"]});
    for (name, arguments) in [
        ("create_entities", json!({"entities": [entity("Eve", "person", &[])]})),
        ("create_relations", pair.clone()),
        ("add_observations", json!({"observations": [{"entityName": "Bob", "contents": ["new"]}]})),
        ("delete_entities", json!({"entityNames": ["Bob"]})),
        ("delete_observations", json!({"deletions": [gone]})),
        ("delete_relations", pair),
    ] {
        let params = json!({"name": name, "arguments": arguments});
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        let request = node.client.post(format!("{}/mcp", node.url())).bearer_auth(&node.key);
        let response = Request(request).header("Idempotency-Key", "one").json(&body).send().await;
        let text = string(&response.body["result"]["content"][0]["text"]);
        assert!(text.starts_with("idempotency_unsupported: "), "{name}: {}", response.body);
    }
    assert_eq!(call(&node, "read_graph", json!({})).await, before);
}
