//! Hot context equals a full sort of all memories. The upper bound of the heats of a chunk is
//! cached between reads. It must never exclude one of the hottest memories.

use storage::model::score::rounded;

use crate::common::brute::hottest;
use crate::common::*;

const COUNT: u16 = 3_000;
const MINUTE: i64 = 60 * Timestamp::SECOND_MICROS;

fn id(number: u16) -> MemoryId {
    // The order of ids is not the order of creation.
    memory_id(u32::from(number.wrapping_mul(40_503)) << 16 | u32::from(number))
}

fn expected(engine: &Engine, pinned_first: bool) -> Vec<MemoryId> {
    let all = (0..COUNT).filter_map(|number| engine.reader.get(TENANT, id(number)).unwrap());
    let all = all.map(|found| {
        let pinned = pinned_first && found.memory.is_pinned;
        (pinned, rounded(found.heat), found.memory.updated_at, found.id)
    });
    hottest(all.collect())
}

fn compare(engine: &Engine, case: &str) {
    for pinned_first in [false, true] {
        let request = HotRequest { pinned_first, limit: 10, ..HotRequest::default() };
        let found = engine.reader.hottest(TENANT, &request).unwrap();
        let found: Vec<_> = found.into_iter().map(|found| found.id).collect();
        assert_eq!(found, expected(engine, pinned_first), "{case}, pinned first: {pinned_first}");
    }
    let request = ListRequest { limit: 10, ..ListRequest::default() };
    let page = engine.reader.list(TENANT, &request).unwrap();
    assert_eq!(page.total, usize::from(COUNT), "{case}");
}

#[test]
fn hot_context_equals_a_full_sort() {
    let mut engine = Engine::bootstrapped(DIMENSION, Options::default());
    for number in 0..COUNT {
        let mut new = new_memory(id(number), "x");
        let bits = random(u64::from(number));
        // Many heats are close together, so no upper bound excludes a chunk.
        new.initial_heat = if bits.is_multiple_of(2) { 0.9 } else { 0.8 };
        new.memory_type = MemoryType::ALL[(bits >> 8) as usize % 6];
        new.decay_class = DecayClass::ALL[(bits >> 16) as usize % 4];
        new.is_pinned = (bits >> 24).is_multiple_of(200);
        engine.run(i64::from(number) + 1, &[create(new)]);
    }
    let mut now = i64::from(COUNT) + 1;
    for round in 0..40_u64 {
        compare(&engine, &format!("round {round}"));
        now += [1, MINUTE / 2, 5 * MINUTE, 300 * MINUTE][random(round) as usize % 4];
        let change = |salt: u64| random(round * 7 + salt);
        let patch = match change(1) % 4 {
            0 => MemoryPatch { current_heat: Some(0.95), ..MemoryPatch::default() },
            1 => MemoryPatch { current_heat: Some(0.1), ..MemoryPatch::default() },
            2 => MemoryPatch { is_pinned: Some(change(2) % 2 == 0), ..MemoryPatch::default() },
            _ => MemoryPatch { namespace: Some("other".into()), ..MemoryPatch::default() },
        };
        // Updates hit several chunks, so the hottest memories are not only in the newest chunk.
        let update = |salt| {
            let chosen = id((change(salt) % u64::from(COUNT)) as u16);
            command(UpdateMemory { id: chosen, patch: patch.clone().into() })
        };
        engine.run(now, &(3..9).map(update).collect::<Vec<_>>());
        compare(&engine, &format!("round {round}, after the updates"));
    }
}
