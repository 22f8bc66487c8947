//! The data of a measurement: texts to store, texts to search for.

use std::sync::Arc;
use std::time::Instant;

use tests::engine::GOLDEN_GAMMA;
use tests::{Cluster, Value, array, id, json};

const TOPICS: u64 = 5_000;
/// Memories per batch of [`Work::fill`].
const BATCH: u64 = 50;
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
            Some(texts) => texts[number as usize % texts.len()].clone(),
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
                let others = texts.len() as u64 - self.memories;
                let text = self.label(self.memories + number % others);
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
            let numbers = first..self.memories.min(first + BATCH);
            let nodes: Vec<Value> = numbers.map(|number| self.memory(number)).collect();
            let body = json!({"nodes": nodes});
            let created = self.cluster.post("/agent/nodes/batch", &body).await;
            ids.extend(array(&created["results"]).iter().map(|item| id(item).to_owned()));
        }
        let seconds = started.elapsed().as_secs_f64();
        eprintln!("stored {} memories in {seconds:.1} s", self.memories);
        ids
    }
}

pub fn label(number: u64) -> String {
    let topic = number.wrapping_mul(GOLDEN_GAMMA) >> 32;
    format!("memory {number} speaks of topic{} and of group{}", topic % TOPICS, number % 50)
}
