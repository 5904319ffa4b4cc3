//! Making a connection: from settings to a client, or to an error that says what to correct.

use std::{
    error::Error,
    fs, io, iter,
    path::{Path, PathBuf},
    time::Duration,
};

use async_nats::{
    Client, ConnectErrorKind, ConnectOptions, ServerAddr, ServerError,
    rustls::{
        self, RootCertStore,
        crypto::{CryptoProvider, ring},
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    },
};
use tokio::time::timeout;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::{Credentials, NatsConfig, TlsConfig, config::masked, events};

/// Why there is no connection.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// Correct the settings.
    #[error("bus setting `{setting}` cannot be used: {reason}")]
    BadSetting {
        /// Which one.
        setting: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// Correct the file.
    #[error("{path} cannot be used: {reason}")]
    BadFile {
        /// Which one.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// Try again, or correct the addresses.
    #[error(
        "no NATS server at {servers} answered within {timeout_ms} ms: {reason}; check that it runs there"
    )]
    Unreachable {
        /// Where we tried.
        servers: String,
        /// How long.
        timeout_ms: u64,
        /// What came of it.
        reason: String,
    },
    /// Correct the credentials.
    #[error("the NATS server at {servers} refused our credentials: {reason}; check the bus credentials")]
    Refused {
        /// Where we tried.
        servers: String,
        /// What it said.
        reason: String,
    },
    /// Correct the trust: authorities, names, certificates.
    #[error(
        "no TLS connection to the NATS server at {servers}: {reason}; check `tls.ca_file`, the server's name \
         and whether it speaks TLS"
    )]
    Tls {
        /// Where we tried.
        servers: String,
        /// What failed.
        reason: String,
    },
}

pub(super) async fn connect(config: &NatsConfig) -> Result<Client, ConnectError> {
    let servers = addresses(config)?;
    let options = options(config, servers.len())?;
    match timeout(config.connect_timeout(), options.connect(servers)).await {
        Ok(Ok(client)) => Ok(client),
        Ok(Err(error)) => Err(explain(config, &error)),
        Err(_) => Err(unreachable(config, "timed out".into())),
    }
}

fn addresses(config: &NatsConfig) -> Result<Vec<ServerAddr>, ConnectError> {
    let bad = |reason| ConnectError::BadSetting { setting: "servers", reason };
    if config.servers.is_empty() {
        return Err(bad("there are none".into()));
    }
    let mut addresses = Vec::new();
    for server in &config.servers {
        let address: ServerAddr =
            server.parse().map_err(|error: io::Error| bad(format!("{}: {error}", masked(server))))?;
        // The client would connect without them, and nobody would know why it is refused.
        if address.has_user_pass() || address.password().is_some() {
            return Err(bad(format!("{}: credentials belong into `credentials`", masked(server))));
        }
        if address.is_websocket() {
            return Err(bad(format!("{server}: use nats:// or tls://")));
        }
        addresses.push(address);
    }
    Ok(addresses)
}

fn options(config: &NatsConfig, servers: usize) -> Result<ConnectOptions, ConnectError> {
    if config.subscription_capacity == 0 {
        let reason = "a subscription holds at least one message".into();
        return Err(ConnectError::BadSetting { setting: "subscription_capacity", reason });
    }
    let backoff = Backoff::new(config, servers);
    let each = config.connect_timeout() / u32::try_from(servers).unwrap_or(u32::MAX).max(1);
    let mut options = ConnectOptions::new()
        .name(&config.name)
        .connection_timeout(each)
        .ping_interval(Duration::from_millis(config.ping_interval_ms.max(1)))
        .subscription_capacity(config.subscription_capacity)
        .max_reconnects(None)
        .reconnect_delay_callback(move |attempt| backoff.delay(attempt))
        .event_callback(|event| async move { events::note(&event) });
    options = match &config.credentials {
        Credentials::None => options,
        Credentials::Password { user, password } => {
            options.user_and_password(user.clone(), password.expose().to_owned())
        }
        Credentials::Token(token) => options.token(token.expose().to_owned()),
        Credentials::NkeySeed(seed) => options.nkey(seed.expose().trim().to_owned()),
        // The cause is left out in both: it could quote the secret.
        Credentials::Inline(text) => {
            let reason = "it is not the text of a .creds file".into();
            let bad = ConnectError::BadSetting { setting: "credentials", reason };
            options.credentials(text.expose()).map_err(|_| bad)?
        }
        Credentials::File(path) => {
            let text = fs::read_to_string(path).map_err(|error| bad_file(path, error))?;
            options.credentials(&text).map_err(|_| bad_file(path, "it is not a .creds file"))?
        }
    };
    match &config.tls {
        Some(tls) => with_tls(options, tls),
        None => Ok(options),
    }
}

/// Takes over the TLS settings, after a look at the files: the client would look at them only in the middle of
/// the handshake, and say less.
fn with_tls(mut options: ConnectOptions, tls: &TlsConfig) -> Result<ConnectOptions, ConnectError> {
    options = options.require_tls(tls.required);
    if let Some(path) = &tls.ca_file {
        let mut roots = RootCertStore::empty();
        for certificate in certificates(path)? {
            roots.add(certificate).map_err(|error| bad_file(path, error))?;
        }
        options = options.add_root_certificates(path.clone());
    }
    match (&tls.client_cert_file, &tls.client_key_file) {
        (None, None) => Ok(options),
        (Some(certificate), Some(key)) => {
            certificates(certificate)?;
            let pem = fs::read(key).map_err(|error| bad_file(key, error))?;
            PrivateKeyDer::from_pem_slice(&pem)
                .map_err(|_| bad_file(key, "it holds no private key in PEM"))?;
            Ok(options.add_client_certificate(certificate.clone(), key.clone()))
        }
        _ => Err(ConnectError::BadSetting {
            setting: "tls",
            reason: "client_cert_file and client_key_file need each other".into(),
        }),
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, ConnectError> {
    let pem = fs::read(path).map_err(|error| bad_file(path, error))?;
    match CertificateDer::pem_slice_iter(&pem).collect::<Result<Vec<_>, _>>() {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        _ => Err(bad_file(path, "it holds no certificate in PEM")),
    }
}

fn bad_file(path: &Path, reason: impl ToString) -> ConnectError {
    ConnectError::BadFile { path: path.to_owned(), reason: reason.to_string() }
}

fn unreachable(config: &NatsConfig, reason: String) -> ConnectError {
    let servers = config.servers_masked();
    ConnectError::Unreachable { servers, timeout_ms: config.connect_timeout_ms, reason }
}

fn explain(config: &NatsConfig, error: &async_nats::ConnectError) -> ConnectError {
    let servers = config.servers_masked();
    // The client reports a failed handshake, and some refusals, as any other trouble with the connection. What
    // it was stands only in the causes.
    let handshake = causes(error).find_map(|cause| match cause.downcast_ref::<io::Error>() {
        Some(error) => error.get_ref()?.downcast_ref::<rustls::Error>(),
        None => cause.downcast_ref::<rustls::Error>(),
    });
    let refusal = causes(error).find_map(|cause| match cause.downcast_ref::<ServerError>()? {
        ServerError::Other(text) if text.to_lowercase().contains("authenti") => Some(text.clone()),
        _ => None,
    });
    match (error.kind(), handshake, refusal) {
        (_, Some(handshake), _) => ConnectError::Tls { servers, reason: handshake.to_string() },
        (ConnectErrorKind::Tls, ..) => ConnectError::Tls { servers, reason: error.to_string() },
        (_, _, Some(reason)) => ConnectError::Refused { servers, reason },
        (ConnectErrorKind::AuthorizationViolation, ..) => {
            ConnectError::Refused { servers, reason: "authorization violation".into() }
        }
        (ConnectErrorKind::Authentication, ..) => {
            ConnectError::Refused { servers, reason: "they cannot sign its challenge".into() }
        }
        _ => unreachable(config, error.to_string()),
    }
}

fn causes<'a>(error: &'a async_nats::ConnectError) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    iter::successors(error.source(), |&cause| cause.source())
}

/// TLS needs one implementation of its algorithms for the whole process. When some other dependency brings a
/// second one, there is no default any more, and the first connection would panic.
pub(super) fn settle_crypto() {
    if CryptoProvider::get_default().is_none() {
        // Somebody else may have been quicker, which is just as well.
        let _ = ring::default_provider().install_default();
    }
}

/// How long to wait before a reconnect.
#[derive(Debug, Clone)]
struct Backoff {
    servers: usize,
    shortest: Duration,
    longest: Duration,
    seed: u64,
}

impl Backoff {
    fn new(config: &NatsConfig, servers: usize) -> Self {
        let longest = Duration::from_millis(config.reconnect_delay_ms_max.max(1));
        Self {
            servers,
            shortest: Duration::from_millis(config.reconnect_delay_ms_min.max(1)).min(longest),
            longest,
            seed: xxh3_64_with_seed(config.name.as_bytes(), 0),
        }
    }

    /// Every server is tried once without delay; then the delay doubles up to the longest. Up to a quarter is
    /// taken off it, differently for every name, so that the nodes of a cluster do not come all at once.
    fn delay(&self, attempt: usize) -> Duration {
        let Some(round) = attempt.checked_sub(self.servers + 1) else { return Duration::ZERO };
        let doubled = 2u32.saturating_pow(u32::try_from(round).unwrap_or(u32::MAX));
        let delay = self.shortest.saturating_mul(doubled).min(self.longest);
        let spread = xxh3_64_with_seed(&(attempt as u64).to_le_bytes(), self.seed) % 256;
        delay - delay.mul_f64(spread as f64 / 1024.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn backoff(name: &str) -> Backoff {
        let config = NatsConfig {
            name: name.into(),
            reconnect_delay_ms_min: 50,
            reconnect_delay_ms_max: 2_000,
            ..NatsConfig::default()
        };
        Backoff::new(&config, 3)
    }

    #[test]
    fn reconnects_start_at_once_and_slow_down_to_the_bound() {
        let backoff = backoff("node-1");
        assert!((0..=3).all(|attempt| backoff.delay(attempt).is_zero()));
        let mut expected = Duration::from_millis(50);
        for attempt in (4..100).chain([usize::MAX]) {
            let delay = backoff.delay(attempt);
            assert!(delay <= expected && delay >= expected.mul_f64(0.74), "{attempt}: {delay:?}");
            expected = (2 * expected).min(Duration::from_millis(2_000));
        }
    }

    #[test]
    fn nodes_do_not_reconnect_in_step() {
        assert_ne!(backoff("node-1").delay(20), backoff("node-2").delay(20));
    }

    #[tokio::test]
    async fn settings_that_cannot_work_are_named() {
        let config = |servers: &[&str]| NatsConfig {
            servers: servers.iter().map(|server| String::from(*server)).collect(),
            ..NatsConfig::default()
        };
        for servers in [
            &[][..],
            &["http://host"],
            &["nats://ada:hush@host"],
            &["nats://:hush@host"],
            &["ws://host"],
            &["nats://h:x"],
        ] {
            let error = connect(&config(servers)).await.unwrap_err();
            assert!(
                matches!(error, ConnectError::BadSetting { setting: "servers", .. }),
                "{servers:?}: {error}"
            );
            assert!(!error.to_string().contains("hush"), "{error}");
        }
        let error = connect(&NatsConfig { subscription_capacity: 0, ..config(&["host"]) }).await.unwrap_err();
        assert!(
            matches!(error, ConnectError::BadSetting { setting: "subscription_capacity", .. }),
            "{error}"
        );
        let half = TlsConfig { client_key_file: Some("key.pem".into()), ..TlsConfig::default() };
        let error = connect(&NatsConfig { tls: Some(half), ..config(&["host"]) }).await.unwrap_err();
        assert!(matches!(error, ConnectError::BadSetting { setting: "tls", .. }), "{error}");
        let inline = Credentials::Inline("hush".into());
        let error = connect(&NatsConfig { credentials: inline, ..config(&["host"]) }).await.unwrap_err();
        assert!(matches!(error, ConnectError::BadSetting { setting: "credentials", .. }), "{error}");
        assert!(!error.to_string().contains("hush"), "{error}");
    }

    #[tokio::test]
    async fn files_that_cannot_be_used_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let (missing, garbage) = (folder.path().join("missing"), folder.path().join("garbage"));
        fs::write(&garbage, "-----BEGIN nothing").unwrap();
        for path in [missing, garbage] {
            for config in [
                NatsConfig { credentials: Credentials::File(path.clone()), ..NatsConfig::default() },
                NatsConfig {
                    tls: Some(TlsConfig { ca_file: Some(path.clone()), ..TlsConfig::default() }),
                    ..NatsConfig::default()
                },
                NatsConfig {
                    tls: Some(TlsConfig {
                        client_cert_file: Some(path.clone()),
                        client_key_file: Some(path.clone()),
                        ..TlsConfig::default()
                    }),
                    ..NatsConfig::default()
                },
            ] {
                let error = connect(&config).await.unwrap_err();
                assert!(matches!(&error, ConnectError::BadFile { path: bad, .. } if *bad == path), "{error}");
            }
        }
    }
}
