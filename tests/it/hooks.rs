//! Coding agents remember by their hooks, without a decision of the model. The inputs are those of the real
//! programs, recorded against a model of the test (`tests/agents`).

use super::*;

/// Programs and versions whose inputs were recorded.
const RECORDED: [&str; 2] = ["claude-code-2.1.332", "codex-0.171.0"];

pub fn recorded(program: &str, event: &str) -> Value {
    let path = format!("{}/agents/{program}/{event}.json", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// The text that an agent reads back from a hook.
async fn hook(node: &Node, event: &str, input: &Value) -> Option<String> {
    let output = node.post(&format!("/hooks/{event}"), input).await;
    let output = &output["hookSpecificOutput"];
    if output.is_null() {
        return None;
    }
    let expected = match event {
        "session-start" => "SessionStart",
        _ => "UserPromptSubmit",
    };
    assert_eq!(output["hookEventName"], expected);
    Some(string(&output["additionalContext"]).to_owned())
}

async fn captured(node: &Node, project: &str) -> Vec<Value> {
    let path =
        format!("/agent/nodes?namespace=default/captured/{project}&sort=created_at&order=asc");
    array(&node.get(&path).await["items"]).clone()
}

#[tokio::test]
async fn recorded_hooks_recall_and_capture() {
    for program in RECORDED {
        let node = options().start();
        let port = node.store(&labelled("The port of the deploy is 9090")).await;
        node.store(&labelled("Bananas ripen quickly in the kitchen")).await;
        let start = hook(&node, "session-start", &recorded(program, "session-start")).await;
        assert!(start.unwrap().contains("port of the deploy"), "{program}");
        let recalls =
            async || node.get(&format!("/agent/nodes/{port}")).await["recall_count"].clone();
        assert_eq!(recalls().await, 0, "the beginning of a session recalls nothing");
        let found = hook(&node, "prompt", &recorded(program, "prompt")).await.unwrap();
        assert!(found.contains("9090") && !found.contains("Bananas"), "{program}: {found}");
        eventually("one prompt, one recall", recalls, |count| *count == 1).await;
        assert_eq!(hook(&node, "stop", &recorded(program, "stop")).await, None);
        let turns = captured(&node, "shop").await;
        let labels: Vec<_> = turns.iter().map(|turn| string(&turn["label"])).collect();
        assert_eq!(labels, ["which port does the deploy use?", "The deploy uses port 9090."]);
        for (turn, role) in turns.iter().zip(["user", "assistant"]) {
            let expected = json!({"tags": ["captured", role], "memory_type": "episodic"});
            assert_fields(turn, expected);
            assert_eq!(turn["metadata"]["session"], recorded(program, "prompt")["session_id"]);
            assert!(turn["expires_at"].is_string(), "{turn}");
        }
    }
}

/// What is captured is recalled in its project, and not again as something new.
#[tokio::test]
async fn hundred_sessions_make_no_echo() {
    let node = options().start();
    let [prompt, stop] = ["prompt", "stop"].map(|event| recorded(RECORDED[0], event));
    for number in 0..100 {
        let of_session = |input: &Value| {
            let mut input = input.clone();
            input["session_id"] = format!("session {number}").into();
            input
        };
        hook(&node, "prompt", &of_session(&prompt)).await;
        hook(&node, "stop", &of_session(&stop)).await;
    }
    assert_eq!(captured(&node, "shop").await.len(), 2);
    let other = json!({"cwd": "/home/me/other", "prompt": "which port does the deploy use?"});
    assert_eq!(hook(&node, "prompt", &other).await, None, "another project");
    let own = json!({"cwd": "C:\\work\\shop\\", "prompt": "say which port the deploy uses"});
    assert!(hook(&node, "prompt", &own).await.unwrap().contains("9090"));
    let again = hook(&node, "prompt", &prompt).await.unwrap();
    assert!(again.contains("9090") && !again.contains(string(&prompt["prompt"])), "{again}");
}

#[tokio::test]
async fn captured_turns_have_no_secrets() {
    let node = options().start();
    let secrets = ["AKIAIOSFODNN7EXAMPLE", "hunter2222", "4111 1111 1111 1111"];
    let prompt = format!(
        "deploy with {} to postgres://admin:{}@db/shop and bill the card {}",
        secrets[0], secrets[1], secrets[2]
    );
    hook(&node, "prompt", &json!({"cwd": "/home/me/shop", "prompt": prompt})).await;
    let turn = &captured(&node, "shop").await[0];
    let label = string(&turn["label"]);
    assert!(secrets.iter().all(|secret| !label.contains(secret)), "{label}");
    assert!(
        label.starts_with("deploy with [key removed] to postgres://admin:[password"),
        "{label}"
    );
    // Nothing that the node stores has them.
    node.shut_down().await;
    for secret in secrets {
        assert!(!holds(&node.data(), secret.as_bytes()), "a file contains {secret}");
    }
}

#[tokio::test]
async fn little_is_captured() {
    let node = options().start();
    for prompt in ["yes", "go on", "/compact keep the plan", "", "   "] {
        assert_eq!(hook(&node, "prompt", &json!({"prompt": prompt, "cwd": "/a/shop"})).await, None);
    }
    let said = json!({"prompt": "what is not to be captured?", "cwd": "/a/shop"});
    node.post("/hooks/prompt?capture=false", &said).await;
    let fine = json!({"tool_name": "Bash", "tool_response": {"stdout": "ok, all tests passed"}});
    hook(&node, "tool", &fine).await;
    hook(&node, "compact", &json!({"cwd": "/a/shop"})).await;
    assert_eq!(node.get("/agent/nodes").await["total"], 0);
    let failed = json!({"cwd": "/a/shop", "tool_name": "Bash", "tool_response":
        {"is_error": true, "stderr": "cannot connect to the database"}});
    hook(&node, "tool", &failed).await;
    let turns = captured(&node, "shop").await;
    assert_eq!(turns[0]["label"], "The tool Bash failed: cannot connect to the database");
    // A reader recalls and captures nothing; a key for one namespace captures nothing elsewhere.
    let bound = json!({"name": "bound", "role": "agent", "namespaces": ["team"]});
    for key in [json!({"name": "reader", "role": "reader"}), bound] {
        let key = node.post("/keys", &key).await;
        let request = node.request_as(&key, Method::POST, "/hooks/prompt");
        let said = json!({"prompt": "why can the tool not connect?", "cwd": "/a/shop"});
        request.json(&said).send().await.ok();
    }
    assert_eq!(node.get("/agent/nodes").await["total"], 1);
}
