//! `hearth open`: the dashboard in a browser, signed in with the key of a profile.
//!
//! The browser gets the key by a redirect from a listener on loopback. Other users of the machine see the
//! arguments of a process, so these have no key, but a random path. The listener responds once, to a process
//! of the same user (on Linux, where the system tells).

use std::net::SocketAddr;
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
/// Longest head of a request.
const HEAD_BYTES_MAX: u64 = 16 << 10;

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

/// Leads the first request for `path` to `address`. Others get 404, and other users nothing.
async fn redirect_once(listener: &TcpListener, path: &str, address: &str) {
    loop {
        let Ok((stream, peer)) = listener.accept().await else { continue };
        if !is_own(peer) {
            continue;
        }
        if timeout(REQUEST_TIMEOUT, respond(stream, path, address)).await == Ok(Some(true)) {
            return;
        }
    }
}

/// Whether the process at the other end of a connection on loopback is one of the same user.
#[cfg(target_os = "linux")]
fn is_own(peer: SocketAddr) -> bool {
    // Each line: number, local address, remote address, state, queues, timer, retransmits, user, …
    let SocketAddr::V4(peer) = peer else { return false };
    let local = format!("{:08X}:{:04X}", u32::from_ne_bytes(peer.ip().octets()), peer.port());
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap_or_default();
    let user = table.lines().find_map(|line| {
        let mut fields = line.split_whitespace().skip(1);
        (fields.next() == Some(&local)).then(|| fields.nth(5)).flatten()
    });
    user == Some(&rustix::process::getuid().as_raw().to_string())
}

#[cfg(not(target_os = "linux"))]
fn is_own(_: SocketAddr) -> bool {
    true
}

/// Responds to a request. Returns whether it was for `path`; `None` if the connection ended.
async fn respond(mut stream: TcpStream, path: &str, address: &str) -> Option<bool> {
    let mut head = String::new();
    let mut lines = BufReader::new((&mut stream).take(HEAD_BYTES_MAX));
    // The whole head: what is unread at the end would break the connection.
    while lines.read_line(&mut head).await.ok()? > 2 {}
    let is_right = head.split(' ').nth(1) == Some(path);
    let status = match is_right {
        true => format!("303 See Other\r\nLocation: {address}\r\nReferrer-Policy: no-referrer"),
        false => "404 Not Found".to_owned(),
    };
    let response = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    stream.write_all(response.as_bytes()).await.ok()?;
    stream.shutdown().await.ok()?;
    Some(is_right)
}
