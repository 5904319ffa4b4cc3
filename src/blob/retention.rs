//! How long blobs are kept, and how much of an output.

use std::time::Duration;

/// How long blobs are kept, how often somebody looks for those whose time is over, and how much is kept of one output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    blobs: Duration,
    sweep_every: Duration,
    output_bytes: usize,
}

/// Why a retention cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidRetention {
    /// What waits in a queue or is retried must still find its input.
    #[error("blobs kept for {} would be gone before they are used: keep them for {} at least", Said(*.0), Said(Retention::BLOBS_MIN))]
    TooShort(Duration),
    /// Times have an end.
    #[error("blobs cannot be kept for {}: {} is the most", Said(*.0), Said(Retention::BLOBS_MAX))]
    TooLong(Duration),
    /// Looking all the time is work, and never looking keeps everything.
    #[error(
        "looking for expired blobs every {} is not possible: every {} to {}",
        Said(*.0), Said(Retention::SWEEP_MIN), Said(Retention::SWEEP_MAX)
    )]
    Sweep(Duration),
    /// A fact carries that much by itself, and a blob has an end.
    #[error(
        "{0} bytes of an output cannot be kept: {min} to {max}",
        min = Retention::OUTPUT_BYTES_MIN,
        max = Retention::OUTPUT_BYTES_MAX
    )]
    Output(usize),
}

impl Retention {
    /// How long blobs are kept unless somebody says otherwise: 30 days.
    pub const BLOBS_DEFAULT: Duration = Duration::from_secs(30 * 24 * 3600);
    /// The shortest.
    pub const BLOBS_MIN: Duration = Duration::from_secs(60);
    /// The longest: ten years.
    pub const BLOBS_MAX: Duration = Duration::from_secs(3650 * 24 * 3600);
    /// A minute after its time a blob is gone, and the looks cost a read for each tenant.
    pub const SWEEP_DEFAULT: Duration = Duration::from_secs(60);
    /// The least time between two looks.
    pub const SWEEP_MIN: Duration = Duration::from_secs(1);
    /// The most.
    pub const SWEEP_MAX: Duration = Duration::from_secs(24 * 3600);

    /// The least that may be kept of an output.
    pub const OUTPUT_BYTES_MIN: usize = 64 * 1024;
    /// The most, and what is kept unless somebody says otherwise.
    pub const OUTPUT_BYTES_MAX: usize = super::Blobs::BYTES_MAX;

    /// Blobs are kept for `blobs`.
    pub fn of(blobs: Duration) -> Result<Self, InvalidRetention> {
        if blobs < Self::BLOBS_MIN {
            return Err(InvalidRetention::TooShort(blobs));
        }
        if blobs > Self::BLOBS_MAX {
            return Err(InvalidRetention::TooLong(blobs));
        }
        Ok(Self { blobs, ..Self::default() })
    }

    /// Somebody looks this often.
    pub fn swept_every(self, sweep_every: Duration) -> Result<Self, InvalidRetention> {
        if !(Self::SWEEP_MIN..=Self::SWEEP_MAX).contains(&sweep_every) {
            return Err(InvalidRetention::Sweep(sweep_every));
        }
        Ok(Self { sweep_every, ..self })
    }

    /// No more than this is kept of one output.
    pub fn of_outputs(self, output_bytes: usize) -> Result<Self, InvalidRetention> {
        if !(Self::OUTPUT_BYTES_MIN..=Self::OUTPUT_BYTES_MAX).contains(&output_bytes) {
            return Err(InvalidRetention::Output(output_bytes));
        }
        Ok(Self { output_bytes, ..self })
    }

    /// How much is kept of one output.
    pub fn output_bytes(&self) -> usize {
        self.output_bytes
    }

    /// How long blobs are kept.
    pub fn blobs(&self) -> Duration {
        self.blobs
    }

    /// How often somebody looks.
    pub fn sweep_every(&self) -> Duration {
        self.sweep_every
    }
}

impl Default for Retention {
    fn default() -> Self {
        Self {
            blobs: Self::BLOBS_DEFAULT,
            sweep_every: Self::SWEEP_DEFAULT,
            output_bytes: Self::OUTPUT_BYTES_MAX,
        }
    }
}

/// A duration as people say it: in its largest whole unit.
struct Said(Duration);

impl std::fmt::Display for Said {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let seconds = self.0.as_secs();
        let unit = [(86_400, "d"), (3_600, "h"), (60, "m")];
        let unit = unit.into_iter().find(|(unit, _)| seconds >= *unit && seconds.is_multiple_of(*unit));
        match unit {
            Some((unit, name)) => write!(f, "{}{name}", seconds / unit),
            None if self.0.subsec_millis() > 0 => write!(f, "{}ms", self.0.as_millis()),
            None => write!(f, "{seconds}s"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_retention_that_makes_no_sense_is_refused_with_what_would() {
        let seconds = Duration::from_secs;
        for bad in [Duration::ZERO, Duration::from_millis(59_999)] {
            let error = Retention::of(bad).unwrap_err();
            assert!(error.to_string().ends_with("keep them for 1m at least"), "{error}");
        }
        let error = Retention::of(Retention::BLOBS_MAX + seconds(1)).unwrap_err();
        assert!(error.to_string().ends_with("3650d is the most"), "{error}");
        assert_eq!(Retention::of(seconds(60)).unwrap().blobs(), seconds(60));
        assert_eq!(Retention::of(Retention::BLOBS_DEFAULT), Ok(Retention::default()));
        for bad in [Duration::ZERO, Duration::from_millis(999), seconds(86_401)] {
            let error = Retention::default().swept_every(bad).unwrap_err();
            assert!(error.to_string().ends_with("every 1s to 1d"), "{error}");
        }
        for bad in [0, Retention::OUTPUT_BYTES_MIN - 1, Retention::OUTPUT_BYTES_MAX + 1] {
            let error = Retention::default().of_outputs(bad).unwrap_err();
            assert!(error.to_string().ends_with("cannot be kept: 65536 to 134217728"), "{error}");
        }
        assert_eq!(Retention::default().of_outputs(65_536).unwrap().output_bytes(), 65_536);
        let often = Retention::default().swept_every(seconds(1)).unwrap();
        assert_eq!((often.sweep_every(), often.blobs()), (seconds(1), Retention::BLOBS_DEFAULT));
    }
}
