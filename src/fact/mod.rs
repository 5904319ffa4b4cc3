//! Facts: what has happened, as typed events in one envelope.
