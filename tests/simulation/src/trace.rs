//! What happened in a run, line by line: of two runs of a seed, both are equal.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use sha2::{Digest, Sha256};

use crate::timeline::now;

/// The trace.
pub struct Trace {
    file: Option<BufWriter<File>>,
    hash: Sha256,
    lines: u64,
}

impl Trace {
    /// An empty trace, which goes to a file too.
    pub fn new(file: Option<&Path>) -> std::io::Result<Self> {
        let file = file.map(File::create).transpose()?.map(BufWriter::new);
        Ok(Self { file, hash: Sha256::new(), lines: 0 })
    }

    /// Adds a line with the present time.
    pub fn add(&mut self, text: &str) {
        let line = format!("{:>10} {text}\n", now().as_millis());
        self.hash.update(&line);
        self.lines += 1;
        if let Some(file) = &mut self.file {
            // A trace that is not complete differs from the next one.
            file.write_all(line.as_bytes()).expect("the trace can be written");
        }
    }

    /// Number of lines, and a hash of them.
    pub fn end(&mut self) -> (u64, String) {
        if let Some(file) = &mut self.file {
            file.flush().expect("the trace can be written");
        }
        (self.lines, hex::encode(&self.hash.clone().finalize()[..8]))
    }
}

/// FNV-1a.
pub fn checksum(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |sum, byte| (sum ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}
