//! What a configuration would do: a look ahead over the columns. Changes nothing.

use crate::engine::Reader;
use crate::model::id::{TenantId, Timestamp};
use crate::model::thermo::Thermo;
use crate::search::scan::{Filter, scan};

/// The memories of one type in the hot tier.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ColdForecast {
    /// All of them.
    pub total: u64,
    /// Those below the configuration's `cold_threshold`, one count for each day asked for.
    pub cold: Vec<u64>,
}

impl Reader {
    /// How many memories of each type, in the order of `MemoryType::ALL`, would be cold
    /// under `thermo` so many `days` from now.
    pub fn forecast_cold(
        &self,
        tenant: TenantId,
        thermo: &Thermo,
        days: &[u32],
    ) -> [ColdForecast; 6] {
        let engine = self.engine();
        let none = ColdForecast { total: 0, cold: vec![0; days.len()] };
        let mut types = std::array::from_fn(|_| none.clone());
        let Some(index) = engine.registry.tenant(tenant) else { return types };
        let now = engine.position.read().clock;
        scan(&index, &Filter::default(), None, None, now, |candidates| {
            for (_, row) in candidates.each() {
                let counts = &mut types[row.properties().memory_type() as usize];
                counts.total += 1;
                for (days, cold) in days.iter().zip(&mut counts.cold) {
                    let then = Timestamp(now.0 + i64::from(*days) * Timestamp::DAY_MICROS);
                    *cold += u64::from(thermo.is_cold(row.heat_under(thermo, then)));
                }
            }
        });
        types
    }
}
