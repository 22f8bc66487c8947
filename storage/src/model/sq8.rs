//! Unit vectors in 8 bits a component (scalar quantisation, SQ8), with a bound on
//! what that lost. Scores are never made of them: they say which vectors need not
//! be looked at, in a quarter of the memory traffic.
//!
//! With `q = q̂ + e` and `v = v̂ + f`, where the hats are the codes times their
//! scales: `q·v = q̂·v̂ + q̂·f + e·v ≤ q̂·v̂ + |q̂||f| + |e||v|` (Cauchy and Schwarz).

use crate::simd::dispatch;

/// Added to every bound: what rounding in f32 may do to either side.
const SLACK: f32 = 1e-4;
/// Largest code.
const CODE_MAX: f32 = 127.0;

/// A unit vector in 8 bits a component.
#[derive(Debug, Clone, PartialEq)]
pub struct Code {
    /// Components in units of `scale`.
    pub values: Vec<i8>,
    /// What one unit stands for.
    pub scale: f32,
    /// Length of what rounding took away.
    pub error: f32,
}

impl Code {
    /// The code of a unit vector.
    pub fn of(unit: &[f32]) -> Self {
        let largest = unit.iter().fold(0.0_f32, |largest, c| largest.max(c.abs()));
        let scale = if largest > 0.0 { largest / CODE_MAX } else { 1.0 };
        let values: Vec<i8> = unit.iter().map(|c| (c / scale).round() as i8).collect();
        let lost = unit.iter().zip(&values).map(|(c, code)| c - f32::from(*code) * scale);
        let error = lost.map(|lost| lost * lost).sum::<f32>().sqrt();
        Self { values, scale, error }
    }

    /// What the dot product of this vector and another one is at most, given the
    /// [`dots`] of their codes and the other's scale and error.
    #[inline]
    pub fn upper_bound(&self, dot: i32, scale: f32, error: f32) -> f32 {
        self.upper_bound_of(dot as f32 * self.scale * scale, error)
    }

    /// The same, given the similarity of the codes.
    #[inline]
    pub fn upper_bound_of(&self, similarity: f32, error: f32) -> f32 {
        similarity + (1.0 + self.error) * error + self.error + SLACK
    }
}

/// Dot products of `query` with some rows of a matrix of codes, as wide as `query`;
/// one for each of `rows`, into `found`.
pub(crate) fn dots(query: &[i8], matrix: &[i8], rows: &[u16], found: &mut Vec<i32>) {
    dispatch(
        #[inline(always)]
        || dots_of(query, matrix, rows, found),
    );
}

#[inline(always)]
fn dots_of(query: &[i8], matrix: &[i8], rows: &[u16], found: &mut Vec<i32>) {
    found.clear();
    found.reserve(rows.len());
    // Loops, not closures: those would be functions of their own, compiled for any CPU.
    for row in rows {
        let start = usize::from(*row) * query.len();
        found.push(dot_of(query, &matrix[start..start + query.len()]));
    }
}

/// Dot product of two codes of one length.
#[inline]
pub(crate) fn dot(left: &[i8], right: &[i8]) -> i32 {
    dispatch(
        #[inline(always)]
        || dot_of(left, right),
    )
}

#[inline(always)]
fn dot_of(left: &[i8], right: &[i8]) -> i32 {
    let mut sum = 0_i32;
    for (left, right) in left.iter().zip(right) {
        // It never wraps; saying so lets builds with overflow checks be vectorised too.
        sum = sum.wrapping_add(i32::from(*left) * i32::from(*right));
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::vector::{ModelId, Vector, dot};
    use proptest::prelude::*;

    fn unit(components: &[f32]) -> Option<Vec<f32>> {
        Vector::quantise(ModelId([0; 8]), components).ok()?.components().ok()
    }

    #[test]
    fn codes_use_the_whole_range() {
        let code = Code::of(&[0.8, -0.6, 0.0]);
        assert_eq!(code.values, [127, -95, 0]);
        assert!(code.error < code.scale);
    }

    proptest! {
        #[test]
        fn no_dot_product_exceeds_its_upper_bound(
            left in proptest::collection::vec(-1.0_f32..1.0, 384),
            right in proptest::collection::vec(-1.0_f32..1.0, 384),
            spike in 0.0_f32..100.0, alike in 0.0_f32..1.0,
        ) {
            // From unlike to equal, and from even to nearly one component alone.
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
            prop_assert!(upper_bound - exact < 0.2, "a bound far off: {} for {}", upper_bound, exact);
        }
    }
}
