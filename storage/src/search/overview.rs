//! Analytics of a tenant, each by one scan over the columns: counts, average heat and heat
//! bands now, and how many memories would be cold under a configuration after some days.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use model::id::{MemoryId, TenantId, Timestamp};
use model::memory::{MemoryType, Tier};
use model::thermo::Thermo;

use crate::reader::Reader;
use crate::search::filter::{Filter, TierFilter};
use crate::search::scan::scan;
use crate::search::tick_scan::is_archivable;
use crate::search::top_k::ordered_f64;

/// Lower bounds of the heat bands, hottest first.
pub const HEAT_BANDS: [f64; 5] = [0.80, 0.50, 0.25, 0.10, 0.0];

/// Maximum number of namespaces in an [`Overview`].
pub const NAMESPACES_MAX: usize = 1_000;

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
    pub types: [u64; MemoryType::ALL.len()],
    /// Number of namespaces with memories.
    pub namespace_count: usize,
    /// Memories per namespace, both tiers: of the [`NAMESPACES_MAX`] with the most memories.
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

/// What a configuration would do to the memories of the hot tier.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Forecast {
    /// Per type, in the order of `MemoryType::ALL`.
    pub types: [ColdForecast; MemoryType::ALL.len()],
    /// Memories that the next tick would archive.
    pub archived: u64,
}

/// Forecast for the hot-tier memories of one type.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ColdForecast {
    /// All memories.
    pub total: u64,
    /// Memories below the configuration's `cold_threshold`, one count per requested day.
    pub cold: Vec<u64>,
}

impl Reader {
    /// Counts and averages over the memories that match `filter`, in both tiers.
    pub fn overview(&self, tenant: TenantId, filter: &Filter) -> Overview {
        let mut overview = Overview::default();
        let engine = self.engine();
        let Some(index) = engine.registry.tenant(tenant) else { return overview };
        let now = engine.clock();
        let filter = Filter { tier: TierFilter::All, ..filter.clone() };
        let mut heat_sum = 0.0;
        // The lowest heat and id. Slots differ between nodes, so they must not break ties.
        let mut coldest: Option<(u64, MemoryId)> = None;
        let mut namespaces: BTreeMap<u32, u64> = BTreeMap::new();
        scan(&index, &filter, now, |candidates| {
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
        overview.namespace_count = namespaces.len();
        let data = index.read();
        // A namespace that lost its last memory since the scan has no name.
        let named = |(number, count)| Some((Reverse(count), data.namespaces.name(number)?));
        let mut named: Vec<_> = namespaces.into_iter().filter_map(named).collect();
        if named.len() > NAMESPACES_MAX {
            named.select_nth_unstable(NAMESPACES_MAX);
            named.truncate(NAMESPACES_MAX);
        }
        let owned = named.into_iter().map(|(Reverse(count), name)| (name.to_owned(), count));
        overview.namespaces = owned.collect();
        overview
    }

    /// Forecast for the memories of the hot tier that match `filter`, after each number of `days`.
    pub fn forecast(
        &self,
        tenant: TenantId,
        filter: &Filter,
        thermo: &Thermo,
        days: &[u32],
    ) -> Forecast {
        let none = ColdForecast { total: 0, cold: vec![0; days.len()] };
        let mut types = std::array::from_fn(|_| none.clone());
        let engine = self.engine();
        let Some(index) = engine.registry.tenant(tenant) else {
            return Forecast { types, archived: 0 };
        };
        let now = engine.clock();
        let mut long_cold = 0;
        scan(&index, filter, now, |candidates| {
            for (_, row) in candidates.iter() {
                let counts = &mut types[row.attributes().memory_type() as usize];
                counts.total += 1;
                for (days, cold) in days.iter().zip(&mut counts.cold) {
                    let then = Timestamp(now.0 + i64::from(*days) * Timestamp::DAY_MICROS);
                    *cold += u64::from(thermo.is_cold(row.heat_under(thermo, then)));
                }
                long_cold += u64::from(is_archivable(row, thermo, now));
            }
        });
        let hot = types.iter().map(|counts| counts.total).sum();
        Forecast { types, archived: thermo.consolidation.archived(hot, long_cold) }
    }
}
