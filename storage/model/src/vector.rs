//! Embedding vectors: stored, replicated and kept in RAM as f16, compared as f32. Also the dot
//! product, which is the cosine similarity of unit vectors.

use half::f16;
use half::slice::HalfFloatSliceExt;
use serde::{Deserialize, Serialize};

use crate::simd::dispatch;

/// Identifies an embedding model: 8 bytes of the SHA-256 over all that determines its output.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ModelId(pub [u8; 8]);

/// A unit vector in its stored and replicated form: little-endian f16. The node that embeds
/// a text quantises once, so all nodes store the same bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vector {
    /// The model that computed it.
    pub model: ModelId,
    #[serde(with = "serde_bytes")]
    halves: Vec<u8>,
}

/// Numbers that are not a usable vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum VectorFault {
    /// A component is NaN or infinite, possibly after rounding to f16.
    #[error("a component is not finite")]
    NotFinite,
    /// All components are zero, so the vector has no direction.
    #[error("the vector is zero")]
    Zero,
}

impl Vector {
    /// Normalises `components` to length 1 and quantises them.
    ///
    /// # Errors
    /// [`VectorFault`] when the components have no direction.
    pub fn quantise(model: ModelId, components: &[f32]) -> Result<Self, VectorFault> {
        let unit = normalised(components)?;
        let mut halves = vec![f16::ZERO; unit.len()];
        halves.convert_from_f32_slice(&unit);
        let halves = halves.iter().flat_map(|half| half.to_le_bytes()).collect();
        Ok(Self { model, halves })
    }

    /// Number of components.
    pub fn dimension(&self) -> usize {
        self.halves.len() / 2
    }

    /// Bytes of the components in the log and in the state: two of each.
    pub fn size_bytes(&self) -> usize {
        self.halves.len()
    }

    /// A vector of another cluster with the same model: its components as little-endian f16.
    ///
    /// # Errors
    /// [`VectorFault`] when the numbers have no direction.
    pub fn of_half_bytes(model: ModelId, halves: Vec<u8>) -> Result<Self, VectorFault> {
        let vector = Self { model, halves };
        vector.halves().map(|_| vector)
    }

    /// The components as little-endian f16.
    pub fn half_bytes(&self) -> &[u8] {
        &self.halves
    }

    /// The components as f32, normalised again. Rounding to f16 changes the length by up to
    /// 0.001, and scans use the dot product as the cosine.
    ///
    /// # Errors
    /// [`VectorFault`] when the stored numbers have no direction.
    pub fn components(&self) -> Result<Vec<f32>, VectorFault> {
        let (halves, scale) = self.halves()?;
        Ok(HalfVector { halves: &halves, scale }.components())
    }

    /// The cosine to another vector.
    ///
    /// # Errors
    /// [`VectorFault`] when one of them has no direction.
    pub fn cosine(&self, other: &Self) -> Result<f32, VectorFault> {
        Ok(dot(&self.components()?, &other.components()?))
    }

    /// The components as they are stored, and the factor that normalises them.
    ///
    /// # Errors
    /// [`VectorFault`] when the stored numbers have no direction.
    pub fn halves(&self) -> Result<(Vec<f16>, f64), VectorFault> {
        let pairs = self.halves.chunks_exact(2);
        let halves: Vec<f16> = pairs.map(|pair| f16::from_le_bytes([pair[0], pair[1]])).collect();
        let mut components = vec![0.0; halves.len()];
        halves.convert_to_f32_slice(&mut components);
        let scale = scale(&components)?;
        Ok((halves, scale))
    }
}

/// A unit vector in RAM.
#[derive(Clone, Copy)]
pub struct HalfVector<'a> {
    pub halves: &'a [f16],
    /// The factor that normalises them.
    pub scale: f64,
}

impl HalfVector<'_> {
    pub fn components(&self) -> Vec<f32> {
        let mut components = vec![0.0; self.halves.len()];
        self.convert(&mut components);
        components
    }

    /// The cosine to another unit vector: the same bits as [`dot`] of its components.
    pub fn cosine(&self, other: &[f32]) -> f32 {
        dispatch(
            #[inline(always)]
            || {
                let (mut sums, mut components) = (Sums::default(), [0.0; BLOCK]);
                for (halves, other) in self.halves.chunks(BLOCK).zip(other.chunks(BLOCK)) {
                    let components = &mut components[..halves.len()];
                    Self { halves, scale: self.scale }.convert(components);
                    sums.add(components, other);
                }
                sums.total()
            },
        )
    }

    #[inline(always)]
    fn convert(&self, components: &mut [f32]) {
        self.halves.convert_to_f32_slice(components);
        for component in components {
            *component = scaled(*component, self.scale);
        }
    }
}

/// The mean direction of vectors: the sum of them, each scaled to length 1. A single vector is
/// returned as it is.
///
/// # Errors
/// [`VectorFault`] when one of them has no direction.
pub fn mean_direction(mut vectors: Vec<Vec<f32>>) -> Result<Vec<f32>, VectorFault> {
    let Some(last) = vectors.pop() else { return Err(VectorFault::Zero) };
    if vectors.is_empty() {
        return Ok(last);
    }
    let mut sum = normalised(&last)?;
    for vector in vectors {
        sum.iter_mut().zip(normalised(&vector)?).for_each(|(sum, value)| *sum += value);
    }
    Ok(sum)
}

/// `components` scaled to length 1. Sums in f64 in a fixed order: the same bits on all nodes.
///
/// # Errors
/// [`VectorFault`] when they have no direction.
pub fn normalised(components: &[f32]) -> Result<Vec<f32>, VectorFault> {
    let scale = scale(components)?;
    Ok(components.iter().map(|component| scaled(*component, scale)).collect())
}

/// The factor that normalises `components`.
fn scale(components: &[f32]) -> Result<f64, VectorFault> {
    let square: f64 = components.iter().map(|&c| f64::from(c) * f64::from(c)).sum();
    if !square.is_finite() {
        return Err(VectorFault::NotFinite);
    }
    if square < f64::MIN_POSITIVE {
        return Err(VectorFault::Zero);
    }
    Ok(1.0 / square.sqrt())
}

#[inline(always)]
fn scaled(component: f32, scale: f64) -> f32 {
    (f64::from(component) * scale) as f32
}

const LANES: usize = 16;
/// Components that are converted at a time: whole lanes.
const BLOCK: usize = 8 * LANES;

/// Dot product with 16 accumulators, summed pairwise at the end. Each product is rounded
/// before the addition (no FMA). So the compiler vectorises it, and the result has the same
/// bits on every x86 and Arm CPU.
#[inline(always)]
pub fn dot(left: &[f32], right: &[f32]) -> f32 {
    let mut sums = Sums::default();
    sums.add(left, right);
    sums.total()
}

/// The accumulators of a dot product.
#[derive(Default)]
struct Sums {
    lanes: [f32; LANES],
    /// The products behind the last whole lanes.
    tail: f32,
}

impl Sums {
    /// Adds products. Only the last call may have more or less than whole lanes.
    #[inline(always)]
    fn add(&mut self, left: &[f32], right: &[f32]) {
        let (left_chunks, right_chunks) = (left.chunks_exact(LANES), right.chunks_exact(LANES));
        let tail = left_chunks.remainder().iter().zip(right_chunks.remainder());
        self.tail += tail.map(|(l, r)| l * r).sum::<f32>();
        for (l, r) in left_chunks.zip(right_chunks) {
            for lane in 0..LANES {
                self.lanes[lane] += l[lane] * r[lane];
            }
        }
    }

    #[inline(always)]
    fn total(self) -> f32 {
        let mut lanes = self.lanes;
        let mut width = LANES / 2;
        while width > 0 {
            for lane in 0..width {
                lanes[lane] += lanes[lane + width];
            }
            width /= 2;
        }
        lanes[0] + self.tail
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MODEL: ModelId = ModelId([1; 8]);

    #[test]
    fn components_without_direction_are_rejected() {
        assert_eq!(Vector::quantise(MODEL, &[0.0; 4]), Err(VectorFault::Zero));
        assert_eq!(Vector::quantise(MODEL, &[]), Err(VectorFault::Zero));
        for bad in [f32::NAN, f32::INFINITY] {
            assert_eq!(Vector::quantise(MODEL, &[1.0, bad]), Err(VectorFault::NotFinite));
        }
    }

    proptest! {
        #[test]
        fn quantised_vectors_keep_their_direction(
            components in proptest::collection::vec(-1.0_f32..1.0, 1..400),
        ) {
            prop_assume!(components.iter().any(|c| c.abs() > 0.1));
            let kept = Vector::quantise(MODEL, &components).unwrap().components().unwrap();
            let unit = normalised(&components).unwrap();
            prop_assert!(dot(&kept, &unit) > 0.9999);
            prop_assert!((dot(&kept, &kept) - 1.0).abs() < 1e-5);
        }

        #[test]
        fn cosine_in_ram_is_the_dot_product(
            pairs in proptest::collection::vec((-1.0_f32..1.0, -1.0_f32..1.0), 1..400),
        ) {
            let (left, right): (Vec<f32>, Vec<f32>) = pairs.into_iter().unzip();
            prop_assume!(left.iter().any(|c| c.abs() > 0.1));
            let vector = Vector::quantise(MODEL, &left).unwrap();
            let (halves, scale) = vector.halves().unwrap();
            let half = HalfVector { halves: &halves, scale };
            let components = vector.components().unwrap();
            prop_assert_eq!(half.components(), components.clone());
            prop_assert_eq!(half.cosine(&right).to_bits(), dot(&components, &right).to_bits());
        }
    }

    #[test]
    fn cosine_and_mean_of_two_directions() {
        let vector = |components: &[f32]| Vector::quantise(MODEL, components).unwrap();
        let cosine = vector(&[1.0, 0.0]).cosine(&vector(&[3.0, 4.0])).unwrap();
        assert!((cosine - 0.6).abs() < 1e-3, "{cosine}");
        let mean = mean_direction(vec![vec![2.0, 0.0], vec![0.0, 5.0]]).unwrap();
        assert_eq!(mean, [1.0, 1.0], "each direction counts once");
        assert_eq!(mean_direction(vec![vec![2.0, 1.0]]), Ok(vec![2.0, 1.0]));
        assert_eq!(mean_direction(Vec::new()), Err(VectorFault::Zero));
    }
}
