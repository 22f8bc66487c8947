//! The frames of a connection between two nodes:
//!
//! ```text
//! length of the rest (u32, big-endian) | number of the call (u64, big-endian) | kind (u8) | message
//! ```

use std::io;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use tokio_util::codec::LengthDelimitedCodec;

use crate::network::message::MESSAGE_BYTES_MAX;

/// Bytes of a frame beside its length and its message.
const HEADER_BYTES: usize = 9;

/// What a call returns. The number of the kind is its position.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Returned {
    /// An encoded response.
    Message(Vec<u8>),
    /// The call could not be decoded, so it has no effect. The text says why: every version can
    /// read a text.
    NotRead(String),
    /// The call has no response, and may have an effect.
    Failed(String),
}

impl Returned {
    pub(crate) fn parts(&self) -> (u8, &[u8]) {
        match self {
            Self::Message(message) => (MESSAGE, message),
            Self::NotRead(reason) => (NOT_READ, reason.as_bytes()),
            Self::Failed(reason) => (FAILED, reason.as_bytes()),
        }
    }
}

pub(crate) const MESSAGE: u8 = 0;
pub(crate) const NOT_READ: u8 = 1;
pub(crate) const FAILED: u8 = 2;
/// The receiver requests the end of the connection. Its frame has no call.
pub(crate) const CLOSING: u8 = 3;

pub(crate) fn codec() -> LengthDelimitedCodec {
    LengthDelimitedCodec::builder().max_frame_length(HEADER_BYTES + MESSAGE_BYTES_MAX).new_codec()
}

pub(crate) fn frame(number: u64, kind: u8, message: &[u8]) -> Bytes {
    let mut frame = BytesMut::with_capacity(HEADER_BYTES + message.len());
    frame.put_u64(number);
    frame.put_u8(kind);
    frame.put_slice(message);
    frame.freeze()
}

/// The number, the kind and the message of a frame.
pub(crate) fn parse(mut frame: BytesMut) -> io::Result<(u64, u8, Bytes)> {
    if frame.len() < HEADER_BYTES {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a frame is too short"));
    }
    Ok((frame.get_u64(), frame.get_u8(), frame.freeze()))
}
