//! Whom a server lets in, and over what: the same options for every subcommand that serves.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use anyhow::Context;
use cadre::{
    credential::{Access, AdminToken, InsecureSource, Issuer, KeySource, Trust},
    http::{self, Tls},
};
use clap::{Args as ClapArgs, ValueEnum};

#[derive(Debug, ClapArgs)]
#[group(skip)]
pub struct Args {
    /// Whether credentials are asked for [default: only where other machines can reach it]
    #[arg(long, env = "CADRE_AUTH", value_name = "MODE")]
    auth: Option<Mode>,
    /// A credential that manages tenants, keys and quotas, for as long as there is no key that may; at least 24 characters
    #[arg(long, env = "CADRE_ADMIN_TOKEN", hide_env_values = true, value_name = "TOKEN")]
    admin_token: Option<String>,
    /// Listen where other machines can reach it without TLS, and, unless --auth says otherwise, without credentials
    #[arg(long)]
    pub insecure: bool,
    /// The certificate to show, in PEM, with those above it
    #[arg(long, env = "CADRE_TLS_CERT", value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Its private key, in PEM
    #[arg(long, env = "CADRE_TLS_KEY", value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// The identity provider whose signed tokens (JWT) count: what they say as `iss`
    #[arg(long, env = "CADRE_OIDC_ISSUER", value_name = "ISSUER", requires_all = ["oidc_audience", "oidc_jwks"])]
    oidc_issuer: Option<String>,
    /// What those tokens must be for: `aud`
    #[arg(long, env = "CADRE_OIDC_AUDIENCE", value_name = "AUDIENCE", requires = "oidc_issuer")]
    oidc_audience: Option<String>,
    /// Where the provider's keys are: a JSON Web Key Set at an address, or in a file
    #[arg(long, env = "CADRE_OIDC_JWKS", value_name = "URL|FILE", requires = "oidc_issuer", value_parser = source)]
    oidc_jwks: Option<KeySource>,
    /// The claim that names the tenant
    #[arg(long, env = "CADRE_OIDC_TENANT_CLAIM", value_name = "CLAIM", default_value = "tenant")]
    oidc_tenant_claim: String,
    /// The claim that names the scopes
    #[arg(long, env = "CADRE_OIDC_SCOPE_CLAIM", value_name = "CLAIM", default_value = "scope")]
    oidc_scope_claim: String,
}

/// How wrong the clocks of a provider may be.
const LEEWAY: Duration = Duration::from_secs(30);

fn source(text: &str) -> Result<KeySource, InsecureSource> {
    KeySource::parse(text)
}

/// What a server is started with.
#[derive(Debug)]
pub struct Served {
    /// Whom it lets in.
    pub access: Access,
    /// What it shows to them.
    pub tls: Option<Tls>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// Everybody who reaches it may do everything
    Open,
    /// Everybody needs a key or a signed token
    Required,
}

impl Args {
    /// What these say, if it is safe for that address.
    pub fn check(&self, listen: SocketAddr) -> anyhow::Result<Served> {
        let tls = self.tls_cert.as_deref().zip(self.tls_key.as_deref());
        let tls = tls.map(|(certificate, key)| Tls::read(certificate, key)).transpose()?;
        Ok(Served { access: self.access(listen, tls.is_some())?, tls })
    }

    fn access(&self, listen: SocketAddr, has_tls: bool) -> anyhow::Result<Access> {
        http::check_address(listen, has_tls, self.insecure).map_err(anyhow::Error::msg)?;
        let is_local = http::is_loopback(listen);
        let mode = self.auth.unwrap_or(if is_local || self.insecure { Mode::Open } else { Mode::Required });
        if mode == Mode::Open {
            anyhow::ensure!(
                is_local || self.insecure,
                "{listen} can be reached from other machines: without credentials everybody there could do everything; \
                 leave --auth open away, or insist with --insecure"
            );
            return Ok(Access::Open);
        }
        let administrator = self.admin_token.as_deref().map(AdminToken::parse).transpose();
        let administrator = administrator.context("--admin-token, or CADRE_ADMIN_TOKEN")?;
        Ok(Access::Required(Trust { administrator, signed: self.issuer() }))
    }

    fn issuer(&self) -> Option<Issuer> {
        Some(Issuer {
            issuer: self.oidc_issuer.clone()?,
            audience: self.oidc_audience.clone()?,
            keys: self.oidc_jwks.clone()?,
            tenant_claim: self.oidc_tenant_claim.clone(),
            scope_claim: self.oidc_scope_claim.clone(),
            leeway: LEEWAY,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(auth: Option<Mode>, insecure: bool) -> Args {
        Args {
            auth,
            admin_token: None,
            insecure,
            tls_cert: None,
            tls_key: None,
            oidc_issuer: None,
            oidc_audience: None,
            oidc_jwks: None,
            oidc_tenant_claim: "tenant".into(),
            oidc_scope_claim: "scope".into(),
        }
    }

    fn is_open(args: &Args, listen: &str) -> Result<bool, String> {
        let served = args.check(listen.parse().unwrap()).map_err(|error| error.to_string())?;
        Ok(matches!(served.access, Access::Open))
    }

    #[test]
    fn p8_whoever_can_be_reached_asks_for_credentials_unless_told_otherwise() {
        let (local, wide) = ("127.0.0.1:7600", "0.0.0.0:7600");
        assert_eq!(is_open(&args(None, false), local), Ok(true));
        assert_eq!(is_open(&args(Some(Mode::Required), false), local), Ok(false));
        assert!(is_open(&args(None, false), wide).unwrap_err().contains("--tls-cert"));
        assert!(is_open(&args(Some(Mode::Open), false), wide).is_err());
        assert_eq!(is_open(&args(None, true), wide), Ok(true));
        assert_eq!(is_open(&args(Some(Mode::Required), true), wide), Ok(false));
    }

    #[test]
    fn a_weak_token_of_the_administrator_is_refused_and_not_repeated() {
        let weak = Args { admin_token: Some("hunter2".into()), ..args(Some(Mode::Required), false) };
        let error = format!("{:#}", weak.check("127.0.0.1:1".parse().unwrap()).unwrap_err());
        assert!(error.contains("CADRE_ADMIN_TOKEN") && !error.contains("hunter2"), "{error}");
    }
}
