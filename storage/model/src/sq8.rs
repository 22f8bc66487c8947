//! Scalar quantisation of unit vectors to 8 bits per component (SQ8), with an error bound.
//!
//! A code takes a quarter of the memory traffic of an f32 vector. Codes give an upper bound
//! of a dot product, so a scan can skip vectors. Scores never use codes.
//!
//! With `q = q̂ + e` and `v = v̂ + f`, where the hats are codes times scales:
//! `q·v = q̂·v̂ + q̂·f + e·v ≤ q̂·v̂ + |q̂||f| + |e||v|` (Cauchy–Schwarz inequality).

use crate::simd::{dispatch, prefetch};

/// Added to every bound: exceeds the f32 rounding error of both sides.
const SLACK: f32 = 1e-4;
/// Largest component of a code.
const CODE_MAX: f32 = 127.0;
/// Codes that are loaded ahead of the one that is compared.
pub const PREFETCHED: usize = 4;

/// A unit vector with 8 bits per component.
#[derive(Debug, Clone, PartialEq)]
pub struct Code {
    /// Components in units of `scale`.
    pub values: Vec<i8>,
    /// Value of one unit.
    pub scale: f32,
    /// Euclidean length of the quantisation error.
    pub error: f32,
}

impl Code {
    /// Quantises a unit vector.
    pub fn of(unit: &[f32]) -> Self {
        let largest = unit.iter().fold(0.0_f32, |largest, c| largest.max(c.abs()));
        let scale = if largest > 0.0 { largest / CODE_MAX } else { 1.0 };
        let values: Vec<i8> = unit.iter().map(|c| (c / scale).round() as i8).collect();
        let residuals = unit.iter().zip(&values).map(|(c, code)| c - f32::from(*code) * scale);
        let error = residuals.map(|residual| residual * residual).sum::<f32>().sqrt();
        Self { values, scale, error }
    }

    /// Upper bound of the dot product of the two vectors, from the dot product of their codes
    /// and the other code's scale and error.
    #[inline]
    pub fn upper_bound(&self, dot: i32, scale: f32, error: f32) -> f32 {
        self.upper_bound_of(dot as f32 * self.scale * scale, error)
    }

    /// The same bound from the similarity of the codes.
    #[inline]
    pub fn upper_bound_of(&self, similarity: f32, error: f32) -> f32 {
        similarity + (1.0 + self.error) * error + self.error + SLACK
    }
}

/// Dot products of `query` with the given rows of a matrix of codes, into `products` in the
/// order of `rows`. Rows of the matrix are as long as `query`.
pub fn dots(query: &[i8], matrix: &[i8], rows: &[u16], products: &mut Vec<i32>) {
    dispatch(
        #[inline(always)]
        || dots_of(query, matrix, rows, products),
    );
}

#[inline(always)]
fn dots_of(query: &[i8], matrix: &[i8], rows: &[u16], products: &mut Vec<i32>) {
    products.clear();
    products.reserve(rows.len());
    // Loops, no closures: a closure is a separate function, compiled without AVX2.
    for (at, row) in rows.iter().enumerate() {
        if let Some(later) = rows.get(at + PREFETCHED) {
            prefetch(&matrix[usize::from(*later) * query.len()..][..query.len()]);
        }
        products.push(dot_of(query, &matrix[usize::from(*row) * query.len()..][..query.len()]));
    }
}

/// Dot product of two codes of equal length.
#[inline]
pub fn dot(left: &[i8], right: &[i8]) -> i32 {
    dispatch(
        #[inline(always)]
        || dot_of(left, right),
    )
}

#[inline(always)]
pub fn dot_of(left: &[i8], right: &[i8]) -> i32 {
    let mut sum = 0_i32;
    for (left, right) in left.iter().zip(right) {
        // Never wraps in practice. The wrapping form also vectorises with overflow checks on.
        sum = sum.wrapping_add(i32::from(*left) * i32::from(*right));
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vector::{ModelId, Vector, dot};
    use proptest::prelude::*;

    fn unit(components: &[f32]) -> Option<Vec<f32>> {
        Vector::quantise(ModelId([0; 8]), components).ok()?.components().ok()
    }

    #[test]
    fn codes_use_the_full_range() {
        let code = Code::of(&[0.8, -0.6, 0.0]);
        assert_eq!(code.values, [127, -95, 0]);
        assert!(code.error < code.scale);
    }

    proptest! {
        #[test]
        fn dot_product_never_exceeds_its_upper_bound(
            left in proptest::collection::vec(-1.0_f32..1.0, 384),
            right in proptest::collection::vec(-1.0_f32..1.0, 384),
            spike in 0.0_f32..100.0, alike in 0.0_f32..1.0,
        ) {
            // From unrelated to equal vectors, and from even to nearly one-hot ones.
            let mut right: Vec<f32> =
                left.iter().zip(&right).map(|(l, r)| l * alike + r * (1.0 - alike)).collect();
            right[7] += spike;
            let (Some(left), Some(right)) = (unit(&left), unit(&right)) else { return Ok(()) };
            let (query, row) = (Code::of(&left), Code::of(&right));
            let mut found = Vec::new();
            dots(&query.values, &[&[9; 384], &row.values[..]].concat(), &[1], &mut found);
            let expected: i32 = query.values.iter().zip(&row.values)
                .map(|(l, r)| i32::from(*l) * i32::from(*r)).sum();
            prop_assert_eq!(&found, &[expected]);
            let upper_bound = query.upper_bound(found[0], row.scale, row.error);
            let exact = dot(&left, &right);
            prop_assert!(exact <= upper_bound, "{} > {}", exact, upper_bound);
            prop_assert!(upper_bound - exact < 0.2, "bound is too loose: {} for {}", upper_bound, exact);
        }
    }
}
