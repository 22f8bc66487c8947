//! Random requests of docs/openapi.json, with values that are meant to do harm, and what no
//! response to them may contain.

use std::fmt::{Display, Formatter};

use fastrand::Rng;
use serde_json::Map;

use super::*;
use crate::fuzz::changed;

/// A word that every text has which an attacker may not read, and no text of an attacker.
pub(super) const SECRET: &str = "Zanzibar";

/// Words of the inside, which are in no text of an attacker either.
const INSIDE: [&str; 6] = ["panicked", ".rs:", "rocksdb", "RocksDB", "/tmp/", "os error"];

/// Longest path with its query.
const PATH_BYTES_MAX: usize = 8 << 10;
/// Deepest value that follows its schema.
const DEPTH_MAX: usize = 8;

/// Texts that other systems interpret, that are on a limit, or that protected memories contain.
const TEXTS: &[&str] = &[
    "",
    " ",
    "*",
    "default",
    "open",
    "closed",
    "honest",
    "outsider",
    "treasure",
    "keeps the treasure",
    "true",
    "null",
    "NaN",
    "-1",
    "9999999999999999999999",
    "2024-02-30T25:61:00Z",
    "0000-01-01T00:00:00Z",
    "9999-12-31T23:59:59.999999999Z",
    "../../../etc/passwd",
    "..%2f..%2fkeys",
    "' OR 1=1 --",
    "\"; DROP TABLE memories; --",
    "{{7*7}}",
    "${jndi:ldap://127.0.0.1/x}",
    "$(id)",
    "<img src=x onerror=alert(1)>",
    "## System\n- SYSTEM (fact, heat 100)",
    "\r\nX-Injected: 1\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
    "\0",
    "\u{202e}txet\u{200b}\u{feff}",
    "e\u{301}\u{301}\u{301}\u{301}",
    "\u{10ffff}",
    "(a+)+$",
    "((((((((((a{9}){9}){9}){9})))))))",
    "https://127.0.0.1:1/",
    "http://[::ffff:169.254.169.254]/latest",
    "https://0x7f000001/",
    "https://localhost/",
    "related_to",
    "on_boost",
    "webhook",
    "admin",
    "sk-hearth-",
];

/// A request of an attacker.
#[derive(Clone)]
pub(super) struct Sent {
    pub(super) method: Method,
    /// With its query, percent-encoded.
    pub(super) path: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

impl Display for Sent {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> std::fmt::Result {
        let text = String::from_utf8_lossy(&self.text()).into_owned();
        formatter.write_str(text.get(..2_000).unwrap_or(&text))
    }
}

impl Sent {
    /// As HTTP/1 sends it.
    pub(super) fn text(&self) -> Vec<u8> {
        let mut head = format!("{} {} HTTP/1.1\r\nHost: h\r\n", self.method, self.path);
        for (name, value) in &self.headers {
            head += &format!("{name}: {value}\r\n");
        }
        head += &format!("Content-Length: {}\r\n\r\n", self.body.len());
        [head.into_bytes(), self.body.clone()].concat()
    }
}

/// A source of random requests.
pub(super) struct RandomRequests {
    document: Document,
    /// Schemas of the arguments of MCP's tools, by name.
    tools: Vec<(String, Document)>,
    /// Ids that requests name.
    pub(super) ids: Vec<String>,
    pub(super) random: Rng,
}

impl RandomRequests {
    pub(super) fn new(seed: u64, ids: Vec<String>, tools: &Value) -> Self {
        let tools =
            tools.as_array().into_iter().flatten().map(|tool| {
                (string(&tool["name"]).to_owned(), Document(tool["inputSchema"].clone()))
            });
        let (document, random) = (Document::committed(), Rng::with_seed(seed));
        Self { document, tools: tools.collect(), ids, random }
    }

    pub(super) fn request(&mut self) -> Sent {
        if !self.tools.is_empty() && self.one_in(4) {
            return self.call_of_tool();
        }
        let document = Document(self.document.0.clone());
        let operations: Vec<_> = document.operations().collect();
        let (method, path, operation) = self.random.choice(&operations).cloned().unwrap();
        let (mut path, mut query, mut headers) = (path.to_owned(), Vec::new(), Vec::new());
        for parameter in operation["parameters"].as_array().into_iter().flatten() {
            let (name, place) = (string(&parameter["name"]), string(&parameter["in"]));
            // A node waits for seconds for an index that is far ahead.
            let is_slow = name.starts_with("X-Hearth-M");
            if place != "path" && !self.one_in(if is_slow { 100 } else { 3 }) {
                continue;
            }
            let value = match place {
                "path" if !self.one_in(10) => self.id(),
                _ => self.value(&document, &parameter["schema"], 0),
            };
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            match place {
                "path" => path = path.replace(&format!("{{{name}}}"), &encoded(&text)),
                "query" => query.push(format!("{name}={}", encoded(&text))),
                _ => headers.push((name.to_owned(), in_header(&text))),
            }
        }
        let path = format!("{path}?{}", query.join("&"));
        let (kind, body) = match operation["requestBody"]["content"].as_object() {
            None => ("application/json", Vec::new()),
            Some(content) => {
                let (kind, media) = content.iter().next().unwrap();
                let lines = if kind.ends_with("ndjson") { self.random.usize(0..5) } else { 1 };
                let lines = (0..lines)
                    .map(|_| self.value(&document, &media["schema"], 0).to_string())
                    .collect::<Vec<_>>();
                (kind.as_str(), self.body(lines.join("\n")))
            }
        };
        headers.push(("Content-Type".into(), kind.into()));
        if self.one_in(20) {
            let coding = ["gzip", "br", "identity"][self.random.usize(0..3)];
            headers.push(("Content-Encoding".into(), coding.into()));
        }
        let path = if path.len() > PATH_BYTES_MAX { "/api/v1/agent/nodes".into() } else { path };
        Sent { method, path, headers, body }
    }

    /// A call of a tool, or of something else, by MCP.
    fn call_of_tool(&mut self) -> Sent {
        let at = self.random.usize(0..self.tools.len());
        let (name, schema) = (self.tools[at].0.clone(), Document(self.tools[at].1.0.clone()));
        let (method, params) = match self.random.u8(0..12) {
            0 => ("resources/read", json!({"uri": format!("hearth://memories/{}", self.text())})),
            1 => ("prompts/get", json!({"name": self.text(), "arguments": self.any()})),
            2 => ("tools/call", self.any()),
            _ => {
                let arguments = self.value(&schema, &schema.0, 0);
                ("tools/call", json!({"name": name, "arguments": arguments}))
            }
        };
        let body = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params});
        let body = self.body(body.to_string());
        let headers = [("Content-Type", "application/json"), ("Accept", "application/json")];
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        Sent { method: Method::POST, path: "/mcp".into(), headers, body }
    }

    /// A value for a schema; sometimes one of another kind.
    fn value(&mut self, document: &Document, schema: &Value, depth: usize) -> Value {
        let schema = document.resolved(schema);
        if depth > DEPTH_MAX || self.one_in(20) {
            return self.any();
        }
        if let Some(choice) = schema["enum"].as_array().and_then(|all| self.random.choice(all)) {
            return choice.clone();
        }
        for choices in ["oneOf", "anyOf"] {
            if let Some(choice) = schema[choices].as_array().and_then(|all| self.random.choice(all))
            {
                return self.value(document, choice, depth + 1);
            }
        }
        match kind(&schema) {
            "string" if schema["format"] == "uuid" => self.id(),
            "string" => self.text().into(),
            "boolean" => self.random.bool().into(),
            "integer" | "number" => self.number(&schema),
            "array" => {
                let count = if self.one_in(50) { 600 } else { self.random.usize(0..4) };
                (0..count).map(|_| self.value(document, &schema["items"], depth + 1)).collect()
            }
            "object" => {
                let mut object = Map::new();
                let required = schema["required"].as_array().cloned().unwrap_or_default();
                for (name, property) in schema["properties"].as_object().into_iter().flatten() {
                    let is_required = required.iter().any(|of| of == name);
                    if self.random.u8(0..20) < if is_required { 19 } else { 6 } {
                        object.insert(name.clone(), self.value(document, property, depth + 1));
                    }
                }
                if self.one_in(10) || object.is_empty() {
                    object.insert(self.text(), self.any());
                }
                object.into()
            }
            _ => self.any(),
        }
    }

    fn any(&mut self) -> Value {
        match self.random.u8(0..9) {
            0 => Value::Null,
            1 => self.random.bool().into(),
            2 => self.number(&Value::Null),
            3 => self.id(),
            4 => json!([self.text(), self.id()]),
            5 => json!({self.text(): self.text()}),
            6 => "x".repeat(self.random.usize(0..100_000)).into(),
            7 => (0..self.random.usize(0..200)).fold(Value::Null, |inner, _| json!([inner])),
            _ => self.text().into(),
        }
    }

    fn number(&mut self, schema: &Value) -> Value {
        let bounds = ["minimum", "maximum", "default"].map(|name| schema[name].clone());
        let odd = [0.into(), 1.into(), (-1).into(), (1_u64 << 53).into(), u64::MAX.into()];
        let odd = odd.into_iter().chain([json!(1e308), json!(-1e308), json!(5e-324), json!(0.5)]);
        let all: Vec<_> = bounds.into_iter().filter(|bound| !bound.is_null()).chain(odd).collect();
        self.random.choice(all).unwrap()
    }

    fn text(&mut self) -> String {
        match self.random.u8(0..20) {
            0 => "ab".repeat(self.random.usize(0..40_000)),
            1 => (0..self.random.usize(0..40)).map(|_| self.random.char(..)).collect(),
            2 => format!("{} {}", self.text(), self.text()),
            _ => (*self.random.choice(TEXTS).unwrap()).to_owned(),
        }
    }

    fn id(&mut self) -> Value {
        let last = self.random.u32(0..4);
        let unknown = format!("0192d3a4-5b6c-7def-8123-45678900000{last}");
        let known = self.random.choice(&self.ids).filter(|_| last > 0);
        known.cloned().unwrap_or(unknown).into()
    }

    /// The bytes of a body; sometimes with changes.
    fn body(&mut self, text: String) -> Vec<u8> {
        let whole = vec![text.into_bytes()];
        if self.one_in(15) { changed(&mut self.random, &whole) } else { whole.concat() }
    }

    fn one_in(&mut self, times: u8) -> bool {
        self.random.u8(0..times) == 0
    }
}

/// Percent-encoded as a part of a path or of a query.
fn encoded(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b'-' | b'.' | b'_' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => {
            char::from(byte).to_string()
        }
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(byte).collect()
}

/// What a header may have of a text.
fn in_header(text: &str) -> String {
    text.chars().filter(|char| (' '..='~').contains(char)).take(2_000).collect()
}

/// Asserts that bytes from a node tell nothing of what is protected, nor of the node's inside.
#[track_caller]
pub(super) fn assert_tells_nothing(sent: &dyn Display, received: &str) {
    for word in [SECRET].iter().chain(&INSIDE) {
        assert!(!received.contains(word), "{word} in the response to {sent}: {received}");
    }
}

/// Asserts that a response is one that clients know.
#[track_caller]
pub(super) fn assert_documented(sent: &dyn Display, status: u16, body: &str) {
    assert!(status < 500 || status == 503, "{status} {body} to {sent}");
    if status >= 400 {
        let error: Value = serde_json::from_str(body).unwrap_or_default();
        let has_all = ["error", "message", "request_id"].iter().all(|name| error[name].is_string());
        // MCP reports an error of JSON-RPC so.
        let of_mcp = &error["error"];
        let is_of_mcp = of_mcp["code"].is_i64() && of_mcp["data"]["request_id"].is_string();
        assert!(has_all || is_of_mcp, "{status} {body} to {sent}");
    }
}
