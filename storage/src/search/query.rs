//! Search: every memory that passes the filter is scored exactly by the
//! interface's formula, and the best are returned.

use crate::engine::{Reader, thermo};
use crate::error::Result;
use crate::model::id::TenantId;
use crate::model::memory::MemoryRecord;
use crate::model::score::Factors;
use crate::model::sq8::Code;
use crate::model::thermo::RecallWeights;
use crate::model::vector::dot;
use crate::model::words::subject_words;
use crate::search::best::{Best, of_f64};
use crate::search::scan::{Filter, Query, scan};
use crate::table::view::View;

/// A search.
#[derive(Debug, Clone, Default)]
pub struct SearchRequest {
    /// The query's text, for its words; may be empty.
    pub query: String,
    /// Unit vector of the query; `None` (an empty query) makes all similarities 0.
    pub vector: Option<Vec<f32>>,
    /// Which memories.
    pub filter: Filter,
    /// The asking agent's namespace, whose memories are boosted.
    pub home_namespace: Option<String>,
    /// Most results.
    pub limit: usize,
}

/// One result.
#[derive(Debug, Clone)]
pub struct Hit {
    /// The memory.
    pub record: MemoryRecord,
    /// Its score, rounded to 1e-6.
    pub score: f64,
    /// What the score is made of.
    pub factors: Factors,
    /// The weights it was made with.
    pub weights: RecallWeights,
}

impl Reader {
    /// The best results of a search, best first, ties by id.
    ///
    /// # Errors
    /// When the state cannot be read.
    pub fn search(&self, tenant: TenantId, request: &SearchRequest) -> Result<Vec<Hit>> {
        let engine = self.engine();
        let Some(index) = engine.registry.tenant(tenant) else { return Ok(Vec::new()) };
        let now = engine.position.read().clock;
        let thermo = thermo(&engine, tenant);
        let weights = thermo.recall;
        let words = subject_words(&request.query);
        let (words, home) = {
            let inner = index.read();
            let home = request.home_namespace.as_deref().and_then(|name| inner.namespace(name));
            (inner.weigh(words), home)
        };
        let rank = |factors: &Factors| [of_f64(factors.fused(&weights)), 0, 0];
        let mut best = Best::new(request.limit);
        let code = request.vector.as_deref().map(Code::of);
        let query = Query { words: Some(&words), code: code.as_ref() };
        // No weight is negative, so a score only rises with similarity and with heat:
        // neither is computed for what cannot be kept at its highest.
        scan(&index, &request.filter, query, now, |seen| {
            let at_home = home == Some(seen.properties.namespace);
            let mut factors = Factors {
                similarity: f64::from(seen.similarity_ceiling),
                heat: seen.heat_ceiling.into(),
                keyword_overlap: seen.overlap,
                // Queries are not read for times yet.
                temporal_boost: 0.0,
                namespace_boost: if at_home { weights.namespace_boost } else { 0.0 },
            };
            if best.refuses(rank(&factors)) {
                return;
            }
            if let Some(query) = &request.vector {
                factors.similarity = f64::from(dot(query, seen.vector()).clamp(-1.0, 1.0));
            }
            if best.refuses(rank(&factors)) {
                return;
            }
            factors.heat = seen.heat(now);
            best.offer(rank(&factors), seen.id(), || factors);
        });
        let rows = engine.state.at_once();
        let mut hits = Vec::new();
        for (id, factors) in best.into_sorted() {
            let record = rows.memory_record(tenant, id, &thermo, now)?;
            let score = factors.fused(&weights);
            let record = record.filter(|record| request.filter.still_passes(&record.memory));
            hits.extend(record.map(|record| Hit { record, score, factors, weights }));
        }
        Ok(hits)
    }
}
