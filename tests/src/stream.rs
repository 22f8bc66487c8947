//! A reader of server-sent events, as the standard has them.

use std::time::Duration;

use reqwest::{Method, StatusCode};
use serde_json::Value;

use crate::{Ask, At, PATIENCE};

/// For how long a test reads one stream at most.
const STREAM_PATIENCE: Duration = Duration::from_secs(600);

/// An event of a stream.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// What `Last-Event-ID` takes.
    pub id: String,
    /// Its name.
    pub kind: String,
    /// Its data.
    pub data: Value,
}

/// An open stream.
pub struct Stream {
    answer: reqwest::Response,
    text: String,
}

impl Stream {
    /// Opens one; status and body of a rejection. `query` follows `/events`.
    ///
    /// # Errors
    /// When the node does not answer, or refuses: its status and body, then.
    pub async fn open(
        node: &At<'_>,
        query: &str,
        last: Option<&str>,
    ) -> Result<Self, Option<(StatusCode, Value)>> {
        let mut ask = node.ask(Method::GET, &format!("/events{query}"));
        if let Some(last) = last {
            ask = ask.header("Last-Event-ID", last);
        }
        Self::of(ask).await
    }

    /// Opens the one that `ask` asks for; see [`Stream::open`].
    ///
    /// # Errors
    /// As there.
    pub async fn of(ask: Ask) -> Result<Self, Option<(StatusCode, Value)>> {
        // Streams go on for longer than answers may take.
        let answer = ask.request.timeout(STREAM_PATIENCE).send().await.map_err(|_| None)?;
        if !answer.status().is_success() {
            let status = answer.status();
            return Err(Some((status, answer.json().await.unwrap_or_default())));
        }
        assert_eq!(answer.headers()["content-type"], "text/event-stream");
        Ok(Self { answer, text: String::new() })
    }

    /// The next event; `None` once the stream has ended, or broken.
    pub async fn next(&mut self) -> Option<Event> {
        self.try_next().await.ok()?
    }

    /// The next event; `None` once the stream has ended.
    ///
    /// # Errors
    /// When it broke off.
    pub async fn try_next(&mut self) -> Result<Option<Event>, reqwest::Error> {
        loop {
            while let Some((frame, rest)) = self.text.split_once("\n\n") {
                let event = read(frame);
                self.text = rest.to_owned();
                if event.is_some() {
                    return Ok(event);
                }
            }
            let Some(chunk) = self.answer.chunk().await? else { return Ok(None) };
            self.text += &String::from_utf8_lossy(&chunk);
        }
    }

    /// The next event, which must come.
    pub async fn expect(&mut self) -> Event {
        let next = tokio::time::timeout(PATIENCE, self.next()).await;
        next.expect("an event in time").expect("the stream goes on")
    }
}

/// A frame, unless it is a comment.
fn read(frame: &str) -> Option<Event> {
    let field = |name: &str| {
        let lines = frame.lines().filter_map(|line| line.split_once(':'));
        let mut values = lines.filter(|(of, _)| *of == name).map(|(_, value)| value.trim_start());
        values.next().map(str::to_owned)
    };
    let data = serde_json::from_str(&field("data")?).expect("data is JSON");
    Some(Event {
        id: field("id").unwrap_or_default(),
        kind: field("event").unwrap_or_default(),
        data,
    })
}
