//! `hearth open`: the dashboard in a browser, signed in with the key of a profile. The browser gets the
//! key from a file that only its owner reads: other users see the options of a process.

use std::process::{Command, Stdio};

use clap::Args;
use serde_json::Value;
use url::Url;

use crate::client::access::Access;
use crate::client::print::print;
use crate::client::profiles::write_beside;
use crate::error::text;
use crate::failure::Failure;

/// The page that leads to the dashboard, in the folder of the profiles.
const PAGE: &str = "open.html";

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
        // Characters that end an attribute are encoded.
        let address = Url::parse(&format!("{url}/dashboard#key={key}")).map_err(text)?;
        if self.print {
            return print(address.as_str());
        }
        let page = format!(
            "<!doctype html><title>Hearth</title><meta name=\"referrer\" content=\"no-referrer\">\
             <meta http-equiv=\"refresh\" content=\"0; url={address}\">\n"
        );
        let page = write_beside(PAGE, page.as_bytes())?;
        let program = std::env::var_os("BROWSER").filter(|program| !program.is_empty());
        let program = program.unwrap_or_else(|| DEFAULT_PROGRAM.into());
        let mut browser = Command::new(&program);
        browser.arg(page).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        browser.spawn().map_err(|error| {
            let program = program.display();
            format!("cannot start {program}: {error}. `hearth open --print` prints the address")
        })?;
        print(&format!("The browser opens {url}/dashboard."))
    }
}

/// What opens a file in the browser of the person.
const DEFAULT_PROGRAM: &str = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
