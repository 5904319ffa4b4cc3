//! Money between probes: what must not change however often nodes come and go.
