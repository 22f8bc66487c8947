//! The client of the operator's listener, and the options that name the listener and the key.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use reqwest::{Client, Method};
use serde_json::Value;

use crate::config::Config;
use crate::credentials::read_operator_key;
use crate::error::text;
use crate::failure::{Exit, Failure};

/// Variable with the text of the operator key.
const KEY_VARIABLE: &str = "HEARTH_OPERATOR_KEY";
/// The operator's listener of a node with the default configuration.
const OPS: &str = "http://127.0.0.1:4281";
/// Time limit of a response. The time limit of the node itself is shorter.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(70);

/// Where an operator's command finds the cluster.
#[derive(Args)]
pub(super) struct OperatorAccess {
    /// Operator's listener of any node; by default that in the configuration, or
    /// http://127.0.0.1:4281
    #[arg(long, global = true)]
    ops: Option<String>,
    /// File with the operator key; by default the variable HEARTH_OPERATOR_KEY holds the key, or
    /// the configuration names the file
    #[arg(long, global = true)]
    key_file: Option<PathBuf>,
    /// Configuration file of a node on this machine. /etc/hearth/hearth.toml, if it exists and neither --ops
    /// nor --key-file is given
    #[arg(long, global = true)]
    config: Option<PathBuf>,
}

/// The configuration of a node that was installed on this machine.
const INSTALLED: &str = "/etc/hearth/hearth.toml";

impl OperatorAccess {
    /// The client. `environment` overrides keys of the configuration.
    pub(super) fn open(
        self,
        environment: impl Iterator<Item = (String, String)>,
    ) -> Result<OperatorClient, String> {
        let names_another = self.ops.is_some() || self.key_file.is_some();
        let installed = || Some(PathBuf::from(INSTALLED)).filter(|_| !names_another);
        let path = self.config.or_else(|| installed().filter(|path| path.exists()));
        let config = path.as_deref().map(|path| Config::load(path, environment));
        let config = config.transpose()?.map(|config| config.operator);
        let listen = config.as_ref().map(|config| format!("http://{}", config.listen));
        let configured = config.and_then(|config| config.key_file);
        let ops = self.ops.or(listen).unwrap_or_else(|| OPS.into());
        OperatorClient::new(ops, operator_key(self.key_file, configured)?)
    }
}

/// The text of the operator key: of the file `named` on the command line, else of the
/// environment, else of the file that is `configured`.
fn operator_key(named: Option<PathBuf>, configured: Option<PathBuf>) -> Result<String, String> {
    let variable = std::env::var(KEY_VARIABLE).ok();
    match (named, variable, configured) {
        (None, Some(key), _) => Ok(key.trim().to_owned()),
        (Some(path), ..) | (None, None, Some(path)) => {
            read_operator_key(&path).map(|(_, text)| text)
        }
        (None, None, None) => Err(format!(
            "no operator key: name its file with --key-file, or the configuration of a node with \
             --config, or set {KEY_VARIABLE}"
        )),
    }
}

/// A client of the operator's listener.
pub(super) struct OperatorClient {
    client: Client,
    ops: String,
    /// The text of the operator key.
    key: String,
}

impl OperatorClient {
    /// A client of the listener at the URL `ops`, with the text of the operator key.
    pub(super) fn new(ops: String, key: String) -> Result<Self, String> {
        let mut client = Client::builder().no_proxy().timeout(RESPONSE_TIMEOUT);
        if ops.starts_with("http://") {
            // It needs no authority, and a machine may have none.
            client = client.tls_certs_only([]);
        }
        Ok(Self { client: client.build().map_err(text)?, ops, key })
    }

    /// Whether the node responds to a GET of a path with success, and the text of the response.
    pub(super) async fn probe(&self, path: &str) -> Result<(bool, String), Failure> {
        let response = self.client.get(format!("{}{path}", self.ops)).send().await;
        let response = response.map_err(|_| self.no_response())?;
        let is_success = response.status().is_success();
        Ok((is_success, response.text().await.map_err(text)?))
    }

    fn no_response(&self) -> Failure {
        let advice = "is it the operator's listener of a node that runs?";
        Failure::new(Exit::Unavailable, format!("no response from {}: {advice}", self.ops))
    }

    /// Sends a request. Returns the body of a success, or the text of an error.
    pub(super) async fn request(
        &self,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> Result<Value, Failure> {
        let url = format!("{}{path}", self.ops);
        let mut request = self.client.request(method, url).bearer_auth(&self.key);
        if let Some(body) = body {
            request = request.json(&body);
        }
        let response = request.send().await.map_err(|_| self.no_response())?;
        let status = response.status();
        let value: Value = response.json().await.map_err(text)?;
        if status.is_success() {
            return Ok(value);
        }
        let message = value["message"].as_str();
        let message = message.map_or_else(|| format!("the node responded {status}"), str::to_owned);
        Err(Failure::of_response(status, value["error"].as_str().unwrap_or_default(), message))
    }
}
