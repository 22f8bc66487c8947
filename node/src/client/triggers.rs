//! `hearth triggers`: shows, creates and deletes the triggers of a tenant.

use clap::{Args, Subcommand};
use reqwest::Method;
use serde::Deserialize;
use serde_json::{Value, json};
use storage::model::trigger::{TriggerActionKind, TriggerEvent};

use crate::client::access::Client;
use crate::client::connection::{Connection, fields, parse};
use crate::client::print::{Cell, Table, age, print, print_json};
use crate::failure::{Exit, Failure};

/// Arguments of `hearth triggers`.
#[derive(Args)]
pub(crate) struct Triggers {
    #[command(subcommand)]
    command: Option<TriggersCommand>,
    #[command(flatten)]
    client: Client,
}

#[derive(Subcommand)]
enum TriggersCommand {
    /// List the triggers
    List,
    /// Create a trigger
    Create(Box<Create>),
    /// Let a trigger fire again
    Enable { id: String },
    /// Let a trigger fire no more
    Disable { id: String },
    /// Delete triggers
    Delete {
        #[arg(required = true)]
        ids: Vec<String>,
    },
    /// List firings, the latest first
    History {
        /// Of this trigger only
        id: Option<String>,
        #[arg(long, default_value_t = 50)]
        limit: u32,
    },
}

/// A new trigger.
#[derive(Args)]
struct Create {
    /// What it waits for
    #[arg(value_parser = TriggerEvent::NAMED.map(|(name, _)| name))]
    event: String,
    /// What it does then
    #[arg(value_parser = TriggerActionKind::NAMED.map(|(name, _)| name))]
    action: String,
    #[arg(long)]
    name: Option<String>,
    /// Settings of the action, as a JSON object: {"url": "https://…"}
    #[arg(long, value_parser = parse_object)]
    config: Option<Value>,
    /// For memories of this type
    #[arg(long = "type")]
    memory_type: Option<String>,
    /// For memories of this namespace
    #[arg(long, short)]
    namespace: Option<String>,
    /// For memories whose text contains this
    #[arg(long)]
    contains: Option<String>,
    /// For memories below this heat, from 0 to 1
    #[arg(long)]
    below: Option<f64>,
    /// For memories above this heat, from 0 to 1
    #[arg(long)]
    above: Option<f64>,
    /// Firings after which it fires no more
    #[arg(long)]
    max_fires: Option<u64>,
    /// Seconds between two firings
    #[arg(long)]
    cooldown: Option<u64>,
}

fn parse_object(text: &str) -> Result<Value, String> {
    let value: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    value.is_object().then_some(value).ok_or_else(|| "must be a JSON object".into())
}

#[derive(Deserialize)]
struct Trigger {
    id: String,
    name: String,
    event: String,
    action: String,
    enabled: bool,
    fire_count: u64,
    last_fired_at: Option<String>,
}

#[derive(Deserialize)]
struct Firing {
    fired_at: String,
    trigger_name: Option<String>,
    event: Option<String>,
    action_taken: String,
    node_id: Option<String>,
    result: String,
}

impl Triggers {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let connection = self.client.connect()?;
        let is_json = self.client.is_json();
        match self.command.unwrap_or(TriggersCommand::List) {
            TriggersCommand::List => {
                let all = connection.all("/triggers", "items").await?;
                match is_json {
                    true => print_json(&json!({ "items": all })),
                    false => print_triggers(Value::Array(all)),
                }
            }
            TriggersCommand::Create(new) => {
                let body = new.body();
                let created: Value =
                    connection.write(Method::POST, "/triggers", Some(&body)).await?;
                match is_json {
                    true => print_json(&created),
                    false => print(created["id"].as_str().unwrap_or_default()),
                }
            }
            TriggersCommand::Enable { id } => enable(&connection, &id, true, is_json).await,
            TriggersCommand::Disable { id } => enable(&connection, &id, false, is_json).await,
            TriggersCommand::Delete { ids } => {
                for id in &ids {
                    let path = path(id)?;
                    let _: Value = connection.write_once(Method::DELETE, &path, None).await?;
                    if !is_json {
                        print(&format!("{id} is deleted."))?;
                    }
                }
                if is_json { print_json(&json!({ "deleted": ids })) } else { Ok(()) }
            }
            TriggersCommand::History { id, limit } => {
                let query = [("trigger_id", id), ("limit", Some(limit.to_string()))];
                let page: Value = connection.get("/triggers/history", &query).await?;
                if is_json { print_json(&page) } else { print_history(page["items"].clone()) }
            }
        }
    }
}

async fn enable(
    connection: &Connection,
    id: &str,
    enabled: bool,
    is_json: bool,
) -> Result<(), Failure> {
    let body = json!({ "enabled": enabled });
    let changed: Value = connection.set(Method::PATCH, &path(id)?, &body).await?;
    match is_json {
        true => print_json(&changed),
        false => print_triggers(json!([changed])),
    }
}

fn path(id: &str) -> Result<String, Failure> {
    match id.parse::<uuid::Uuid>() {
        Ok(id) => Ok(format!("/triggers/{id}")),
        Err(_) => Err(Failure::new(Exit::NotFound, format!("{id:?} is no id of a trigger"))),
    }
}

impl Create {
    fn body(self) -> Value {
        fields([
            ("event", self.event.into()),
            ("action", self.action.into()),
            ("name", self.name.into()),
            ("action_config", self.config.into()),
            ("filter_memory_type", self.memory_type.into()),
            ("filter_namespace", self.namespace.into()),
            ("filter_label_pattern", self.contains.into()),
            ("filter_heat_below", self.below.into()),
            ("filter_heat_above", self.above.into()),
            ("max_fires", self.max_fires.into()),
            ("cooldown_seconds", self.cooldown.into()),
        ])
    }
}

fn print_triggers(items: Value) -> Result<(), Failure> {
    let triggers: Vec<Trigger> = parse(items)?;
    let mut table = Table::new(&["EVENT", "ACTION", "STATE", "FIRINGS", "LAST", "ID", "NAME"]);
    for trigger in triggers {
        table.row([
            trigger.event.into(),
            trigger.action.into(),
            if trigger.enabled { "enabled" } else { "disabled" }.into(),
            trigger.fire_count.to_string().into(),
            trigger.last_fired_at.map_or("never".into(), |time| age(&time)).into(),
            Cell::dim(trigger.id),
            trigger.name.into(),
        ]);
    }
    table.print("There are no triggers.")
}

fn print_history(items: Value) -> Result<(), Failure> {
    let firings: Vec<Firing> = parse(items)?;
    let mut table = Table::new(&["AGO", "TRIGGER", "EVENT", "ACTION", "MEMORY", "RESULT"]);
    for firing in firings {
        table.row([
            age(&firing.fired_at).into(),
            firing.trigger_name.unwrap_or_default().into(),
            firing.event.unwrap_or_default().into(),
            firing.action_taken.into(),
            Cell::dim(firing.node_id.unwrap_or_default()),
            firing.result.into(),
        ]);
    }
    table.print("No trigger has fired.")
}
