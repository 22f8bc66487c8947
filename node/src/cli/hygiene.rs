//! `hearth hygiene`: examines all memories of a tenant, through the public listener of any node, and
//! prints what spoils them and the remedy.

#![expect(clippy::print_stdout, reason = "the output of the command")]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use reqwest::{Certificate, Client};
use serde::Deserialize;

use crate::error::{text, unusable};

/// Variable with the text of an admin's key.
const KEY_VARIABLE: &str = "HEARTH_API_KEY";
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);
/// Examples of a defect that are shown.
const EXAMPLES_MAX: usize = 5;

/// Arguments of `hearth hygiene`. The variable `HEARTH_API_KEY` holds the key of an admin.
#[derive(Args)]
pub(crate) struct Hygiene {
    /// Public listener of any node
    #[arg(long, default_value = "https://127.0.0.1:4200")]
    url: String,
    /// File with the certificate authority of the cluster; by default those of the system
    #[arg(long)]
    ca: Option<PathBuf>,
    /// File with the key of an admin, if HEARTH_API_KEY does not hold it
    #[arg(long)]
    key_file: Option<PathBuf>,
}

/// A part of the report, as the node sends it.
#[derive(Deserialize)]
struct Part {
    examined: usize,
    defects: Vec<Defect>,
    next: Option<String>,
}

#[derive(Deserialize)]
struct Defect {
    defect: String,
    count: usize,
    examples: Vec<Example>,
    command: String,
}

#[derive(Deserialize)]
struct Example {
    id: String,
    label: String,
}

#[derive(Deserialize)]
struct Failure {
    message: String,
}

impl Hygiene {
    pub(crate) async fn run(self) -> Result<(), String> {
        let key = self.key()?;
        let mut client = Client::builder().no_proxy().timeout(RESPONSE_TIMEOUT);
        if let Some(path) = &self.ca {
            let pem = std::fs::read(path).map_err(unusable(path))?;
            client = client.add_root_certificate(Certificate::from_pem(&pem).map_err(text)?);
        }
        let client = client.build().map_err(text)?;
        let (mut examined, mut defects) = (0, BTreeMap::new());
        let mut order = Vec::new();
        let mut after = None;
        loop {
            let part = self.part(&client, &key, after.as_deref()).await?;
            examined += part.examined;
            for defect in part.defects {
                if !defects.contains_key(&defect.defect) {
                    order.push(defect.defect.clone());
                    defects.insert(defect.defect.clone(), defect);
                } else if let Some(sum) = defects.get_mut(&defect.defect) {
                    sum.count += defect.count;
                    sum.examples.extend(defect.examples);
                    sum.examples.truncate(EXAMPLES_MAX);
                }
            }
            match part.next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
        println!("{examined} memories");
        for defect in order.iter().filter_map(|name| defects.get(name)) {
            println!("{}", defect_text(defect));
        }
        Ok(())
    }

    fn key(&self) -> Result<String, String> {
        if let Some(path) = &self.key_file {
            return Ok(std::fs::read_to_string(path).map_err(unusable(path))?.trim().to_owned());
        }
        std::env::var(KEY_VARIABLE)
            .map_err(|_| format!("set {KEY_VARIABLE} to the key of an admin, or name --key-file"))
    }

    async fn part(&self, client: &Client, key: &str, after: Option<&str>) -> Result<Part, String> {
        let after = after.map_or(String::new(), |id| format!("?after={id}"));
        let url = format!("{}/api/v1/admin/hygiene{after}", self.url.trim_end_matches('/'));
        let request = client.get(&url).bearer_auth(key);
        let response = request.send().await.map_err(|error| {
            let reason = if error.is_connect() { "cannot connect" } else { "no response" };
            format!(
                "{reason}: is {} the public listener of a node, and --ca its authority?",
                self.url
            )
        })?;
        let status = response.status();
        if status.is_success() {
            return response.json().await.map_err(text);
        }
        let failure = response.json().await.map(|Failure { message }| message);
        Err(failure.unwrap_or_else(|_| format!("the node responded {status}")))
    }
}

/// A defect with its examples and the remedy.
fn defect_text(defect: &Defect) -> String {
    let name = defect.defect.replace('_', " ");
    let mut lines = format!("{:>8}  {name}", defect.count);
    if defect.count == 0 {
        return lines;
    }
    for Example { id, label } in &defect.examples {
        let label = label.split_whitespace().collect::<Vec<_>>().join(" ");
        lines += &format!("\n            {id}  {label}");
    }
    lines + &format!("\n            remedy: {}", defect.command)
}
