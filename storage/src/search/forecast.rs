//! Forecast: how many memories would be cold under a configuration after some days. One scan
//! over the columns, changes nothing.

use crate::engine::Engine;
use crate::model::id::{TenantId, Timestamp};
use crate::model::thermo::Thermo;
use crate::search::filter::Filter;
use crate::search::scan::scan;

/// Forecast for the hot-tier memories of one type.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ColdForecast {
    /// All memories.
    pub total: u64,
    /// Memories below the configuration's `cold_threshold`, one count per requested day.
    pub cold: Vec<u64>,
}

/// Forecast per memory type, in the order of `MemoryType::ALL`, for each number of `days` from
/// now.
pub(crate) fn forecast_cold(
    engine: &Engine,
    tenant: TenantId,
    thermo: &Thermo,
    days: &[u32],
) -> [ColdForecast; 6] {
    let none = ColdForecast { total: 0, cold: vec![0; days.len()] };
    let mut types = std::array::from_fn(|_| none.clone());
    let Some(index) = engine.registry.tenant(tenant) else { return types };
    let now = engine.clock();
    scan(&index, &Filter::default(), None, None, now, |candidates| {
        for (_, row) in candidates.iter() {
            let counts = &mut types[row.attributes().memory_type() as usize];
            counts.total += 1;
            for (days, cold) in days.iter().zip(&mut counts.cold) {
                let then = Timestamp(now.0 + i64::from(*days) * Timestamp::DAY_MICROS);
                *cold += u64::from(thermo.is_cold(row.heat_under(thermo, then)));
            }
        }
    });
    types
}
