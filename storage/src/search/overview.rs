//! A tenant at a candidates: counts, averages, bands of heat. One scan over the columns.

use std::collections::BTreeMap;

use crate::engine::Reader;
use crate::model::id::{MemoryId, TenantId, Timestamp};
use crate::model::memory::Tier;
use crate::search::scan::{Filter, TierFilter, scan};
use crate::search::top_k::of_f64;

/// Lower bounds of the bands of heat, from the hottest down.
pub const HEAT_BANDS: [f64; 5] = [0.80, 0.50, 0.25, 0.10, 0.0];

/// What a tenant holds.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Overview {
    /// Memories in the hot tier.
    pub hot: u64,
    /// Memories in the cold tier.
    pub cold: u64,
    /// Pinned ones.
    pub pinned: u64,
    /// Flagged for review.
    pub flagged: u64,
    /// Mean heat of the hot tier, 0 without one.
    pub average_heat: f64,
    /// Memories of the hot tier in each band of [`HEAT_BANDS`].
    pub bands: [u64; HEAT_BANDS.len()],
    /// Memories of each type, both tiers, in the order of `MemoryType::ALL`.
    pub types: [u64; 6],
    /// Memories in each namespace, both tiers.
    pub namespaces: BTreeMap<String, u64>,
    /// Bytes of all labels, and of vectors as they are stored.
    pub bytes: u64,
    /// When the oldest memory was stored.
    pub oldest: Option<Timestamp>,
    /// And the newest.
    pub newest: Option<Timestamp>,
    /// The coldest memory of the hot tier.
    pub coldest: Option<MemoryId>,
}

impl Reader {
    /// What passes `filter` of what a tenant holds, both tiers.
    pub fn overview(&self, tenant: TenantId, filter: &Filter) -> Overview {
        let engine = self.engine();
        let mut overview = Overview::default();
        let Some(index) = engine.registry.tenant(tenant) else { return overview };
        let now = engine.position.read().clock;
        let filter = Filter { tier: TierFilter::All, ..filter.clone() };
        // Ties by id: slots differ from node to node.
        let (mut heats, mut coldest) = (0.0, None);
        let mut namespaces: BTreeMap<u32, u64> = BTreeMap::new();
        scan(&index, &filter, None, None, now, |candidates| {
            for (_, row) in candidates.each() {
                let properties = row.properties();
                overview.types[properties.memory_type() as usize] += 1;
                overview.pinned += u64::from(properties.is_pinned());
                overview.flagged += u64::from(properties.is_flagged());
                overview.bytes += row.bytes();
                *namespaces.entry(properties.namespace()).or_default() += 1;
                let at = row.created_at();
                overview.oldest = Some(overview.oldest.map_or(at, |oldest| oldest.min(at)));
                overview.newest = overview.newest.max(Some(at));
                if properties.tier() == Tier::Cold {
                    overview.cold += 1;
                    continue;
                }
                let heat = row.heat(now);
                overview.hot += 1;
                heats += heat;
                let band = HEAT_BANDS.iter().position(|least| heat >= *least);
                overview.bands[band.unwrap_or(HEAT_BANDS.len() - 1)] += 1;
                let candidate = (of_f64(heat), row.id());
                coldest = Some(coldest.map_or(candidate, |least: (u64, _)| least.min(candidate)));
            }
        });
        overview.coldest = coldest.map(|(_, id)| id);
        overview.average_heat = if overview.hot > 0 { heats / overview.hot as f64 } else { 0.0 };
        let inner = index.read();
        for (number, count) in namespaces {
            // One that ended meanwhile has no name any more.
            if let Some(name) = inner.namespace_name(number) {
                overview.namespaces.insert(name.to_owned(), count);
            }
        }
        overview
    }
}
