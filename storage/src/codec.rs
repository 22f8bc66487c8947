//! Encodes and decodes all stored and sent records. Each type defines its record.
//!
//! An encoded record is a format byte, then bincode 2 with its standard configuration: integers
//! of variable length, enum variants by position. So variants and formats are only appended.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{Error, Result};

/// Largest decoded record, in bytes: a damaged length must not become an allocation.
pub const RECORD_BYTES_MAX: usize = 16 << 20;

fn config() -> impl bincode::config::Config {
    bincode::config::standard().with_limit::<RECORD_BYTES_MAX>()
}

/// A stored or sent type, with the number of its format.
pub trait Record: Serialize + DeserializeOwned {
    /// The first byte. Decoding rejects any other.
    const FORMAT: u8;
    /// Name of the record in error messages.
    const NAME: &'static str;
}

/// Encodes a record.
pub fn encode<R: Record>(record: &R) -> Vec<u8> {
    let mut bytes = vec![R::FORMAT];
    bincode::serde::encode_into_std_write(record, &mut bytes, config())
        .expect("writing to a Vec cannot fail, and bincode encodes every type of a record");
    bytes
}

/// Bytes of a record when it is encoded.
pub fn size<R: Record>(record: &R) -> usize {
    let counted = bincode::serde::encode_into_std_write(record, &mut std::io::sink(), config());
    1 + counted.expect("a sink takes all bytes, and bincode encodes every type of a record")
}

/// Asserts that the numbers of a list of variants are those that they are encoded with.
pub(crate) const fn assert_ascending(numbers: &[usize]) {
    let mut at = 0;
    while at < numbers.len() {
        assert!(numbers[at] == at, "the numbers are in order, from 0 on");
        at += 1;
    }
}

/// Decodes a record.
///
/// # Errors
/// [`Error::NewerFormat`] if the format or an enum variant is above those of this version.
/// [`Error::Corrupt`] if the format is older, or bytes are missing or left over.
pub fn decode<R: Record>(bytes: &[u8]) -> Result<R> {
    let corrupt = |detail: String| Error::Corrupt { what: R::NAME, detail };
    let (&format, body) = bytes.split_first().ok_or_else(|| corrupt("no bytes".into()))?;
    let newer = |detail: String| Error::NewerFormat { what: R::NAME, detail };
    if format != R::FORMAT {
        let detail = format!("format {format}, this version reads {}", R::FORMAT);
        return Err(if format > R::FORMAT { newer(detail) } else { corrupt(detail) });
    }
    let decoded = bincode::serde::decode_from_slice(body, config());
    let (record, read) = decoded.map_err(|error| match is_unknown_variant(&error) {
        true => newer(error.to_string()),
        false => corrupt(error.to_string()),
    })?;
    if read != body.len() {
        return Err(corrupt(format!("{} bytes left over", body.len() - read)));
    }
    Ok(record)
}

/// Whether an enum had an unknown variant number. Variants are only appended, so a newer version
/// wrote it. serde reports this as text only; a test below fails when that text changes.
fn is_unknown_variant(error: &bincode::error::DecodeError) -> bool {
    matches!(error, bincode::error::DecodeError::OtherString(text) if text.contains("variant index"))
}

/// Decodes a record. Its encoding decodes to an equal record. Bytes are compared, because a NaN
/// differs from itself.
#[cfg(feature = "fuzzing")]
pub fn round_trip<R: Record>(bytes: &[u8]) -> Option<R> {
    let record = decode::<R>(bytes).ok()?;
    let encoded = encode(&record);
    let again = decode::<R>(&encoded).expect("an encoded record can be decoded");
    assert_eq!(encode(&again), encoded, "{}", R::NAME);
    Some(record)
}

#[cfg(test)]
mod tests {
    use model::bounded::bounded;
    use model::vector::{ModelId, Vector};

    use super::*;
    use serde::Deserialize;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Pair(u32, String);

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    enum Known {
        One,
        Two(u8),
    }

    crate::records! {
        Pair: 7, "pair";
        Known: 1, "known";
    }

    #[test]
    fn stored_vector_bytes_are_fixed() {
        let vector = Vector::quantise(ModelId([1; 8]), &[0.0, -2.0, 0.0]).unwrap();
        let bytes = encode(&vector);
        assert_eq!(bytes, [1, 1, 1, 1, 1, 1, 1, 1, 1, 6, 0, 0, 0x00, 0xbc, 0, 0]);
        assert_eq!(vector.components().unwrap(), [0.0, -1.0, 0.0]);
    }

    #[test]
    fn a_record_is_a_format_byte_and_bincode() {
        let bytes = encode(&Pair(300, "ab".into()));
        assert_eq!(bytes, [7, 251, 44, 1, 2, b'a', b'b']);
        assert_eq!(decode::<Pair>(&bytes).unwrap(), Pair(300, "ab".into()));
    }

    #[test]
    fn damaged_record_is_an_error() {
        let good = encode(&Pair(1, "x".into()));
        let (longer, older) = ([&good[..], &[0]].concat(), [&[6], &good[1..]].concat());
        for bad in [&[][..], &good[..2], &longer, &older, &[7, 1, 255, 255, 255]] {
            assert!(matches!(decode::<Pair>(bad), Err(Error::Corrupt { what: "pair", .. })));
        }
    }

    #[test]
    fn long_list_is_an_error() {
        #[derive(Debug, PartialEq, Serialize, Deserialize)]
        struct List(#[serde(deserialize_with = "bounded::<3, _, _>")] Vec<Known>);
        crate::records! { List: 1, "list"; }
        assert_eq!(decode::<List>(&[1, 2, 0, 0]).unwrap(), List(vec![Known::One, Known::One]));
        assert_eq!(decode::<List>(&[1, 3, 0, 0, 0]).unwrap().0.len(), 3);
        let error = decode::<List>(&[1, 4, 0, 0, 0, 0]).unwrap_err();
        assert!(error.to_string().contains("more than 3 elements"), "{error}");
    }

    #[test]
    fn newer_format_or_variant_is_no_damage() {
        let mut newer = encode(&Pair(1, "x".into()));
        newer[0] = 8;
        assert!(matches!(decode::<Pair>(&newer), Err(Error::NewerFormat { what: "pair", .. })));
        assert_eq!(decode::<Known>(&[1, 1, 9]).unwrap(), Known::Two(9));
        for unknown in [&[1, 2][..], &[1, 200, 4]] {
            let error = decode::<Known>(unknown).unwrap_err();
            assert!(matches!(error, Error::NewerFormat { what: "known", .. }), "{error}");
            assert!(!error.is_corruption());
        }
        assert_eq!(decode::<Known>(&[1, 0]).unwrap(), Known::One);
    }
}
