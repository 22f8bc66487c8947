//! `hearth debug bundle`: one text file with what a report of a fault needs. A person can read it before it
//! leaves the machine. It has no key, no certificate and no text of a memory.

use std::collections::VecDeque;
use std::fmt::{Display, Write as _};
use std::fs::File;
use std::io::{BufRead, BufReader, Write as _};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use jiff::Timestamp;
use reqwest::Method;
use serde_json::Value;

use crate::check;
use crate::cli::operator::OperatorClient;
use crate::config::Config;
use crate::credentials::read_operator_key;
use crate::error::unusable;
use crate::failure::Failure;
use crate::program::{COMMIT, VERSION};

/// Lines at the end of a log.
const LOG_LINES: usize = 500;
/// Files of the data folder whose sizes are listed.
const FILES_MAX: usize = 1_000;
/// What the operating system says of the process and the machine.
const SYSTEM_FILES: [&str; 5] =
    ["/proc/version", "/proc/loadavg", "/proc/meminfo", "/proc/self/cgroup", "/etc/os-release"];

/// Arguments of `hearth debug`.
#[derive(Subcommand)]
pub(crate) enum Debug {
    /// Write what a report of a fault needs into one text file, without keys and texts of memories
    Bundle(Bundle),
}

#[derive(Args)]
pub(crate) struct Bundle {
    /// The configuration file of the node
    #[arg(long)]
    config: PathBuf,
    /// A file with the log of the node, or - for standard input: journalctl --unit hearth
    #[arg(long)]
    log: Option<PathBuf>,
    /// The file to write
    #[arg(long, default_value = "hearth-debug.txt")]
    out: PathBuf,
}

impl Debug {
    /// `environment` overrides keys of the configuration.
    pub(crate) async fn run(
        self,
        environment: impl Iterator<Item = (String, String)>,
    ) -> Result<(), Failure> {
        let Self::Bundle(bundle) = self;
        bundle.write(environment).await
    }
}

/// The text, section by section.
struct Text(String);

impl Text {
    fn section(&mut self, title: &str, content: impl Display) {
        let content = content.to_string();
        // Writing to a text cannot fail.
        let _ = writeln!(self.0, "== {title}\n{}\n", content.trim_end());
    }
}

impl Bundle {
    #[expect(clippy::print_stdout, reason = "the output of the command")]
    async fn write(
        self,
        environment: impl Iterator<Item = (String, String)>,
    ) -> Result<(), Failure> {
        let environment: Vec<_> = environment.collect();
        let config = Config::load(&self.config, environment.iter().cloned())?;
        let mut bundle = Text(String::new());
        let now = Timestamp::now();
        bundle.section("hearth", format!("version {VERSION}, commit {COMMIT}, at {now}"));
        // It has names of files in place of keys. A URL of backups has no credentials.
        let read = std::fs::read_to_string(&self.config).map_err(unusable(&self.config))?;
        let mut settings: toml::Table = read.parse().map_err(unusable(&self.config))?;
        // The query of a URL may have a key.
        for name in ["reranker", "extractor"] {
            let section = settings.get_mut(name);
            if let Some(toml::Value::String(url)) = section.and_then(|it| it.get_mut("url")) {
                url.truncate(url.find('?').unwrap_or(url.len()));
            }
        }
        bundle.section("configuration", settings);
        let names = environment.iter().map(|(name, _)| name.as_str());
        let set: Vec<_> = names.filter(|name| name.starts_with("HEARTH__")).collect();
        bundle.section("variables over it", set.join("\n"));
        for (name, result) in check::check(&config).await {
            let (sign, text) = result.map_or_else(|wrong| ('-', wrong), |found| ('+', found));
            bundle.section(&format!("check of {name}"), format!("[{sign}] {text}"));
        }
        add_node(&mut bundle, &config).await?;
        bundle.section("files of the data folder", files(&config.node.data));
        for path in SYSTEM_FILES {
            bundle.section(path, std::fs::read_to_string(path).unwrap_or_else(|it| it.to_string()));
        }
        if let Some(log) = &self.log {
            bundle.section("end of the log", end_of_log(log)?);
        }
        let mut file = File::create(&self.out).map_err(unusable(&self.out))?;
        file.write_all(bundle.0.as_bytes()).map_err(unusable(&self.out))?;
        println!(
            "{} has no key and no text of a memory. Read it before you send it: it names",
            self.out.display()
        );
        println!("machines, folders, and the keys and tenants of requests in the log.");
        Ok(())
    }
}

/// What the node says, if it runs.
async fn add_node(bundle: &mut Text, config: &Config) -> Result<(), Failure> {
    let key = config.operator.key_file.as_deref().map(read_operator_key);
    let key = key.and_then(Result::ok).map(|(_, text)| text).unwrap_or_default();
    let operator = OperatorClient::new(format!("http://{}", config.operator.listen), key)?;
    for path in ["/readyz?verbose", "/api/v1/status", "/metrics"] {
        let said = operator.probe(path).await;
        bundle.section(path, said.map_or_else(|failure| failure.to_string(), |(_, text)| text));
    }
    for path in
        ["/cluster", "/cluster/local", "/cluster/clock", "/cluster/model", "/cluster/metrics"]
    {
        let said = operator.request(Method::GET, path, None).await;
        let said: Result<String, _> = said.map(|value: Value| format!("{value:#}"));
        bundle.section(path, said.unwrap_or_else(|failure| failure.to_string()));
    }
    Ok(())
}

/// Paths and sizes of files, from the folder on.
fn files(folder: &Path) -> String {
    let (mut lines, mut ahead) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = ahead.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else {
            lines.push(format!("{} cannot be read", folder.display()));
            continue;
        };
        for entry in entries.flatten() {
            match entry.metadata() {
                Ok(found) if found.is_dir() => ahead.push(entry.path()),
                Ok(found) => lines.push(format!("{:>14} {}", found.len(), entry.path().display())),
                Err(error) => lines.push(format!("{}: {error}", entry.path().display())),
            }
        }
    }
    lines.sort_unstable();
    lines.truncate(FILES_MAX);
    lines.join("\n")
}

fn end_of_log(path: &Path) -> Result<String, String> {
    let log: Box<dyn BufRead> = match path == Path::new("-") {
        true => Box::new(std::io::stdin().lock()),
        false => Box::new(BufReader::new(File::open(path).map_err(unusable(path))?)),
    };
    // A log may be larger than memory.
    let mut end = VecDeque::with_capacity(LOG_LINES);
    for line in log.split(b'\n') {
        if end.len() == LOG_LINES {
            end.pop_front();
        }
        end.push_back(String::from_utf8_lossy(&line.map_err(unusable(path))?).into_owned());
    }
    Ok(Vec::from(end).join("\n"))
}
