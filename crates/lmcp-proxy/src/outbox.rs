//! Bytes to be written: lines are added at the back, and written bytes are removed at the front.

#[derive(Debug, Default)]
pub(crate) struct Outbox {
    bytes: Vec<u8>,
    /// The number of bytes that are written already.
    gone: usize,
    /// The beginning of the first line that is left was written.
    is_torn: bool,
}

impl Outbox {
    /// Adds a line, and a line end.
    pub(crate) fn push(&mut self, line: Vec<u8>) {
        if self.is_empty() && line.len() > SMALL {
            // A long line is not copied.
            self.bytes = line;
            self.gone = 0;
        } else {
            self.bytes.extend_from_slice(&line);
        }
        self.bytes.push(b'\n');
    }

    /// Notes that `written` bytes were written.
    pub(crate) fn advance(&mut self, written: usize) {
        self.gone += written;
        let last = self.bytes.get(..self.gone).and_then(<[u8]>::last);
        if written > 0 {
            self.is_torn = last != Some(&b'\n');
        }
        if self.is_empty() {
            self.clear();
        } else if self.gone > self.bytes.len() / 2 {
            self.bytes.drain(..self.gone);
            self.gone = 0;
        }
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.gone = 0;
        // The memory that one long line needed is freed.
        self.bytes.shrink_to(SMALL);
    }

    /// Returns the lines of which no byte was written. Removes them, and the rest of a torn line.
    pub(crate) fn take_whole(&mut self) -> Vec<Vec<u8>> {
        let lines = self.front().split_inclusive(|byte| *byte == b'\n');
        let lines = lines.skip(usize::from(self.is_torn));
        let whole = lines.filter_map(|line| line.strip_suffix(b"\n"));
        let whole = whole.map(<[u8]>::to_vec).collect();
        self.clear();
        self.is_torn = false;
        whole
    }

    /// Returns the bytes that are left.
    pub(crate) fn front(&self) -> &[u8] {
        self.bytes.get(self.gone..).unwrap_or_default()
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len().saturating_sub(self.gone)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

const SMALL: usize = 16 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_leave_in_the_order_they_came_however_they_are_taken() {
        let (mut outbox, mut taken) = (Outbox::default(), Vec::new());
        let lines: Vec<Vec<u8>> = [3, 40_000, 0, 17, 20_000]
            .into_iter()
            .zip(b'a'..)
            .map(|(length, letter)| vec![letter; length])
            .collect();
        for line in &lines {
            outbox.push(line.clone());
            let part = outbox.front()[..outbox.len().min(7000)].to_vec();
            outbox.advance(part.len());
            taken.extend(part);
        }
        taken.extend_from_slice(outbox.front());
        outbox.advance(outbox.len());
        let all: Vec<u8> = lines
            .into_iter()
            .flat_map(|line| [line, b"\n".to_vec()].concat())
            .collect();
        assert!(taken == all && outbox.is_empty() && outbox.bytes.capacity() <= SMALL);
    }

    #[test]
    fn lines_that_nobody_has_a_part_of_can_be_taken_back() {
        for (written, left) in [
            (0, &["abc", "de", "f"][..]),
            (1, &["de", "f"]),
            // The line was written without its end: the server may have understood it.
            (3, &["de", "f"]),
            (4, &["de", "f"]),
            (5, &["f"]),
            (8, &[]),
        ] {
            let mut outbox = Outbox::default();
            for line in ["abc", "de", "f"] {
                outbox.push(line.into());
            }
            for _ in 0..written {
                outbox.advance(1);
            }
            let left: Vec<_> = left.iter().map(|line| line.as_bytes().to_vec()).collect();
            assert_eq!(outbox.take_whole(), left, "{written}");
            assert!(outbox.is_empty() && outbox.take_whole().is_empty());
        }
    }
}
