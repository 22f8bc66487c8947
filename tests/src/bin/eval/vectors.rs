//! Embeds texts, each once: a file in the cache keeps the vectors for the next run. Its records are the
//! SHA-256 of model and text, and the components as little-endian f32.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use api::{EmbedScope, TextRole};
use futures::executor::block_on;
use node::embed::{Conventions, Manifest, Pool, Session};
use sha2::{Digest, Sha256};
use tests::engine::TENANT;
use tests::{cache, installed_model};

/// Components of a vector.
pub(crate) const DIMENSION: usize = 384;
const KEY_BYTES: usize = 32;
const RECORD_BYTES: usize = KEY_BYTES + 4 * DIMENSION;

pub(crate) struct Vectors {
    pool: Pool,
    model: String,
    pub(crate) conventions: Conventions,
    known: HashMap<[u8; KEY_BYTES], Vec<f32>>,
    file: File,
}

impl Vectors {
    /// Opens the model of a folder, or the installed one.
    pub(crate) fn open(folder: Option<&Path>) -> Self {
        let (installed, runtime) = installed_model();
        let manifest = folder.map(|folder| Manifest::load(folder).expect("a model"));
        let manifest = manifest.as_ref().unwrap_or(installed);
        let conventions = manifest.conventions.clone();
        let session = Session::open(runtime, manifest).expect("a session");
        let pool = Pool::start(manifest.model(), conventions.clone(), vec![Box::new(session)]);
        let path: PathBuf = cache().join("eval-vectors");
        let bytes = fs::read(&path).unwrap_or_default();
        let whole = bytes.len() / RECORD_BYTES * RECORD_BYTES;
        let known = bytes[..whole].chunks_exact(RECORD_BYTES).map(|record| {
            let (key, components) = record.split_at(KEY_BYTES);
            let component = |four: &[u8]| f32::from_le_bytes(four.try_into().expect("four bytes"));
            let vector = components.chunks_exact(4).map(component).collect();
            (key.try_into().expect("its length"), vector)
        });
        let known = known.collect();
        let file = OpenOptions::new().create(true).append(true).open(path).expect("a file");
        // An interrupted run leaves a part of a record.
        file.set_len(whole as u64).expect("it is shortened");
        Self { pool, model: hex::encode(manifest.model().id.0), conventions, known, file }
    }

    /// The id of the model, with which the keys of the file begin.
    pub(crate) fn model(&self) -> &str {
        &self.model
    }

    pub(crate) fn of(&mut self, role: TextRole, text: &str) -> Vec<f32> {
        let prefix = self.conventions.prefix(role);
        let key = Sha256::new().chain_update(&self.model).chain_update(prefix).chain_update(text);
        let key = key.finalize().into();
        if let Some(known) = self.known.get(&key) {
            return known.clone();
        }
        let scope = EmbedScope { tenant: TENANT, key: None };
        let vector = block_on(self.pool.embed(scope, role, text.into())).expect("a vector").1;
        let components = vector.iter().flat_map(|component| component.to_le_bytes());
        let record: Vec<u8> = <[u8; KEY_BYTES]>::into_iter(key).chain(components).collect();
        self.file.write_all(&record).expect("it is written");
        self.known.insert(key, vector.clone());
        vector
    }
}
