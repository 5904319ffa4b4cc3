//! The sections of a configuration, as the node uses them.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use cadre_cluster::bus::nats::{Credentials, NatsConfig, TlsConfig};

use super::Read;
use crate::http;

/// What a process does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It serves the API.
    Gateway,
    /// It hosts entities.
    Worker,
}

/// `[node]`
#[derive(Debug, Clone)]
pub struct Node {
    /// Unique in the cluster, and the same after a restart.
    pub name: String,
    /// The cluster.
    pub cluster: String,
    /// What it does; at least one thing.
    pub roles: Vec<Role>,
    /// Into how many parts the cluster is divided.
    pub shards: u16,
    /// How long it may be silent.
    pub lease_ttl: Duration,
    /// How long it may take to hand over.
    pub drain_max: Duration,
    /// Where a worker without a gateway answers those who watch over it.
    pub health_listen: SocketAddr,
}

impl Node {
    /// What can be a member's name: it is part of keys.
    const NAME_BYTES_MAX: usize = 128;

    pub(super) fn read(read: &mut Read<'_>) -> Self {
        let name = read.some("node.name").or_else(host_name).unwrap_or_default();
        if name.is_empty() {
            read.refuse("node.name", "this host does not say its name; give the node one".into());
        }
        let cluster = read.text("node.cluster");
        for (key, name) in [("node.name", &name), ("node.cluster", &cluster)] {
            let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
            if name.len() > Self::NAME_BYTES_MAX || !name.chars().all(is_plain) {
                let max = Self::NAME_BYTES_MAX;
                read.refuse(key, format!("a name has letters, digits, dots, dashes and _, at most {max}"));
            }
        }
        if cluster.is_empty() {
            read.refuse("node.cluster", "the cluster needs a name".into());
        }
        let mut roles = Vec::new();
        for role in read.texts("node.roles") {
            let role = if role == "gateway" { Role::Gateway } else { Role::Worker };
            if !roles.contains(&role) {
                roles.push(role);
            }
        }
        Self {
            name,
            cluster,
            roles,
            shards: u16::try_from(read.count("node.shards")).expect("its key is bounded"),
            lease_ttl: read.duration("node.lease_ttl"),
            drain_max: read.duration("node.drain_max"),
            health_listen: read.address("node.health_listen"),
        }
    }

    /// Whether it does that.
    pub fn is(&self, role: Role) -> bool {
        self.roles.contains(&role)
    }
}

/// What the host is called: in a pod that is the pod's name, which a StatefulSet keeps.
fn host_name() -> Option<String> {
    let said = std::env::var("HOSTNAME").ok();
    let said = said.or_else(|| std::fs::read_to_string("/proc/sys/kernel/hostname").ok());
    said.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty())
}

/// `[gateway]`
#[derive(Debug, Clone)]
pub struct Gateway {
    /// Where it listens.
    pub listen: SocketAddr,
    /// Whether others may reach it although nothing protects it.
    pub insecure: bool,
    /// How long a command may take.
    pub command_deadline: Duration,
    /// How it behaves.
    pub http: http::Settings,
}

impl Gateway {
    pub(super) fn read(read: &mut Read<'_>) -> Self {
        let origins = read.texts("gateway.cors_origins");
        if let Err(reason) = http::check_origins(&origins) {
            read.refuse("gateway.cors_origins", reason);
        }
        Self {
            listen: read.address("gateway.listen"),
            insecure: read.flag("gateway.insecure"),
            command_deadline: read.duration("gateway.command_deadline"),
            http: http::Settings {
                sign_of_life_every: read.duration("gateway.sign_of_life_every"),
                cors_origins: origins,
                compression: read.flag("gateway.compression"),
                ..http::Settings::default()
            },
        }
    }
}

/// `[store]`
#[derive(Debug, Clone)]
pub enum Store {
    /// A folder of this process alone.
    Embedded {
        /// The folder; none: the user's.
        data: Option<PathBuf>,
    },
    /// A FoundationDB cluster.
    FoundationDb {
        /// Its cluster file.
        cluster_file: Option<PathBuf>,
        /// Certificates.
        tls: FdbTls,
    },
}

/// What proves who we are to FoundationDB. `Debug` shows no secret.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct FdbTls {
    /// The file with our certificate chain.
    pub cert: Option<PathBuf>,
    /// The file with its private key.
    pub key: Option<PathBuf>,
    /// The file with the authorities to trust.
    pub ca: Option<PathBuf>,
    /// What the other side's certificate has to say.
    pub verify_peers: Option<String>,
    /// The passphrase of the key.
    pub password: Option<String>,
}

impl std::fmt::Debug for FdbTls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { cert, key, ca, verify_peers, password: _ } = self;
        let mut shown = f.debug_struct("FdbTls");
        shown.field("cert", cert).field("key", key).field("ca", ca).field("verify_peers", verify_peers);
        shown.finish_non_exhaustive()
    }
}

impl Store {
    pub(super) fn read(read: &mut Read<'_>) -> Self {
        if read.text("store.driver") == "embedded" {
            return Self::Embedded { data: read.path("store.data") };
        }
        let tls = FdbTls {
            cert: read.path("store.tls_cert_file"),
            key: read.path("store.tls_key_file"),
            ca: read.path("store.tls_ca_file"),
            verify_peers: read.some("store.tls_verify_peers"),
            password: read.some("store.tls_password"),
        };
        Self::FoundationDb { cluster_file: read.path("store.cluster_file"), tls }
    }
}

/// `[bus]`
#[derive(Debug, Clone)]
pub enum Bus {
    /// Within the process.
    Local,
    /// NATS.
    Nats(Box<NatsConfig>),
}

impl Bus {
    pub(super) fn read(read: &mut Read<'_>) -> Self {
        if read.text("bus.driver") == "local" {
            return Self::Local;
        }
        let servers = read.texts("bus.servers");
        if servers.is_empty() {
            read.refuse("bus.servers", "at least one server is needed".into());
        }
        let (user, password) = (read.some("bus.user"), read.some("bus.password"));
        if user.is_some() != password.is_some() {
            read.refuse("bus.user", "a user needs a password, and a password a user".into());
        }
        let mut ways = Vec::new();
        if let Some(file) = read.path("bus.credentials_file") {
            ways.push(Credentials::File(file));
        }
        if let (Some(user), Some(password)) = (user, password) {
            ways.push(Credentials::Password { user, password: password.as_str().into() });
        }
        if let Some(token) = read.some("bus.token") {
            ways.push(Credentials::Token(token.as_str().into()));
        }
        if let Some(seed) = read.some("bus.nkey_seed") {
            ways.push(Credentials::NkeySeed(seed.as_str().into()));
        }
        if ways.len() > 1 {
            let reason =
                "one way to prove who we are is enough: a credentials file, a user, a token or an nkey";
            read.refuse("bus.credentials_file", reason.into());
        }
        let tls = TlsConfig {
            ca_file: read.path("bus.tls_ca_file"),
            client_cert_file: read.path("bus.tls_cert_file"),
            client_key_file: read.path("bus.tls_key_file"),
            required: true,
        };
        if tls.client_cert_file.is_some() != tls.client_key_file.is_some() {
            read.refuse("bus.tls_cert_file", "a certificate needs its key, and a key its certificate".into());
        }
        let any_tls = tls.ca_file.is_some() || tls.client_cert_file.is_some();
        Self::Nats(Box::new(NatsConfig {
            servers,
            name: read.some("node.name").or_else(host_name).unwrap_or_else(|| "cadre".into()),
            credentials: ways.pop().unwrap_or_default(),
            tls: any_tls.then_some(tls),
            connect_timeout_ms: u64::try_from(read.duration("bus.connect_timeout").as_millis())
                .unwrap_or(u64::MAX),
            ..NatsConfig::default()
        }))
    }
}

/// `[limits]`
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Entities in memory.
    pub entities_live: usize,
    /// Inputs that wait.
    pub inputs_waiting: usize,
    /// What they hold.
    pub inputs_waiting_bytes: usize,
}

impl Limits {
    pub(super) fn read(read: &mut Read<'_>) -> Self {
        Self {
            entities_live: read.count("limits.entities_live"),
            inputs_waiting: read.count("limits.inputs_waiting"),
            inputs_waiting_bytes: read.count("limits.inputs_waiting_bytes"),
        }
    }
}

/// `[log]`
#[derive(Debug, Clone)]
pub struct Log {
    /// A level or directives.
    pub filter: String,
    /// One JSON object per line, instead of text.
    pub json: bool,
}

impl Log {
    pub(super) fn read(read: &mut Read<'_>) -> Self {
        let filter = read.text("log.filter");
        if let Err(error) = filter.parse::<tracing_subscriber::EnvFilter>() {
            read.refuse("log.filter", format!("is no filter: {error}"));
        }
        Self { filter, json: read.text("log.format") == "json" }
    }
}

/// `[telemetry]`. `Debug` shows no secret.
#[derive(Clone)]
pub struct Telemetry {
    /// Where spans are sent; `None`: nowhere.
    pub endpoint: Option<String>,
    /// Headers of each request.
    pub headers: Vec<(String, String)>,
    /// Which part of the traces that begin here.
    pub sample_ratio: f64,
}

impl std::fmt::Debug for Telemetry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<_> = self.headers.iter().map(|(name, _)| name).collect();
        let mut shown = f.debug_struct("Telemetry");
        shown.field("endpoint", &self.endpoint.is_some()).field("headers", &names);
        shown.field("sample_ratio", &self.sample_ratio).finish()
    }
}

impl Telemetry {
    pub(super) fn read(read: &mut Read<'_>) -> Self {
        let mut headers = Vec::new();
        for header in read.texts("telemetry.otlp_headers") {
            match header.split_once('=') {
                Some((name, value)) if axum::http::HeaderName::try_from(name.trim()).is_ok() => {
                    headers.push((name.trim().to_owned(), value.trim().to_owned()));
                }
                _ => read.refuse("telemetry.otlp_headers", "a header is name=value".into()),
            }
        }
        let endpoint = read.some("telemetry.otlp_endpoint");
        if endpoint.as_ref().is_some_and(|url| !url.starts_with("http://") && !url.starts_with("https://")) {
            read.refuse("telemetry.otlp_endpoint", "an http:// or https:// address is needed".into());
        }
        Self { endpoint, headers, sample_ratio: read.ratio("telemetry.sample_ratio") }
    }
}
