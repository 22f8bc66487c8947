//! Runs a search: finds the best memories with a [`SearchPlan`], reads them from the state,
//! and follows edges in the cold tier.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::engine::Engine;
use crate::error::Result;
use crate::model::id::TenantId;
use crate::search::filter::TierFilter;
use crate::search::plan::SearchPlan;
use crate::search::query::{Hit, SearchRequest, SearchResults};
use crate::search::traverse::traverse;
use crate::table::view::View;

/// Numbers of executed searches.
#[derive(Debug, Default)]
pub struct SearchCounters {
    exact: AtomicU64,
    by_graph: AtomicU64,
}

impl SearchCounters {
    fn count(&self, used_graph: bool) {
        let counter = if used_graph { &self.by_graph } else { &self.exact };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Searches that scanned all matching memories.
    pub fn exact(&self) -> u64 {
        self.exact.load(Ordering::Relaxed)
    }

    /// Searches that used a graph.
    pub fn by_graph(&self) -> u64 {
        self.by_graph.load(Ordering::Relaxed)
    }
}

/// Runs a search. Without results for unknown tenants.
pub(crate) fn search(
    engine: &Engine,
    counters: &SearchCounters,
    tenant: TenantId,
    request: &SearchRequest,
) -> Result<SearchResults> {
    let Some(index) = engine.registry.tenant(tenant) else { return Ok(SearchResults::default()) };
    let now = engine.clock();
    let thermo = engine.thermo(tenant);
    let weights = thermo.recall;
    let plan = SearchPlan::new(&index, request, weights, now);
    let (best, used_graph) = plan.run(engine.registry.exact_max());
    counters.count(used_graph);
    let snapshot = engine.state.snapshot();
    let mut hits = Vec::new();
    for (id, factors) in best.into_sorted() {
        let record = snapshot.memory_record(tenant, id, &thermo, now)?;
        let score = factors.fused(&weights);
        let record = record.filter(|record| request.filter.matches(&record.memory));
        let (factors, via) = (Some(factors), None);
        hits.extend(record.map(|record| Hit { record, score, factors, weights, via }));
    }
    if request.filter.tier == TierFilter::Cold {
        traverse(&snapshot, tenant, request, (&thermo, now), &mut hits)?;
    }
    Ok(SearchResults { hits, window: plan.window().cloned() })
}
