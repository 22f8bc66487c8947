//! A reader of server-sent events (WHATWG HTML, section 9.2).

use std::time::Duration;

use crate::{Method, Node, PATIENCE, Request, StatusCode, Value};

/// Longest that a test reads one stream.
const STREAM_PATIENCE: Duration = Duration::from_secs(600);

/// An event of a stream.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// Its id, for `Last-Event-ID`.
    pub id: String,
    /// Its name.
    pub kind: String,
    /// Its data.
    pub data: Value,
}

/// An open stream.
#[derive(Debug)]
pub struct Stream {
    response: reqwest::Response,
    text: String,
}

impl Stream {
    /// Opens the event stream of a node. `query` follows `/events`; `last` is the
    /// `Last-Event-ID`.
    ///
    /// # Errors
    /// Status and body of a rejection; `None` without a response.
    pub async fn open(
        node: &Node,
        query: &str,
        last: Option<&str>,
    ) -> Result<Self, Option<(StatusCode, Value)>> {
        let mut request = node.request(Method::GET, &format!("/events{query}"));
        if let Some(last) = last {
            request = request.header("Last-Event-ID", last);
        }
        Self::of(request).await
    }

    /// Opens the stream of a request.
    ///
    /// # Errors
    /// See [`Stream::open`].
    pub async fn of(request: Request) -> Result<Self, Option<(StatusCode, Value)>> {
        // A stream is longer than the client's timeout for responses.
        let response = request.0.timeout(STREAM_PATIENCE).send().await.map_err(|_| None)?;
        if !response.status().is_success() {
            let status = response.status();
            return Err(Some((status, response.json().await.unwrap_or_default())));
        }
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Ok(Self { response, text: String::new() })
    }

    /// Opens the event stream of a node and reads its `ready` event.
    pub async fn ready(node: &Node, query: &str, last: Option<&str>) -> (Self, Event) {
        let mut stream = Self::open(node, query, last).await.expect("an event stream");
        let ready = stream.expect().await;
        assert_eq!(ready.kind, "ready");
        (stream, ready)
    }

    /// The next event; `None` after the end or a break.
    pub async fn next(&mut self) -> Option<Event> {
        self.try_next().await.ok()?
    }

    /// The next event; `None` after the end.
    ///
    /// # Errors
    /// When the connection broke.
    pub async fn try_next(&mut self) -> Result<Option<Event>, reqwest::Error> {
        loop {
            while let Some((frame, rest)) = self.text.split_once("\n\n") {
                let event = read(frame);
                self.text = rest.to_owned();
                if event.is_some() {
                    return Ok(event);
                }
            }
            let Some(chunk) = self.response.chunk().await? else { return Ok(None) };
            self.text += &String::from_utf8_lossy(&chunk);
        }
    }

    /// The next events, which must come.
    pub async fn take(&mut self, count: usize) -> Vec<Event> {
        let mut events = Vec::new();
        for _ in 0..count {
            events.push(self.expect().await);
        }
        events
    }

    /// The next event, which must come.
    pub async fn expect(&mut self) -> Event {
        let next = tokio::time::timeout(PATIENCE, self.next()).await;
        next.expect("an event in time").expect("the stream continues")
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
