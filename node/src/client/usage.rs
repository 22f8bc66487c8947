//! `hearth usage`: the tenant of a key, its limits, and what it uses.

use clap::Args;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::client::access::Client;
use crate::client::connection::parse;
use crate::client::print::{Table, print, print_fields, print_json};
use crate::failure::Failure;

/// Arguments of `hearth usage`.
#[derive(Args)]
pub(crate) struct Usage {
    #[command(flatten)]
    client: Client,
}

#[derive(Deserialize)]
struct CallerView {
    agent_label: String,
    role: String,
    namespace: Option<String>,
}

#[derive(Deserialize)]
struct Org {
    tenant_id: String,
    org_name: String,
    plan_tier: String,
    nodes_limit: Option<u64>,
    max_seats: Option<u64>,
    /// `None` for a key that may not know.
    seats_used: Option<u64>,
}

#[derive(Deserialize)]
struct Storage {
    total_nodes: u64,
    total_size_bytes: u64,
    namespaces: std::collections::BTreeMap<String, u64>,
}

impl Usage {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let connection = self.client.connect()?;
        let identity: Value = connection.get("/auth/verify", &[]).await?;
        let org: Value = connection.get("/org", &[]).await?;
        let storage: Value = connection.get("/agent/storage", &[]).await?;
        if self.client.is_json() {
            return print_json(&json!({"identity": identity, "org": org, "storage": storage}));
        }
        let (identity, org): (CallerView, Org) = (parse(identity)?, parse(org)?);
        let storage: Storage = parse(storage)?;
        let not_shown = || "not shown to this key".to_owned();
        let keys = org.seats_used.map_or_else(not_shown, |used| of(used, org.max_seats));
        let key = format!("{}, {}", identity.agent_label, identity.role);
        print_fields(&[
            ("tenant", format!("{}, {}, tier {}", org.tenant_id, org.org_name, org.plan_tier)),
            ("key", key),
            ("own namespace", identity.namespace.unwrap_or_default()),
            ("memories", of(storage.total_nodes, org.nodes_limit)),
            ("keys", keys),
            ("text", indicatif::HumanBytes(storage.total_size_bytes).to_string()),
        ])?;
        let mut table = Table::new(&["MEMORIES", "NAMESPACE"]);
        for (namespace, memories) in storage.namespaces {
            table.row([memories.to_string(), namespace]);
        }
        print("")?;
        table.print("No namespace has memories.")
    }
}

fn of(used: u64, limit: Option<u64>) -> String {
    limit.map_or_else(|| format!("{used}, unlimited"), |limit| format!("{used} of {limit}"))
}
