//! `hearth hook`: a hook of a coding agent. It passes the agent's JSON to a node, and the node's response back.
//! An agent must not wait for its memory, nor stop without it: whatever is wrong, the hook ends in time, prints
//! nothing, and succeeds.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "the agent reads the output")]

use std::time::Duration;

use clap::{Args, ValueEnum};
use reqwest::Method;
use serde_json::Value;
use tokio::io::AsyncReadExt;

use crate::client::access::Access;
use crate::failure::Failure;

/// Longest input of a hook: the bound of a request.
const INPUT_BYTES_MAX: u64 = 2 << 20;
const TIMEOUT_MILLIS_MAX: u64 = 60_000;

/// What happened in the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Event {
    /// A session begins: prints pinned and hot memories
    SessionStart,
    /// A person wrote a prompt: prints the memories that match
    Prompt,
    /// A tool ran: its failure is captured
    Tool,
    /// The agent ended its turn: its text is captured
    Stop,
    /// The agent is about to shorten its context
    Compact,
}

/// Arguments of `hearth hook`.
#[derive(Args)]
pub(crate) struct Hook {
    /// What happened
    #[arg(value_enum)]
    event: Event,
    /// Milliseconds after which it ends without a result
    #[arg(long, value_name = "MILLISECONDS", env = "HEARTH_HOOK_WAIT", default_value_t = 300,
        value_parser = clap::value_parser!(u64).range(1..=TIMEOUT_MILLIS_MAX))]
    wait: u64,
    /// Tokens of the context at most
    #[arg(long)]
    token_budget: Option<usize>,
    /// Capture no turns
    #[arg(long)]
    no_capture: bool,
    /// Say on standard error why there is no result
    #[arg(long)]
    verbose: bool,
    #[command(flatten)]
    access: Access,
}

impl Hook {
    pub(super) async fn run(self) -> Result<(), Failure> {
        let limit = Duration::from_millis(self.wait);
        let failure = match tokio::time::timeout(limit, self.output()).await {
            Ok(Ok(output)) => {
                if output["hookSpecificOutput"].is_object() {
                    println!("{output}");
                }
                return Ok(());
            }
            Ok(Err(failure)) => failure,
            Err(_) => format!("no result within {} ms", self.wait).into(),
        };
        if self.verbose {
            eprintln!("hearth hook: {failure}");
        }
        Ok(())
    }

    async fn output(&self) -> Result<Value, Failure> {
        let mut input = String::new();
        let mut stdin = tokio::io::stdin().take(INPUT_BYTES_MAX);
        stdin.read_to_string(&mut input).await.map_err(|error| error.to_string())?;
        let input: Value = serde_json::from_str(&input).map_err(|error| error.to_string())?;
        let event = match self.event {
            Event::SessionStart => "session-start",
            Event::Prompt => "prompt",
            Event::Tool => "tool",
            Event::Stop => "stop",
            Event::Compact => "compact",
        };
        let budget = self.token_budget.map(|budget| format!("&token_budget={budget}"));
        let path =
            format!("/hooks/{event}?capture={}{}", !self.no_capture, budget.unwrap_or_default());
        self.access.connect()?.write_once(Method::POST, &path, Some(&input)).await
    }
}
