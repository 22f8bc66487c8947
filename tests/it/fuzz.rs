//! Fuzz targets on valid inputs, changed ones and random bytes: no input panics, breaks a property, or allocates
//! without bound. HEARTH_SEED varies them. `make soak` runs the same targets under libFuzzer.

use std::collections::BTreeSet;
use std::hint::black_box;
use std::panic::catch_unwind;
use std::path::Path;

use fastrand::Rng;
use storage::fuzz::Target;

use crate::setting;

/// Most bytes that one input of at most [`INPUT_BYTES_MAX`] may allocate at a time: a record, and
/// what is made of it.
const ALLOCATED_BYTES_MAX: u64 = 2 * storage::codec::RECORD_BYTES_MAX as u64;
/// Changed and random inputs of a target.
const INPUTS: u64 = 20_000;
/// Longest derived input.
const INPUT_BYTES_MAX: usize = 16 << 10;
/// Longest input without a seed.
const RANDOM_BYTES_MAX: usize = 256;

/// Bytes that are special to a format: ends of ranges, lengths of bincode, quotes, digits.
const SPECIAL: &[u8] =
    &[0, 1, 0x7f, 0x80, 0xff, 250, 251, 252, 253, 254, b'"', b'{', b'0', b'-', b'.'];

#[track_caller]
fn assert_holds(target: &Target, input: &[u8]) {
    let mut panicked = false;
    let allocated = allocation_counter::measure(|| {
        panicked = catch_unwind(|| (target.run)(input)).is_err();
    });
    let (name, hex) = (target.name, hex::encode(input));
    assert!(!panicked, "target {name} panics on the input {hex}");
    let bytes = allocated.bytes_max;
    assert!(bytes <= ALLOCATED_BYTES_MAX, "target {name} allocates {bytes} bytes for {hex}");
}

/// An input that is a seed with one to four changes.
pub(crate) fn changed(random: &mut Rng, seeds: &[Vec<u8>]) -> Vec<u8> {
    let mut input = random.choice(seeds).cloned().unwrap_or_default();
    for _ in 0..random.usize(1..=4) {
        let at = random.usize(0..=input.len());
        let end = random.usize(at..=input.len().min(at + 32));
        match random.u8(0..6) {
            0 => input.truncate(at),
            1 => drop(input.drain(at..end)),
            2 => input.extend_from_within(at..),
            3 => {
                let other = random.choice(seeds).map_or(&[][..], Vec::as_slice);
                let from = random.usize(0..=other.len());
                drop(input.splice(at.., other[from..].iter().copied()));
            }
            4 => {
                let byte = random.choice(SPECIAL).copied();
                drop(input.splice(at..end.min(at + 1), byte));
            }
            _ if at < input.len() => input[at] ^= 1 << random.u8(0..8),
            _ => input.push(random.u8(..)),
        }
        input.truncate(INPUT_BYTES_MAX);
    }
    input
}

fn run(targets: &[Target]) {
    let seed = setting("HEARTH_SEED", 1);
    for target in targets {
        let seeds = (target.seeds)();
        let mut random = Rng::with_seed(seed);
        for seed in &seeds {
            (0..=seed.len()).for_each(|end| assert_holds(target, &seed[..end]));
        }
        for _ in 0..INPUTS / 2 {
            assert_holds(target, &changed(&mut random, &seeds));
            let bytes: Vec<u8> =
                (0..random.usize(..RANDOM_BYTES_MAX)).map(|_| random.u8(..)).collect();
            assert_holds(target, &bytes);
        }
    }
}

#[test]
fn engine_accepts_any_bytes() {
    run(storage::fuzz::TARGETS);
}

#[test]
fn peers_accept_any_bytes() {
    run(raft::fuzz::TARGETS);
}

#[test]
fn requests_accept_any_bytes() {
    run(api::fuzz::TARGETS);
}

#[test]
fn operators_and_hosts_accept_any_bytes() {
    run(node::fuzz::TARGETS);
}

#[test]
fn every_body_and_query_is_fuzzed() {
    let api = Path::new(env!("CARGO_MANIFEST_DIR")).join("../api/src");
    let fuzzed = std::fs::read_to_string(api.join("fuzz.rs")).unwrap();
    let routes = std::fs::read_dir(api.join("routes")).unwrap().map(|file| file.unwrap().path());
    let sources: String = routes
        .filter(|path| path.is_file())
        .map(|path| std::fs::read_to_string(path).unwrap())
        .collect();
    let types: BTreeSet<&str> = ["ValidJson<", "ValidQuery<"]
        .iter()
        .flat_map(|of| sources.split(of).skip(1).filter_map(|rest| rest.split('>').next()))
        .filter(|name| *name != "IgnoredAny")
        .collect();
    let is_parsed = |name: &&&str| {
        let mut words = fuzzed.split(|letter: char| !letter.is_alphanumeric());
        words.any(|word| word == **name)
    };
    let missing: Vec<_> = types.iter().filter(|name| !is_parsed(name)).collect();
    assert!(types.len() > 50 && missing.is_empty(), "{} types; {missing:?}", types.len());
}

#[test]
fn failures_name_the_target_and_the_input() {
    let panics: fn(&[u8]) = |_| panic!("on purpose");
    let allocates: fn(&[u8]) = |_| drop(black_box(vec![1_u8; ALLOCATED_BYTES_MAX as usize + 1]));
    for (run, expected) in [
        (panics, "target sample panics on the input 0aff"),
        (allocates, "target sample allocates 33554433 bytes for 0aff"),
    ] {
        let target = Target { name: "sample", run, seeds: Vec::new };
        let failure = catch_unwind(|| assert_holds(&target, &[0x0a, 0xff])).unwrap_err();
        assert_eq!(failure.downcast_ref::<String>().unwrap(), expected);
    }
}
