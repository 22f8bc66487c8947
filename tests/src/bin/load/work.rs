//! The data of a measurement: texts to store, texts to search for.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use tests::engine::{GOLDEN_GAMMA, random};
use tests::{Cluster, Value, array, id, json};

const TOPICS: u64 = 5_000;
/// Memories per batch of [`Work::fill`].
pub const BATCH: u64 = 50;
/// Kinds of texts with other last words.
const ROUNDS: usize = 16;
/// Texts that are searched for at least.
const QUERIES_MIN: u64 = 1_000;
/// Words of a text that a search takes.
const QUERY_WORDS: usize = 8;

/// What is measured, and with which texts.
pub struct Work {
    pub cluster: Arc<Cluster>,
    pub texts: Option<Vec<String>>,
    pub memories: u64,
}

impl Work {
    fn label(&self, number: u64) -> String {
        match &self.texts {
            Some(texts) => varied(texts, number as usize),
            None => label(number),
        }
    }

    pub fn memory(&self, number: u64) -> Value {
        let heat = (number.wrapping_mul(GOLDEN_GAMMA) >> 11) as f64 / (1_u64 << 53) as f64;
        match &self.texts {
            Some(_) => json!({"label": self.label(number), "initial_heat": heat}),
            None => json!({"label": self.label(number)}),
        }
    }

    pub fn query(&self, number: u64) -> String {
        match &self.texts {
            Some(texts) => {
                let others = (texts.len() as u64).saturating_sub(self.memories);
                let text = self.label(self.memories + number % others.max(QUERIES_MIN));
                text.split_whitespace().take(QUERY_WORDS).collect::<Vec<_>>().join(" ")
            }
            None => format!("what of topic{} in group{}", number % TOPICS, number % 50),
        }
    }

    /// Stores the memories and returns their ids.
    pub async fn fill(&self) -> Vec<String> {
        let started = Instant::now();
        let mut ids = Vec::new();
        for first in (0..self.memories).step_by(BATCH as usize) {
            ids.extend(self.store(first..self.memories.min(first + BATCH)).await);
        }
        let seconds = started.elapsed().as_secs_f64();
        eprintln!("stored {} memories in {seconds:.1} s", self.memories);
        ids
    }

    /// Stores memories as one batch and returns their ids.
    pub async fn store(&self, numbers: Range<u64>) -> Vec<String> {
        let nodes: Vec<Value> = numbers.map(|number| self.memory(number)).collect();
        let created = self.cluster.post("/agent/nodes/batch", &json!({"nodes": nodes})).await;
        array(&created["results"]).iter().map(|item| id(item).to_owned()).collect()
    }
}

/// A text. Numbers behind the last one stand for texts with other last words.
fn varied(texts: &[String], number: usize) -> String {
    let (round, text) = (number / texts.len() % ROUNDS, &texts[number % texts.len()]);
    if round == 0 {
        return text.clone();
    }
    let other = &texts[random(number as u64) as usize % texts.len()];
    let kept = text.split_whitespace().count().saturating_sub(round);
    let last = other.split_whitespace().take(2 * round);
    text.split_whitespace().take(kept).chain(last).collect::<Vec<_>>().join(" ")
}

pub fn label(number: u64) -> String {
    let topic = number.wrapping_mul(GOLDEN_GAMMA) >> 32;
    format!("memory {number} speaks of topic{} and of group{}", topic % TOPICS, number % 50)
}
