//! What commands share that use the public listener of a node: its URL, authority and key.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use reqwest::{Certificate, Client, RequestBuilder};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::{text, unusable};

/// Variable with the text of an admin's key.
const KEY_VARIABLE: &str = "HEARTH_API_KEY";
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);

/// How to reach a node. The variable `HEARTH_API_KEY` holds the key of an admin.
#[derive(Args)]
pub(crate) struct Address {
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

/// A client of one node, with the key of an admin.
pub(crate) struct ApiClient {
    client: Client,
    url: String,
    key: String,
}

#[derive(Deserialize)]
struct Failure {
    message: String,
}

impl Address {
    pub(crate) fn client(&self) -> Result<ApiClient, String> {
        let key = self.key()?;
        let mut client = Client::builder().no_proxy().timeout(RESPONSE_TIMEOUT);
        if let Some(path) = &self.ca {
            let pem = std::fs::read(path).map_err(unusable(path))?;
            client = client.add_root_certificate(Certificate::from_pem(&pem).map_err(text)?);
        }
        let client = client.build().map_err(text)?;
        Ok(ApiClient { client, url: self.url.trim_end_matches('/').to_owned(), key })
    }

    fn key(&self) -> Result<String, String> {
        if let Some(path) = &self.key_file {
            return Ok(std::fs::read_to_string(path).map_err(unusable(path))?.trim().to_owned());
        }
        std::env::var(KEY_VARIABLE)
            .map_err(|_| format!("set {KEY_VARIABLE} to the key of an admin, or name --key-file"))
    }
}

impl ApiClient {
    /// The response to a GET of a path below `/api/v1`.
    pub(crate) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, String> {
        self.send(self.client.get(self.path(path))).await
    }

    /// The response to a POST.
    pub(crate) async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &Value,
    ) -> Result<T, String> {
        self.send(self.client.post(self.path(path)).json(body)).await
    }

    fn path(&self, path: &str) -> String {
        format!("{}/api/v1{path}", self.url)
    }

    async fn send<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<T, String> {
        let response = request.bearer_auth(&self.key).send().await.map_err(|error| {
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
