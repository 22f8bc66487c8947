//! `hearth open`: the dashboard in a browser, signed in with the key of a profile.
//!
//! The browser gets the key by a redirect from a listener on loopback, which responds once, at an address
//! that cannot be guessed. Other users of the machine see the arguments of a process, so these have no key.

use std::process::{Command, Stdio};
use std::time::Duration;

use clap::Args;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use uuid::Uuid;

use crate::client::access::Access;
use crate::client::print::print;
use crate::error::{cannot, text};
use crate::failure::Failure;

/// What opens an address in the browser of the person.
const DEFAULT_PROGRAM: &str = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
/// Time limit until the browser requests the address.
const BROWSER_TIMEOUT: Duration = Duration::from_secs(60);
/// Time limit of one of its connections.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest first line of a request.
const LINE_BYTES_MAX: u64 = 1_024;

/// Arguments of `hearth open`.
#[derive(Args)]
pub(crate) struct Open {
    /// Print the address in place of opening it. It contains the key
    #[arg(long)]
    print: bool,
    #[command(flatten)]
    access: Access,
}

impl Open {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let connection = self.access.connect()?;
        // The node that is opened serves requests, and the key is valid.
        let _: Value = connection.get("/auth/verify", &[]).await?;
        let (url, key) = connection.endpoint();
        let address = format!("{url}/dashboard#key={key}");
        if self.print {
            return print(&address);
        }
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.map_err(cannot("listen"))?;
        let path = format!("/{}", Uuid::new_v4());
        start_browser(&format!("http://{}{path}", listener.local_addr().map_err(text)?))?;
        print(&format!("The browser opens {url}/dashboard."))?;
        match timeout(BROWSER_TIMEOUT, redirect_once(&listener, &path, &address)).await {
            Ok(()) => Ok(()),
            Err(_) => Err("no browser came. `hearth open --print` prints the address".into()),
        }
    }
}

/// Starts `$BROWSER`, which may have arguments, or the one of the system.
fn start_browser(address: &str) -> Result<(), String> {
    let command = std::env::var("BROWSER").unwrap_or_default();
    let mut words = command.split_whitespace();
    let program = words.next().unwrap_or(DEFAULT_PROGRAM);
    let mut browser = Command::new(program);
    browser.args(words).arg(address);
    browser.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let failed = |error| {
        format!("cannot start {program}: {error}. `hearth open --print` prints the address")
    };
    browser.spawn().map(drop).map_err(failed)
}

/// Leads the first request for `path` to `address`. Others get 404.
async fn redirect_once(listener: &TcpListener, path: &str, address: &str) {
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        if timeout(REQUEST_TIMEOUT, respond(stream, path, address)).await == Ok(Some(true)) {
            return;
        }
    }
}

/// Responds to a request. Returns whether it was for `path`; `None` if the connection ended.
async fn respond(mut stream: TcpStream, path: &str, address: &str) -> Option<bool> {
    let mut line = String::new();
    BufReader::new((&mut stream).take(LINE_BYTES_MAX)).read_line(&mut line).await.ok()?;
    let is_right = line.split(' ').nth(1) == Some(path);
    let head = match is_right {
        true => format!("303 See Other\r\nLocation: {address}\r\nReferrer-Policy: no-referrer"),
        false => "404 Not Found".to_owned(),
    };
    let response = format!("HTTP/1.1 {head}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    stream.write_all(response.as_bytes()).await.ok()?;
    stream.shutdown().await.ok()?;
    Some(is_right)
}
