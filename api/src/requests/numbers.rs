//! Types of number fields: heats, whole numbers with bounds, and whole numbers that are clamped.

use std::fmt;

use serde::de::{Error as _, Visitor};
use serde::{Deserialize, Deserializer};
use utoipa::openapi::schema::{ObjectBuilder, SchemaType, Type};

use crate::requests::values::{object, schema, value};

/// A heat, 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Heat(pub(crate) f64);

value!([] Heat as "Heat", object(Type::Number).minimum(Some(0.0)).maximum(Some(1.0)).build(),
    from Numeric: |heat| match heat.as_f64() {
        heat if (0.0..=1.0).contains(&heat) => Ok(Self(heat)),
        _ => Err("must be a number from 0 to 1".to_owned()),
    }
);

/// A heat, 0 to 100, as tools of MCP have it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Percent(pub(crate) f64);

value!([] Percent as "Percent", object(Type::Number).minimum(Some(0.0)).maximum(Some(100.0)).build(),
    from Numeric: |heat| match heat.as_f64() {
        percent if (0.0..=100.0).contains(&percent) => Ok(Self(percent)),
        _ => Err("must be a number from 0 to 100".to_owned()),
    }
);

impl From<Percent> for Heat {
    fn from(percent: Percent) -> Self {
        Self(percent.0 / 100.0)
    }
}

/// The score of a search result: any number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Score(pub(crate) f64);

value!([] Score as "Score", object(Type::Number).build(), from Numeric: |score| Ok(Self(score.as_f64())));

/// The strength of a boost, above 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Strength(pub(crate) f64);

value!([] Strength as "Strength",
    object(Type::Number).exclusive_minimum(Some(0.0)).maximum(Some(1.0)).build(),
    from Numeric: |strength| match strength.as_f64() {
        strength if strength > 0.0 && strength <= 1.0 => Ok(Self(strength)),
        _ => Err("must be a number above 0, at most 1".to_owned()),
    }
);

/// A whole number from `MIN` to `MAX`. Others are rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Whole<const MIN: u64, const MAX: u64>(pub(crate) u64);

value!([const MIN: u64, const MAX: u64] Whole<MIN, MAX>, whole(MIN, MAX).build(),
    from Numeric: |number| match number {
        Numeric::Whole(number) if (MIN..=MAX).contains(&number) => Ok(Self(number)),
        _ if MAX == u64::MAX => Err(format!("must be a whole number of at least {MIN}")),
        _ => Err(format!("must be a whole number from {MIN} to {MAX}")),
    }
);

/// A whole number that is clamped to `MIN..=MAX`, as published clients rely on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Clamped<const MIN: u64, const MAX: u64>(u64);

impl<const MIN: u64, const MAX: u64> Clamped<MIN, MAX> {
    pub(crate) fn get(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

value!([const MIN: u64, const MAX: u64] Clamped<MIN, MAX>, whole(MIN, MAX).build(),
    from Numeric: |number| match number {
        Numeric::Whole(number) => Ok(Self(number.clamp(MIN, MAX))),
        Numeric::Other(number) if number.fract() != 0.0 => {
            Err("must be a whole number".to_owned())
        }
        Numeric::Other(number) => Ok(Self(if number > 0.0 { MAX } else { MIN })),
    }
);

fn whole(min: u64, max: u64) -> ObjectBuilder {
    let bounded = Some(max).filter(|max| *max < u64::MAX);
    object(Type::Integer).minimum(Some(min)).maximum(bounded)
}

/// A number of things: `DEFAULT` if absent, else clamped to `1..=MAX`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Count<const MAX: u64, const DEFAULT: u64>(Clamped<1, MAX>);

impl<const MAX: u64, const DEFAULT: u64> Count<MAX, DEFAULT> {
    pub(crate) fn get(self) -> usize {
        self.0.get()
    }
}

impl<const MAX: u64, const DEFAULT: u64> Default for Count<MAX, DEFAULT> {
    fn default() -> Self {
        Self(Clamped(DEFAULT))
    }
}

value!([const MAX: u64, const DEFAULT: u64] Count<MAX, DEFAULT>,
    whole(1, MAX)
        .schema_type(SchemaType::from_iter([Type::Integer, Type::Null]))
        .default(Some(DEFAULT.into()))
        .build(),
    from Option<Clamped<1, MAX>>: |count| Ok(count.map_or_else(Self::default, Self))
);

/// A number: exact if it is whole and not negative, as ids are.
enum Numeric {
    Whole(u64),
    Other(f64),
}

impl Numeric {
    fn as_f64(&self) -> f64 {
        match self {
            Self::Whole(number) => *number as f64,
            Self::Other(number) => *number,
        }
    }
}

impl<'de> Deserialize<'de> for Numeric {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_f64(Number)
    }
}

/// Reads a [`Numeric`].
struct Number;

impl Visitor<'_> for Number {
    type Value = Numeric;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a number")
    }

    fn visit_u64<E>(self, number: u64) -> Result<Numeric, E> {
        Ok(Numeric::Whole(number))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Numeric, E> {
        Ok(u64::try_from(number).map_or(Numeric::Other(number as f64), Numeric::Whole))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Numeric, E> {
        // Up to here floating-point numbers represent every whole number.
        const EXACT_MAX: f64 = (1_u64 << 53) as f64;
        let is_exact = number.fract() == 0.0 && (0.0..EXACT_MAX).contains(&number);
        Ok(if is_exact { Numeric::Whole(number as u64) } else { Numeric::Other(number) })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_beyond_the_range_are_clamped() {
        let clamped = |value| serde_json::from_value::<Clamped<1, 100>>(value).map(Clamped::get);
        assert_eq!(clamped(json!(1000)).unwrap(), 100);
        assert_eq!(clamped(json!(-5)).unwrap(), 1);
        assert!(clamped(json!(2.5)).is_err());
        assert!(clamped(json!("7")).is_err(), "a text is no number in a body");
        assert_eq!(clamped(json!(1e300)).unwrap(), 100);
    }

    #[test]
    fn whole_numbers_are_exact() {
        type Id = Whole<1, { u64::MAX }>;
        let id = |value| serde_json::from_value::<Id>(value).map(|id| id.0).ok();
        assert_eq!(id(json!(9_007_199_254_740_993_u64)), Some(9_007_199_254_740_993));
        assert_eq!(id(json!(u64::MAX)), Some(u64::MAX));
        assert_eq!(id(json!(3.0)), Some(3));
        for wrong in [json!(0), json!(-1), json!(1.5), json!(1e300), json!("1")] {
            assert_eq!(id(wrong.clone()), None, "{wrong}");
        }
    }
}
