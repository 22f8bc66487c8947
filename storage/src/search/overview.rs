//! Overview of a tenant: counts, average heat, heat bands. One scan over the columns.

use std::collections::BTreeMap;

use crate::engine::Engine;
use crate::model::id::{MemoryId, TenantId, Timestamp};
use crate::model::memory::Tier;
use crate::search::filter::{Filter, TierFilter};
use crate::search::scan::scan;
use crate::search::top_k::ordered_f64;

/// Lower bounds of the heat bands, hottest first.
pub const HEAT_BANDS: [f64; 5] = [0.80, 0.50, 0.25, 0.10, 0.0];

/// Counts and averages over the memories of a tenant.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Overview {
    /// Memories in the hot tier.
    pub hot: u64,
    /// Memories in the cold tier.
    pub cold: u64,
    /// Pinned memories.
    pub pinned: u64,
    /// Memories flagged for review.
    pub flagged: u64,
    /// Mean heat of the hot tier. 0 if it is empty.
    pub average_heat: f64,
    /// Memories of the hot tier per band of [`HEAT_BANDS`].
    pub bands: [u64; HEAT_BANDS.len()],
    /// Memories per type, both tiers, in the order of `MemoryType::ALL`.
    pub types: [u64; 6],
    /// Memories per namespace, both tiers.
    pub namespaces: BTreeMap<String, u64>,
    /// Bytes of all labels and stored vectors.
    pub bytes: u64,
    /// Creation time of the oldest memory.
    pub oldest: Option<Timestamp>,
    /// Creation time of the newest memory.
    pub newest: Option<Timestamp>,
    /// The coldest memory of the hot tier.
    pub coldest: Option<MemoryId>,
}

/// Overview of the memories that match `filter`. Its tier is ignored: both tiers count.
pub(crate) fn overview(engine: &Engine, tenant: TenantId, filter: &Filter) -> Overview {
    let mut overview = Overview::default();
    let Some(index) = engine.registry.tenant(tenant) else { return overview };
    let now = engine.clock();
    let filter = Filter { tier: TierFilter::All, ..filter.clone() };
    let mut heat_sum = 0.0;
    // The lowest heat and id. Slots differ between nodes, so they must not break ties.
    let mut coldest: Option<(u64, MemoryId)> = None;
    let mut namespaces: BTreeMap<u32, u64> = BTreeMap::new();
    scan(&index, &filter, None, None, now, |candidates| {
        for (_, row) in candidates.iter() {
            let attributes = row.attributes();
            overview.types[attributes.memory_type() as usize] += 1;
            overview.pinned += u64::from(attributes.is_pinned());
            overview.flagged += u64::from(attributes.is_flagged());
            overview.bytes += row.bytes();
            *namespaces.entry(attributes.namespace()).or_default() += 1;
            let at = row.created_at();
            overview.oldest = Some(overview.oldest.map_or(at, |oldest| oldest.min(at)));
            overview.newest = overview.newest.max(Some(at));
            if attributes.tier() == Tier::Cold {
                overview.cold += 1;
                continue;
            }
            let heat = row.heat(now);
            overview.hot += 1;
            heat_sum += heat;
            let band = HEAT_BANDS.iter().position(|lowest| heat >= *lowest);
            overview.bands[band.unwrap_or(HEAT_BANDS.len() - 1)] += 1;
            let candidate = (ordered_f64(heat), row.id());
            coldest = Some(coldest.map_or(candidate, |coldest| coldest.min(candidate)));
        }
    });
    overview.coldest = coldest.map(|(_, id)| id);
    if overview.hot > 0 {
        overview.average_heat = heat_sum / overview.hot as f64;
    }
    let data = index.read();
    for (number, count) in namespaces {
        // A namespace that lost its last memory since the scan has no name.
        if let Some(name) = data.namespace_name(number) {
            overview.namespaces.insert(name.to_owned(), count);
        }
    }
    overview
}
