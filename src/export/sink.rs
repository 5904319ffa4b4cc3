//! Bytes of a pack, up to a bound.

use std::io;

use serde::Serialize;

/// The largest pack: below the largest blob, so that what is refused is refused before it is written.
pub const BYTES_MAX: usize = 100 * 1024 * 1024;

/// A pack is larger than it may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the export is over the limit of {limit} bytes: narrow it with threadId, turnId or taskId")]
pub struct Full {
    /// The bound.
    pub limit: usize,
}

/// JSON text that grows up to a bound. Only the text is kept, never a tree of it.
#[derive(Debug)]
pub struct Sink {
    bytes: Vec<u8>,
    max: usize,
}

impl Default for Sink {
    fn default() -> Self {
        Self::new(BYTES_MAX)
    }
}

impl Sink {
    /// With room for `max` bytes.
    pub fn new(max: usize) -> Self {
        Self { bytes: Vec::new(), max }
    }

    /// Adds text as it is.
    pub fn text(&mut self, text: &str) -> Result<(), Full> {
        io::Write::write_all(self, text.as_bytes()).map_err(|_| Full { limit: self.max })
    }

    /// Adds a value.
    ///
    /// # Panics
    /// When the value is not JSON, which is a bug in its type.
    pub fn json<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Full> {
        match serde_json::to_writer(&mut *self, value) {
            Ok(()) => Ok(()),
            Err(error) if error.is_io() => Err(Full { limit: self.max }),
            Err(error) => panic!("what is exported is JSON: {error}"),
        }
    }

    /// Adds a field of an object; `first` when none came before it.
    pub fn field<T: Serialize + ?Sized>(&mut self, first: bool, name: &str, value: &T) -> Result<(), Full> {
        self.text(if first { "" } else { "," })?;
        self.json(name)?;
        self.text(":")?;
        self.json(value)
    }

    /// All of it.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

impl io::Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + bytes.len() > self.max {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sink_takes_what_fits_and_names_its_limit_when_nothing_more_does() {
        let mut sink = Sink::new(20);
        sink.text("{").unwrap();
        sink.field(true, "a", &[1, 2]).unwrap();
        assert_eq!(sink.field(false, "b", &"x".repeat(20)), Err(Full { limit: 20 }));
        assert!(Full { limit: 20 }.to_string().contains("20 bytes"));
    }
}
