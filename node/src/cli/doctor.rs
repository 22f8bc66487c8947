//! `hearth doctor`: examines a node's configuration, the node and its cluster, and says what to mend.
//! `hearth health`: whether a node is ready.

use std::path::PathBuf;

use clap::Args;
use reqwest::Method;
use serde_json::Value;

use crate::check::{self, CheckResult};
use crate::cli::operator::OperatorClient;
use crate::config::Config;
use crate::credentials::read_operator_key;
use crate::failure::{Exit, Failure};

/// Offset of a wall clock to cluster time from which a person should look at the clock.
const CLOCK_OFFSET_MS_MAX: i64 = 1_000;
/// Time since the last response of a follower from which it counts as lost.
const CONTACT_MS_MAX: u64 = 5_000;
/// Entries that a follower may be behind.
const LAG_MAX: u64 = 10_000;
/// The operator's listener of a node with the default configuration.
const OPS: &str = "http://127.0.0.1:4281";

/// Arguments of `hearth doctor`.
#[derive(Args)]
pub(crate) struct Doctor {
    /// The configuration file of a node on this machine
    #[arg(long)]
    config: PathBuf,
}

/// Arguments of `hearth health`.
#[derive(Args)]
pub(crate) struct Health {
    /// The operator's listener of the node; by default that in the configuration, or
    /// http://127.0.0.1:4281
    #[arg(long)]
    ops: Option<String>,
    /// The configuration file of the node
    #[arg(long)]
    config: Option<PathBuf>,
    /// Succeed while the node needs no restart, although it may not be ready
    #[arg(long)]
    live: bool,
}

impl Doctor {
    /// `environment` overrides keys of the configuration.
    pub(crate) async fn run(
        self,
        environment: impl Iterator<Item = (String, String)>,
    ) -> Result<(), Failure> {
        let config = Config::load(&self.config, environment)?;
        let mut results = check::check(&config).await;
        let key = config.operator.key_file.as_deref().map(read_operator_key).transpose()?;
        let has_key = key.is_some();
        let key = key.map(|(_, text)| text).unwrap_or_default();
        let operator = OperatorClient::new(format!("http://{}", config.operator.listen), key)?;
        let is_running = node(&operator, &mut results).await;
        if is_running && has_key {
            for (name, path, examine) in [
                ("cluster", "/cluster", members as fn(&Value) -> Vec<Found>),
                ("clocks", "/cluster/clock", clocks),
            ] {
                match operator.request(Method::GET, path, None).await {
                    Ok(response) => results.extend(examine(&response)),
                    Err(failure) => results.push((name, Err(failure.to_string()))),
                }
            }
        }
        Ok(check::report(&results)?)
    }
}

type Found = (&'static str, CheckResult);

/// Adds what a node says of itself. Returns whether it runs.
async fn node(operator: &OperatorClient, results: &mut Vec<Found>) -> bool {
    let Ok((is_ready, text)) = operator.probe("/readyz?verbose").await else {
        results.push(("node", Ok("it does not run: the cluster was not examined".into())));
        return false;
    };
    let failed: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("[-] ")).collect();
    results.push(("node", if is_ready { Ok("ready".into()) } else { Err(failed.join("; ")) }));
    true
}

fn members(status: &Value) -> Vec<Found> {
    let member = |member: &Value| {
        let name = format!("node {}", member["id"]);
        let contact = member["last_contact_ms"].as_u64();
        let is_lost = member["role"] != "leader" && contact.is_none_or(|ms| ms > CONTACT_MS_MAX);
        let result = match member["lag"].as_u64() {
            _ if member["disk_full"] == true => {
                Err(format!("{name}: its disk is full: free space on it"))
            }
            _ if is_lost => Err(format!(
                "{name}: the leader does not reach it: start it, or look at the network"
            )),
            Some(lag) if lag > LAG_MAX => Err(format!(
                "{name}: {lag} entries behind: look at its disk and its network, or wait"
            )),
            lag => Ok(format!("{name}: {} entries behind", lag.unwrap_or(0))),
        };
        ("member", result)
    };
    let all = status["members"].as_array().into_iter().flatten();
    let mut found: Vec<_> = all.clone().map(member).collect();
    let mut versions: Vec<_> = all.filter_map(|member| member["version"].as_str()).collect();
    versions.sort_unstable();
    versions.dedup();
    found.push(match &versions[..] {
        [] | [_] => ("versions", Ok(versions.concat())),
        several => {
            let advice = "end the upgrade: the feature level is that of the oldest";
            ("versions", Err(format!("{}: {advice}", several.join(", "))))
        }
    });
    found
}

fn clocks(clock: &Value) -> Vec<Found> {
    let node = |node: &Value| {
        let name = format!("node {}", node["id"]);
        let result = match node["offset_ms"].as_i64() {
            None => Err(format!("{name}: it did not report its clock")),
            Some(offset) if offset.abs() > CLOCK_OFFSET_MS_MAX => Err(format!(
                "{name}: its clock is {offset:+} ms from cluster time: synchronise it (NTP)"
            )),
            Some(offset) => Ok(format!("{name}: {offset:+} ms")),
        };
        ("clock", result)
    };
    clock["nodes"].as_array().into_iter().flatten().map(node).collect()
}

impl Health {
    /// `environment` overrides keys of the configuration.
    pub(crate) async fn run(
        self,
        environment: impl Iterator<Item = (String, String)>,
    ) -> Result<(), Failure> {
        let config = self.config.map(|path| Config::load(&path, environment)).transpose()?;
        let configured = config.map(|config| format!("http://{}", config.operator.listen));
        let ops = self.ops.or(configured).unwrap_or_else(|| OPS.into());
        let path = if self.live { "/livez" } else { "/readyz" };
        match OperatorClient::new(ops, String::new())?.probe(path).await? {
            (true, _) => Ok(()),
            (false, text) => {
                let reasons = text.lines().map(|line| line.trim_start_matches("[-] "));
                Err(Failure::new(Exit::Unavailable, reasons.collect::<Vec<_>>().join("; ")))
            }
        }
    }
}
