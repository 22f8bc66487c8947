//! Definitions of a dictionary (`deploy/setup/glosses.py`) and their vectors, for measurements.

use std::{fs, thread};

use node::embed::{Manifest, OnnxRuntime, Session};
use sha2::{Digest, Sha256};
use storage::model::vector::Vector;

use crate::engine::MODEL;
use crate::{cache, installed_model};

/// Components of their vectors.
pub const DIMENSION: usize = 384;

/// The first definitions.
pub fn glosses(count: usize) -> Vec<String> {
    let texts = fs::read_to_string(cache().join("glosses/glosses.txt")).expect("glosses.py ran");
    texts.lines().take(count).map(str::to_owned).collect()
}

/// The vectors of `texts`, from the cache if it has them unchanged. Their file is named after the
/// model, and has a hash of texts and vectors beside it.
pub fn glosses_vectors(texts: &[String]) -> Vec<Vector> {
    let (manifest, runtime) = installed_model();
    let name = hex::encode(manifest.model().id.0);
    let file = cache().join("glosses").join(format!("{name}.f32"));
    let hash_file = file.with_extension("sha256");
    let hash = |bytes: &[u8]| {
        let mut hash = Sha256::new();
        texts.iter().for_each(|text| hash.update(text));
        hash.update(bytes);
        format!("{:x}\n", hash.finalize())
    };
    let cached = fs::read(&file).ok();
    let is_unchanged = |bytes: &Vec<u8>| fs::read_to_string(&hash_file).ok() == Some(hash(bytes));
    let bytes = cached.filter(is_unchanged).unwrap_or_else(|| {
        let bytes = embed(runtime, manifest, texts);
        fs::write(&file, &bytes).expect("it is written");
        fs::write(&hash_file, hash(&bytes)).expect("it is written");
        bytes
    });
    quantised(&bytes).collect()
}

/// The vectors of `texts`, embedded now.
pub fn embedded(texts: &[String]) -> Vec<Vec<f32>> {
    let (manifest, runtime) = installed_model();
    let bytes = embed(runtime, manifest, texts);
    quantised(&bytes).map(|vector| vector.components().expect("a direction")).collect()
}

fn quantised(bytes: &[u8]) -> impl Iterator<Item = Vector> + use<> {
    let components: Vec<f32> =
        bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
    let rows: Vec<_> = components.chunks_exact(DIMENSION).map(<[f32]>::to_vec).collect();
    rows.into_iter().map(|row| Vector::quantise(MODEL, &row).expect("a direction"))
}

/// Embeds on two threads; little-endian f32.
fn embed(runtime: &OnnxRuntime, manifest: &Manifest, texts: &[String]) -> Vec<u8> {
    let work = |texts: &[String], first: bool| {
        let mut session = Session::open(runtime, manifest).expect("a session");
        let mut bytes = Vec::new();
        for (at, text) in texts.iter().enumerate() {
            let tokens = session.tokens(text).expect("tokens");
            let components = session.run(&tokens).expect("a vector");
            bytes.extend(components.iter().flat_map(|component| component.to_le_bytes()));
            if first && at % 5_000 == 0 {
                eprintln!("embedding, {} %", 100 * at / texts.len());
            }
        }
        bytes
    };
    let (left, right) = texts.split_at(texts.len() / 2);
    thread::scope(|scope| {
        let right = scope.spawn(|| work(right, false));
        let mut bytes = work(left, true);
        bytes.extend(right.join().expect("it embeds"));
        bytes
    })
}
