//! `hearth events`: recent events of a tenant, or new ones as they come, from any node without gap or
//! repetition.

use std::time::Duration;

use clap::Args;
use futures::StreamExt;
use reqwest::RequestBuilder;
use serde::Deserialize;
use serde_json::Value;

use crate::client::access::Client;
use crate::client::connection::{Connection, parse};
use crate::client::print::{Cell, Table, age, harmless, one_line, print, print_json};
use crate::failure::{Exit, Failure};

/// Longest event in bytes. The node sends no longer ones.
const EVENT_BYTES_MAX: usize = 1 << 20;
/// Pause before the stream is opened again.
const PAUSE: Duration = Duration::from_millis(200);

/// Arguments of `hearth events`.
#[derive(Args)]
pub(crate) struct Events {
    /// Print new events until Ctrl-C
    #[arg(long, short)]
    follow: bool,
    /// Follow from the event with this id on
    #[arg(long, value_name = "ID", requires = "follow")]
    after: Option<String>,
    /// Follow only these kinds, with commas between them
    #[arg(long, requires = "follow")]
    kind: Option<String>,
    /// Follow only this namespace
    #[arg(long, short, requires = "follow")]
    namespace: Option<String>,
    /// Recent events that are listed
    #[arg(long, default_value_t = 50)]
    limit: u32,
    #[command(flatten)]
    client: Client,
}

#[derive(Deserialize)]
struct Activity {
    actor: String,
    action: String,
    target_id: Option<String>,
    target_label: Option<String>,
    created_at: String,
}

impl Events {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let connection = self.client.connect()?;
        if self.follow {
            return self.follow(&connection).await;
        }
        let query = [("limit", Some(self.limit.to_string()))];
        let page: Value = connection.get("/activity", &query).await?;
        if self.client.is_json() {
            return print_json(&page);
        }
        let items: Vec<Activity> = parse(page["items"].clone())?;
        let mut table = Table::new(&["AGO", "BY", "ACTION", "ID", "TEXT"]);
        for item in items {
            table.row([
                age(&item.created_at).into(),
                item.actor.into(),
                item.action.into(),
                Cell::dim(item.target_id.unwrap_or_default()),
                item.target_label.unwrap_or_default().into(),
            ]);
        }
        table.print("Nothing has happened yet.")
    }

    /// Prints events without end. A stream that breaks is opened again, on another node if need be.
    async fn follow(mut self, connection: &Connection) -> Result<(), Failure> {
        loop {
            let (after, kind) = (self.after.clone(), self.kind.clone());
            let query: Vec<_> = [("kind", kind), ("namespace", self.namespace.clone())]
                .into_iter()
                .filter(|(_, value)| value.is_some())
                .collect();
            let build = |request: RequestBuilder| {
                let request = request.query(&query);
                after.iter().fold(request, |request, id| request.header("Last-Event-ID", id))
            };
            let mut bytes = connection.stream("/events", build).await?.bytes_stream();
            let mut frames = Frames::default();
            while let Some(Ok(chunk)) = bytes.next().await {
                for frame in frames.add(&chunk)? {
                    self.print(&frame)?;
                    self.after = frame.id.or(self.after);
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    fn print(&self, frame: &Frame) -> Result<(), Failure> {
        // Markers only state how far the stream is.
        let Ok(event) = serde_json::from_str::<Value>(&frame.data) else { return Ok(()) };
        if matches!(event["kind"].as_str(), None | Some("ready" | "checkpoint")) {
            return Ok(());
        }
        if self.client.is_json() {
            return print(&event.to_string());
        }
        let text = |name: &str| one_line(event[name].as_str().unwrap_or_default());
        let line = ["created_at", "kind", "namespace", "node_id", "label"].map(text).join("  ");
        print(harmless(&line).trim_end())
    }
}

/// A server-sent event.
#[derive(Debug, Default, PartialEq, Eq)]
struct Frame {
    id: Option<String>,
    data: String,
}

/// Parses server-sent events (HTML Living Standard, 9.2.6) from chunks of bytes.
#[derive(Default)]
struct Frames {
    /// Bytes of a line that has not ended.
    line: Vec<u8>,
    frame: Frame,
}

impl Frames {
    /// The events that end within `chunk`.
    fn add(&mut self, chunk: &[u8]) -> Result<Vec<Frame>, Failure> {
        let mut ended = Vec::new();
        for &byte in chunk {
            if byte != b'\n' {
                self.line.push(byte);
                continue;
            }
            let line = String::from_utf8_lossy(&self.line).into_owned();
            self.line.clear();
            match line.trim_end_matches('\r').split_once(':') {
                None if line.trim_end_matches('\r').is_empty() => {
                    let frame = std::mem::take(&mut self.frame);
                    ended.extend((!frame.data.is_empty()).then_some(frame));
                }
                Some(("data", data)) => {
                    let data = data.strip_prefix(' ').unwrap_or(data);
                    let separator = if self.frame.data.is_empty() { "" } else { "\n" };
                    self.frame.data += &format!("{separator}{data}");
                }
                Some(("id", id)) => self.frame.id = Some(id.trim_start().to_owned()),
                _ => {}
            }
        }
        if self.line.len() + self.frame.data.len() > EVENT_BYTES_MAX {
            return Err(Failure::new(Exit::Failed, "an event of the stream is too long"));
        }
        Ok(ended)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_parsed_from_any_chunks() {
        let stream =
            b": keep-alive\n\nevent: x\nid: 1\ndata: {\"a\"\ndata: :1}\n\r\nid: 2\ndata:b\n\n";
        let frame = |id: &str, data: &str| Frame { id: Some(id.into()), data: data.into() };
        for size in 1..stream.len() {
            let mut frames = Frames::default();
            let mut read = Vec::new();
            for chunk in stream.chunks(size) {
                read.extend(frames.add(chunk).unwrap());
            }
            assert_eq!(read, [frame("1", "{\"a\"\n:1}"), frame("2", "b")], "chunks of {size}");
        }
    }
}
