//! How to reach a NATS server and prove who we are.

use std::{fmt, path::PathBuf, time::Duration};

use serde::Deserialize;

use crate::bus::DEFAULT_QUEUE_CAPACITY;

/// Settings of the NATS driver. `Debug` shows no secrets.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NatsConfig {
    /// Where servers listen: `nats://host:port`, or `tls://host:port` to insist on TLS. Any one will do, the
    /// others of its cluster are learned from it.
    pub servers: Vec<String>,
    /// What the server's monitoring calls this connection; also spreads the reconnects of a cluster's nodes.
    pub name: String,
    /// How to prove who we are.
    pub credentials: Credentials,
    /// Whom to trust, and as whom to appear. Absent: TLS when the server asks for it, with the system's roots.
    pub tls: Option<TlsConfig>,
    /// How long [`super::NatsBus::connect`] and a subscription may take.
    pub connect_timeout_ms: u64,
    /// The pause after the first round of failed reconnects; it doubles from there.
    pub reconnect_delay_ms_min: u64,
    /// The longest pause between reconnects.
    pub reconnect_delay_ms_max: u64,
    /// How often the server is asked for a sign of life; two missed ones end the connection.
    pub ping_interval_ms: u64,
    /// How many messages a subscription holds before further ones are lost, and how many requests may wait for
    /// their answers.
    pub subscription_capacity: usize,
}

impl Default for NatsConfig {
    fn default() -> Self {
        Self {
            servers: vec!["nats://127.0.0.1:4222".into()],
            name: "cadre".into(),
            credentials: Credentials::None,
            tls: None,
            connect_timeout_ms: 5_000,
            reconnect_delay_ms_min: 50,
            // Shards fail over within three seconds: a server that is back should not be missed for longer.
            reconnect_delay_ms_max: 2_000,
            ping_interval_ms: 5_000,
            subscription_capacity: DEFAULT_QUEUE_CAPACITY,
        }
    }
}

impl NatsConfig {
    pub(super) fn connect_timeout(&self) -> Duration {
        Duration::from_millis(self.connect_timeout_ms)
    }

    /// The servers, for people to read.
    pub(super) fn servers_masked(&self) -> String {
        self.servers.iter().map(|server| masked(server)).collect::<Vec<_>>().join(", ")
    }
}

impl fmt::Debug for NatsConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            servers: _,
            name,
            credentials,
            tls,
            connect_timeout_ms,
            reconnect_delay_ms_min,
            reconnect_delay_ms_max,
            ping_interval_ms,
            subscription_capacity,
        } = self;
        f.debug_struct("NatsConfig")
            .field("servers", &self.servers_masked())
            .field("name", name)
            .field("credentials", credentials)
            .field("tls", tls)
            .field("connect_timeout_ms", connect_timeout_ms)
            .field("reconnect_delay_ms_min", reconnect_delay_ms_min)
            .field("reconnect_delay_ms_max", reconnect_delay_ms_max)
            .field("ping_interval_ms", ping_interval_ms)
            .field("subscription_capacity", subscription_capacity)
            .finish()
    }
}

/// How to prove who we are.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Credentials {
    /// Not at all.
    #[default]
    None,
    /// With a `.creds` file, read once when the connection is made.
    File(PathBuf),
    /// With the text of such a file.
    Inline(Secret),
    /// With a user name and a password.
    Password {
        /// The user.
        user: String,
        /// The password.
        password: Secret,
    },
    /// With a token.
    Token(Secret),
    /// With the seed of an nkey.
    NkeySeed(Secret),
}

/// Whom to trust, and as whom to appear. The files are read at every reconnect, so they can be replaced.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TlsConfig {
    /// The authorities to trust, instead of the system's.
    pub ca_file: Option<PathBuf>,
    /// Our certificate, when the server asks for one.
    pub client_cert_file: Option<PathBuf>,
    /// The key of that certificate.
    pub client_key_file: Option<PathBuf>,
    /// Whether a connection without TLS is refused. It is, unless stated otherwise.
    pub required: bool,
}

impl Default for TlsConfig {
    fn default() -> Self {
        Self { ca_file: None, client_cert_file: None, client_key_file: None, required: true }
    }
}

/// A text that `Debug` does not show.
#[derive(Clone, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// The text.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// A server's address without the credentials that someone may have put into it.
pub(super) fn masked(server: &str) -> String {
    let Some((credentials, host)) = server.rsplit_once('@') else { return server.to_owned() };
    let scheme = credentials.split_once("://").map(|(scheme, _)| format!("{scheme}://"));
    format!("{}***@{host}", scheme.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_can_be_read_and_has_a_default() {
        let config: NatsConfig = serde_json::from_str("{}").unwrap();
        assert_eq!(config.servers, ["nats://127.0.0.1:4222"]);
        assert!(matches!(config.credentials, Credentials::None) && config.tls.is_none());
        let config: NatsConfig = serde_json::from_str(
            r#"{
                "servers": ["tls://a:1", "tls://b:2"],
                "name": "node-1",
                "credentials": {"password": {"user": "ada", "password": "hush"}},
                "tls": {"ca_file": "/ca.pem", "client_cert_file": "/c.pem", "client_key_file": "/k.pem"},
                "connect_timeout_ms": 1,
                "reconnect_delay_ms_min": 2,
                "reconnect_delay_ms_max": 3,
                "ping_interval_ms": 4,
                "subscription_capacity": 5
            }"#,
        )
        .unwrap();
        assert!(config.tls.is_some_and(|tls| tls.required));
        assert_eq!(config.subscription_capacity, 5);
        for credentials in [
            r#""none""#,
            r#"{"file": "/x.creds"}"#,
            r#"{"inline": "x"}"#,
            r#"{"token": "x"}"#,
            r#"{"nkey_seed": "x"}"#,
        ] {
            serde_json::from_str::<Credentials>(credentials).unwrap();
        }
        assert!(serde_json::from_str::<NatsConfig>(r#"{"server": "typo"}"#).is_err());
    }

    #[test]
    fn debug_shows_no_secret() {
        let secret = || Secret::from("hush");
        for credentials in [
            Credentials::Inline(secret()),
            Credentials::Password { user: "ada".into(), password: secret() },
            Credentials::Token(secret()),
            Credentials::NkeySeed(secret()),
        ] {
            let servers =
                ["nats://ada:hush@host:4222", "ada:hush@host", "nats://hush@host"].map(String::from);
            let config = NatsConfig { servers: servers.into(), credentials, ..NatsConfig::default() };
            let shown = format!("{config:?} {config:#?}");
            assert!(!shown.contains("hush"), "{shown}");
            assert!(shown.contains("nats://***@host:4222"), "{shown}");
        }
    }
}
