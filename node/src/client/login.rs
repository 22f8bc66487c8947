//! `hearth login`: verifies an API key, and keeps it with the URLs and the authority of its cluster.

use std::io::{IsTerminal, Read};

use clap::Args;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::client::access::Access;
use crate::client::connection::parse;
use crate::client::print::{Format, print, print_json};
use crate::client::profiles::Profiles;
use crate::error::cannot;
use crate::failure::Failure;

/// Arguments of `hearth login`. The key comes from --key-file, HEARTH_API_KEY, a prompt, or
/// standard input.
#[derive(Args)]
pub(crate) struct Login {
    /// Name of the profile
    #[arg(default_value = "default")]
    name: String,
    /// Namespace of new memories and of searches, where a command names none
    #[arg(long, short)]
    namespace: Option<String>,
    #[command(flatten)]
    access: Access,
    #[command(flatten)]
    format: Format,
}

#[derive(Deserialize)]
struct CallerView {
    tenant_id: String,
    agent_label: String,
    role: String,
}

impl Login {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let key = match self.access.key()? {
            Some(key) => key,
            None => ask()?,
        };
        let (connection, mut profile) = self.access.connect_as(key)?;
        let identity: Value = connection.get("/auth/verify", &[]).await?;
        profile.namespace = self.namespace;
        let (path, _) = Profiles::put(&self.name, profile, true)?;
        if self.format.json {
            return print_json(&json!({"identity": identity, "profile": self.name, "path": path}));
        }
        let CallerView { tenant_id, agent_label, role } = parse(identity)?;
        print(&format!(
            "Tenant {tenant_id}, key {agent_label}, {role}. Commands use it: it is the profile {} in {}.",
            self.name,
            path.display()
        ))
    }
}

/// The key that a person types unseen, or a program writes.
fn ask() -> Result<String, Failure> {
    let mut key = String::new();
    if std::io::stdin().is_terminal() {
        eprint!("API key: ");
        key = console::Term::stderr().read_secure_line().map_err(cannot("read the key"))?;
    } else {
        std::io::stdin().read_to_string(&mut key).map_err(cannot("read standard input"))?;
    }
    let key = key.trim();
    if key.is_empty() { Err("the key is empty".into()) } else { Ok(key.to_owned()) }
}
