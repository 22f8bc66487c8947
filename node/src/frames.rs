//! Counts the frames of HTTP/2 that a client sends. Each costs time of a processor. Those that
//! carry neither a request nor a part of its body are counted for themselves, since HTTP/2 bounds
//! none of them: SETTINGS, PING, WINDOW_UPDATE, PRIORITY, RST_STREAM, unknown types, and small
//! parts of a body that are not its last. Headers may decode to nothing, so each of their KiB
//! counts as such a frame too.

/// What a client of HTTP/2 sends first.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const HEADER_BYTES: usize = 9;
const DATA: u8 = 0;
/// A part of a body that is smaller, and not the last one, costs more than it carries.
const PART_BYTES_MIN: usize = 64;
const END_STREAM: u8 = 1;
const HEADERS: u8 = 1;
const HEADER_FRAME_BYTES: usize = 1 << 10;
const CONTINUATION: u8 = 9;

/// The position in the bytes that a client sends.
pub(crate) enum FrameCounter {
    /// These bytes of the preface have arrived.
    Preface(usize),
    /// These bytes of the header of a frame have arrived.
    Header([u8; HEADER_BYTES], usize),
    /// These bytes of a frame are missing.
    Payload(usize),
    /// The client does not use HTTP/2.
    Other,
}

/// The frames that begin in some bytes.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Frames {
    pub(crate) all: u32,
    /// Those that carry neither a request nor a part of its body, and the KiB of headers.
    pub(crate) without_request: u32,
}

impl FrameCounter {
    pub(crate) fn new() -> Self {
        Self::Preface(0)
    }

    /// Reads the next bytes. Returns the frames that begin in them.
    pub(crate) fn count(&mut self, mut bytes: &[u8]) -> Frames {
        let mut frames = Frames::default();
        while !bytes.is_empty() {
            let taken = match self {
                Self::Other => return frames,
                Self::Preface(arrived) => {
                    let rest = &PREFACE[*arrived..];
                    let taken = rest.len().min(bytes.len());
                    *self = match () {
                        () if rest[..taken] != bytes[..taken] => Self::Other,
                        () if taken < rest.len() => Self::Preface(*arrived + taken),
                        () => Self::Payload(0),
                    };
                    taken
                }
                Self::Payload(missing) => {
                    let taken = bytes.len().min(*missing);
                    *missing -= taken;
                    if *missing == 0 {
                        *self = Self::Header([0; HEADER_BYTES], 0);
                    }
                    taken
                }
                Self::Header(header, arrived) => {
                    let taken = bytes.len().min(HEADER_BYTES - *arrived);
                    header[*arrived..*arrived + taken].copy_from_slice(&bytes[..taken]);
                    *arrived += taken;
                    if *arrived == HEADER_BYTES {
                        let [high, middle, low, kind, flags, ..] = *header;
                        let length = u32::from_be_bytes([0, high, middle, low]) as usize;
                        let is_request = matches!(kind, HEADERS | CONTINUATION);
                        let is_part =
                            kind == DATA && (length >= PART_BYTES_MIN || flags & END_STREAM != 0);
                        let is_other = !is_request && !is_part;
                        frames.all += 1;
                        let of_headers = if is_request { length / HEADER_FRAME_BYTES } else { 0 };
                        frames.without_request += u32::from(is_other) + of_headers as u32;
                        *self = Self::Payload(length);
                    }
                    taken
                }
            };
            bytes = &bytes[taken..];
        }
        frames
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flagged(kind: u8, flags: u8, length: u8) -> Vec<u8> {
        [&[0, 0, length, kind, flags, 0, 0, 0, 1][..], &vec![kind; length as usize]].concat()
    }

    fn frame(kind: u8, length: u8) -> Vec<u8> {
        flagged(kind, 0, length)
    }

    #[test]
    fn frames_without_requests_are_counted_however_they_arrive() {
        let frames = [
            frame(4, 0),
            frame(HEADERS, 20),
            frame(CONTINUATION, 0),
            frame(DATA, 200),
            frame(DATA, 0),
            frame(6, 8),
            frame(0xbb, 255),
            frame(DATA, 1),
            flagged(DATA, END_STREAM, 0),
            flagged(DATA, END_STREAM, 1),
            [&[0, 8, 1, HEADERS, 0, 0, 0, 0, 3][..], &[0x20; 2_049]].concat(),
        ];
        let bytes = [PREFACE, &frames.concat()].concat();
        for piece in [1, 2, 8, 9, 10, 33, bytes.len()] {
            let mut counter = FrameCounter::new();
            let counts: Vec<_> = bytes.chunks(piece).map(|piece| counter.count(piece)).collect();
            let without_request: u32 = counts.iter().map(|frames| frames.without_request).sum();
            let all: u32 = counts.iter().map(|frames| frames.all).sum();
            assert_eq!((all, without_request), (11, 7), "in pieces of {piece} bytes");
        }
    }

    #[test]
    fn other_protocols_have_no_frames() {
        for start in ["GET / HTTP/1.1\r\n", "POST / HTTP/1.1\r\n", "PRI * HTTP/2.0\r\n\r\nX"] {
            let mut counter = FrameCounter::new();
            assert_eq!(counter.count(start.as_bytes()), Frames::default());
            assert_eq!(counter.count(&[0; 1_000]), Frames::default());
            assert!(matches!(counter, FrameCounter::Other));
        }
    }
}
