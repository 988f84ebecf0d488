//! The receiving half: the bytes that have arrived, in order and beyond gaps.

use super::segment::Sequence;

/// The bytes beyond `next` that have arrived: ordered ranges that neither touch nor overlap.
#[derive(Clone, Debug, Default)]
pub struct Receiver {
    next: Sequence,
    ahead: Vec<(Sequence, Sequence)>,
}

impl Receiver {
    /// A receiver whose first byte is `next`.
    pub fn expect(&mut self, next: Sequence) {
        self.next = next;
        self.ahead.clear();
    }

    /// The first byte that has not arrived.
    pub const fn next(&self) -> Sequence {
        self.next
    }

    /// Whether something has arrived ahead of a gap.
    pub const fn has_gap(&self) -> bool {
        !self.ahead.is_empty()
    }

    /// Receives `[start, end)`; returns the number of bytes that are newly in order.
    pub fn receive(&mut self, start: Sequence, end: Sequence) -> u32 {
        if !self.next.is_before(end) {
            return 0;
        }
        if self.next.is_before(start) {
            self.store(start, end);
            return 0;
        }
        let before = self.next;
        self.next = end;
        while let Some(&(start, end)) = self.ahead.first() {
            if self.next.is_before(start) {
                break;
            }
            self.next = self.next.max(end);
            self.ahead.remove(0);
        }
        self.next - before
    }

    fn store(&mut self, mut start: Sequence, mut end: Sequence) {
        self.ahead.retain(|&(first, last)| {
            let apart = last.is_before(start) || end.is_before(first);
            if !apart {
                start = if first.is_before(start) { first } else { start };
                end = end.max(last);
            }
            apart
        });
        let place = self
            .ahead
            .iter()
            .position(|&(first, _)| start.is_before(first))
            .unwrap_or(self.ahead.len());
        self.ahead.insert(place, (start, end));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receive(receiver: &mut Receiver, start: u32, end: u32) -> u32 {
        receiver.receive(Sequence(start), Sequence(end))
    }

    #[test]
    fn a_filled_gap_releases_what_came_ahead_of_it() {
        let mut receiver = Receiver::default();
        receiver.expect(Sequence(100));
        assert_eq!(receive(&mut receiver, 200, 300), 0);
        assert_eq!(receive(&mut receiver, 400, 500), 0);
        assert_eq!(receive(&mut receiver, 300, 350), 0);
        assert!(receiver.has_gap());
        assert_eq!(receive(&mut receiver, 100, 200), 250);
        assert_eq!(receive(&mut receiver, 350, 400), 150);
        assert!(!receiver.has_gap());
        assert_eq!(
            receive(&mut receiver, 100, 500),
            0,
            "duplicates count for nothing"
        );
    }
}
