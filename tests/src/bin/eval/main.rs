//! The quality of search: how often one of the first results answers a question. Five sets
//! of questions, each in two halves: choose values by `dev`, and believe `test`.
//!
//! `eval --set recall.context_weight=0` measures other settings, and `eval --steps` also measures the ranking
//! without each of its steps, and by similarity alone. docs/search.md has the results.

mod chats;
mod conversations;
mod definitions;
mod languages;
mod notes;
mod vectors;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use api::TextRole;
use clap::Parser;
use serde_json::json;
use storage::model::id::Timestamp;
use storage::model::vector::{Vector, normalised};
use storage::text::Step;
use storage::{Filter, NewMemory, Options, SearchRequest, SearchResults};
use tests::engine::{Engine, MODEL, TENANT, configure, memory_id, new_memory};

use crate::vectors::{DIMENSION, Vectors};

/// Results per search.
const LIMIT: usize = 100;

/// Measures how many questions the first results of a search answer.
#[derive(Parser)]
struct Arguments {
    /// A setting of the tenant, such as recall.context_weight=0. Repeatable.
    #[arg(long = "set", value_parser = setting)]
    settings: Vec<(String, f64)>,
    /// Leaves out a step of the ranking. Repeatable.
    #[arg(long, value_parser = step)]
    without: Vec<Step>,
    /// Measures only sets whose names begin so. Repeatable.
    #[arg(long)]
    only: Vec<String>,
    /// Ranks by similarity alone.
    #[arg(long)]
    cosine: bool,
    /// Prints how often each level of evidence is stated, where the answer is and where it is not.
    #[arg(long)]
    evidence: bool,
    /// Prints the sets as lines of JSON, for other programs: first the model, and then each set. Embeds all of their texts.
    #[arg(long)]
    print_sets: bool,
    /// Folder of another model.
    #[arg(long)]
    model: Option<PathBuf>,
    /// Measures nothing: prints the mean of the model's vectors of the lines of a file, in thousandths. Its manifest
    /// must have no mean yet.
    #[arg(long, requires = "model")]
    mean: Option<PathBuf>,
    /// Then measures also without each step, and by similarity alone.
    #[arg(long, conflicts_with_all = ["settings", "without", "only", "cosine"])]
    steps: bool,
}

fn step(name: &str) -> Result<Step, String> {
    let found = Step::ALL.into_iter().find(|(known, _)| *known == name);
    found.map(|(_, step)| step).ok_or_else(|| "no step".into())
}

fn setting(text: &str) -> Result<(String, f64), String> {
    let (name, value) = text.split_once('=').ok_or("name=value")?;
    Ok((name.into(), value.parse().map_err(|error| format!("{error}"))?))
}

/// Memories and questions about them.
#[derive(Default)]
pub(crate) struct Set {
    /// Namespace and text of each memory, in the order of creation.
    pub(crate) memories: Vec<(String, String)>,
    pub(crate) questions: Vec<Question>,
}

pub(crate) struct Question {
    /// Heading of its row in the table.
    pub(crate) kind: &'static str,
    pub(crate) is_test: bool,
    pub(crate) text: String,
    /// Namespace that is searched.
    pub(crate) namespace: String,
    /// Numbers of the memories that answer it.
    pub(crate) answers: Vec<usize>,
}

/// Sums over the questions of a row.
#[derive(Default)]
struct Sums {
    questions: f64,
    any_1: f64,
    any_5: f64,
    any_10: f64,
    reciprocal_rank: f64,
    ndcg_10: f64,
}

impl Sums {
    /// Adds the ranks, from 0, at which a search found answers.
    fn add(&mut self, ranks: &[usize], answers: usize) {
        let first = ranks.first().copied().unwrap_or(usize::MAX);
        let within = |count: usize| f64::from(u8::from(first < count));
        let gain = |rank: usize| 1.0 / ((rank + 2) as f64).log2();
        let best: f64 = (0..answers.min(10)).map(gain).sum();
        self.questions += 1.0;
        self.any_1 += within(1);
        self.any_5 += within(5);
        self.any_10 += within(10);
        self.reciprocal_rank += if first < LIMIT { 1.0 / (first + 1) as f64 } else { 0.0 };
        let found = ranks.iter().filter(|rank| **rank < 10);
        self.ndcg_10 += found.map(|rank| gain(*rank)).sum::<f64>() / best;
    }

    fn row(&self) -> String {
        let percent = |sum: f64| format!("{:.1}", 100.0 * sum / self.questions);
        let sums = [self.any_1, self.any_5, self.any_10, self.reciprocal_rank, self.ndcg_10];
        format!("{} | {}", self.questions, sums.map(percent).join(" | "))
    }
}

fn main() {
    let arguments = Arguments::parse();
    for step in &arguments.without {
        step.leave_out();
    }
    if arguments.steps {
        return measure_steps(arguments.model.as_deref());
    }
    if let Some(texts) = &arguments.mean {
        return print_mean(texts, Vectors::open(arguments.model.as_deref()));
    }
    if arguments.print_sets {
        return print_sets(Vectors::open(arguments.model.as_deref()));
    }
    let heading = match arguments.evidence {
        true => "| questions about | half | searched | none | weak | strong |",
        false => "| questions about | half | number | any@1 | any@5 | any@10 | MRR | nDCG@10 |",
    };
    println!("{heading}\n|{}", "---|".repeat(heading.matches(" | ").count() + 1));
    let mut settings = arguments.settings;
    if arguments.cosine {
        let zeros = ["heat_weight", "keyword_weight", "temporal_max_boost", "context_weight"];
        settings.extend(zeros.map(|name| (format!("recall.{name}"), 0.0)));
    }
    let mut vectors = Vectors::open(arguments.model.as_deref());
    for set in sets() {
        let kind = set.questions[0].kind;
        if !arguments.only.is_empty() && !arguments.only.iter().any(|name| kind.starts_with(name)) {
            continue;
        }
        let engine = filled(&set, &settings, &mut vectors);
        match arguments.evidence {
            true => print_evidence(&set, &engine, &mut vectors),
            false => print_ranks(&set, &engine, &mut vectors),
        }
    }
}

fn half(is_test: bool) -> &'static str {
    if is_test { "test" } else { "dev" }
}

/// Prints a table for each variant. Each has a process of its own: stems of words are cached.
fn measure_steps(model: Option<&Path>) {
    let run = |heading: &str, options: &[&str]| {
        println!("\n{heading}\n");
        let program = std::env::current_exe().expect("a path");
        let mut command = std::process::Command::new(program);
        command.args(options).args(model.iter().flat_map(|it| [Path::new("--model"), it]));
        let status = command.status();
        assert!(status.expect("it starts").success(), "{heading}");
    };
    run("All steps", &[]);
    run("Evidence", &["--evidence"]);
    run("Similarity alone", &["--cosine"]);
    run("Without context", &["--set", "recall.context_weight=0"]);
    for (name, _) in Step::ALL {
        run(&format!("Without {name}"), &["--without", name]);
    }
}

fn sets() -> Vec<Set> {
    let mut sets = vec![conversations::utterances(), definitions::set(), notes::set()];
    sets.extend([conversations::scenes(), definitions::lists(), languages::set()]);
    match chats::messages() {
        Some(set) => sets.push(set),
        None => eprintln!("eval: without the agent chats: HEARTH_CHATS names no file"),
    }
    sets
}

/// Prints what a model's `mean.f32` contains: of the texts as queries and as passages.
fn print_mean(texts: &Path, mut vectors: Vectors) {
    let texts = std::fs::read_to_string(texts).expect("a file of texts");
    let (mut mean, count) = ([0.0; DIMENSION], 2 * texts.lines().count());
    for text in texts.lines() {
        for role in [TextRole::Query, TextRole::Passage] {
            let vector = normalised(&vectors.of(role, text)).expect("a direction");
            mean.iter_mut().zip(vector).for_each(|(sum, it)| *sum += it / count as f32);
        }
    }
    mean.iter().for_each(|component| println!("{:.0}", component * 1_000.0));
}

fn print_sets(mut vectors: Vectors) {
    println!("{}", json!({"model": vectors.model()}));
    for Set { memories, questions } in sets() {
        memories.iter().for_each(|(_, text)| drop(vectors.of(TextRole::Passage, text)));
        questions.iter().for_each(|question| drop(vectors.of(TextRole::Query, &question.text)));
        let question = |Question { kind, is_test, text, namespace, answers }: &Question| {
            json!({"kind": kind, "half": half(*is_test), "text": text, "namespace": namespace,
                "answers": answers})
        };
        let questions: Vec<_> = questions.iter().map(question).collect();
        println!("{}", json!({"memories": memories, "questions": questions}));
    }
}

/// An engine with the memories of a set.
fn filled(set: &Set, settings: &[(String, f64)], vectors: &mut Vectors) -> Engine {
    let mut engine = Engine::bootstrapped(DIMENSION, Options::default());
    let changes: Vec<_> = settings.iter().map(|(name, value)| configure(name, *value)).collect();
    engine.run(1, &changes);
    let all_answers: BTreeSet<_> = set.questions.iter().flat_map(|it| &it.answers).collect();
    let memory = |number: usize, id: usize, namespace: String, vectors: &mut Vectors| {
        let text = &set.memories[number].1;
        let vector =
            Vector::quantise(MODEL, &vectors.of(TextRole::Passage, text)).expect("a direction");
        let memory = new_memory(memory_id(id as u64), text);
        NewMemory { vector, namespace, initial_heat: 0.8, ..memory }
    };
    let count = set.memories.len();
    let mut memories = Vec::new();
    for (number, (namespace, _)) in set.memories.iter().enumerate() {
        memories.push(memory(number, number, namespace.clone(), vectors));
    }
    for (number, (namespace, _)) in set.memories.iter().enumerate() {
        if !all_answers.contains(&number) {
            memories.push(memory(number, count + number, without_answers(namespace), vectors));
        }
    }
    engine.fill(Timestamp::SECOND_MICROS, memories);
    engine
}

/// The namespace with the memories of another one that answer no question.
fn without_answers(namespace: &str) -> String {
    format!("{namespace}-without")
}

fn search(
    question: &Question,
    namespace: String,
    engine: &Engine,
    vectors: &mut Vectors,
) -> SearchResults {
    let request = SearchRequest {
        query: question.text.clone(),
        vector: Some(vectors.of(TextRole::Query, &question.text)),
        reading: vectors.conventions.reading(&question.text),
        filter: Filter { namespace: Some(namespace), ..Filter::default() },
        limit: LIMIT,
        ..SearchRequest::default()
    };
    engine.reader.search(TENANT, &request).expect("it is read")
}

fn print_ranks(set: &Set, engine: &Engine, vectors: &mut Vectors) {
    let mut rows: BTreeMap<_, Sums> = BTreeMap::new();
    for question in &set.questions {
        let hits = search(question, question.namespace.clone(), engine, vectors).hits;
        let is_answer = |id| question.answers.iter().any(|at| memory_id(*at as u64) == id);
        let ranks = hits.iter().enumerate().filter(|(_, hit)| is_answer(hit.record.id));
        let ranks: Vec<_> = ranks.map(|(rank, _)| rank).collect();
        let row = rows.entry((question.kind, question.is_test)).or_default();
        row.add(&ranks, question.answers.len());
    }
    for ((kind, is_test), sums) in rows {
        println!("| {kind} | {} | {} |", half(is_test), sums.row());
    }
}

/// How often each level is stated if the answer is there, if it is missing, and in another namespace.
fn print_evidence(set: &Set, engine: &Engine, vectors: &mut Vectors) {
    let namespaces: BTreeSet<_> = set.memories.iter().map(|(namespace, _)| namespace).collect();
    let namespaces: Vec<_> = namespaces.into_iter().collect();
    let mut rows: BTreeMap<_, [f64; 3]> = BTreeMap::new();
    for question in &set.questions {
        let own = &question.namespace;
        let place = namespaces.iter().position(|it| *it == own).expect("it has memories");
        let other = namespaces[(place + 1) % namespaces.len()];
        let mut places = vec![("its namespace", own.clone())];
        if set.memories.len() > set.questions.len() {
            places.push(("its namespace without answers", without_answers(own)));
        }
        if other != own {
            places.push(("another namespace", other.clone()));
        }
        for (at, (place, namespace)) in places.into_iter().enumerate() {
            let results = search(question, namespace, engine, vectors);
            let row = rows.entry((question.kind, question.is_test, at, place)).or_default();
            row[results.evidence().expect("it has words") as usize] += 1.0;
        }
    }
    for ((kind, is_test, _, place), counts) in rows {
        let all: f64 = counts.iter().sum();
        let shares = counts.map(|count| format!("{:.1}", 100.0 * count / all)).join(" | ");
        println!("| {kind} | {} | {place} | {shares} |", half(is_test));
    }
}
