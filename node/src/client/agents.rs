//! `hearth agents`: hooks and tools of coding agents on this machine, in the files of the agents. What others
//! have written there stays. The files of `deploy/agents` are the source.

#![expect(clippy::print_stdout, reason = "the output of the command")]

use std::path::{Path, PathBuf};

use clap::{Subcommand, ValueEnum};
use serde_json::{Map, Value};
use toml::Table;

use crate::client::access::Access;
use crate::error::{cannot, text, unusable};
use crate::failure::Failure;

const CLAUDE_HOOKS: &str = include_str!("../../../deploy/agents/claude-code/hooks/hooks.json");
const CLAUDE_SERVERS: &str = include_str!("../../../deploy/agents/claude-code/.mcp.json");
const CODEX_HOOKS: &str = include_str!("../../../deploy/agents/codex/hooks.json");
const CODEX_SERVERS: &str = include_str!("../../../deploy/agents/codex/config.toml");
const OPENCODE_PLUGIN: &str = include_str!("../../../deploy/agents/opencode/plugins/hearth.js");
const OPENCODE_SERVERS: &str = include_str!("../../../deploy/agents/opencode/opencode.json");
/// The program that the files of `deploy/agents` name.
const PROGRAM: &str = "hearth";
/// The name of the server of tools, in the files of all agents.
const SERVER: &str = "hearth";

/// A coding agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Agent {
    /// Claude Code
    ClaudeCode,
    /// Codex
    Codex,
    /// opencode
    Opencode,
}

#[derive(Subcommand)]
pub(crate) enum Agents {
    /// Add the hooks and the tools to the files of an agent. Repeated, it changes nothing more
    Install {
        #[arg(value_enum)]
        agent: Agent,
        #[command(flatten)]
        access: Access,
    },
    /// Remove them
    Remove {
        #[arg(value_enum)]
        agent: Agent,
    },
}

impl Agents {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let (agent, access) = match &self {
            Self::Install { agent, access } => (agent, Some(access)),
            Self::Remove { agent } => (agent, None),
        };
        let home = std::env::home_dir().ok_or("there is no home folder")?;
        let program = std::env::current_exe().map_err(cannot("find this program"))?;
        let program = Program {
            path: program.to_str().ok_or("the path of this program is not UTF-8")?,
            profile: access.and_then(|access| access.profile.as_deref()),
        };
        for path in agent.change(&home, &program, access.is_some())? {
            println!("{}", path.display());
        }
        let Some(access) = access else { return Ok(()) };
        println!("{}", agent.advice());
        // The hooks say nothing if they reach no cluster.
        if let Err(failure) = reach(access).await {
            println!("Before that, sign in with `hearth login`: {failure}");
        }
        Ok(())
    }
}

/// What the agents run.
struct Program<'a> {
    /// Agents have other search paths than shells.
    path: &'a str,
    profile: Option<&'a str>,
}

impl Program<'_> {
    /// The words of a command: this program, `arguments`, and the options that name the cluster.
    fn words<'a>(&'a self, arguments: &[&'a str]) -> Vec<&'a str> {
        let options = self.profile.iter().flat_map(|name| ["--profile", name]);
        [self.path].into_iter().chain(arguments.iter().copied()).chain(options).collect()
    }
}

/// Reads something with the key that the hooks will have.
async fn reach(access: &Access) -> Result<(), Failure> {
    let _: Value = access.connect()?.get("/agent/memory/status", &[]).await?;
    Ok(())
}

impl Agent {
    /// Changes the files of the agent. Returns their paths.
    fn change(
        self,
        home: &Path,
        program: &Program<'_>,
        is_install: bool,
    ) -> Result<[PathBuf; 2], String> {
        let folder = |variable: &str, default: &str| {
            let named = std::env::var_os(variable).filter(|path| !path.is_empty());
            named.map_or_else(|| home.join(default), PathBuf::from)
        };
        let (hooks, servers) = match self {
            Self::ClaudeCode => {
                let hooks = folder("CLAUDE_CONFIG_DIR", ".claude").join("settings.json");
                change_json(&hooks, |all| change_hooks(all, CLAUDE_HOOKS, program, is_install))?;
                let servers = folder("CLAUDE_CONFIG_DIR", "").join(".claude.json");
                change_json(&servers, |all| {
                    change_servers(all, CLAUDE_SERVERS, program, is_install)
                })?;
                (hooks, servers)
            }
            Self::Codex => {
                let own = folder("CODEX_HOME", ".codex");
                let (hooks, servers) = (own.join("hooks.json"), own.join("config.toml"));
                change_json(&hooks, |all| change_hooks(all, CODEX_HOOKS, program, is_install))?;
                change_toml(&servers, program, is_install)?;
                (hooks, servers)
            }
            Self::Opencode => {
                let own = folder("XDG_CONFIG_HOME", ".config").join("opencode");
                let (plugin, servers) = (own.join("plugins/hearth.js"), own.join("opencode.json"));
                change_plugin(&plugin, program, is_install)?;
                change_json(&servers, |all| {
                    change_servers(all, OPENCODE_SERVERS, program, is_install)
                })?;
                (plugin, servers)
            }
        };
        Ok([hooks, servers])
    }

    fn advice(self) -> &'static str {
        match self {
            Self::ClaudeCode => "Start Claude Code anew: it remembers from then on.",
            Self::Codex => {
                "Start Codex anew, and trust the hooks in /hooks: it remembers from then on."
            }
            Self::Opencode => "Start opencode anew: it remembers from then on.",
        }
    }
}

/// Changes a file of JSON; an absent one is an empty object.
fn change_json(
    path: &Path,
    change: impl FnOnce(&mut Map<String, Value>) -> Result<(), String>,
) -> Result<(), String> {
    let content = content_of(path)?;
    let parsed =
        if content.trim().is_empty() { Ok(Map::new()) } else { serde_json::from_str(&content) };
    let before: Map<String, Value> = parsed.map_err(unusable(path))?;
    let mut after = before.clone();
    change(&mut after)?;
    if after != before {
        let text = serde_json::to_string_pretty(&after).map_err(text)?;
        write(path, &(text + "\n"))?;
    }
    Ok(())
}

/// Replaces the hooks of this program among those of an agent.
fn change_hooks(
    all: &mut Map<String, Value>,
    source: &str,
    program: &Program<'_>,
    is_install: bool,
) -> Result<(), String> {
    let source: Value = serde_json::from_str(source).map_err(text)?;
    let entry = all.entry("hooks").or_insert_with(|| Value::Object(Map::new()));
    let hooks = entry.as_object_mut().ok_or("\"hooks\" is no object")?;
    for groups in hooks.values_mut().filter_map(Value::as_array_mut) {
        groups.retain(|group| !is_own(group));
    }
    if is_install {
        for (event, groups) in source["hooks"].as_object().into_iter().flatten() {
            let present = hooks.entry(event).or_insert_with(|| Value::Array(Vec::new()));
            let present = present.as_array_mut().ok_or(format!("\"{event}\" is no list"))?;
            present.extend(
                groups.as_array().into_iter().flatten().map(|it| with_program(it, program)),
            );
        }
    }
    hooks.retain(|_, groups| groups.as_array().is_none_or(|groups| !groups.is_empty()));
    if hooks.is_empty() {
        all.remove("hooks");
    }
    Ok(())
}

/// Whether a group of hooks has one of this program.
fn is_own(group: &Value) -> bool {
    let hooks = group["hooks"].as_array().into_iter().flatten();
    let mut commands = hooks.filter_map(|hook| hook["command"].as_str());
    commands.any(|command| {
        command.split_once(" hook ").is_some_and(|(program, _)| {
            let name = program.trim_matches('"').rsplit('/').next();
            name.is_some_and(|name| name.starts_with(PROGRAM))
        })
    })
}

/// A group of hooks that runs this program.
fn with_program(group: &Value, program: &Program<'_>) -> Value {
    let mut group = group.clone();
    for hook in group["hooks"].as_array_mut().into_iter().flatten() {
        let arguments = hook["command"].as_str().and_then(|it| it.strip_prefix(PROGRAM));
        if let Some(arguments) = arguments.map(str::to_owned) {
            let options =
                program.profile.map_or_else(String::new, |it| format!(" --profile \"{it}\""));
            hook["command"] = format!("\"{}\"{arguments}{options}", program.path).into();
        }
    }
    group
}

/// Replaces the server of tools among those of an agent. In `source`, one field holds all servers.
fn change_servers(
    all: &mut Map<String, Value>,
    source: &str,
    program: &Program<'_>,
    is_install: bool,
) -> Result<(), String> {
    let source: Map<String, Value> = serde_json::from_str(source).map_err(text)?;
    for (field, own) in source {
        let entry = all.entry(&field).or_insert_with(|| Value::Object(Map::new()));
        let servers = entry.as_object_mut().ok_or(format!("\"{field}\" is no object"))?;
        servers.remove(SERVER);
        if is_install {
            let mut server = own[SERVER].clone();
            let words = program.words(&["mcp"]);
            if server["command"].is_array() {
                server["command"] = words.into();
            } else {
                (server["command"], server["args"]) = (words[0].into(), words[1..].into());
            }
            servers.insert(SERVER.to_owned(), server);
        } else if servers.is_empty() {
            all.remove(&field);
        }
    }
    Ok(())
}

/// Writes the plugin of this program, or removes it.
fn change_plugin(path: &Path, program: &Program<'_>, is_install: bool) -> Result<(), String> {
    if is_install {
        let line = |words: &[&str]| format!("[PROGRAM, ...OPTIONS] = {};", Value::from(words));
        let own = OPENCODE_PLUGIN.replace(&line(&[PROGRAM]), &line(&program.words(&[])));
        return write(path, &own);
    }
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(unusable(path)(error)),
        _ => Ok(()),
    }
}

/// Adds the table of the server to a file of TOML, or removes it. Comments of the file stay: only this table is
/// written.
fn change_toml(path: &Path, program: &Program<'_>, is_install: bool) -> Result<(), String> {
    let content = content_of(path)?;
    let _: Table = content.parse().map_err(unusable(path))?;
    let heading = format!("[mcp_servers.{SERVER}]");
    let mut lines: Vec<&str> = content.lines().collect();
    if let Some(start) = lines.iter().position(|line| line.trim() == heading) {
        let rest = lines[start + 1..].iter().position(|line| line.trim_start().starts_with('['));
        lines.drain(start..rest.map_or(lines.len(), |end| start + 1 + end));
    }
    let mut after = lines.join("\n").trim_end().to_owned();
    if is_install {
        let words = program.words(&["mcp"]);
        let (path, arguments) = (Value::from(words[0]), Value::from(&words[1..]));
        let table = CODEX_SERVERS.replace(&format!("\"{PROGRAM}\"\n"), &format!("{path}\n"));
        let table = table.replace("[\"mcp\"]", &arguments.to_string());
        after = format!("{after}\n\n{}", table.trim_end());
    }
    let after = after.trim_start().to_owned() + "\n";
    let _: Table = after.parse().map_err(unusable(path))?;
    if after != content {
        write(path, &after)?;
    }
    Ok(())
}

fn content_of(path: &Path) -> Result<String, String> {
    match std::fs::read_to_string(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
        content => content.map_err(unusable(path)),
    }
}

/// Replaces a file, at the end of its link if it is one. Agents keep keys in such files: only the owner may read
/// it.
fn write(path: &Path, content: &str) -> Result<(), String> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(unusable(folder))?;
    }
    let linked = std::fs::canonicalize(path);
    let path = linked.as_deref().unwrap_or(path);
    storage::file::replace_secret(path, content.as_bytes()).map_err(text)
}
