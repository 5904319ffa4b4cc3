//! How many events a client is ready for.

use crate::control::Error;

/// Counts what may still be sent.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Credit(u64);

impl Credit {
    /// What every connection begins with.
    pub(super) const FIRST: u64 = 256;
    /// What nobody needs more of: as many events as are sent in some seconds.
    pub(super) const MAX: u64 = 1_000_000;

    /// That of a new connection.
    pub(super) fn first() -> Self {
        Self(Self::FIRST)
    }

    /// How many are left.
    pub(super) fn left(&self) -> usize {
        self.0 as usize
    }

    /// The client is ready for more.
    pub(super) fn add(&mut self, events: u64) -> Result<(), Error> {
        if !(1..=Self::MAX).contains(&events) {
            return Err(Error::invalid("events", format_args!("must be 1 to {}, not {events}", Self::MAX)));
        }
        self.0 = (self.0 + events).min(Self::MAX);
        Ok(())
    }

    /// So many were sent.
    pub(super) fn take(&mut self, events: usize) {
        self.0 = self.0.saturating_sub(events as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p9_credit_never_overflows() {
        let mut credit = Credit::first();
        assert_eq!(credit.left(), 256);
        for bad in [0, Credit::MAX + 1, u64::MAX] {
            assert_eq!(credit.add(bad).unwrap_err().field(), Some("events"));
        }
        assert_eq!(credit.left(), 256, "what is refused changes nothing");
        for _ in 0..3 {
            credit.add(Credit::MAX).unwrap();
        }
        assert_eq!(credit.left() as u64, Credit::MAX);
        credit.take(10);
        assert_eq!(credit.left() as u64, Credit::MAX - 10);
    }
}
