//! Runs a search: finds the best memories with a [`SearchPlan`] and reads them from the state.
//! In the cold tier it also spreads scores along edges (one step of spreading activation).

use std::collections::{HashMap, HashSet};

use model::edge::SUPERSEDES;
use model::id::{MemoryId, TenantId, Timestamp};
use model::memory::Memory;
use model::score::{Evidence, Factors, Passed, RecallWeights};
use model::temporal::Window;
use model::thermo::Thermo;

use crate::error::Result;
use crate::reader::Reader;
use crate::search::context::{Found, Ran};
use crate::search::filter::{TextRoom, TierFilter};
use crate::search::query::{Hit, SearchPlan, SearchRequest, SearchResults, Traversal};
use crate::search::top_k::TopK;
use crate::span::child;
use crate::table::view::View;

/// Results whose edges are followed, best first.
const SEEDS_MAX: usize = 10;
/// Edges followed per result, strongest first.
const EDGES_MAX: usize = 16;
/// Share of a result's score that an edge of weight 1 passes on.
const DAMPING: f64 = 0.5;

impl Reader {
    /// The best results of a search, as far as their texts fit. None for unknown tenants.
    pub fn search(&self, tenant: TenantId, request: &SearchRequest) -> Result<SearchResults> {
        let engine = self.engine();
        let Some(index) = engine.registry.tenant(tenant) else {
            return Ok(SearchResults::default());
        };
        // A vector of another model has no meaning here. The words find something.
        let dimension = index.read().dimension();
        let without_vector;
        let cluster = engine.registry.cluster();
        let is_other = request
            .model
            .is_some_and(|model| cluster.is_none_or(|cluster| cluster.model.id != model));
        let request = match &request.vector {
            Some(vector) if vector.len() != dimension || is_other => {
                without_vector = SearchRequest { vector: None, ..request.clone() };
                &without_vector
            }
            _ => request,
        };
        let now = engine.clock();
        let thermo = engine.thermo(tenant);
        let mut weights = thermo.recall;
        weights.similarity_weight *= request.reading.trust();
        let plan = child("plan").in_scope(|| SearchPlan::new(&index, request, weights, now));
        let exact_max = engine.registry.exact_max;
        let Ran { mut best, mut archived, used_graph } = plan.run(exact_max);
        self.searches().count(used_graph);
        if let Some(inside) = plan.window_request() {
            let first = SearchPlan::new(&index, &inside, weights, now).run(exact_max);
            archived = first.archived;
            best = first_of_all(first.best, best, request.found_max());
        }
        let window_first = plan.window.as_ref().filter(|_| plan.window_first);
        let reading = child("rows").entered();
        let snapshot = engine.state.snapshot();
        let mut hits = Vec::new();
        for (id, Found { factors, passed }) in best {
            let record = snapshot.memory_record(tenant, id, &thermo, now)?;
            let score = factors.fused(&weights);
            let record = record.filter(|record| request.filter.matches(&record.memory));
            let (factors, via) = (Some(factors), None);
            hits.extend(record.map(|record| Hit {
                record,
                score,
                factors,
                passed,
                weights,
                via,
                relevance: None,
            }));
        }
        if request.filter.tier == TierFilter::Cold {
            traverse(&snapshot, tenant, request, &thermo, weights, now, &mut hits)?;
            order(&mut hits, window_first);
            hits.truncate(request.found_max());
        }
        drop(reading);
        hits.retain(|hit| request.min_score.is_none_or(|lowest| hit.score >= lowest));
        let cold_matches = cold_matches(archived, request, &hits, &weights, window_first);
        let mut room = TextRoom::default();
        let fitting = hits.iter().take_while(|hit| room.take(&hit.record.memory)).count();
        hits.truncate(fitting);
        let (window_first, window) = (plan.window_first, plan.window);
        let reading = (!request.query.trim().is_empty()).then_some(request.reading);
        Ok(SearchResults { hits, window_first, window, reading, cold_matches })
    }
}

/// Number of archived memories that may answer the query and would be among the results.
fn cold_matches(
    archived: TopK<Factors>,
    request: &SearchRequest,
    hits: &[Hit],
    weights: &RecallWeights,
    window_first: Option<&Window>,
) -> usize {
    let is_first = |hit: &&Hit| {
        window_first.is_none_or(|window| window.contains(hit.record.memory.happened_at()))
    };
    let matches = |(place, factors): (usize, Factors)| {
        let score = factors.fused(weights);
        let better = hits.iter().filter(is_first).filter(|hit| hit.score >= score).count();
        place + better < request.limit
            && request.min_score.is_none_or(|lowest| score >= lowest)
            && (window_first.is_some() || Evidence::of(&factors, request.reading) > Evidence::None)
    };
    let archived = archived.into_sorted().map(|(_, factors)| factors).enumerate();
    archived.filter(|it| matches(*it)).count()
}

/// `first`, then the rest of `all`. Each memory once, `limit` at most.
fn first_of_all(
    mut first: Vec<(MemoryId, Found)>,
    all: Vec<(MemoryId, Found)>,
    limit: usize,
) -> Vec<(MemoryId, Found)> {
    let ids: HashSet<_> = first.iter().map(|(id, _)| *id).collect();
    first.extend(all.into_iter().filter(|(id, _)| !ids.contains(id)));
    first.truncate(limit);
    first
}

/// Orders results by score, of equal ones the newest first; those of `window` come first.
fn order(hits: &mut [Hit], window: Option<&Window>) {
    let is_outside =
        |hit: &Hit| window.is_some_and(|it| !it.contains(hit.record.memory.happened_at()));
    hits.sort_by(|left, right| {
        let by_window = is_outside(left).cmp(&is_outside(right));
        by_window
            .then(right.score.total_cmp(&left.score))
            .then(right.record.id.cmp(&left.record.id))
    });
}

/// Whether a memory exists and is open to the caller.
fn is_open(
    rows: &impl View,
    tenant: TenantId,
    request: &SearchRequest,
    id: &MemoryId,
) -> Result<bool> {
    let access = &request.filter.access;
    let is_allowed = |memory: Memory| access.allows(&memory.namespace);
    Ok(access.is_unrestricted() || rows.memory(tenant, *id)?.is_some_and(is_allowed))
}

/// Adds memories reached over edges to `hits`, each memory once. A memory
/// connected to a result gets a share of that result's score if this exceeds its own score.
fn traverse(
    rows: &impl View,
    tenant: TenantId,
    request: &SearchRequest,
    thermo: &Thermo,
    weights: RecallWeights,
    now: Timestamp,
    hits: &mut Vec<Hit>,
) -> Result<()> {
    let mut reached: HashMap<MemoryId, Traversal> = HashMap::new();
    for seed in hits.iter().take(SEEDS_MAX) {
        let edges = rows.edges(tenant, seed.record.id)?.into_iter();
        // What a memory replaces is not related to it.
        let mut followed = 0;
        for edge in edges.filter(|edge| edge.relation != SUPERSEDES) {
            // Edges to closed memories must not take the places of others.
            if followed == EDGES_MAX
                || !is_open(rows, tenant, request, &edge.other(seed.record.id))?
            {
                continue;
            }
            followed += 1;
            let via = Traversal {
                seed: seed.record.id,
                seed_score: seed.score,
                edge_weight: f64::from(edge.weight),
                damping: DAMPING,
            };
            let best = reached.entry(edge.other(seed.record.id)).or_insert(via);
            if via.score() > best.score() {
                *best = via;
            }
        }
    }
    for hit in hits.iter_mut() {
        if let Some(via) = reached.remove(&hit.record.id)
            && via.score() > hit.score
        {
            (hit.score, hit.via) = (via.score(), Some(via));
            (hit.factors, hit.passed) = (None, Passed::default());
        }
    }
    for (id, via) in reached {
        let record = rows.memory_record(tenant, id, thermo, now)?;
        let record = record.filter(|record| request.filter.matches(&record.memory));
        hits.extend(record.map(|record| Hit {
            record,
            score: via.score(),
            factors: None,
            passed: Passed::default(),
            weights,
            via: Some(via),
            relevance: None,
        }));
    }
    Ok(())
}
