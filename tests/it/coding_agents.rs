//! Coding agents start `hearth hook` and `hearth mcp`, from files that `hearth agents install` has written.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::process::{ChildStdin, ChildStdout, Stdio};

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

/// A program that speaks the protocol to `hearth mcp`.
struct Program {
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    child: std::process::Child,
}

impl Program {
    fn start(shell: &Shell, arguments: &[&str]) -> Self {
        let mut command = shell.command(&[&["mcp"], arguments].concat());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Self { input, output: BufReader::new(output), child }
    }

    fn call(&mut self, method: &str, params: Value) -> Value {
        let message = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params});
        self.line(&message.to_string())
    }

    /// Sends a line, and reads the next one.
    fn line(&mut self, line: &str) -> Value {
        writeln!(self.input, "{line}").unwrap();
        self.next()
    }

    /// Reads a line.
    fn next(&mut self) -> Value {
        tokio::task::block_in_place(|| {
            let mut response = String::new();
            self.output.read_line(&mut response).unwrap();
            serde_json::from_str(&response).unwrap()
        })
    }

    /// What a tool returns.
    fn tool(&mut self, name: &str, arguments: Value) -> Value {
        let response = self.call("tools/call", json!({"name": name, "arguments": arguments}));
        assert_eq!(response["result"]["isError"], false, "{response}");
        response["result"]["structuredContent"].clone()
    }

    /// Ends its input. It must end too.
    fn end(mut self) {
        drop(self.input);
        assert!(tokio::task::block_in_place(|| self.child.wait().unwrap()).success());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn programs_speak_over_standard_input() {
    let cluster = options().nodes(3).start();
    let mut program = Program::start(&Shell::of(&cluster), &["--namespace", "home"]);
    let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"}});
    let hello = program.call("initialize", hello);
    assert_eq!(hello["result"]["protocolVersion"], "2025-11-25", "{hello}");
    let done = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    writeln!(program.input, "{done}\n").unwrap();
    let first = program.tool("sulcus_remember", json!({"content": "before the crash"}));
    assert_eq!(first["memory"]["namespace"], "home");
    // The leader dies, and the first node of the list with it or after it.
    let leader = cluster.leader().await;
    cluster.at(leader).kill();
    program.tool("sulcus_remember", json!({"content": "after the crash"}));
    if leader != 0 {
        cluster.at(leader).start();
        cluster.at(leader).ready().await;
        cluster.at(0).kill();
    }
    let list = program.tool("sulcus_list", json!({}));
    assert_eq!(list["total"], 2, "each was stored once: {list}");
    let wrong = program.line("no JSON");
    assert_eq!((&wrong["error"]["code"], &wrong["id"]), (&json!(-32_700), &Value::Null));
    let unknown = program.call("no/such", json!({}));
    assert_eq!((&unknown["error"]["code"], &unknown["id"]), (&json!(-32_601), &json!(7)));
    program.end();
    let mut search = Program::start(&Shell::of(&cluster), &["--tools", "search"]);
    let tools = search.call("tools/list", json!({}));
    assert_eq!(array(&tools["result"]["tools"]).len(), 2, "{tools}");
    search.end();
}

/// A message of the revision without `initialize`.
fn of_new_revision(params: Value) -> Value {
    let mut params = params;
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    params
}

/// A subscription lasts longer than any request, moves to another node, and ends with the program.
#[tokio::test(flavor = "multi_thread")]
async fn subscriptions_go_on_at_another_node() {
    let cluster = options().nodes(3).start();
    let mut program = Program::start(&Shell::of(&cluster), &["--timeout", "1"]);
    let memory = cluster.store(&labelled("first text")).await;
    let address = format!("hearth://memories/{memory}");
    let listen = of_new_revision(json!({"notifications": {"resourceSubscriptions": [address]}}));
    let begun = program.call("subscriptions/listen", listen);
    assert_eq!(begun["method"], "notifications/subscriptions/acknowledged", "{begun}");
    // Longer than its requests may take.
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    cluster.at(0).kill();
    let again = program.next();
    assert_eq!(again["method"], begun["method"], "{again}");
    let change = json!({"label": "second text"});
    cluster.at(1).patch(&format!("/agent/nodes/{memory}"), &change).await;
    let changed = program.next();
    assert_eq!(changed["params"]["uri"], address, "{changed}");
    program.end();
}

/// A program begins soon without a cluster: it waits for the lists of its servers.
#[tokio::test(flavor = "multi_thread")]
async fn program_learns_that_no_node_responds() {
    let node = options().start();
    let mut program = Program::start(&Shell::of(&node), &["--timeout", "120"]);
    node.kill();
    let started = std::time::Instant::now();
    let failed = program.call("tools/list", json!({}));
    assert!(started.elapsed() < std::time::Duration::from_secs(60));
    assert_eq!(failed["error"]["code"], -32_000, "{failed}");
    assert!(string(&failed["error"]["message"]).contains("no node responded"), "{failed}");
    program.end();
}

const AGENTS: [&str; 3] = ["claude-code", "codex", "opencode"];

/// Files of people stay as they are, but for what is installed.
#[tokio::test(flavor = "multi_thread")]
async fn agents_are_installed_and_removed() {
    let home = tempfile::tempdir().unwrap();
    let path = |name: &str| home.path().join(name);
    let mut shell = Shell::new();
    shell.set("HOME", home.path().to_str().unwrap());
    for variable in ["CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_CONFIG_HOME"] {
        shell.set(variable, "");
    }
    let json_of = |name: &str| -> Value {
        serde_json::from_str(&std::fs::read_to_string(path(name)).unwrap()).unwrap()
    };
    let own = json!({"model": "opus", "hooks": {"Stop": [{"hooks": [
        {"type": "command", "command": "say done"}]}]}});
    std::fs::create_dir_all(path(".claude")).unwrap();
    // Some people keep their settings elsewhere.
    std::fs::write(path("settings of mine"), own.to_string()).unwrap();
    std::os::unix::fs::symlink(path("settings of mine"), path(".claude/settings.json")).unwrap();
    std::fs::create_dir_all(path(".codex")).unwrap();
    let config = "# mine\nmodel = \"m\"\n\n[mcp_servers.other]\ncommand = \"other\"\n";
    std::fs::write(path(".codex/config.toml"), config).unwrap();
    std::fs::create_dir_all(path(".config/opencode")).unwrap();
    let model = json!({"model": "some/model"});
    std::fs::write(path(".config/opencode/opencode.json"), model.to_string()).unwrap();
    for _ in 0..2 {
        for agent in AGENTS {
            let said = shell.text(&["agents", "install", agent]);
            assert!(said.contains("anew") && said.contains("hearth login"), "{said}");
        }
        let settings = json_of(".claude/settings.json");
        let prompt = array(&settings["hooks"]["UserPromptSubmit"]);
        let command = string(&prompt[0]["hooks"][0]["command"]);
        assert!(command.ends_with("\" hook prompt") && command.contains('/'), "{command}");
        let stop = array(&settings["hooks"]["Stop"]);
        assert_eq!((prompt.len(), stop.len(), &settings["model"]), (1, 2, &json!("opus")));
        let server = &json_of(".claude.json")["mcpServers"]["hearth"];
        assert_eq!(server["args"], json!(["mcp"]));
        assert_eq!(array(&json_of(".codex/hooks.json")["hooks"]["Stop"]).len(), 1);
        let codex = std::fs::read_to_string(path(".codex/config.toml")).unwrap();
        assert!(codex.starts_with(config.trim_end()), "{codex}");
        let table: toml::Table = codex.parse().unwrap();
        assert_eq!(table["mcp_servers"]["hearth"]["args"][0].as_str(), Some("mcp"));
        let server = &json_of(".config/opencode/opencode.json")["mcp"]["hearth"];
        let program = std::fs::canonicalize(BINARY).unwrap();
        assert_eq!(server["command"], json!([program.to_str(), "mcp"]));
        let plugin = std::fs::read_to_string(path(".config/opencode/plugins/hearth.js")).unwrap();
        assert!(plugin.contains(&format!("OPTIONS] = [{program:?}];")), "{plugin}");
    }
    assert!(path(".claude/settings.json").is_symlink());
    for file in [".claude.json", "settings of mine", ".codex/config.toml"] {
        let mode = std::fs::metadata(path(file)).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "others read {file}");
    }
    // Hooks and tools use the profile that the installation names.
    for agent in AGENTS {
        shell.text(&["agents", "install", agent, "--profile", "work"]);
    }
    let command = json_of(".codex/hooks.json")["hooks"]["Stop"][0]["hooks"][0]["command"].clone();
    assert!(string(&command).ends_with(" hook stop --profile \"work\""), "{command}");
    let codex = std::fs::read_to_string(path(".codex/config.toml")).unwrap();
    assert!(codex.contains(r#"args = ["mcp","--profile","work"]"#), "{codex}");
    let server = &json_of(".claude.json")["mcpServers"]["hearth"];
    assert_eq!(server["args"], json!(["mcp", "--profile", "work"]));
    let plugin = std::fs::read_to_string(path(".config/opencode/plugins/hearth.js")).unwrap();
    assert!(plugin.contains(r#","--profile","work"];"#), "{plugin}");
    // The commands of the files are those of this program.
    let settings = json_of(".claude/settings.json");
    let command = string(&settings["hooks"]["SessionStart"][0]["hooks"][0]["command"]).to_owned();
    let ran = std::process::Command::new("sh").args(["-c", &command]).stdin(Stdio::null()).output();
    assert!(ran.unwrap().status.success(), "{command}");
    for agent in AGENTS {
        shell.text(&["agents", "remove", agent]);
    }
    assert_eq!(json_of(".claude/settings.json"), own);
    assert_eq!(std::fs::read_to_string(path(".codex/config.toml")).unwrap(), config);
    assert_eq!(json_of(".config/opencode/opencode.json"), model);
    assert!(!path(".config/opencode/plugins/hearth.js").exists());
    std::fs::write(path(".claude/settings.json"), "{ no JSON").unwrap();
    let (_, reason) = shell.failure(&["agents", "install", "claude-code"]);
    assert!(reason.contains("settings.json"), "{reason}");
}
