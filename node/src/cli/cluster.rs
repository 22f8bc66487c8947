//! `hearth cluster`: shows and changes a running cluster, through the operator's listener of any
//! node, with the operator key.

#![expect(clippy::print_stdout, reason = "the output of the command")]

use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use reqwest::Method;
use serde_json::{Value, json};

use crate::cli::audit;
use crate::cli::operator::{OperatorAccess, OperatorClient};
use crate::error::text;
use crate::failure::{Exit, Failure};

const PROGRESS_INTERVAL: Duration = Duration::from_millis(500);
/// Time for which progress is shown. The node continues afterwards.
const PROGRESS_TIMEOUT: Duration = Duration::from_secs(3_600);

/// Arguments of `hearth cluster`.
#[derive(Args)]
pub(crate) struct Cluster {
    #[command(flatten)]
    access: OperatorAccess,
    #[command(subcommand)]
    command: ClusterCommand,
}

#[derive(Subcommand)]
enum ClusterCommand {
    /// Show the members, the leader, and how far the others are behind
    Status,
    /// Add a new node, and show its progress until it votes
    Add {
        /// Its id, as in its own configuration; never used in this cluster before
        #[arg(long)]
        id: u64,
        /// Host and port of its peer listener
        #[arg(long)]
        address: String,
    },
    /// Remove a node for good. Its id cannot be used again
    Remove {
        /// Its id
        #[arg(long)]
        id: u64,
    },
    /// Replace a node whose machine or data is lost: add the new one, wait until it votes, and
    /// remove the old one. Repeat the command after an interruption
    Replace {
        /// Id of the old node
        old: u64,
        /// Id of the new one, as in its own configuration; never used in this cluster before
        #[arg(long)]
        new_id: u64,
        /// Host and port of its peer listener; by default that of the old node
        #[arg(long)]
        address: Option<String>,
    },
    /// Transfer leadership to another voter
    Transfer {
        /// Its id
        #[arg(long)]
        to: u64,
    },
    /// Compare the states of all nodes at one log index
    Verify,
    /// Export and verify the audit log of the operator
    #[command(subcommand)]
    Audit(audit::AuditCommand),
    /// Let the deliveries of webhooks go out that wait since the cluster was restored from a backup
    ReleaseWebhooks,
    /// Show cluster time, and the wall clocks of all nodes
    Clock {
        /// Move cluster time forward to the median of the voters' wall clocks
        #[arg(long)]
        set_to_median: bool,
    },
}

impl Cluster {
    /// `environment` overrides keys of the configuration.
    pub(crate) async fn run(
        self,
        environment: impl Iterator<Item = (String, String)>,
    ) -> Result<(), Failure> {
        let operator = self.access.open(environment)?;
        match self.command {
            ClusterCommand::Status => operator.show_status().await?,
            ClusterCommand::Add { id, address } => operator.add(id, &address).await?,
            ClusterCommand::Remove { id } => {
                operator.remove(id).await?;
                println!("Stop it, and delete its data folder.");
            }
            ClusterCommand::Replace { old, new_id, address } => {
                operator.replace(old, new_id, address).await?;
            }
            ClusterCommand::Transfer { to } => {
                let body = json!({ "to": to });
                operator.request(Method::POST, "/cluster/transfer", Some(body)).await?;
                println!("Node {to} leads.");
            }
            ClusterCommand::Verify => operator.verify().await?,
            ClusterCommand::Audit(command) => {
                audit::run(command, async |query| {
                    let path = format!("/cluster/audit?{query}");
                    let page = operator.request(Method::GET, &path, None).await?;
                    Ok(serde_json::from_value(page).map_err(text)?)
                })
                .await?;
            }
            ClusterCommand::ReleaseWebhooks => {
                operator.request(Method::POST, "/cluster/webhooks/release", None).await?;
                println!("The deliveries go out.");
            }
            ClusterCommand::Clock { set_to_median } => {
                let (method, body) = match set_to_median {
                    true => (Method::POST, Some(json!({}))),
                    false => (Method::GET, None),
                };
                let clock = operator.request(method, "/cluster/clock", body).await?;
                println!("{}", clock_text(&clock));
            }
        }
        Ok(())
    }
}

impl OperatorClient {
    async fn status(&self) -> Result<Value, Failure> {
        self.request(Method::GET, "/cluster", None).await
    }

    /// Prints the status. Without a leader, prints what the node sees, and fails.
    async fn show_status(&self) -> Result<(), Failure> {
        let failure = match self.status().await {
            Ok(status) => {
                println!("{}", status_text(&status));
                return Ok(());
            }
            Err(failure) => failure,
        };
        if failure.exit == Exit::Unavailable
            && let Ok(local) = self.request(Method::GET, "/cluster/local", None).await
        {
            println!("{}", status_text(&local));
        }
        Err(failure)
    }

    async fn add(&self, id: u64, address: &str) -> Result<(), Failure> {
        let body = json!({ "id": id, "address": address });
        self.request(Method::POST, "/cluster/members", Some(body)).await?;
        self.show_progress(id).await
    }

    async fn remove(&self, id: u64) -> Result<(), Failure> {
        let path = format!("/cluster/members/{id}");
        self.request(Method::DELETE, &path, None).await?;
        println!("Node {id} is removed.");
        Ok(())
    }

    /// The new node votes before the old one loses its vote: the cluster never has fewer voters
    /// that run.
    async fn replace(&self, old: u64, new: u64, address: Option<String>) -> Result<(), Failure> {
        let status = self.status().await?;
        let is_old = |member: &&Value| member["id"] == old;
        let found = status["members"].as_array().and_then(|members| members.iter().find(is_old));
        let found = found.ok_or_else(|| format!("node {old} is not a member"))?;
        let address = address.or_else(|| found["address"].as_str().map(str::to_owned));
        self.add(new, &address.unwrap_or_default()).await?;
        self.remove(old).await
    }

    /// Shows the progress of a new node until it votes.
    async fn show_progress(&self, id: u64) -> Result<(), Failure> {
        let started = Instant::now();
        let mut ticks = tokio::time::interval(PROGRESS_INTERVAL);
        let mut shown = Value::Null;
        while started.elapsed() < PROGRESS_TIMEOUT {
            ticks.tick().await;
            // Without a leader, as during an election, there is no status.
            let Ok(status) = self.status().await else { continue };
            let members = status["members"].as_array();
            let member = members.and_then(|all| all.iter().find(|one| one["id"] == id));
            let member = member.ok_or("the node is no longer a member")?;
            if member["role"] != "learner" {
                println!("Node {id} votes.");
                return Ok(());
            }
            if member["lag"] != shown {
                match member["lag"].as_u64() {
                    Some(lag) => println!("Node {id} is {lag} entries behind."),
                    None => println!("Node {id} receives a copy of the state."),
                }
                shown = member["lag"].clone();
            }
        }
        Err(format!("node {id} has not caught up yet; it continues in the background").into())
    }

    /// Compares the states of all nodes, and shows their hashes.
    async fn verify(&self) -> Result<(), Failure> {
        let result = self.request(Method::POST, "/cluster/verify", Some(json!({}))).await?;
        println!("At log index {}:", result["index"]);
        for node in result["nodes"].as_array().into_iter().flatten() {
            let hash = node["sha256"].as_str().unwrap_or("no response");
            println!("  node {}  {hash}", node["id"]);
        }
        for node in result["quarantined"].as_array().into_iter().flatten() {
            println!("Node {node} is quarantined for good. Remove it, and add another one.");
        }
        for fault in result["first_row_faults"].as_array().into_iter().flatten() {
            println!("  {}", fault.as_str().unwrap_or_default());
        }
        match result["row_faults"].as_u64() {
            Some(0) => {}
            Some(count) => return Err(format!("the state has {count} rows that cannot be").into()),
            None => println!("Its rows were not searched in time."),
        }
        if result["equal"] == true {
            println!("All nodes hold the same state.");
            return Ok(());
        }
        if result["differ"] == true {
            return Err("the states of the nodes differ".into());
        }
        Err("some nodes did not report their state: run the command again".into())
    }
}

/// The status of a cluster as a table.
fn status_text(status: &Value) -> String {
    let term = &status["term"];
    let mut table = match status["leader"].as_u64() {
        Some(leader) => format!("Node {leader} leads in term {term}."),
        None => format!("Node {} knows no leader. Its term is {term}.", status["node"]),
    };
    table += &format!(
        " Its log ends at index {}, {} is committed, and {} is applied. The feature level is {}.\n  id  \
         role     behind  last contact  disk  version   address",
        status["last_log_index"],
        status["commit_index"],
        status["applied_index"],
        status["feature_level"]
    );
    for member in status["members"].as_array().into_iter().flatten() {
        let or_unknown = |value: &Value, unit: &str| match value.as_u64() {
            Some(number) => format!("{number}{unit}"),
            None => "unknown".into(),
        };
        table += &format!(
            "\n  {:<3} {:<8} {:<7} {:<13} {:<5} {:<9} {}",
            or_unknown(&member["id"], ""),
            member["role"].as_str().unwrap_or_default(),
            or_unknown(&member["lag"], ""),
            or_unknown(&member["last_contact_ms"], " ms"),
            if member["disk_full"] == true { "full" } else { "ok" },
            member["version"].as_str().unwrap_or("unknown"),
            member["address"].as_str().unwrap_or_default(),
        );
    }
    let members = status["members"].as_array().into_iter().flatten();
    if members.filter(|member| member["role"] != "learner").count() == 2 {
        table += "\nTwo nodes vote: if one of them fails, writes stop. Add a third.";
    }
    table
}

/// Cluster time and all wall clocks.
fn clock_text(clock: &Value) -> String {
    let offset = |value: &Value| match value.as_i64() {
        Some(ms) => format!("{:+.3} s", ms as f64 / 1e3),
        None => "unknown".into(),
    };
    let cluster_time = clock["cluster_time"].as_str().unwrap_or_default();
    let mut table = format!(
        "Cluster time is {cluster_time}. Wall clocks, relative to it:\n  median  {}",
        offset(&clock["median_offset_ms"])
    );
    for node in clock["nodes"].as_array().into_iter().flatten() {
        table += &format!("\n  node {:<3}{}", node["id"], offset(&node["offset_ms"]));
    }
    table
}
