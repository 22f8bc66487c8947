//! The client commands of `hearth`: what agents and administrators do with the memories of a tenant,
//! through the public listener of any node, with an API key.

pub(crate) mod access;
mod agents;
pub(crate) mod connection;
mod events;
pub(crate) mod foreign;
mod hook;
mod keys;
mod login;
mod mcp;
mod memories;
mod memory;
mod open;
mod print;
pub(crate) mod profiles;
mod transfer;
mod triggers;
mod usage;

use clap::Subcommand;

use crate::failure::Failure;

#[derive(Subcommand)]
pub(crate) enum AgentCommand {
    /// Store a memory, and print its id
    Add(memories::Add),
    /// Find memories by meaning
    Search(memories::Search),
    /// List memories, the hottest first. Marks: P pinned, L locked, C cold, F flagged for review
    List(memories::List),
    /// Show memories
    Get(memories::Get),
    /// Change a memory. Without options, its text opens in $EDITOR
    Edit(memories::Edit),
    /// Delete memories for good
    Forget(memories::Forget),
    /// Create an edge from one memory to another
    Relate(memories::Relate),
    /// List the hottest memories
    Hot(memories::Hot),
    /// Print a context for an agent's turn: what matches a query, then pinned and hot memories
    Context(memories::Context),
    /// Show, create and delete triggers
    Triggers(triggers::Triggers),
    /// Show recent events, or follow new ones
    Events(events::Events),
    /// Show, create, rotate and revoke the API keys of the tenant
    Keys(keys::Keys),
    /// Show the tenant, its limits and what it uses
    Usage(usage::Usage),
    /// Write all memories, edges and triggers of the tenant, as of one moment, to a file
    Export(transfer::Export),
    /// Create what a file of `hearth export`, or of another product, holds. What exists stays as it is
    Import(transfer::Import),
    /// Open the dashboard in a browser, signed in
    Open(open::Open),
    /// Verify an API key, and keep it in a profile
    Login(login::Login),
    /// Let coding agents of this machine remember: install hooks and tools, or remove them
    #[command(subcommand)]
    Agents(agents::Agents),
    /// Run a hook of a coding agent: reads its JSON from standard input. Never fails and never waits long
    Hook(hook::Hook),
    /// Speak the Model Context Protocol on standard input and output, for programs that need that
    Mcp(mcp::Mcp),
}

impl AgentCommand {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        match self {
            Self::Add(add) => add.run().await,
            Self::Search(search) => search.run().await,
            Self::List(list) => list.run().await,
            Self::Get(get) => get.run().await,
            Self::Edit(edit) => edit.run().await,
            Self::Forget(forget) => forget.run().await,
            Self::Relate(relate) => relate.run().await,
            Self::Hot(hot) => hot.run().await,
            Self::Context(context) => context.run().await,
            Self::Triggers(triggers) => triggers.run().await,
            Self::Events(events) => events.run().await,
            Self::Keys(keys) => keys.run().await,
            Self::Usage(usage) => usage.run().await,
            Self::Export(export) => export.run().await,
            Self::Import(import) => import.run().await,
            Self::Open(open) => open.run().await,
            Self::Login(login) => login.run().await,
            Self::Agents(agents) => agents.run().await,
            Self::Hook(hook) => hook.run().await,
            Self::Mcp(mcp) => mcp.run().await,
        }
    }
}
