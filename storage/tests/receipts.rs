//! The most keyed writes that one API key may send for ever: 2,000 per second, here a thousandth of it
//! with a thousandth of the receipts.
#![cfg(feature = "failpoints")]

use storage::model::receipt::{RECEIPTS_MAX, ReceiptRequest};

use crate::common::*;

const SCALE: u64 = 1_000;
const PER_SECOND: i64 = 2;
const HOURS: i64 = 3;

#[test]
fn keyed_writes_are_accepted_for_ever() {
    fail::cfg("receipts-max", &format!("return({})", RECEIPTS_MAX / SCALE)).unwrap();
    let mut engine = Engine::bootstrapped(DIMENSION, Options::default());
    engine.run(1, &[create(new_memory(memory_id(1_u16), "kept"))]);
    let patch = MemoryPatch { is_pinned: Some(false), ..MemoryPatch::default() };
    let mut most = 0;
    for second in 0..HOURS * 3_600 {
        let write = |part: i64| {
            let mut key = [0; 32];
            key[..8].copy_from_slice(&(second * PER_SECOND + part).to_be_bytes());
            let receipt = Some(ReceiptRequest { key, body_hash: [0; 32] });
            let update = UpdateMemory { id: memory_id(1_u16), patch: patch.clone().into() };
            Command { receipt, actor: Some(KeyId([0; 8])), ..command(update) }
        };
        let writes: Vec<_> = (0..PER_SECOND).map(write).collect();
        // Each must be accepted.
        engine.run((second + 2) * Timestamp::SECOND_MICROS, &writes);
        most = most.max(engine.reader.counts(TENANT).receipts);
    }
    assert!(most <= RECEIPTS_MAX / SCALE / 2, "{most} receipts of one key");
    assert!(most > 1_200, "{most}: those of ten minutes are kept");
}
