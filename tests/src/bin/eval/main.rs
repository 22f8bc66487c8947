//! The quality of search: how often one of the first results answers a question. Five sets
//! of questions, each in two halves: choose values by `dev`, and believe `test`.
//!
//! `eval --set recall.context_weight=0` measures other settings. docs/search.md has the results.

mod conversations;
mod definitions;
mod notes;

use std::collections::BTreeMap;

use api::EmbedScope;
use clap::Parser;
use futures::executor::block_on;
use node::embed::{Pool, Session};
use storage::model::id::Timestamp;
use storage::model::vector::Vector;
use storage::{Filter, NewMemory, Options, SearchRequest};
use tests::engine::{Engine, MODEL, TENANT, configure, memory_id, new_memory};
use tests::installed_model;

const DIMENSION: usize = 384;
/// Results per search.
const LIMIT: usize = 100;

/// Measures how many questions the first results of a search answer.
#[derive(Parser)]
struct Arguments {
    /// A setting of the tenant, such as recall.context_weight=0. Repeatable.
    #[arg(long = "set", value_parser = setting)]
    settings: Vec<(String, f64)>,
}

fn setting(text: &str) -> Result<(String, f64), String> {
    let (name, value) = text.split_once('=').ok_or("name=value")?;
    Ok((name.into(), value.parse().map_err(|error| format!("{error}"))?))
}

/// Memories and questions about them.
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
    println!("| questions about | half | number | any@1 | any@5 | any@10 | MRR | nDCG@10 |");
    println!("|---|---|---:|---:|---:|---:|---:|---:|");
    let (manifest, runtime) = installed_model();
    let session = Session::open(runtime, manifest).expect("a session");
    let pool = Pool::start(manifest.model(), vec![Box::new(session)]);
    let embed = |text: &str| {
        let scope = EmbedScope { tenant: TENANT, key: None };
        block_on(pool.embed(scope, text.into())).expect("a vector").1
    };
    let short = [conversations::utterances(), definitions::set(), notes::set()];
    for set in short.into_iter().chain([conversations::scenes(), definitions::lists()]) {
        let mut rows: BTreeMap<(&str, bool), Sums> = BTreeMap::new();
        measure(&set, &arguments.settings, &embed, &mut rows);
        for ((kind, is_test), sums) in rows {
            let half = if is_test { "test" } else { "dev" };
            println!("| {kind} | {half} | {} |", sums.row());
        }
    }
}

fn measure(
    set: &Set,
    settings: &[(String, f64)],
    embed: &impl Fn(&str) -> Vec<f32>,
    rows: &mut BTreeMap<(&str, bool), Sums>,
) {
    let mut engine = Engine::bootstrapped(DIMENSION, Options::default());
    let changes: Vec<_> = settings.iter().map(|(name, value)| configure(name, *value)).collect();
    engine.run(1, &changes);
    let memories = set.memories.iter().enumerate().map(|(number, (namespace, text))| {
        let vector = Vector::quantise(MODEL, &embed(text)).expect("a direction");
        let memory = new_memory(memory_id(number as u64), text);
        NewMemory { vector, namespace: namespace.clone(), initial_heat: 0.8, ..memory }
    });
    let memories: Vec<_> = memories.collect();
    engine.fill(Timestamp::SECOND_MICROS, memories);
    for question in &set.questions {
        let namespace = Some(question.namespace.clone());
        let request = SearchRequest {
            query: question.text.clone(),
            vector: Some(embed(&question.text)),
            filter: Filter { namespace, ..Filter::default() },
            limit: LIMIT,
            ..SearchRequest::default()
        };
        let hits = engine.reader.search(TENANT, &request).expect("it is read").hits;
        let is_answer = |id| question.answers.iter().any(|at| memory_id(*at as u64) == id);
        let ranks = hits.iter().enumerate().filter(|(_, hit)| is_answer(hit.record.id));
        let ranks: Vec<_> = ranks.map(|(rank, _)| rank).collect();
        let row = rows.entry((question.kind, question.is_test)).or_default();
        row.add(&ranks, question.answers.len());
    }
}
