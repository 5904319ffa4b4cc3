//! The configuration of a node: one TOML file, the environment, and arguments.
//!
//! Every key is in one list ([`keys`]), with what it takes, its default and its meaning; the rest follows from there. A
//! value that is not what its key takes, or a key that is none, is refused with its name, where it was said, and what
//! was probably meant, all of them at once. Nothing is guessed and nothing is ignored.

pub mod duration;
pub mod keys;
mod layers;
mod node;
pub mod show;
mod value;

use std::{env, net::SocketAddr, path::PathBuf, time::Duration};

pub use self::{
    layers::{Invalid, Layers, Problem, Source, misspelt},
    node::{Bus, FdbTls, Gateway, Limits, Log, Node, Role, Store, Telemetry},
    value::{Kind, Value},
};
use crate::blob::Retention;

/// The variable that names the file.
pub const FILE_VARIABLE: &str = "CADRE_CONFIG";

/// A configuration that can be used.
#[derive(Debug, Clone)]
pub struct Config {
    /// Who the node is and what it does.
    pub node: Node,
    /// The API.
    pub gateway: Gateway,
    /// Where the truth is.
    pub store: Store,
    /// What connects the nodes.
    pub bus: Bus,
    /// How much there may be of what.
    pub limits: Limits,
    /// How long things are kept.
    pub retention: Retention,
    /// How long the host remembers idempotency keys.
    pub idempotency_keys: Duration,
    /// The log.
    pub log: Log,
    /// Where spans go.
    pub telemetry: Telemetry,
}

impl Config {
    /// Reads a file, if there is one, then the environment, then arguments: pairs of a key and a text, with the argument
    /// that said so.
    pub fn load(
        file: Option<PathBuf>,
        arguments: &[(String, String, String)],
    ) -> Result<(Self, Layers), Invalid> {
        let mut layers = Layers::default();
        if let Some(file) = file.or_else(|| env::var_os(FILE_VARIABLE).map(PathBuf::from)) {
            layers.file(&file);
        }
        layers.environment(|variable| env::var(variable).ok());
        for (argument, key, text) in arguments {
            layers.argument(argument, key, text);
        }
        Self::of(layers)
    }

    /// The configuration that these values are, or everything that is wrong with them.
    pub fn of(mut layers: Layers) -> Result<(Self, Layers), Invalid> {
        let wrong = layers.take_problems();
        let mut read = Read { layers: &layers, wrong };
        let config = Self {
            node: Node::read(&mut read),
            gateway: Gateway::read(&mut read),
            store: Store::read(&mut read),
            bus: Bus::read(&mut read),
            limits: Limits::read(&mut read),
            retention: read.retention(),
            idempotency_keys: read.duration("retention.idempotency_keys"),
            log: Log::read(&mut read),
            telemetry: Telemetry::read(&mut read),
        };
        config.check(&mut read);
        if read.wrong.is_empty() { Ok((config, layers)) } else { Err(Invalid(read.wrong)) }
    }

    /// What does not go together.
    fn check(&self, read: &mut Read<'_>) {
        let is_fdb = matches!(self.store, Store::FoundationDb { .. });
        if is_fdb && !cfg!(feature = "fdb") {
            read.refuse(
                "store.driver",
                "this binary was built without FoundationDB (cargo feature fdb)".into(),
            );
        }
        if !is_fdb && self.node.roles.len() == 1 {
            let reason = "an embedded store belongs to one process, which needs both roles; \
                          give a cluster FoundationDB (store.driver = \"fdb\")";
            read.refuse("node.roles", reason.into());
        }
        if is_fdb && matches!(self.bus, Bus::Local) {
            let reason = "nodes that share a store need a bus between them: bus.driver = \"nats\"";
            read.refuse("bus.driver", reason.into());
        }
    }
}

/// Reads values by their keys, and collects what is wrong.
struct Read<'a> {
    layers: &'a Layers,
    wrong: Vec<Problem>,
}

impl Read<'_> {
    fn text(&self, key: &str) -> String {
        match &self.layers.get(key).0 {
            Value::Text(text) => text.clone(),
            other => panic!("{key} is read as a text and is {other:?}"),
        }
    }

    /// A text, unless it is empty.
    fn some(&self, key: &str) -> Option<String> {
        Some(self.text(key)).filter(|text| !text.is_empty())
    }

    fn path(&self, key: &str) -> Option<PathBuf> {
        self.some(key).map(PathBuf::from)
    }

    fn address(&self, key: &str) -> SocketAddr {
        self.text(key).parse().expect("its kind was checked when it was set")
    }

    fn flag(&self, key: &str) -> bool {
        match &self.layers.get(key).0 {
            Value::Flag(flag) => *flag,
            other => panic!("{key} is read as a flag and is {other:?}"),
        }
    }

    fn count(&self, key: &str) -> usize {
        match &self.layers.get(key).0 {
            Value::Count(number) => usize::try_from(*number).unwrap_or(usize::MAX),
            other => panic!("{key} is read as a number and is {other:?}"),
        }
    }

    fn duration(&self, key: &str) -> Duration {
        match &self.layers.get(key).0 {
            Value::Duration(duration, _) => *duration,
            other => panic!("{key} is read as a duration and is {other:?}"),
        }
    }

    fn ratio(&self, key: &str) -> f64 {
        match &self.layers.get(key).0 {
            Value::Ratio(ratio) => *ratio,
            other => panic!("{key} is read as a ratio and is {other:?}"),
        }
    }

    fn texts(&self, key: &str) -> Vec<String> {
        match &self.layers.get(key).0 {
            Value::Texts(texts) => texts.clone(),
            other => panic!("{key} is read as a list and is {other:?}"),
        }
    }

    fn retention(&self) -> Retention {
        let blobs = Retention::of(self.duration("retention.blobs"));
        let swept = blobs.and_then(|kept| kept.swept_every(self.duration("retention.sweep_every")));
        let cut = swept.and_then(|kept| kept.of_outputs(self.count("limits.output_bytes")));
        cut.expect("the keys have the same bounds")
    }

    fn refuse(&mut self, key: &str, reason: String) {
        let source = self.layers.get(key).1.clone();
        self.wrong.push(Problem { key: Some(key.into()), source, reason });
    }
}

#[cfg(test)]
mod tests;
