//! Lists of bounded length, for serde.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// Decodes a list of at most `MAX` elements, for serde's `deserialize_with`. An element of one byte
/// may take a hundred in memory, so a list that peers send needs a bound besides that of its bytes.
///
/// # Errors
/// When there are more elements.
pub fn bounded<'de, const MAX: usize, T, D>(
    deserializer: D,
) -> std::result::Result<Vec<T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    deserializer.deserialize_seq(Bounded::<MAX, T>(PhantomData))
}

struct Bounded<const MAX: usize, T>(PhantomData<T>);

impl<'de, const MAX: usize, T: Deserialize<'de>> Visitor<'de> for Bounded<MAX, T> {
    type Value = Vec<T>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "at most {MAX} elements")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> std::result::Result<Vec<T>, A::Error> {
        let mut elements = Vec::new();
        while let Some(element) = seq.next_element()? {
            if elements.len() == MAX {
                return Err(A::Error::custom(format_args!("more than {MAX} elements")));
            }
            elements.push(element);
        }
        Ok(elements)
    }
}
