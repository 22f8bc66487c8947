//! `hearth export` and `hearth import`: what a tenant holds, in a file of lines of JSON, or as Markdown for
//! reading. A file without its last line, or with a wrong checksum, is not complete.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use clap::{Args, ValueEnum};
use futures::{StreamExt, TryStreamExt, stream};
use indicatif::{ProgressBar, ProgressStyle};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use storage::model::memory::NAMESPACE_DEFAULT;

use crate::client::access::Client;
use crate::client::connection::{Connection, parse};
use crate::client::foreign::{Conversion, Reject, Source, convert, source_of};
use crate::client::print::{harmless, print, print_json};
use crate::error::{cannot, text, unusable};
use crate::failure::{Exit, Failure};

/// Lines and bytes of a request. A node embeds their texts before it responds, within the time that the
/// connection gives it.
const PART_LINES: usize = 100;
const PART_BYTES: usize = 512 << 10;
/// Requests at a time: while one is stored, the next one is embedded.
const PARTS_AT_ONCE: usize = 2;
/// Rejected lines that are printed.
const REJECTED_MAX: usize = 20;

/// Arguments of `hearth export`.
#[derive(Args)]
pub(crate) struct Export {
    /// The file to write, or the folder with --format markdown
    out: PathBuf,
    #[arg(long, short)]
    namespace: Option<String>,
    /// Write the vectors too: a cluster with the same model then does not embed again
    #[arg(long)]
    vectors: bool,
    #[arg(long, value_enum, default_value_t = Form::Jsonl)]
    format: Form,
    #[command(flatten)]
    client: Client,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    /// Lines of JSON, which `hearth import` reads
    Jsonl,
    /// A file of Markdown for each memory, to read
    Markdown,
}

/// The last line of an export.
#[derive(Deserialize)]
struct End {
    memories: u64,
    edges: u64,
    triggers: u64,
    sha256: String,
}

impl Export {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let connection = self.client.connect()?;
        let mut query = Vec::new();
        let namespace = connection.namespace(self.namespace.clone());
        query.extend(namespace.map(|name| ("namespace", name)));
        query.extend(self.vectors.then(|| ("vectors", "true".to_owned())));
        let response = connection.stream("/export", |request| request.query(&query)).await?;
        let mut chunks = response.bytes_stream();
        let (mut rest, mut check) = (Vec::new(), Check::default());
        let mut sink = Sink::open(&self.out, self.format)?;
        let bar = ProgressBar::new_spinner().with_style(style("{pos} lines")?);
        while let Some(chunk) = chunks.next().await {
            rest.extend_from_slice(&chunk.map_err(|_| incomplete())?);
            while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = rest.drain(..=end).collect();
                check.add(&line)?;
                sink.write(&line)?;
                bar.inc(1);
            }
        }
        bar.finish_and_clear();
        let End { memories, edges, triggers, sha256 } = check.finish()?;
        sink.finish()?;
        if self.client.is_json() {
            return print_json(&json!({"memories": memories, "edges": edges, "triggers": triggers,
                "sha256": sha256, "path": self.out}));
        }
        print(&format!(
            "{memories} memories, {edges} edges and {triggers} triggers are in {}.",
            self.out.display()
        ))
    }
}

fn incomplete() -> Failure {
    Failure::new(Exit::Unavailable, "the node ended before the export was complete: repeat it")
}

fn style(template: &str) -> Result<ProgressStyle, Failure> {
    Ok(ProgressStyle::with_template(template).map_err(text)?)
}

/// Verifies the numbers and the checksum of an export.
#[derive(Default)]
struct Check {
    hash: Sha256,
    has_header: bool,
    end: Option<End>,
}

impl Check {
    /// Adds a line with its end. Returns its kind.
    fn add(&mut self, line: &[u8]) -> Result<String, Failure> {
        let object: Value = serde_json::from_slice(line).map_err(|_| "a line is no JSON")?;
        let kind = object.as_object().and_then(|object| object.keys().next().cloned());
        let kind = kind.unwrap_or_default();
        match kind.as_str() {
            "hearth_export" => self.has_header = true,
            "end" => self.end = Some(parse(object["end"].clone())?),
            _ => self.hash.update(line),
        }
        Ok(kind)
    }

    fn finish(self) -> Result<End, Failure> {
        let end = self.end.filter(|_| self.has_header).ok_or_else(incomplete)?;
        match hex::encode(self.hash.finalize()) == end.sha256 {
            true => Ok(end),
            false => Err("the checksum of the export is wrong: it was changed, or cut".into()),
        }
    }
}

/// Where an export goes.
enum Sink {
    /// A file beside the target, which it replaces at the end.
    Lines(BufWriter<File>, PathBuf, PathBuf),
    Markdown(PathBuf),
}

impl Sink {
    fn open(out: &Path, form: Form) -> Result<Self, Failure> {
        if form == Form::Markdown {
            std::fs::create_dir_all(out).map_err(unusable(out))?;
            return Ok(Self::Markdown(out.to_owned()));
        }
        let mut part = out.as_os_str().to_owned();
        part.push(".part");
        let part = PathBuf::from(part);
        let file = File::create(&part).map_err(unusable(&part))?;
        Ok(Self::Lines(BufWriter::new(file), part, out.to_owned()))
    }

    fn write(&mut self, line: &[u8]) -> Result<(), Failure> {
        match self {
            Self::Lines(file, path, _) => Ok(file.write_all(line).map_err(unusable(path))?),
            Self::Markdown(folder) => write_markdown(folder, line),
        }
    }

    fn finish(self) -> Result<(), Failure> {
        let Self::Lines(file, part, out) = self else { return Ok(()) };
        let file = file.into_inner().map_err(text)?;
        file.sync_all().map_err(unusable(&part))?;
        Ok(std::fs::rename(&part, &out).map_err(cannot("rename the file"))?)
    }
}

/// Writes a memory as Markdown, with its other fields before the text. JSON is valid YAML there.
fn write_markdown(folder: &Path, line: &[u8]) -> Result<(), Failure> {
    let object: Value = serde_json::from_slice(line).map_err(text)?;
    let Value::Object(mut memory) = object["memory"].clone() else { return Ok(()) };
    let label = memory.remove("label").unwrap_or_default();
    memory.remove("vector");
    let id = memory["id"].as_str().unwrap_or_default().parse::<uuid::Uuid>().map_err(text)?;
    let mut content = "---\n".to_owned();
    for (name, value) in &memory {
        content += &format!("{name}: {value}\n");
    }
    content += &format!("---\n\n{}\n", label.as_str().unwrap_or_default());
    let path = folder.join(format!("{id}.md"));
    Ok(std::fs::write(&path, content).map_err(unusable(&path))?)
}

/// Arguments of `hearth import`.
#[derive(Args)]
pub(crate) struct Import {
    /// A file of `hearth export`, or of another product
    file: PathBuf,
    /// What the file holds; found out if absent
    #[arg(long, value_enum)]
    from: Option<Source>,
    /// Namespace of memories of other products that name none
    #[arg(long, short)]
    namespace: Option<String>,
    /// Validate all lines, and count what would be created
    #[arg(long)]
    dry_run: bool,
    /// Create also texts that a client has rejected as wrong
    #[arg(long)]
    include_rejected: bool,
    /// Write what does not come in to this file, a line of JSON each: its place, the reason, and the entry
    #[arg(long, value_name = "FILE")]
    rejects: Option<PathBuf>,
    #[command(flatten)]
    client: Client,
}

/// What became of the lines of a request.
#[derive(Default, Deserialize)]
struct Outcome {
    created: u64,
    present: u64,
    rejected: u64,
    errors: Vec<Rejected>,
}

#[derive(Deserialize)]
struct Rejected {
    line: usize,
    message: String,
}

/// What became of the entries of a file.
#[derive(Serialize)]
struct Summary {
    created: u64,
    present: u64,
    merged: usize,
    skipped: BTreeMap<&'static str, usize>,
    rejected: u64,
    errors: Vec<Reject>,
}

/// Lines of one kind, for one request.
struct ImportPart {
    kind: String,
    /// Number of the first line in the file, from 1.
    first: usize,
    lines: Vec<u8>,
    count: usize,
}

impl Import {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let connection = self.client.connect()?;
        let source = match self.from {
            Some(source) => source,
            None => source_of(&self.file)?,
        };
        let converted = tempfile::NamedTempFile::new().map_err(cannot("create a file"))?;
        let (file, total, conversion) = if source == Source::Hearth {
            (self.file.as_path(), complete_lines(&self.file)?, Conversion::default())
        } else {
            let namespace = connection.namespace(self.namespace);
            let namespace = namespace.as_deref().unwrap_or(NAMESPACE_DEFAULT);
            let mut out = BufWriter::new(converted.as_file());
            let conversion = convert(source, &self.file, namespace, &mut out)?;
            out.flush().map_err(cannot("write a file"))?;
            (converted.path(), conversion.places.len(), conversion)
        };
        let query = [
            ("dry_run", self.dry_run.to_string()),
            ("include_rejected", self.include_rejected.to_string()),
        ];
        let outcome = send_all(&connection, file, total, &query).await?;
        let Conversion { places, merged, skipped, rejects: mut errors, .. } = conversion;
        let rejected = outcome.rejected + errors.len() as u64;
        let entries = entries(file, &outcome.errors)?;
        for (Rejected { line, message }, entry) in outcome.errors.into_iter().zip(entries) {
            let place = places.get(line - 1).cloned().unwrap_or_else(|| format!("line {line}"));
            errors.push(Reject { place, reason: message, entry });
        }
        let Outcome { created, present, .. } = outcome;
        let summary = Summary { created, present, merged, skipped, rejected, errors };
        if let Some(path) = &self.rejects {
            let mut out = BufWriter::new(File::create(path).map_err(unusable(path))?);
            for reject in &summary.errors {
                writeln!(out, "{}", json!(reject)).map_err(unusable(path))?;
            }
            out.flush().map_err(unusable(path))?;
        }
        match self.client.is_json() {
            true => print_json(&json!(summary))?,
            false => summary.print(self.dry_run)?,
        }
        match rejected {
            _ if total == 0 => {
                let why = format!("nothing in {} can be imported", self.file.display());
                Err(Failure::new(Exit::Rejected, why))
            }
            0 => Ok(()),
            rejected => {
                Err(Failure::new(Exit::Rejected, format!("{rejected} entries were rejected")))
            }
        }
    }
}

/// Sends all lines of a file.
async fn send_all(
    connection: &Connection,
    file: &Path,
    total: usize,
    query: &[(&str, String)],
) -> Result<Outcome, Failure> {
    let bar = ProgressBar::new(total as u64).with_style(style("{wide_bar} {pos}/{len} lines")?);
    let mut all = Outcome::default();
    let mut parts = parts(file)?.peekable();
    // Edges need their memories: each kind waits for the one before.
    while let Some(first) = parts.next() {
        let first = first?;
        let kind = first.kind.clone();
        let is_same =
            |part: &Result<ImportPart, Failure>| part.as_ref().is_ok_and(|it| it.kind == kind);
        let others = std::iter::from_fn(|| parts.next_if(is_same));
        let same = stream::iter(std::iter::once(Ok(first)).chain(others));
        let mut sent = same.map(|part| send(connection, part, query)).buffered(PARTS_AT_ONCE);
        while let Some((count, outcome)) = sent.try_next().await? {
            bar.inc(count as u64);
            all.created += outcome.created;
            all.present += outcome.present;
            all.rejected += outcome.rejected;
            all.errors.extend(outcome.errors);
        }
    }
    bar.finish_and_clear();
    Ok(all)
}

impl Summary {
    /// Prints the numbers, and the first rejected entries by their places.
    fn print(&self, dry_run: bool) -> Result<(), Failure> {
        let Self { created, present, merged, skipped, rejected, errors } = self;
        let would = if dry_run { "would be created" } else { "created" };
        let mut numbers = format!("{created} {would}, {present} exist already");
        if *merged > 0 {
            numbers += &format!(", {merged} merged with others of the file");
        }
        for (reason, count) in skipped {
            numbers += &format!(", {count} skipped: {reason}");
        }
        print(&format!("{numbers}, {rejected} rejected."))?;
        for Reject { place, reason, .. } in errors.iter().take(REJECTED_MAX) {
            print(&harmless(&format!("{place}: {reason}")))?;
        }
        match rejected.saturating_sub(REJECTED_MAX as u64) {
            0 => Ok(()),
            more => print(&format!("… and {more} more; --rejects FILE has all of them")),
        }
    }
}

/// The entries of rejected lines, in their order.
fn entries(path: &Path, rejected: &[Rejected]) -> Result<Vec<Value>, Failure> {
    let lines: HashMap<_, _> =
        rejected.iter().enumerate().map(|(at, rejected)| (rejected.line, at)).collect();
    let mut entries = vec![Value::Null; rejected.len()];
    if lines.is_empty() {
        return Ok(entries);
    }
    let file = BufReader::new(File::open(path).map_err(unusable(path))?);
    for (number, line) in (1..).zip(file.lines()) {
        if let Some(at) = lines.get(&number) {
            let line = line.map_err(unusable(path))?;
            entries[*at] = serde_json::from_str(&line).unwrap_or_else(|_| line.into());
        }
    }
    Ok(entries)
}

/// Verifies that a file is a complete export. Returns the number of its lines.
fn complete_lines(path: &Path) -> Result<usize, Failure> {
    let mut file = BufReader::new(File::open(path).map_err(unusable(path))?);
    let (mut check, mut line, mut count) = (Check::default(), Vec::new(), 0);
    while file.read_until(b'\n', &mut line).map_err(unusable(path))? > 0 {
        count += 1;
        check.add(&line).map_err(|wrong| format!("line {count}: {wrong}"))?;
        line.clear();
    }
    check.finish().map(|_| count)
}

/// The requests of a file, read one by one.
fn parts(path: &Path) -> Result<impl Iterator<Item = Result<ImportPart, Failure>>, Failure> {
    let file = BufReader::new(File::open(path).map_err(unusable(path))?);
    let mut lines = file.split(b'\n').enumerate().peekable();
    let kind = |line: &[u8]| Check::default().add(line);
    let next = move || -> Result<Option<ImportPart>, Failure> {
        let mut part: Option<ImportPart> = None;
        while let Some((_, Ok(line))) = lines.peek() {
            let of_line = kind(line)?;
            let fits = part.as_ref().is_none_or(|part| {
                let has_room = part.lines.len() + line.len() < PART_BYTES;
                part.kind == of_line && part.count < PART_LINES && has_room
            });
            if !fits {
                break;
            }
            let Some((at, Ok(line))) = lines.next() else { break };
            let first = at + 1;
            let part = part.get_or_insert_with(|| ImportPart {
                kind: of_line,
                first,
                lines: Vec::new(),
                count: 0,
            });
            part.lines.extend_from_slice(&line);
            part.lines.push(b'\n');
            part.count += 1;
        }
        match lines.peek() {
            // The lines before are sent first.
            Some((_, Err(error))) if part.is_none() => Err(unusable(path)(error).into()),
            _ => Ok(part),
        }
    };
    let mut next = next;
    Ok(std::iter::from_fn(move || next().transpose()))
}

/// Sends a part. Returns its number of lines, and what became of them.
async fn send(
    connection: &Connection,
    part: Result<ImportPart, Failure>,
    query: &[(&str, String)],
) -> Result<(usize, Outcome), Failure> {
    let ImportPart { first, lines, count, .. } = part?;
    let lines = Bytes::from(lines);
    let mut outcome: Outcome = connection.post_lines("/import", query, &lines).await?;
    for error in &mut outcome.errors {
        error.line += first - 1;
    }
    Ok((count, outcome))
}
