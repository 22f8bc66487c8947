//! The one place that knows how a record becomes bytes: a format byte, then
//! bincode. Not a place for record definitions; those stand beside their types.
//!
//! Layout of every encoded record: `[format: u8][bincode 2, standard config]`,
//! that is little-endian, variable-length integers, enum variants by position.
//! Enum variants and formats are therefore only ever appended.

use serde::{Serialize, de::DeserializeOwned};

use crate::error::{Error, Result};

/// Largest record that is ever decoded, in bytes. Peers and files are untrusted
/// input: a damaged length must not become an allocation.
pub const RECORD_BYTES_MAX: usize = 16 << 20;

fn config() -> impl bincode::config::Config {
    bincode::config::standard().with_limit::<RECORD_BYTES_MAX>()
}

/// A type that is stored or sent, with the format number its bytes begin with.
pub trait Record: Serialize + DeserializeOwned {
    /// Written as the first byte; a decoder refuses any other.
    const FORMAT: u8;
    /// What an error message calls this record.
    const NAME: &'static str;
}

/// The bytes of `record`, format byte first.
pub fn encode<R: Record>(record: &R) -> Vec<u8> {
    let mut bytes = vec![R::FORMAT];
    bincode::serde::encode_into_std_write(record, &mut bytes, config())
        .expect("writing to a Vec cannot fail, and no record holds a type that bincode refuses");
    bytes
}

/// The record that `bytes` hold.
///
/// # Errors
/// [`Error::Corrupt`] when the format is unknown, bytes are missing or left over.
pub fn decode<R: Record>(bytes: &[u8]) -> Result<R> {
    let corrupt = |detail: String| Error::Corrupt { what: R::NAME, detail };
    let (&format, body) = bytes.split_first().ok_or_else(|| corrupt("no bytes".into()))?;
    if format != R::FORMAT {
        return Err(corrupt(format!("format {format}, this version reads {}", R::FORMAT)));
    }
    let (record, read) = bincode::serde::decode_from_slice(body, config())
        .map_err(|error| corrupt(error.to_string()))?;
    if read != body.len() {
        return Err(corrupt(format!("{} bytes left over", body.len() - read)));
    }
    Ok(record)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Pair(u32, String);
    impl Record for Pair {
        const FORMAT: u8 = 7;
        const NAME: &'static str = "pair";
    }

    #[test]
    fn a_record_is_a_format_byte_and_bincode() {
        let bytes = encode(&Pair(300, "ab".into()));
        assert_eq!(bytes, [7, 251, 44, 1, 2, b'a', b'b']);
        assert_eq!(decode::<Pair>(&bytes).unwrap(), Pair(300, "ab".into()));
    }

    #[test]
    fn damaged_records_are_errors_not_values() {
        let good = encode(&Pair(1, "x".into()));
        let mut longer = good.clone();
        longer.push(0);
        let mut other_format = good.clone();
        other_format[0] = 8;
        for bad in [&[][..], &good[..2], &longer, &other_format, &[7, 1, 255, 255, 255]] {
            assert!(matches!(decode::<Pair>(bad), Err(Error::Corrupt { what: "pair", .. })));
        }
    }
}
