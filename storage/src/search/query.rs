//! Search, as it is asked and answered. How the best are found is `plan`'s business.

use crate::engine::{Reader, thermo};
use crate::error::Result;
use crate::model::id::{MemoryId, TenantId};
use crate::model::memory::MemoryRecord;
use crate::model::score::Factors;
use crate::model::temporal::Window;
use crate::model::thermo::RecallWeights;
use crate::search::plan::Search;
use crate::search::scan::{Filter, TierFilter};
use crate::search::traverse::traverse;
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
    /// What its own score is made of; `None` for one that only an edge brought in.
    pub factors: Option<Factors>,
    /// The weights that was made with.
    pub weights: RecallWeights,
    /// The edge that gave it its score, if one did.
    pub via: Option<Traversal>,
}

/// An edge from another result that gave a result its score: the product of the numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Traversal {
    /// The other result.
    pub seed: MemoryId,
    /// Its own score.
    pub seed_score: f64,
    /// Weight of the edge.
    pub edge_weight: f64,
    /// Share that an edge of weight 1 hands on.
    pub damping: f64,
}

/// What a search found.
#[derive(Debug, Clone, Default)]
pub struct SearchResults {
    /// The best results, best first, ties by id.
    pub hits: Vec<Hit>,
    /// The time that the query names, if it names one.
    pub window: Option<Window>,
}

impl Reader {
    /// The best results of a search.
    ///
    /// # Errors
    /// When the state cannot be read.
    pub fn search(&self, tenant: TenantId, request: &SearchRequest) -> Result<SearchResults> {
        let engine = self.engine();
        let Some(index) = engine.registry.tenant(tenant) else {
            return Ok(SearchResults::default());
        };
        let now = engine.position.read().clock;
        let thermo = thermo(&engine, tenant);
        let weights = thermo.recall;
        let search = Search::new(&index, request, weights, now);
        let (best, by_graph) = search.best(engine.registry.exact_max());
        self.searches().count(by_graph);
        let rows = engine.state.at_once();
        let mut hits = Vec::new();
        for (id, factors) in best.into_sorted() {
            let record = rows.memory_record(tenant, id, &thermo, now)?;
            let score = factors.fused(&weights);
            let record = record.filter(|record| request.filter.still_passes(&record.memory));
            let (factors, via) = (Some(factors), None);
            hits.extend(record.map(|record| Hit { record, score, factors, weights, via }));
        }
        if request.filter.tier == TierFilter::Cold {
            traverse(&rows, tenant, request, (&thermo, now), &mut hits)?;
        }
        Ok(SearchResults { hits, window: search.window().cloned() })
    }
}
