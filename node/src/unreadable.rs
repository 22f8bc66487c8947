//! Responses to requests over HTTP/1 whose head hyper cannot read. hyper writes the head of such a
//! response itself, before it ends the connection, and gives it no body. The client gets the body of
//! all other errors.

use std::io;
use std::task::{Poll, ready};

use api::unreadable_head;

/// How hyper's own responses start, and what all others contain.
const OWN: [&[u8]; 2] = [b"HTTP/1.1 400 ", b"HTTP/1.1 431 "];
const OTHERS: &[u8] = b"\r\nx-request-id: ";

/// The rest of a response that is written in place of hyper's own.
#[derive(Default)]
pub(crate) struct Unreadable(Option<Vec<u8>>);

impl Unreadable {
    /// Writes what hyper writes, or the response in its place. `is_idle`: no request is handled, and
    /// no response to one is being sent.
    pub(crate) fn poll_write(
        &mut self,
        is_idle: impl FnOnce() -> bool,
        bytes: &[u8],
        mut write: impl FnMut(&[u8]) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if self.0.is_none() && is_own(bytes) && is_idle() {
            self.0 = Some(unreadable_head(bytes.starts_with(OWN[1])).into_bytes());
        }
        let Some(rest) = &mut self.0 else { return write(bytes) };
        while !rest.is_empty() {
            let written = ready!(write(rest))?;
            if written == 0 {
                return Poll::Ready(Ok(0));
            }
            rest.drain(..written);
        }
        // Nothing follows: the connection ends.
        Poll::Ready(Ok(bytes.len()))
    }
}

fn is_own(bytes: &[u8]) -> bool {
    OWN.iter().any(|start| bytes.starts_with(start))
        && bytes.ends_with(b"\r\n\r\n")
        && !bytes.windows(OTHERS.len()).any(|part| part == OTHERS)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYPERS: &[u8] = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n";

    /// What is sent when hyper writes these bytes until all are taken, and the network takes ten
    /// bytes at every second attempt.
    fn sent(is_idle: bool, mut bytes: &[u8]) -> String {
        let (mut unreadable, mut sent, mut attempts) = (Unreadable::default(), Vec::new(), 0);
        while !bytes.is_empty() {
            let written = unreadable.poll_write(
                || is_idle,
                bytes,
                |bytes| {
                    attempts += 1;
                    if attempts % 2 == 0 {
                        return Poll::Pending;
                    }
                    let part = &bytes[..bytes.len().min(10)];
                    sent.extend_from_slice(part);
                    Poll::Ready(Ok(part.len()))
                },
            );
            if let Poll::Ready(written) = written {
                bytes = &bytes[written.unwrap()..];
            }
        }
        String::from_utf8(sent).unwrap()
    }

    #[test]
    fn only_hypers_own_responses_are_replaced() {
        let replaced = sent(true, HYPERS);
        assert!(
            replaced.starts_with("HTTP/1.1 400 Bad Request\r\nconnection: close"),
            "{replaced}"
        );
        assert!(replaced.contains("\r\n\r\n{\"error\":\"bad_http\""), "{replaced}");
        let hypers = std::str::from_utf8(HYPERS).unwrap();
        assert_eq!(sent(false, HYPERS), hypers, "a response to a request is being sent");
        let ours = hypers.replace("content", "x-request-id: 1\r\ncontent");
        assert_eq!(sent(true, ours.as_bytes()), ours);
        let success = hypers.replace("400", "200");
        assert_eq!(sent(true, success.as_bytes()), success);
    }
}
