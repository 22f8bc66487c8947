//! `hearth tenant`: shows, creates, changes and deletes the tenants of a cluster and their tiers,
//! through the operator's listener of any node, with the operator key.

#![expect(clippy::print_stdout, reason = "the output of the command")]

use clap::{ArgGroup, Args, Subcommand};
use reqwest::Method;
use serde_json::{Map, Value, json};

use crate::cli::operator::{OperatorAccess, OperatorClient};
use crate::failure::Failure;

/// Arguments of `hearth tenant`.
#[derive(Args)]
pub(crate) struct Tenant {
    #[command(flatten)]
    access: OperatorAccess,
    #[command(subcommand)]
    command: TenantCommand,
}

#[derive(Subcommand)]
enum TenantCommand {
    /// List the tenants
    List,
    /// Show a tenant: its limits, and what it uses of them
    Show {
        /// Its id
        id: u32,
    },
    /// Create a tenant, and print the key of its first admin
    Create {
        /// Its name
        name: String,
        /// Name of its tier
        #[arg(long)]
        tier: Option<String>,
        #[command(flatten)]
        limits: LimitArgs,
    },
    /// Change name, tier or limits of a tenant
    Change {
        /// Its id
        id: u32,
        /// Its new name
        #[arg(long)]
        name: Option<String>,
        /// Name of its new tier
        #[arg(long)]
        tier: Option<String>,
        #[command(flatten)]
        limits: LimitArgs,
        /// Remove all limits of its own: those of the tier apply
        #[arg(long, conflicts_with = "limits")]
        no_own_limits: bool,
    },
    /// Reject all requests with the keys of a tenant, and let its ticks and deliveries wait
    Suspend {
        /// Its id
        id: u32,
    },
    /// Let a suspended tenant continue
    Resume {
        /// Its id
        id: u32,
    },
    /// Create an admin key of a tenant, and print it: its own may be lost
    Key {
        /// Its id
        id: u32,
    },
    /// Delete a suspended tenant, and all that belongs to it, for good
    Delete {
        /// Its id
        id: u32,
        /// Its name, so that a wrong id deletes nothing
        #[arg(long)]
        name: String,
    },
    /// List the tiers
    Tiers,
    /// Create or replace a tier. What it does not name is unlimited
    #[command(group = ArgGroup::new("tier").required(true).args(["limits", "unlimited", "delete"]))]
    Tier {
        /// Its name
        name: String,
        #[command(flatten)]
        limits: LimitArgs,
        /// Without any limit
        #[arg(long)]
        unlimited: bool,
        /// Delete the tier: no tenant may have it
        #[arg(long)]
        delete: bool,
        /// Give it to new tenants that name no tier
        #[arg(long, conflicts_with = "delete")]
        default: bool,
    },
}

/// Limits as `name=number`, or `name=none`.
#[derive(Args)]
struct LimitArgs {
    /// A limit: requests_per_minute, memories, bytes, keys, triggers, streams or edges, then `=` and a
    /// number or `none`. May be repeated
    #[arg(long = "limit", id = "limits", value_parser = parse_limit)]
    limits: Vec<(String, Value)>,
}

impl LimitArgs {
    fn into_json(self) -> Value {
        Value::Object(self.limits.into_iter().collect::<Map<_, _>>())
    }
}

fn parse_limit(text: &str) -> Result<(String, Value), String> {
    let (name, value) = text.split_once('=').ok_or("must be a name, = and a number or none")?;
    let value = match value {
        "none" => Value::Null,
        number => number.parse::<u64>().map_err(|_| "must be a whole number or none")?.into(),
    };
    Ok((name.to_owned(), value))
}

impl Tenant {
    /// `environment` overrides keys of the configuration.
    pub(crate) async fn run(
        self,
        environment: impl Iterator<Item = (String, String)>,
    ) -> Result<(), Failure> {
        let operator = self.access.open(environment)?;
        match self.command {
            TenantCommand::List => println!("{}", list(&get(&operator, "/cluster/tenants").await?)),
            TenantCommand::Show { id } => {
                println!("{}", tenant_text(&get(&operator, &path(id)).await?));
            }
            TenantCommand::Create { name, tier, limits } => {
                let body = json!({"name": name, "tier": tier, "limits": limits.into_json()});
                let created =
                    operator.request(Method::POST, "/cluster/tenants", Some(body)).await?;
                println!("{}", tenant_text(&created));
                println!("  key of its admin, shown this once: {}", text(&created["key"]));
            }
            TenantCommand::Change { id, name, tier, limits, no_own_limits } => {
                let limits =
                    (no_own_limits || !limits.limits.is_empty()).then(|| limits.into_json());
                change(&operator, id, json!({"name": name, "tier": tier, "limits": limits}))
                    .await?;
            }
            TenantCommand::Suspend { id } => {
                change(&operator, id, json!({"state": "suspended"})).await?;
            }
            TenantCommand::Resume { id } => {
                change(&operator, id, json!({"state": "active"})).await?
            }
            TenantCommand::Key { id } => {
                let path = format!("{}/keys", path(id));
                let created = operator.request(Method::POST, &path, Some(json!({}))).await?;
                let (id, key) = (text(&created["id"]), text(&created["key"]));
                println!("Admin key {id}, shown this once: {key}");
            }
            TenantCommand::Delete { id, name } => delete(&operator, id, &name).await?,
            TenantCommand::Tiers => println!("{}", tiers(&get(&operator, "/cluster/tiers").await?)),
            TenantCommand::Tier { name, limits, delete, default, .. } => {
                let path = format!("/cluster/tiers/{}", percent_encoded(&name));
                let (method, body) = match delete {
                    true => (Method::DELETE, None),
                    false => {
                        let body = json!({"limits": limits.into_json(), "default": default});
                        (Method::PUT, Some(body))
                    }
                };
                let tier = operator.request(method, &path, body).await?;
                println!("{}{}", if delete { "Deleted: " } else { "" }, tier_text(&tier));
            }
        }
        Ok(())
    }
}

fn path(id: u32) -> String {
    format!("/cluster/tenants/{id}")
}

async fn get(operator: &OperatorClient, path: &str) -> Result<Value, Failure> {
    operator.request(Method::GET, path, None).await
}

async fn change(operator: &OperatorClient, id: u32, body: Value) -> Result<(), Failure> {
    let tenant = operator.request(Method::PATCH, &path(id), Some(body)).await?;
    println!("{}", tenant_text(&tenant));
    Ok(())
}

async fn delete(operator: &OperatorClient, id: u32, name: &str) -> Result<(), Failure> {
    let path = format!("{}?name={}", path(id), percent_encoded(name));
    let deleted = operator.request(Method::DELETE, &path, None).await?;
    println!(
        "Tenant {id} is deleted: {} memories ({} bytes), {} edges, {} events, {} receipts. {} rows \
         of it are left.",
        deleted["memories"],
        deleted["bytes"],
        deleted["edges"],
        deleted["events"],
        deleted["receipts"],
        deleted["remaining"]
    );
    if deleted["remaining"] != 0 {
        return Err("rows of the tenant are left".into());
    }
    Ok(())
}

fn percent_encoded(text: &str) -> String {
    reqwest::Url::parse_with_params("x:", [("", text)])
        .ok()
        .and_then(|url| url.query().map(|query| query[1..].replace('+', "%20")))
        .unwrap_or_default()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn list(all: &Value) -> String {
    let mut table = "  id     state      tier            memories    name".to_owned();
    for tenant in all["tenants"].as_array().into_iter().flatten() {
        table += &format!(
            "\n  {:<6} {:<10} {:<15} {:<11} {}",
            tenant["id"].to_string(),
            text(&tenant["state"]),
            text(&tenant["tier"]),
            tenant["limits"]["memories"]["used"].to_string(),
            text(&tenant["name"]),
        );
    }
    table
}

fn tenant_text(tenant: &Value) -> String {
    let mut table = format!(
        "Tenant {} ({}), {}, tier {}, created {}",
        tenant["id"],
        text(&tenant["name"]),
        text(&tenant["state"]),
        text(&tenant["tier"]),
        text(&tenant["created_at"]),
    );
    for (name, limit) in tenant["limits"].as_object().into_iter().flatten() {
        let own = if limit["own"] == true { ", its own" } else { "" };
        let used = limit["used"].as_u64().map(|used| format!("{used} of ")).unwrap_or_default();
        table += &format!("\n  {name}: {used}{}{own}", number(&limit["max"]));
    }
    table
}

fn tiers(all: &Value) -> String {
    let all = all["tiers"].as_array().into_iter().flatten();
    all.map(tier_text).collect::<Vec<_>>().join("\n")
}

fn tier_text(tier: &Value) -> String {
    let limits = tier["limits"].as_object().into_iter().flatten();
    let limits: Vec<_> = limits.map(|(name, max)| format!("{name} {max}")).collect();
    let limits = if limits.is_empty() { "unlimited".to_owned() } else { limits.join(", ") };
    let default = if tier["default"] == true { " (default)" } else { "" };
    format!("{}{default}: {limits}", text(&tier["name"]))
}

fn number(max: &Value) -> String {
    max.as_u64().map_or_else(|| "unlimited".to_owned(), |max| max.to_string())
}
