//! `hearth keys`: shows, creates, rotates and revokes the API keys of a tenant.

use clap::{Args, Subcommand};
use reqwest::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::client::access::Client;
use crate::client::connection::{Connection, fields, parse};
use crate::client::print::{Cell, Table, age, print, print_json};
use crate::failure::{Exit, Failure};

/// Arguments of `hearth keys`.
#[derive(Args)]
pub(crate) struct Keys {
    #[command(subcommand)]
    command: Option<KeysCommand>,
    #[command(flatten)]
    client: Client,
}

#[derive(Subcommand)]
enum KeysCommand {
    /// List the keys
    List,
    /// Create a key, and print its text, which is shown this once
    Create {
        /// Its name, often that of an agent
        name: String,
        /// reader, agent or admin
        #[arg(long, default_value = "agent")]
        role: String,
        /// Namespace that its searches prefer
        #[arg(long, short)]
        namespace: Option<String>,
        /// Bind it to this namespace. May be repeated
        #[arg(long = "only", value_name = "NAMESPACE")]
        namespaces: Vec<String>,
        /// Days until it is invalid
        #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(u64).range(1..=36_500))]
        expires: Option<u64>,
    },
    /// Give a key another text, and print it. The present one stays valid for a while
    Rotate {
        id: String,
        /// Seconds for which the present text stays valid
        #[arg(long, default_value_t = 3_600)]
        overlap: u64,
    },
    /// Delete keys: they are invalid from then on
    Revoke {
        #[arg(required = true)]
        ids: Vec<String>,
    },
}

#[derive(Deserialize)]
struct Key {
    id: String,
    name: String,
    role: String,
    namespace: Option<String>,
    namespaces: Vec<String>,
    created_at: String,
    last_used_at: Option<String>,
    expires_at: Option<String>,
}

impl Keys {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let connection = self.client.connect()?;
        let is_json = self.client.is_json();
        let created: Value = match self.command.unwrap_or(KeysCommand::List) {
            KeysCommand::List => return list(&connection, is_json).await,
            KeysCommand::Create { name, role, namespace, namespaces, expires } => {
                let namespaces = (!namespaces.is_empty()).then(|| json!(namespaces));
                let body = fields([
                    ("name", name.into()),
                    ("role", role.into()),
                    ("namespace", namespace.into()),
                    ("namespaces", namespaces.into()),
                    ("expires_in_seconds", expires.map(|days| days * 86_400).into()),
                ]);
                connection.write_once(Method::POST, "/keys", Some(&body)).await?
            }
            KeysCommand::Rotate { id, overlap } => {
                let body = json!({ "overlap_seconds": overlap });
                let path = format!("{}/rotate", path(&id)?);
                connection.write_once(Method::POST, &path, Some(&body)).await?
            }
            KeysCommand::Revoke { ids } => {
                for id in ids {
                    let deleted = connection.write_once(Method::DELETE, &path(&id)?, None).await?;
                    match is_json {
                        true => print_json(&deleted)?,
                        false => print(&format!("{id} is revoked."))?,
                    }
                }
                return Ok(());
            }
        };
        match is_json {
            true => print_json(&created),
            false => print(created["key"].as_str().unwrap_or_default()),
        }
    }
}

async fn list(connection: &Connection, is_json: bool) -> Result<(), Failure> {
    let all = connection.all("/keys", "keys").await?;
    if is_json {
        return print_json(&json!({ "keys": all }));
    }
    let keys: Vec<Key> = parse(Value::Array(all))?;
    let mut table = Table::new(&["ROLE", "NAMESPACES", "CREATED", "USED", "EXPIRES", "ID", "NAME"]);
    for key in keys {
        let namespaces = match (&key.namespaces[..], key.namespace) {
            ([], None) => "all".into(),
            ([], Some(own)) => format!("all, own {own}"),
            (bound, _) => bound.join(", "),
        };
        table.row([
            key.role.into(),
            namespaces.into(),
            age(&key.created_at).into(),
            key.last_used_at.map_or("never".into(), |time| age(&time)).into(),
            key.expires_at.unwrap_or_else(|| "never".into()).into(),
            Cell::dim(key.id),
            key.name.into(),
        ]);
    }
    table.print("There are no keys.")
}

/// The path of a key. Ids of keys have only letters, digits and hyphens.
fn path(id: &str) -> Result<String, Failure> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
    match !id.is_empty() && id.chars().all(is_plain) {
        true => Ok(format!("/keys/{id}")),
        false => Err(Failure::new(Exit::NotFound, format!("{id:?} is no id of a key"))),
    }
}
