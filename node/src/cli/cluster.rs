//! `hearth cluster`: an operator's view of a cluster and hand on it, through the
//! operator's listener of any node.

use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use reqwest::{Client, Method};
use serde_json::{Value, json};

/// How long an answer may take; the node itself gives up before.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(70);
/// How often to look how far a new node has come.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);
/// How long to watch it; it goes on without a watcher.
const WATCH_TIMEOUT: Duration = Duration::from_secs(3_600);

/// Arguments of `hearth cluster`.
#[derive(Args)]
pub(crate) struct Cluster {
    /// Operator's listener of any node of the cluster.
    #[arg(long, global = true, default_value = "http://127.0.0.1:4281")]
    ops: String,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Show who belongs to the cluster, who leads, and how far the others are.
    Status,
    /// Let a pristine node in, and watch it until it votes.
    Add {
        /// Its id, as in its own configuration; one that nobody ever had.
        #[arg(long)]
        id: u64,
        /// Host and port of its peer listener.
        #[arg(long)]
        address: String,
    },
    /// Let a node go for good. Its id is not given again.
    Remove {
        /// Its id.
        #[arg(long)]
        id: u64,
    },
    /// Have another voter lead.
    Transfer {
        /// Its id.
        #[arg(long)]
        to: u64,
    },
    /// Compare the states of all nodes as of one index.
    Verify,
}

impl Cluster {
    #[expect(clippy::print_stdout, reason = "it answers its user")]
    pub(crate) async fn run(self) -> Result<(), String> {
        let client = Client::builder().no_proxy().timeout(ANSWER_TIMEOUT).build();
        let operator = Operator { client: client.map_err(|e| e.to_string())?, ops: self.ops };
        match self.command {
            Command::Status => println!("{}", shown(&operator.status().await?)),
            Command::Add { id, address } => {
                let body = json!({ "id": id, "address": address });
                operator.ask(Method::POST, "/cluster/members", Some(body)).await?;
                operator.watch(id).await?;
            }
            Command::Remove { id } => {
                operator.ask(Method::DELETE, &format!("/cluster/members/{id}"), None).await?;
                println!("Node {id} is removed. Stop it, and delete its data folder.");
            }
            Command::Transfer { to } => {
                operator.ask(Method::POST, "/cluster/transfer", Some(json!({ "to": to }))).await?;
                println!("Node {to} leads.");
            }
            Command::Verify => {
                let found = operator.ask(Method::POST, "/cluster/verify", Some(json!({}))).await?;
                println!("As of index {}:", found["index"]);
                for node in found["nodes"].as_array().into_iter().flatten() {
                    let hash = node["sha256"].as_str().unwrap_or("has not said");
                    println!("  node {}  {hash}", node["id"]);
                }
                for node in found["quarantined"].as_array().into_iter().flatten() {
                    println!("Node {node} is kept out for good: remove it, and add another.");
                }
                match (found["equal"] == true, found["differ"] == true) {
                    (true, _) => println!("All nodes hold the same."),
                    (_, true) => return Err("the nodes do not all hold the same".into()),
                    _ => return Err("not all nodes said what they hold: ask again".into()),
                }
            }
        }
        Ok(())
    }
}

struct Operator {
    client: Client,
    ops: String,
}

impl Operator {
    async fn ask(&self, method: Method, path: &str, body: Option<Value>) -> Result<Value, String> {
        let request = self.client.request(method, format!("{}{path}", self.ops));
        let request = match body {
            Some(body) => request.json(&body),
            None => request,
        };
        let answer = request.send().await.map_err(|_| {
            format!("no answer from {}: is it a node's operator listener?", self.ops)
        })?;
        let status = answer.status();
        let value: Value = answer.json().await.map_err(|error| error.to_string())?;
        match status.is_success() {
            true => Ok(value),
            false => Err(value["message"].as_str().unwrap_or("refused").to_owned()),
        }
    }

    async fn status(&self) -> Result<Value, String> {
        self.ask(Method::GET, "/cluster", None).await
    }

    /// Shows how a new node catches up, until it votes.
    #[expect(clippy::print_stdout, reason = "it shows progress")]
    async fn watch(&self, id: u64) -> Result<(), String> {
        let started = Instant::now();
        let mut before = Value::Null;
        while started.elapsed() < WATCH_TIMEOUT {
            // Nobody may lead for a moment.
            let Ok(status) = self.status().await else {
                tokio::time::sleep(LOOK_INTERVAL).await;
                continue;
            };
            let members = status["members"].as_array();
            let member = members.and_then(|all| all.iter().find(|one| one["id"] == id));
            let member = member.ok_or("it is no longer a member")?;
            if member["role"] != "learner" {
                println!("Node {id} votes.");
                return Ok(());
            }
            if member["lag"] != before {
                match member["lag"].as_u64() {
                    Some(lag) => println!("Node {id} is {lag} entries behind."),
                    None => println!("Node {id} is being sent a copy of the state."),
                }
                before = member["lag"].clone();
            }
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
        Err(format!("node {id} has not caught up; it goes on trying"))
    }
}

fn shown(status: &Value) -> String {
    let mut text = format!(
        "Node {} leads in term {}; its log ends at {}.\n  id  role     behind  last contact  address",
        status["leader"], status["term"], status["last_log_index"]
    );
    for member in status["members"].as_array().into_iter().flatten() {
        let or_unknown = |value: &Value, unit: &str| match value.as_u64() {
            Some(number) => format!("{number}{unit}"),
            None => "unknown".into(),
        };
        text += &format!(
            "\n  {:<3} {:<8} {:<7} {:<13} {}",
            or_unknown(&member["id"], ""),
            member["role"].as_str().unwrap_or_default(),
            or_unknown(&member["lag"], ""),
            or_unknown(&member["last_contact_ms"], " ms"),
            member["address"].as_str().unwrap_or_default(),
        );
    }
    text
}
