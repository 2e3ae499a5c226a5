//! Keeps the beginning and the end of what a program prints, in bounded space.
//!
//! The beginning often says what was done, the end why it failed; what lies between is counted and left out.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

/// Bytes kept of the beginning.
const HEAD_LEN: usize = 16 << 10;
/// Bytes kept of the end.
const TAIL_LEN: usize = 48 << 10;

// Two outputs of one program are kept as a result, where a byte may take six characters of JSON.
const _: () = assert!((HEAD_LEN + TAIL_LEN) * 2 * 6 + 1_024 < windlass::job::PAYLOAD_LEN_MAX);

/// An output as it comes in.
#[derive(Debug, Default)]
pub(super) struct Capture {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    len: u64,
}

/// An output as it is kept.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Captured {
    /// Bytes that are no UTF-8 are replaced.
    pub(super) text: String,
    /// All of it, in bytes.
    pub(super) len: u64,
}

impl Capture {
    /// Takes what was read.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.len += bytes.len() as u64;
        let (head, rest) = bytes.split_at(bytes.len().min(HEAD_LEN - self.head.len()));
        self.head.extend_from_slice(head);
        // Of one piece no more than fits is ever looked at.
        let rest = &rest[rest.len().saturating_sub(TAIL_LEN)..];
        let surplus = (self.tail.len() + rest.len()).saturating_sub(TAIL_LEN);
        self.tail.drain(..surplus);
        self.tail.extend(rest);
    }

    /// What is kept, with a line in the gap if there is one.
    pub(super) fn finish(&self) -> Captured {
        let kept = (self.head.len() + self.tail.len()) as u64;
        let mut bytes = self.head.clone();
        if self.len > kept {
            bytes.extend_from_slice(format!("\n… {} bytes left out …\n", self.len - kept).as_bytes());
        }
        bytes.extend(&self.tail);
        Captured { text: String::from_utf8_lossy(&bytes).into_owned(), len: self.len }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn captured(pieces: &[&[u8]]) -> Captured {
        let mut capture = Capture::default();
        pieces.iter().for_each(|piece| capture.push(piece));
        capture.finish()
    }

    #[test]
    fn a_short_output_is_kept_whole() {
        assert_eq!(captured(&[b"a ", b"", b"line\n"]), Captured { text: "a line\n".to_owned(), len: 7 });
        let full = vec![b'x'; HEAD_LEN + TAIL_LEN];
        assert_eq!(captured(&[&full]).text.len(), full.len());
    }

    #[test]
    fn of_a_long_output_the_two_ends_are_kept_and_the_gap_is_counted() {
        let line = |number: usize| format!("{number:09}\n");
        let lines: Vec<String> = (0..100_000).map(line).collect();
        let pieces: Vec<&[u8]> = lines.iter().map(|line| line.as_bytes()).collect();

        for captured in [captured(&pieces), captured(&[lines.concat().as_bytes()])] {
            assert_eq!(captured.len, 1_000_000);
            assert!(captured.text.starts_with(&line(0)) && captured.text.ends_with(&line(99_999)));
            assert!(captured.text.contains("… 934464 bytes left out …"));
            assert!(captured.text.len() < HEAD_LEN + TAIL_LEN + 100);
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_replaced() {
        assert_eq!(captured(&[b"a\xffb"]).text, "a\u{fffd}b");
    }
}
