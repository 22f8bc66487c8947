//! Saved graphs: one file per tenant, from which a start takes the graph in place of building it.
//!
//! A file is a cache. It is read only if its checksum is right, and a point of it covers a memory
//! only if the memory has the same code as the point. So a file may be old, or belong to another
//! state. The points of other memories stay as stale points; they lead searches to their neighbours.
//!
//! The file has a header, then for each point the id of its memory, whether the check did not find
//! it, its code, and its links in each layer. A CRC-32 of all follows. Numbers are little-endian.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use crc32fast::Hasher;
use model::id::{MemoryId, TenantId};
use model::sq8::Code;
use roaring::RoaringBitmap;

use crate::Slot;
use crate::coverage::Restored;
use crate::data::TenantIndex;
use crate::hnsw::Graph;
use crate::points::{NONE, Point, Points, store, upper_layers};

const FORMAT: &[u8; 8] = b"hearthG1";
/// Points that are read or written under one lock of the tenant.
const BLOCK_POINTS: usize = 1_024;
/// Largest dimension of a file that is read.
const DIMENSION_MAX: u32 = 1 << 16;
/// The slot of a point whose memory is gone: any one that exists. Such points are stale.
const ANY_SLOT: Slot = 0;

/// The folder with the saved graphs of a node.
pub struct SavedGraphs {
    folder: PathBuf,
}

impl SavedGraphs {
    pub fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    fn path(&self, tenant: TenantId) -> PathBuf {
        self.folder.join(tenant.0.to_string())
    }

    /// The tenants that have files.
    pub fn tenants(&self) -> impl Iterator<Item = TenantId> {
        let files = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        files.filter_map(|file| file.file_name().to_str()?.parse().ok().map(TenantId))
    }

    /// Removes the file of a deleted tenant.
    pub fn remove(&self, tenant: TenantId) {
        match fs::remove_file(self.path(tenant)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(tenant = tenant.0, %error, "saved graph of a deleted tenant not removed");
            }
            _ => {}
        }
    }

    /// Replaces the file of a tenant. The check did not find the slots `unreachable`. No point may
    /// be inserted meanwhile. Not synced: after a crash of the machine, the checksum may be wrong.
    ///
    /// # Errors
    /// If the file cannot be written. The present one then stays.
    pub fn save(
        &self,
        tenant: TenantId,
        index: &TenantIndex,
        graph: &Graph,
        unreachable: &RoaringBitmap,
    ) -> io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        let (path, new) = (self.path(tenant), self.folder.join("new"));
        let written = File::create(&new).and_then(|file| {
            let mut file = Summed { inner: BufWriter::new(file), crc: Hasher::new() };
            graph.read(|points, entry| write(&mut file, index, unreachable, points, entry))?;
            let crc = file.crc.finalize();
            file.inner.write_all(&crc.to_le_bytes())?;
            file.inner.flush()
        });
        written.and_then(|()| fs::rename(&new, path)).inspect_err(|_| {
            // A full disk needs the room. The next save replaces what cannot be removed.
            let _ = fs::remove_file(&new);
        })
    }

    /// The saved graph of a tenant; `None` without one.
    ///
    /// # Errors
    /// If the file cannot be read, or is damaged.
    pub fn load(&self, tenant: TenantId, index: &TenantIndex) -> io::Result<Option<Restored>> {
        match File::open(self.path(tenant)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            file => read(BufReader::with_capacity(1 << 20, file?), index).map(Some),
        }
    }
}

fn write(
    file: &mut impl Write,
    index: &TenantIndex,
    unreachable: &RoaringBitmap,
    points: &Points,
    entry: Option<Point>,
) -> io::Result<()> {
    let dimension = if points.count == 0 { 0 } else { points.query(0).values.len() };
    file.write_all(FORMAT)?;
    for number in [dimension as u32, points.count as u32, entry.unwrap_or(NONE)] {
        file.write_all(&number.to_le_bytes())?;
    }
    let mut record = Vec::new();
    for first in (0..points.count).step_by(BLOCK_POINTS) {
        let block = first as Point..points.count.min(first + BLOCK_POINTS) as Point;
        let ids: Vec<MemoryId> = {
            let data = index.read();
            block.clone().map(|point| data.id_of(points.slot(point))).collect()
        };
        for (point, id) in block.zip(ids) {
            let (code, slot) = (points.query(point), points.slot(point));
            record.clear();
            record.extend(id.0);
            record.push(u8::from(unreachable.contains(slot)));
            record.extend(code.scale.to_le_bytes());
            record.extend(code.values.iter().map(|value| *value as u8));
            for layer in 0..=points.layer(point) {
                let row = points.row(point, layer).iter();
                record.extend(row.flat_map(|link| link.load(Ordering::Relaxed).to_le_bytes()));
            }
            file.write_all(&record)?;
        }
    }
    Ok(())
}

/// Reads the content of a file, for the memories of `index`.
///
/// # Errors
/// If it is damaged, or cannot be read.
pub fn read(file: impl Read, index: &TenantIndex) -> io::Result<Restored> {
    let mut file = Summed { inner: file, crc: Hasher::new() };
    let (mut restored, mut points) = (Restored::default(), Points::default());
    if array::<8>(&mut file)? != *FORMAT {
        return Err(damaged("has another format"));
    }
    let [dimension, count, entry] = [number(&mut file)?, number(&mut file)?, number(&mut file)?];
    if dimension > DIMENSION_MAX || (entry >= count && entry != NONE) {
        return Err(damaged("has an impossible header"));
    }
    let mut saved = Vec::new();
    let mut values = vec![0_u8; dimension as usize];
    for point in 0..count {
        let (id, [lost]) = (MemoryId(array(&mut file)?), array(&mut file)?);
        let scale = f32::from_le_bytes(array(&mut file)?);
        file.read_exact(&mut values)?;
        let values = values.iter().map(|value| *value as i8).collect();
        points.push(ANY_SLOT, &Code { values, scale, error: 0.0 });
        for layer in 0..=points.layer(point) {
            let row = points.row(point, layer);
            let mut bytes = vec![0; 4 * row.len()];
            file.read_exact(&mut bytes)?;
            let found: Vec<Point> = bytes
                .chunks_exact(4)
                .map(|link| Point::from_le_bytes([link[0], link[1], link[2], link[3]]))
                .take_while(|link| *link != NONE)
                .collect();
            let is_in_layer = |link: &Point| *link < count && upper_layers(*link as usize) >= layer;
            if !found.iter().all(is_in_layer) {
                return Err(damaged("has an impossible link"));
            }
            store(row, &found);
        }
        saved.push((id, lost != 0));
    }
    let expected = file.crc.clone().finalize();
    if number(&mut file)? != expected {
        return Err(damaged("has a wrong checksum"));
    }
    restored.points = saved.len();
    cover(&mut restored, &mut points, &saved, index);
    restored.graph = Graph::restored(points, Some(entry).filter(|entry| *entry != NONE));
    Ok(restored)
}

/// Finds the points whose memories still have the same code.
fn cover(
    restored: &mut Restored,
    points: &mut Points,
    saved: &[(MemoryId, bool)],
    index: &TenantIndex,
) {
    let mut next = 0;
    for block in saved.chunks(BLOCK_POINTS) {
        let data = index.read();
        for (id, lost) in block {
            if let Some(slot) = data.slot_with(*id, points.query(next)) {
                points.set_slot(next, slot);
                restored.found.insert(slot);
                if *lost {
                    restored.unreachable.insert(slot);
                }
            }
            next += 1;
        }
    }
}

/// A file with the checksum of what was read or written.
struct Summed<F> {
    inner: F,
    crc: Hasher,
}

impl<F: Write> Write for Summed<F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.inner.write(bytes)?;
        self.crc.update(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl<F: Read> Read for Summed<F> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(bytes)?;
        self.crc.update(&bytes[..count]);
        Ok(count)
    }
}

fn array<const N: usize>(file: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    file.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn number(file: &mut impl Read) -> io::Result<u32> {
    array(file).map(u32::from_le_bytes)
}

fn damaged(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
