//! Durations of the command line are those of the configuration.

pub use cadre::config::duration::parse;
