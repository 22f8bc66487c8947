//! People and scripts use the service from the command line: any node of a list, a profile for each
//! cluster, output for terminals and for programs, an exit code for each reason.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Output, Stdio};

use super::*;

/// The command line of a person: an environment, and a file of profiles of its own.
pub struct Shell {
    folder: tempfile::TempDir,
    variables: BTreeMap<&'static str, String>,
}

impl Shell {
    /// Without a cluster.
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let profiles = folder.path().join("profiles.toml").display().to_string();
        Self { folder, variables: BTreeMap::from([("HEARTH_PROFILES", profiles)]) }
    }

    /// With all nodes of a cluster and its admin key.
    pub fn of(cluster: &Cluster) -> Self {
        let mut shell = Self::new();
        let urls: Vec<_> = cluster.nodes().map(Node::url).collect();
        shell.set("HEARTH_URL", &urls.join(","));
        shell.set("HEARTH_CA", string(&cluster.info["ca"]));
        shell.set("HEARTH_API_KEY", &cluster.key);
        shell
    }

    pub fn set(&mut self, name: &'static str, value: &str) {
        self.variables.insert(name, value.to_owned());
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(BINARY);
        for name in ["HEARTH_URL", "HEARTH_CA", "HEARTH_API_KEY", "HEARTH_PROFILE"] {
            command.env_remove(name);
        }
        command.args(arguments).envs(&self.variables);
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Output {
        tokio::task::block_in_place(|| self.command(arguments).output().unwrap())
    }

    /// What a command printed that succeeds.
    pub fn text(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {error}");
        String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
    }

    fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.text(&[arguments, &["--json"]].concat())).unwrap()
    }

    /// The exit code and the reason of a command that fails.
    pub fn failure(&self, arguments: &[&str]) -> (i32, String) {
        let output = self.run(arguments);
        let reason = String::from_utf8(output.stderr).unwrap();
        (output.status.code().unwrap(), reason)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_store_find_change_and_forget() {
    let cluster = options().start();
    let shell = Shell::of(&cluster);
    let tea = shell.text(&["add", "The user", "drinks tea", "--type", "preference", "-n", "home"]);
    let mut child = shell.command(&["add"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let child = child.as_mut().unwrap();
    child.stdin.take().unwrap().write_all("Two\nlines\n".as_bytes()).unwrap();
    let mut lines = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut lines).unwrap();
    assert!(child.wait().unwrap().success());
    let lines = lines.trim();
    assert_eq!(cluster.get(&format!("/agent/nodes/{lines}")).await["label"], "Two\nlines");

    let found = shell.text(&["search", "what does the user drink", "--limit", "1"]);
    assert!(found.contains("The user drinks tea") && found.contains(&tea), "{found}");
    assert_eq!(shell.json(&["search", "tea", "-n", "home"])[0]["id"], tea);
    let today = shell.json(&["search", "tea today", "--explain", "--timezone", "Asia/Tokyo"]);
    let start = &today[0]["explain"]["temporal_window"]["start"];
    assert!(string(start).ends_with("T15:00:00Z"), "{start}");
    let (_, failure) = shell.failure(&["search", "tea", "--timezone", "Mars"]);
    assert!(failure.contains("X-Timezone"), "{failure}");
    let listed = shell.text(&["list", "tea"]);
    assert_eq!((listed.lines().count(), listed.contains("preference")), (2, true), "{listed}");
    assert_eq!(shell.text(&["list", "nothing"]), "No memory matches.");
    let part = shell.text(&["list", "--limit", "1"]);
    assert!(part.ends_with("1 of 2 memories: --limit shows more."), "{part}");
    assert!(shell.text(&["hot"]).contains("Two lines"));
    let context = shell.text(&["context", "tea"]);
    assert!(
        context.contains("## Relevant\n{") && context.contains("The user drinks tea"),
        "{context}"
    );

    let edited = shell.text(&["edit", &tea, "--label", "The user drinks coffee", "--heat", "0.5"]);
    assert!(edited.starts_with("The user drinks coffee\n"), "{edited}");
    assert_fields(&shell.json(&["get", &tea]), json!({"label": "The user drinks coffee"}));
    let mut shell_with_editor = Shell::of(&cluster);
    shell_with_editor.set("VISUAL", "sed -i s/coffee/water/");
    shell_with_editor.text(&["edit", &tea]);
    assert_eq!(cluster.get(&format!("/agent/nodes/{tea}")).await["label"], "The user drinks water");
    shell.text(&["relate", &tea, lines, "--relation", "near"]);
    let neighbours = cluster.get(&format!("/agent/graph/neighbors/{tea}")).await;
    assert_eq!(neighbours["neighbors"][0]["relation"], "near");
    shell.text(&["forget", &tea, lines]);
    assert_eq!(shell.json(&["list"])["total"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn administrators_manage_keys_and_triggers() {
    let cluster = options().start();
    let shell = Shell::of(&cluster);
    let key = shell.text(&["keys", "create", "scout", "--role", "reader", "--expires", "7"]);
    let mut scout = Shell::of(&cluster);
    scout.set("HEARTH_API_KEY", &key);
    let usage = scout.text(&["usage"]);
    assert!(usage.contains("scout, reader") && usage.contains("0, unlimited"), "{usage}");
    let rule = json!({"agent_id": "scout", "namespace": "closed", "policy": "deny"});
    let rule = cluster.post("/namespaces/acl", &rule).await;
    assert!(scout.text(&["usage"]).contains("not shown to this key"));
    cluster.delete(&format!("/namespaces/acl/{}", id(&rule))).await;
    let (code, reason) = scout.failure(&["add", "x"]);
    assert_eq!((code, reason.contains("may read only")), (4, true), "{reason}");
    let listed = shell.json(&["keys"]);
    let found = array(&listed["keys"]).iter().find(|key| key["name"] == "scout").unwrap();
    let rotated = shell.text(&["keys", "rotate", string(&found["id"]), "--overlap", "0"]);
    assert_ne!(rotated, key);
    assert_eq!(scout.failure(&["usage"]).0, 4);
    scout.set("HEARTH_API_KEY", &rotated);
    scout.text(&["usage"]);
    shell.text(&["keys", "revoke", string(&found["id"])]);
    assert_eq!(scout.failure(&["usage"]).0, 4);

    let config = r#"{"message": "stored {label}"}"#;
    let create =
        ["triggers", "create", "on_store", "notify", "--name", "watch", "--config", config];
    let trigger = shell.text(&create);
    let added = shell.text(&["add", "red fox"]);
    assert!(added.ends_with("trigger watch: stored red fox"), "{added}");
    assert!(shell.text(&["triggers", "history"]).contains("stored red fox"));
    shell.text(&["triggers", "disable", &trigger]);
    assert!(shell.text(&["triggers"]).contains("disabled"));
    shell.text(&["triggers", "delete", &trigger]);
    assert_eq!(shell.text(&["triggers"]), "There are no triggers.");
    assert!(shell.text(&["events"]).contains("trigger.fire"));
}

#[tokio::test(flavor = "multi_thread")]
async fn exit_codes_tell_programs_the_reason() {
    let cluster = options().start();
    let mut shell = Shell::of(&cluster);
    let unknown = "00000000-0000-4000-8000-000000000000";
    for (arguments, code, reason) in [
        (vec!["search"], 2, "required"),
        (vec!["get", unknown], 5, "memory"),
        (vec!["get", "../keys"], 5, "no id of a memory"),
        (vec!["add", "x", "--type", "opinion"], 6, "memory_type must be one of"),
        (vec!["add", ""], 6, "label"),
        (vec!["list", "--url", "http://127.0.0.1:1", "--timeout", "1"], 3, "http://127.0.0.1:1"),
        (vec!["list", "--url", "nowhere"], 3, "https://host:port"),
    ] {
        let (found, text) = shell.failure(&arguments);
        assert_eq!((found, text.contains(reason)), (code, true), "{arguments:?}: {text}");
    }
    shell.set("HEARTH_API_KEY", "sk-wrong");
    assert_eq!(shell.failure(&["list"]).0, 4);
    shell.variables.remove("HEARTH_API_KEY");
    let (code, reason) = shell.failure(&["list"]);
    assert_eq!((code, reason.contains("hearth login")), (4, true), "{reason}");
    let mut shell = Shell::of(&cluster);
    shell.variables.remove("HEARTH_CA");
    let (code, reason) = shell.failure(&["list"]);
    assert_eq!((code, reason.contains("HEARTH_CA")), (3, true), "{reason}");
}

#[tokio::test(flavor = "multi_thread")]
async fn profiles_keep_keys_for_their_own_cluster() {
    let cluster = options().start();
    let (url, ca) = (cluster.at(0).url(), string(&cluster.info["ca"]));
    let shell = Shell::new();
    let login = |key: &str| {
        let mut command = shell.command(&["login", "work", "--url", url, "--ca", ca]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(key.as_bytes()).unwrap();
        tokio::task::block_in_place(|| child.wait().unwrap()).code().unwrap()
    };
    assert_eq!(login("sk-wrong"), 4);
    let file = shell.folder.path().join("profiles.toml");
    assert!(!file.exists(), "a wrong key is not kept");
    assert_eq!(login(&format!("{}\n", cluster.key)), 0);
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let id = shell.text(&["add", "kept"]);
    assert_eq!(shell.json(&["get", &id])["label"], "kept");
    // Its key goes to no other address.
    let (code, reason) = shell.failure(&["list", "--url", "https://127.0.0.1:1"]);
    assert_eq!((code, reason.contains("no API key")), (4, true), "{reason}");
    let other = ["list", "--profile", "work", "--url", "https://127.0.0.1:1"];
    let (code, reason) = shell.failure(&other);
    assert_eq!((code, reason.contains("only")), (1, true), "{reason}");
    let (code, reason) = shell.failure(&["list", "--profile", "none"]);
    assert_eq!((code, reason.contains("known are: work")), (1, true), "{reason}");
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_continue_after_the_leader_dies() {
    let cluster = options().nodes(3).start();
    let mut shell = Shell::of(&cluster);
    let nodes @ [leader, survivor, _] = cluster.leader_first().await;
    shell.set("HEARTH_URL", &nodes.map(Node::url).join(","));
    leader.kill();
    let id = shell.text(&["add", "stored once"]);
    let list = survivor.get("/agent/nodes?consistency=linearizable").await;
    assert_eq!((&list["total"], &list["items"][0]["id"]), (&json!(1), &json!(id)));
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_leave_a_node_that_hangs() {
    let cluster = options().nodes(3).start();
    let mut shell = Shell::of(&cluster);
    let [leader, hangs, other] = cluster.leader_first().await;
    hangs.pause();
    shell.set("HEARTH_URL", &[hangs, other].map(Node::url).join(","));
    let id = shell.text(&["add", "stored once", "--timeout", "8"]);
    let list = leader.get("/agent/nodes?consistency=linearizable").await;
    assert_eq!((&list["total"], &list["items"][0]["id"]), (&json!(1), &json!(id)));
    // A key may exist, although no node said so.
    shell.set("HEARTH_URL", hangs.url());
    let (code, reason) = shell.failure(&["keys", "create", "ci", "--timeout", "2"]);
    assert_eq!((code, reason.contains("no response in time")), (8, true), "{reason}");
    assert_eq!(shell.failure(&["list", "--timeout", "2"]).0, 3);
    hangs.resume();
}

#[tokio::test(flavor = "multi_thread")]
async fn texts_of_memories_cannot_control_terminals() {
    let cluster = options().start();
    let shell = Shell::of(&cluster);
    let hostile = "a\u{1b}]0;title\u{7}\u{1b}[2Jb\u{202e}c\r\n\u{9b}31m";
    let id =
        id(&cluster.create(&json!({"label": hostile, "namespace": "n\u{1b}[1m"})).await).to_owned();
    for arguments in [&["list"][..], &["get", &id], &["search", "title"], &["context"], &["events"]]
    {
        let text = shell.text(arguments);
        let is_harmless = |c: char| !c.is_control() || c == '\n' || c == '\t';
        assert!(text.chars().all(|c| is_harmless(c) && c != '\u{202e}'), "{arguments:?}: {text:?}");
    }
    // Programs get it as it is.
    assert_eq!(shell.json(&["get", &id])["label"], hostile);
}

/// A command that runs until it is killed, and its lines.
struct Running {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Running {
    fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    fn line(&mut self) -> String {
        tokio::task::block_in_place(|| self.lines.next().expect("a line").unwrap())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn followed_events_continue_on_another_node() {
    let cluster = options().nodes(3).start();
    let mut shell = Shell::of(&cluster);
    let nodes @ [leader, survivor, _] = cluster.leader_first().await;
    shell.set("HEARTH_URL", &nodes.map(Node::url).join(","));
    let (stream, ready) = Stream::ready(survivor, "", None).await;
    drop(stream);
    let follow = ["events", "--follow", "--json", "--kind", "created", "--after", &ready.id];
    let mut events = Running::start(shell.command(&follow));
    for number in 0..20 {
        if number == 10 {
            leader.kill();
        }
        let label = format!("memory {number}");
        shell.text(&["add", &label]);
        let event: Value = serde_json::from_str(&events.line()).unwrap();
        assert_eq!(event["label"], label);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn development_clusters_are_found_without_options() {
    for http in [false, true] {
        let shell = Shell::new();
        let mut arguments = vec!["dev", "--base-port", "0", "--embedder", "hashing"];
        arguments.extend(http.then_some("--http"));
        let mut dev = Running::start(shell.command(&arguments));
        let mut printed = String::new();
        while !printed.contains("Ctrl-C") {
            printed += &format!("{}\n", dev.line());
        }
        assert_eq!(printed.contains("WARNING"), http, "{printed}");
        assert!(printed.contains("deletes it with all memories"), "{printed}");
        assert_eq!(printed.contains("https://"), !http, "{printed}");
        let id = shell.text(&["add", "a first memory"]);
        assert!(shell.text(&["search", "first"]).contains(&id));
        signal(dev.child.id(), "INT");
        assert!(tokio::task::block_in_place(|| dev.child.wait().unwrap()).success());
        let (code, reason) = shell.failure(&["list"]);
        assert_eq!((code, reason.contains("no API key")), (4, true), "{reason}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_and_health_say_what_to_mend() {
    let cluster = options().nodes(3).start();
    let shell = Shell::new();
    converged(&cluster).await;
    let config = cluster.folder().join("node-1/hearth.toml").display().to_string();
    let doctor = ["doctor", "--config", &config];
    let all_well = shell.text(&doctor);
    for line in ["[+] node: ready", "[+] member: node 3: ", "[+] clock: node 2: ", "[+] versions"] {
        assert!(all_well.contains(line), "{line}: {all_well}");
    }
    assert_eq!(shell.text(&["health", "--config", &config]), "");
    cluster.at(2).kill();
    let found = eventually(
        "the doctor misses a node",
        async || shell.run(&doctor),
        |output| output.status.code() == Some(1),
    );
    let text = String::from_utf8(found.await.stdout).unwrap();
    assert!(text.contains("[-] member: node 3: the leader does not reach it"), "{text}");
    cluster.at(1).kill();
    let health = ["health", "--ops", cluster.at(0).ops()];
    let unready = async || shell.failure(&health);
    let (_, reason) = eventually("it is not ready", unready, |(code, _)| *code == 3).await;
    assert!(reason.contains("leader") || reason.contains("contact"), "{reason}");
    shell.text(&["health", "--live", "--config", &config]);
}

#[test]
fn shells_get_completions_and_manual_pages() {
    let shell = Shell::new();
    let run = |arguments: &[&str]| shell.command(arguments).output().unwrap();
    for name in ["bash", "zsh", "fish"] {
        let completions = run(&["shell", "completions", name]);
        let text = String::from_utf8(completions.stdout).unwrap();
        assert!(completions.status.success() && text.contains("hot"), "{name}: {text}");
    }
    let folder = shell.folder.path().join("man");
    assert!(run(&["shell", "manual", &folder.display().to_string()]).status.success());
    let page = std::fs::read_to_string(folder.join("hearth-search.1")).unwrap();
    assert!(page.contains("Find memories by meaning"), "{page}");
}

#[tokio::test(flavor = "multi_thread")]
async fn dashboard_opens_with_the_key() {
    let cluster = options().start();
    let mut shell = Shell::of(&cluster);
    let (url, key) = (cluster.at(0).url(), &cluster.key);
    let address = format!("{url}/dashboard#key={key}");
    assert_eq!(shell.text(&["open", "--print"]), address);
    // A browser that writes where it arrives. Without redirects, curl says where it would go.
    let seen = shell.folder.path().join("seen");
    let browser = shell.folder.path().join("browser");
    let script = format!(
        "#!/bin/sh\ncurl -s -o /dev/null -w '%{{redirect_url}}' \"$2\" > {0}\n\
         curl -s -o /dev/null \"$2\" || echo ' ended' >> {0}\n",
        seen.display()
    );
    std::fs::write(&browser, script).unwrap();
    std::fs::set_permissions(&browser, std::fs::Permissions::from_mode(0o755)).unwrap();
    shell.set("BROWSER", &format!("{} --new-window", browser.display()));
    assert_eq!(shell.text(&["open"]), format!("The browser opens {url}/dashboard."));
    let read = async || std::fs::read_to_string(&seen).unwrap_or_default();
    let found = eventually("the browser was led", read, |text| text.ends_with("ended\n")).await;
    assert_eq!(found, format!("{address} ended\n"), "once");
    shell.set("BROWSER", "/nowhere");
    let (code, reason) = shell.failure(&["open"]);
    assert_eq!((code, reason.contains("--print")), (1, true), "{reason}");
}
