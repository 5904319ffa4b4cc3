//! All keys, once: the file, the environment, the documentation and `cadre config show` are made from this list.
//!
//! To add one: a line here, and a field where [`super::Config`] reads it.

use super::value::Kind::{self, *};
use crate::blob::Retention;

/// One setting.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// `section.name`, as in the file.
    pub name: &'static str,
    /// What it takes.
    pub kind: Kind,
    /// What it is unless somebody says otherwise, as text. Empty: nothing.
    pub default: &'static str,
    /// What it means, for people.
    pub help: &'static str,
    /// Whether it must not be shown.
    pub secret: bool,
    /// A shorter name in the environment, which `cadre dev` knows as well.
    pub short: Option<&'static str>,
}

impl Key {
    const fn new(name: &'static str, kind: Kind, default: &'static str, help: &'static str) -> Self {
        Self { name, kind, default, help, secret: false, short: None }
    }

    const fn secret(self) -> Self {
        Self { secret: true, ..self }
    }

    const fn short(self, name: &'static str) -> Self {
        Self { short: Some(name), ..self }
    }

    /// Its name in the environment: `gateway.listen` is `CADRE_GATEWAY_LISTEN`.
    pub fn variable(&self) -> String {
        format!("CADRE_{}", self.name.replace('.', "_").to_ascii_uppercase())
    }
}

const MINUTE: u64 = 60;
const DAY: u64 = 24 * 3_600;
const SWEEP: (u64, u64) = (Retention::SWEEP_MIN.as_secs(), Retention::SWEEP_MAX.as_secs());
const BLOBS: (u64, u64) = (Retention::BLOBS_MIN.as_secs(), Retention::BLOBS_MAX.as_secs());
const OUTPUTS: (u64, u64) = (Retention::OUTPUT_BYTES_MIN as u64, Retention::OUTPUT_BYTES_MAX as u64);

/// The list, section by section.
pub const KEYS: &[Key] = &[
    Key::new("node.name", Text, "", "the node's name, stable and unique in the cluster; empty: the host's"),
    Key::new("node.cluster", Text, "cadre", "the cluster's name, the same for all its nodes"),
    Key::new(
        "node.roles",
        Choices(&["gateway", "worker"]),
        "gateway,worker",
        "gateway: serves the API. worker: hosts entities",
    ),
    Key::new(
        "node.shards",
        Count(1, 4_096),
        "256",
        "into how many parts a cluster is divided; fixed when it is created",
    ),
    Key::new(
        "node.lease_ttl",
        Duration(1, MINUTE),
        "2s",
        "how long a worker may be silent before others take its shards",
    ),
    Key::new(
        "node.drain_max",
        Duration(1, 10 * MINUTE),
        "25s",
        "how long a node may take to hand over before it ends anyhow",
    ),
    Key::new(
        "node.health_listen",
        Address,
        "127.0.0.1:7601",
        "where a worker without a gateway answers /healthz, /readyz and /metrics",
    ),
    Key::new("gateway.listen", Address, "127.0.0.1:7600", "where the API is served; port 0 is any free one")
        .short("CADRE_LISTEN"),
    Key::new(
        "gateway.insecure",
        Flag,
        "false",
        "listen where other machines can reach it, although nothing protects it",
    ),
    Key::new(
        "gateway.command_deadline",
        Duration(1, 10 * MINUTE),
        "30s",
        "how long a command may take when its caller does not say",
    ),
    Key::new(
        "gateway.sign_of_life_every",
        Duration(1, 10 * MINUTE),
        "15s",
        "how often somebody who follows a silent feed hears something",
    ),
    Key::new(
        "gateway.cors_origins",
        Texts,
        "",
        "web pages that may use the API from a browser, such as https://console.example; * for all",
    ),
    Key::new(
        "gateway.compression",
        Flag,
        "true",
        "compress answers for clients that ask for it; never streams",
    ),
    Key::new(
        "store.driver",
        Choice(&["embedded", "fdb"]),
        "embedded",
        "embedded: a folder of this process alone. fdb: FoundationDB, which a cluster needs",
    ),
    Key::new(
        "store.data",
        Text,
        "",
        "the folder of the embedded store; empty: `cadre` in the user's data directory",
    )
    .short("CADRE_DATA"),
    Key::new(
        "store.cluster_file",
        Text,
        "",
        "FoundationDB's cluster file; empty: the one its own rules find",
    ),
    Key::new("store.tls_cert_file", Text, "", "FoundationDB: the file with our certificate chain"),
    Key::new("store.tls_key_file", Text, "", "FoundationDB: the file with its private key"),
    Key::new("store.tls_ca_file", Text, "", "FoundationDB: the file with the authorities to trust"),
    Key::new(
        "store.tls_verify_peers",
        Text,
        "",
        "FoundationDB: what the other side's certificate has to say",
    ),
    Key::new("store.tls_password", Text, "", "FoundationDB: the passphrase of the private key").secret(),
    Key::new(
        "bus.driver",
        Choice(&["local", "nats"]),
        "local",
        "local: within this process. nats: what connects the nodes of a cluster",
    ),
    Key::new("bus.servers", Texts, "nats://127.0.0.1:4222", "NATS servers; tls:// to insist on TLS"),
    Key::new("bus.credentials_file", Text, "", "NATS: a .creds file"),
    Key::new("bus.user", Text, "", "NATS: the user, with bus.password"),
    Key::new("bus.password", Text, "", "NATS: the password").secret(),
    Key::new("bus.token", Text, "", "NATS: a token").secret(),
    Key::new("bus.nkey_seed", Text, "", "NATS: the seed of an nkey").secret(),
    Key::new("bus.tls_ca_file", Text, "", "NATS: the authorities to trust, instead of the system's"),
    Key::new("bus.tls_cert_file", Text, "", "NATS: our certificate, when the server asks for one"),
    Key::new("bus.tls_key_file", Text, "", "NATS: its private key"),
    Key::new("bus.connect_timeout", Duration(1, MINUTE), "5s", "NATS: how long connecting may take"),
    Key::new(
        "limits.entities_live",
        Count(100, 10_000_000),
        "20000",
        "the most entities in memory; the rest waits in the store",
    ),
    Key::new(
        "limits.inputs_waiting",
        Count(100, 10_000_000),
        "100000",
        "the most inputs that wait on this node",
    ),
    Key::new(
        "limits.inputs_waiting_bytes",
        Count(1 << 20, 1 << 40),
        "268435456",
        "the most bytes that they hold",
    ),
    Key::new(
        "limits.output_bytes",
        Count(OUTPUTS.0, OUTPUTS.1),
        "134217728",
        "how much of one output is kept",
    )
    .short("CADRE_OUTPUT_BYTES_MAX"),
    Key::new(
        "retention.blobs",
        Duration(BLOBS.0, BLOBS.1),
        "30d",
        "how long outputs, inputs and exports are kept that are too large for facts",
    )
    .short("CADRE_BLOB_RETENTION"),
    Key::new(
        "retention.sweep_every",
        Duration(SWEEP.0, SWEEP.1),
        "60s",
        "how often to look for those whose time is over",
    )
    .short("CADRE_SWEEP_EVERY"),
    Key::new(
        "retention.idempotency_keys",
        Duration(DAY, 30 * DAY),
        "25h",
        "how long the host remembers keys; 24 hours are promised",
    ),
    Key::new("log.filter", Text, "warn", "what is logged: a level, or directives as in RUST_LOG"),
    Key::new("log.format", Choice(&["text", "json"]), "text", "how a line of the log looks"),
    Key::new(
        "telemetry.otlp_endpoint",
        Text,
        "",
        "where spans are sent: OTLP over HTTP, such as http://127.0.0.1:4318; empty: nowhere",
    ),
    Key::new("telemetry.otlp_headers", Texts, "", "headers for it, as name=value").secret(),
    Key::new("telemetry.sample_ratio", Ratio, "1", "which part of the traces is sent that begin here"),
];

/// The key of that name.
pub fn find(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.name == name)
}

/// The one that was probably meant.
pub fn nearest(name: &str) -> Option<&'static str> {
    let name = name.to_ascii_lowercase();
    // Somebody may know the key, and not its section.
    let last = name.rsplit('.').next().unwrap_or(&name);
    let same = KEYS.iter().find(|key| key.name.rsplit('.').next() == Some(last));
    let distance = |key: &Key| (edits(&name, key.name), key.name);
    let (edits, near) = KEYS.iter().map(distance).min()?;
    let near_enough = edits <= 3.min(name.len() / 3);
    near_enough.then_some(near).or(same.map(|key| key.name))
}

/// How many letters have to be changed, added or left out.
pub(super) fn edits(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    // A name may come from anybody's file: what is far too long is far from everything.
    for (i, one) in from.chars().take(128).enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, other) in to.iter().enumerate() {
            let change = diagonal + usize::from(one != *other);
            diagonal = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_key_has_a_name_of_its_own_and_a_default_that_it_takes() {
        let mut names = BTreeSet::new();
        for key in KEYS {
            assert!(names.insert(key.variable()), "{} twice", key.variable());
            assert!(key.short.is_none_or(|short| names.insert(short.into())), "{:?} twice", key.short);
            assert_eq!(key.name.split('.').count(), 2, "{}", key.name);
            if let Err(reason) = key.kind.parse(key.default) {
                panic!("{}: {reason}", key.name);
            }
        }
    }

    #[test]
    fn the_nearest_key_is_the_one_that_was_meant() {
        for (typed, meant) in [
            ("gateway.listn", Some("gateway.listen")),
            ("node.role", Some("node.roles")),
            ("listen", Some("gateway.listen")),
            ("bus.sample_ratio", Some("telemetry.sample_ratio")),
            ("Store.Driver", Some("store.driver")),
            ("nothing.like_that_at_all", None),
        ] {
            assert_eq!(nearest(typed), meant, "{typed}");
        }
        assert_eq!(nearest(&"x".repeat(100_000)), None);
    }
}
