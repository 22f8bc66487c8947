//! Coding agents start `hearth hook`.

use std::io::Write;
use std::process::Stdio;

use super::command_line::Shell;
use super::hooks::recorded;
use super::*;

/// What `hearth hook` prints for an input. It always succeeds.
fn hook(shell: &Shell, arguments: &[&str], input: &str) -> String {
    let mut command = shell.command(&[&["hook"], arguments].concat());
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    tokio::task::block_in_place(|| {
        let mut child = command.spawn().unwrap();
        // It may have ended.
        let _: std::io::Result<()> = child.stdin.take().unwrap().write_all(input.as_bytes());
        let output = child.wait_with_output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && error.is_empty(), "{arguments:?}: {error}");
        String::from_utf8(output.stdout).unwrap()
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn hook_prints_what_is_known() {
    let cluster = options().nodes(3).start();
    cluster.store(&labelled("The port of the deploy is 9090")).await;
    converged(&cluster).await;
    let shell = Shell::of(&cluster);
    let prompt = recorded("claude-code-2.1.332", "prompt").to_string();
    // This machine may be slow: people have 300 ms.
    let patient = ["prompt", "--wait", "30000"];
    let output: Value = serde_json::from_str(&hook(&shell, &patient, &prompt)).unwrap();
    let context = &output["hookSpecificOutput"]["additionalContext"];
    assert!(string(context).contains("9090"), "{output}");
    let turns = cluster.get("/agent/nodes?namespace=default/captured/shop").await;
    assert_eq!(turns["total"], 1);
    // Another node responds.
    cluster.at(0).kill();
    assert!(hook(&shell, &patient, &prompt).contains("9090"));
}

/// A dead node, a wrong key and a strange input cost nothing.
#[tokio::test(flavor = "multi_thread")]
async fn hook_never_fails() {
    let node = options().start();
    let mut shell = Shell::of(&node);
    let prompt = recorded("codex-0.171.0", "prompt").to_string();
    for input in ["", "no JSON", "[]", "{}", r#"{"prompt": 7}"#] {
        assert_eq!(hook(&shell, &["prompt"], input), "");
    }
    shell.set("HEARTH_API_KEY", "sk-wrong");
    assert_eq!(hook(&shell, &["prompt"], &prompt), "");
    assert_eq!(hook(&Shell::new(), &["session-start"], &prompt), "", "without a key");
    let shell = Shell::of(&node);
    // It accepts connections, and responds to none.
    node.pause();
    let started = std::time::Instant::now();
    assert_eq!(hook(&shell, &["prompt", "--wait", "1"], &prompt), "");
    let least = started.elapsed();
    let started = std::time::Instant::now();
    assert_eq!(hook(&shell, &["prompt"], &prompt), "");
    let more = started.elapsed().saturating_sub(least);
    assert!(more < std::time::Duration::from_secs(3), "{more:?} more than without a wait");
    node.resume();
}
