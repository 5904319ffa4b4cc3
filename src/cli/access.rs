//! Whom a server lets in, and over what: the same options for every subcommand that serves.

use std::net::SocketAddr;

use anyhow::Context;
use cadre::{
    credential::{Access, AdminToken, Trust},
    http,
};
use clap::{Args as ClapArgs, ValueEnum};

#[derive(Debug, ClapArgs)]
pub struct Args {
    /// Whether credentials are asked for [default: only where other machines can reach it]
    #[arg(long, env = "CADRE_AUTH", value_name = "MODE")]
    auth: Option<Mode>,
    /// A credential that manages tenants, keys and quotas, for as long as there is no key that may; at least 24 characters
    #[arg(long, env = "CADRE_ADMIN_TOKEN", hide_env_values = true, value_name = "TOKEN")]
    admin_token: Option<String>,
    /// Listen where other machines can reach it without TLS, and, unless --auth says otherwise, without credentials
    #[arg(long)]
    insecure: bool,
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
    pub fn check(&self, listen: SocketAddr) -> anyhow::Result<Access> {
        http::check_address(listen, false, self.insecure).map_err(anyhow::Error::msg)?;
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
        Ok(Access::Required(Trust { administrator }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(auth: Option<Mode>, insecure: bool) -> Args {
        Args { auth, admin_token: None, insecure }
    }

    fn is_open(args: &Args, listen: &str) -> Result<bool, String> {
        let access = args.check(listen.parse().unwrap()).map_err(|error| error.to_string())?;
        Ok(matches!(access, Access::Open))
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
