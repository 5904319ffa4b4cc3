//! How to reach a cluster.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{Tls, network::Settings};
use crate::store::OpenError;

/// Where the cluster is, and how long to wait for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The name of our cluster: its data is in the directory `("cadre", <cluster>)`.
    pub cluster: String,
    /// The cluster file. When missing: the one that `FDB_CLUSTER_FILE` names, else `fdb.cluster` in the
    /// working directory, else the one that the client package installs.
    #[serde(default)]
    pub cluster_file: Option<PathBuf>,
    /// Certificates, for a cluster whose addresses end in `:tls`.
    #[serde(default)]
    pub tls: Option<Tls>,
    /// A folder of further client libraries, for clusters that run another version than the linked library,
    /// as during an upgrade.
    #[serde(default)]
    pub external_client_directory: Option<PathBuf>,
    /// Where the client library writes its own log; it writes none when missing.
    #[serde(default)]
    pub trace_directory: Option<PathBuf>,
    /// How long [`super::open`] waits for the cluster.
    #[serde(default = "Config::open_timeout_ms_default")]
    pub open_timeout_ms: u64,
    /// How long one read, or one commit, waits for the cluster. A read is then unavailable and a commit's
    /// outcome unknown.
    #[serde(default = "Config::transaction_timeout_ms_default")]
    pub transaction_timeout_ms: u64,
    /// How many keys may be watched at once.
    #[serde(default = "Config::watches_max_default")]
    pub watches_max: u32,
}

impl Config {
    /// The longest name of a cluster: it is part of a key.
    const CLUSTER_BYTES_MAX: usize = 256;
    /// What the client library allows.
    const WATCHES_MAX: u32 = 1_000_000;

    /// The cluster of that name, everything else by default.
    pub fn new(cluster: impl Into<String>) -> Self {
        Self {
            cluster: cluster.into(),
            cluster_file: None,
            tls: None,
            external_client_directory: None,
            trace_directory: None,
            open_timeout_ms: Self::open_timeout_ms_default(),
            transaction_timeout_ms: Self::transaction_timeout_ms_default(),
            watches_max: Self::watches_max_default(),
        }
    }

    /// A cluster that recovers from the loss of a machine is away for a few seconds.
    fn open_timeout_ms_default() -> u64 {
        10_000
    }

    /// No transaction may live longer, so no wait can be worth more.
    fn transaction_timeout_ms_default() -> u64 {
        5_000
    }

    /// A node watches a handful of keys, never one per entity.
    fn watches_max_default() -> u32 {
        256
    }

    /// Refuses what cannot work, before anything is started that cannot be started again.
    pub(super) fn check(&self) -> Result<(), OpenError> {
        let refuse = |reason: String| Err(OpenError::Unreachable { reason });
        match self.cluster.len() {
            0 => return refuse("the cluster has no name; set `cluster`".into()),
            len if len > Self::CLUSTER_BYTES_MAX => {
                let max = Self::CLUSTER_BYTES_MAX;
                return refuse(format!("the cluster's name has {len} bytes, at most {max} are allowed"));
            }
            _ => {}
        }
        if self.open_timeout_ms == 0 || self.transaction_timeout_ms == 0 {
            return refuse("a timeout of 0 ms leaves no time to answer; leave it out for the default".into());
        }
        if self.watches_max > Self::WATCHES_MAX {
            return refuse(format!(
                "watches_max is {}, at most {} work",
                self.watches_max,
                Self::WATCHES_MAX
            ));
        }
        self.network().check()
    }

    /// What the whole process shares.
    pub(super) fn network(&self) -> Settings {
        Settings {
            tls: self.tls.clone(),
            external_client_directory: self.external_client_directory.clone(),
            trace_directory: self.trace_directory.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde::de::{
        IntoDeserializer,
        value::{Error, MapDeserializer},
    };

    use super::*;

    fn parse(pairs: &[(&str, &str)]) -> Result<Config, Error> {
        let pairs = pairs.iter().copied();
        Config::deserialize(MapDeserializer::new(pairs.map(|(key, value)| (key, value.into_deserializer()))))
    }

    #[test]
    fn a_name_is_all_that_has_to_be_given() {
        assert_eq!(parse(&[("cluster", "prod")]).unwrap(), Config::new("prod"));
        assert!(parse(&[]).unwrap_err().to_string().contains("cluster"));
    }

    #[test]
    fn a_misspelt_setting_is_refused() {
        let error = parse(&[("cluster", "prod"), ("clusterfile", "/tmp/fdb.cluster")]).unwrap_err();
        assert!(error.to_string().contains("clusterfile"), "{error}");
    }

    #[test]
    fn what_cannot_work_is_refused_by_name() {
        let refusal = |config: Config| config.check().unwrap_err().to_string();
        assert!(refusal(Config::new("")).contains("`cluster`"));
        assert!(refusal(Config::new("x".repeat(257))).contains("257"));
        assert!(refusal(Config { transaction_timeout_ms: 0, ..Config::new("prod") }).contains("0 ms"));
        assert!(refusal(Config { watches_max: 2_000_000, ..Config::new("prod") }).contains("2000000"));
    }
}
