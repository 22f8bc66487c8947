//! `hearth mcp`: the Model Context Protocol on standard input and output, for programs that start their servers
//! as processes. Each message goes to a node, and to the next one if that does not respond.

use std::collections::HashMap;
use std::time::Duration;

use clap::Args;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use parking_lot::Mutex;
use reqwest::Response;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};
use tokio::io::{AsyncWriteExt, Stdout};
use tokio::sync::Mutex as AsyncMutex;
use tokio::time::timeout;
use tokio_util::codec::{FramedRead, LinesCodec, LinesCodecError};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::client::access::Access;
use crate::client::connection::Connection;
use crate::failure::Failure;

/// Longest message: that of the endpoint, and the line breaks around it.
const MESSAGE_BYTES_MAX: usize = 1 << 20;
/// Messages that wait for a node at the same time. Further ones wait to be read.
const MESSAGES_MAX: usize = 32;
/// Time for the response to a message that calls no tool: a program reads lists before a person can work.
const WAIT: Duration = Duration::from_secs(3);
/// Nodes that may end a response in the middle, before the message fails.
const READS_MAX: usize = 3;
/// The JSON-RPC error for a message that no node has responded to.
const NO_RESPONSE: i32 = -32_000;
const PARSE_ERROR: i32 = -32_700;
/// Where messages say which revision of the protocol they are of, in those without `initialize`.
const VERSION_OF_MESSAGE: &str = "io.modelcontextprotocol/protocolVersion";
const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");
const NAMESPACE: HeaderName = HeaderName::from_static("x-namespace");

/// Arguments of `hearth mcp`.
#[derive(Args)]
pub(crate) struct Mcp {
    /// Which tools: memories, knowledge-graph or search; by default those of the node
    #[arg(long, value_name = "PROFILE")]
    tools: Option<String>,
    /// The namespace in which the tools store and search, if a call names none
    #[arg(long)]
    namespace: Option<String>,
    #[command(flatten)]
    access: Access,
}

/// What all messages share.
struct Proxy {
    connection: Connection,
    path: String,
    namespace: Option<HeaderValue>,
    /// The revision that `initialize` has agreed on.
    version: Mutex<Option<String>>,
    /// What cancels the messages without a response, by their ids in JSON.
    running: Mutex<HashMap<String, CancellationToken>>,
    /// Cancels the subscriptions.
    end: CancellationToken,
    out: AsyncMutex<Stdout>,
}

impl Mcp {
    pub(super) async fn run(self) -> Result<(), Failure> {
        let connection = self.access.connect()?;
        let namespace = connection.namespace(self.namespace);
        let namespace = namespace.map(|name| HeaderValue::from_str(&name)).transpose();
        let namespace = namespace.map_err(|_| "--namespace has signs that no header has")?;
        let query = self.tools.map_or_else(String::new, |profile| format!("?profile={profile}"));
        let proxy = Proxy {
            connection,
            path: format!("/mcp{query}"),
            namespace,
            version: Mutex::default(),
            running: Mutex::default(),
            end: CancellationToken::new(),
            out: AsyncMutex::new(tokio::io::stdout()),
        };
        let lines = LinesCodec::new_with_max_length(MESSAGE_BYTES_MAX);
        let mut lines = FramedRead::new(tokio::io::stdin(), lines);
        let mut passed = FuturesUnordered::new();
        loop {
            tokio::select! {
                line = lines.next(), if passed.len() < MESSAGES_MAX => match line {
                    Some(line) => passed.push(proxy.pass_on(line)),
                    None => break,
                },
                Some(()) = passed.next() => {}
            }
        }
        // The program has said all, and reads what is still to come. Subscriptions have no end of their own.
        proxy.end.cancel();
        while passed.next().await.is_some() {}
        Ok(())
    }
}

impl Proxy {
    /// Passes a message on to a node, and its responses to the program.
    async fn pass_on(&self, line: Result<String, LinesCodecError>) {
        let message = match line {
            Ok(line) if line.trim().is_empty() => return,
            Ok(line) => line,
            Err(error) => return self.error(&Value::Null, PARSE_ERROR, &error.to_string()).await,
        };
        let Ok(parsed) = serde_json::from_str::<Value>(&message) else {
            return self.error(&Value::Null, PARSE_ERROR, "the line is no JSON").await;
        };
        if parsed["method"] == "notifications/cancelled" {
            let id = parsed["params"]["requestId"].to_string();
            let running = self.running.lock().get(&id).cloned();
            return running.iter().for_each(CancellationToken::cancel);
        }
        let cancelled = match parsed["method"].as_str() {
            Some("subscriptions/listen") => self.end.child_token(),
            _ => CancellationToken::new(),
        };
        let id = parsed["id"].to_string();
        self.running.lock().insert(id.clone(), cancelled.clone());
        let exchanged = cancelled.run_until_cancelled(self.exchange(&message, &parsed)).await;
        self.running.lock().remove(&id);
        if let Some(Err(failure)) = exchanged
            && !parsed["id"].is_null()
        {
            self.error(&parsed["id"], NO_RESPONSE, &failure.to_string()).await;
        }
    }

    /// Sends a message to a node, and passes what it responds on to the program. If a response ends in the
    /// middle, another node gets the message.
    async fn exchange(&self, message: &str, parsed: &Value) -> Result<(), Failure> {
        let method = parsed["method"].as_str().unwrap_or_default();
        // What a tool of memories stores, it stores once. The tools of a graph find out by themselves.
        let tool = parsed["params"]["name"].as_str().filter(|_| method == "tools/call");
        let once =
            tool.filter(|tool| tool.starts_with("sulcus_")).map(|_| Uuid::new_v4().to_string());
        let headers = self.headers(parsed);
        for _ in 0..READS_MAX {
            let sent = self.connection.send_message(&self.path, &headers, message, once.as_deref());
            let response = match tool {
                Some(_) => sent.await?,
                None => timeout(WAIT, sent).await.map_err(|_| "no node responded in time")??,
            };
            if self.read(response, method == "initialize").await.is_ok() {
                return Ok(());
            }
            self.connection.leave_node();
        }
        Err("each node ended its response in the middle".into())
    }

    /// The headers by which the protocol over HTTP repeats parts of a message.
    fn headers(&self, message: &Value) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let accepted = "application/json, text/event-stream";
        headers.insert(ACCEPT, HeaderValue::from_static(accepted));
        let own = message["params"]["_meta"][VERSION_OF_MESSAGE].as_str();
        let agreed = self.version.lock().clone();
        let text = |text: Option<&str>| text.and_then(|text| HeaderValue::from_str(text).ok());
        let of_message = [
            (VERSION, text(own.or(agreed.as_deref()))),
            (METHOD, text(message["method"].as_str().filter(|_| own.is_some()))),
            (NAME, text(name_of(message).filter(|_| own.is_some()))),
            (NAMESPACE, self.namespace.clone()),
        ];
        for (name, value) in of_message {
            value.map(|value| headers.insert(name, value));
        }
        headers
    }

    /// Reads the response of a node: one message, or a stream of them.
    async fn read(&self, response: Response, is_initialize: bool) -> reqwest::Result<()> {
        let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        if !kind.is_some_and(|kind| kind.starts_with("text/event-stream")) {
            let body = response.text().await?;
            if let Ok(message) = serde_json::from_str::<Value>(&body) {
                if is_initialize {
                    let version = message["result"]["protocolVersion"].as_str();
                    *self.version.lock() = version.map(str::to_owned);
                }
                self.write(&message).await;
            }
            return Ok(());
        }
        let (mut chunks, mut rest) = (response.bytes_stream(), Vec::new());
        while let Some(chunk) = chunks.next().await {
            rest.extend_from_slice(&chunk?);
            while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = rest.drain(..=end).collect();
                let data = line.strip_prefix(b"data:").map(<[u8]>::trim_ascii);
                if let Some(message) = data.and_then(|data| serde_json::from_slice(data).ok()) {
                    self.write(&message).await;
                }
            }
        }
        Ok(())
    }

    async fn error(&self, id: &Value, code: i32, message: &str) {
        let error = json!({"code": code, "message": message});
        self.write(&json!({"jsonrpc": "2.0", "id": id, "error": error})).await;
    }

    /// Writes a message in its line. The program may be gone: then the input ends too.
    async fn write(&self, message: &Value) {
        let mut out = self.out.lock().await;
        let line = format!("{message}\n");
        if out.write_all(line.as_bytes()).await.is_ok() {
            let _: Result<(), _> = out.flush().await;
        }
    }
}

/// What a message is about: a tool or prompt, or a resource.
fn name_of(message: &Value) -> Option<&str> {
    let params = &message["params"];
    match message["method"].as_str()? {
        "tools/call" | "prompts/get" => params["name"].as_str(),
        "resources/read" => params["uri"].as_str(),
        _ => None,
    }
}
