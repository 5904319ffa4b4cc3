//! Tokens that an identity provider signs (JWT, as OpenID Connect has them).
//!
//! A token is believed when a key of the provider has signed it, with an algorithm that fits that key: RS256, ES256 or
//! EdDSA. One without a signature, or with a shared secret, is not, whatever it says of itself. Then its issuer, its
//! audience and its times have to be right, and its claims say which tenant it is of and what it may do. It cannot be taken
//! back before it expires; suspending its tenant does that.

mod claims;
mod jwks;

use std::{path::PathBuf, sync::Arc, time::Duration};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use cadre_cluster::clock::Timestamp;
use jsonwebtoken::{Algorithm, Validation};
use serde_json::Value;

use self::{claims::Claimed, jwks::Jwks};
use super::bad;
use crate::{
    control::Error,
    runtime::{Caller, Credential},
};

/// The identity provider that is trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Issuer {
    /// What its tokens say as `iss`.
    pub issuer: String,
    /// What they must be for: `aud`.
    pub audience: String,
    /// Where its keys are.
    pub keys: KeySource,
    /// Which claim names the tenant.
    pub tenant_claim: String,
    /// Which claim names the scopes: words in one text, or a list of them.
    pub scope_claim: String,
    /// How wrong clocks may be.
    pub leeway: Duration,
}

/// Where a provider's keys are, as a JSON Web Key Set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeySource {
    /// In a file, which is read again when a key is not known.
    File(PathBuf),
    /// At an address.
    Url(String),
}

/// No place where keys could be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} must begin with https://, or be a file; http:// is for this machine only")]
pub struct InsecureSource(String);

impl KeySource {
    /// Where a text says they are.
    pub fn parse(text: &str) -> Result<Self, InsecureSource> {
        let local = ["http://127.0.0.1:", "http://localhost:", "http://[::1]:"];
        if text.starts_with("https://") || local.iter().any(|start| text.starts_with(start)) {
            return Ok(Self::Url(text.to_owned()));
        }
        if text.is_empty() || text.contains("://") {
            return Err(InsecureSource(text.chars().take(100).collect()));
        }
        Ok(Self::File(text.into()))
    }
}

/// Whoever checks tokens of one provider.
#[derive(Clone)]
pub(super) struct Verifier(Arc<Inner>);

struct Inner {
    issuer: Issuer,
    keys: Jwks,
}

impl Verifier {
    pub fn new(issuer: Issuer) -> Self {
        let keys = Jwks::new(issuer.keys.clone());
        Self(Arc::new(Inner { issuer, keys }))
    }

    /// Whose a token is, if it is good now. Whether there is such a tenant is not asked.
    pub async fn verify(&self, token: &str, now: Timestamp) -> Result<Caller, Error> {
        let (algorithm, id) = header(token).ok_or_else(bad)?;
        let key = self.0.keys.find(id.as_deref(), algorithm).await?.ok_or_else(bad)?;
        let claims =
            jsonwebtoken::decode::<Value>(token, &key, &signature_only(algorithm)).map_err(|_| bad())?;
        let Claimed { tenant, subject, scopes, expires } = claims::check(&claims.claims, &self.0.issuer, now)
            .map_err(|reason| {
                tracing::debug!(reason, "a signed token is refused");
                bad()
            })?;
        Ok(Caller {
            tenant,
            name: subject.clone(),
            scopes,
            credential: Credential::Signed { issuer: self.0.issuer.issuer.clone(), subject },
            expires: Some(expires),
        })
    }
}

/// What a token says of its signature, if that is something that is believed.
fn header(token: &str) -> Option<(Algorithm, Option<String>)> {
    let (header, _) = token.split_once('.')?;
    let header: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(header).ok()?).ok()?;
    let algorithm = match header["alg"].as_str()? {
        "RS256" => Algorithm::RS256,
        "ES256" => Algorithm::ES256,
        "EdDSA" => Algorithm::EdDSA,
        _ => return None,
    };
    // What must be understood, and is not.
    if header.get("crit").is_some() {
        return None;
    }
    let id = match header.get("kid") {
        None => None,
        Some(id) => Some(id.as_str().filter(|id| id.len() <= 256)?.to_owned()),
    };
    Some((algorithm, id))
}

/// The claims are checked apart, by the clock of this node.
fn signature_only(algorithm: Algorithm) -> Validation {
    let mut validation = Validation::new(algorithm);
    validation.required_spec_claims.clear();
    validation.validate_exp = false;
    validation.validate_aud = false;
    validation
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_signatures_of_a_pair_of_keys_are_believed() {
        let of = |header: &str| super::header(&format!("{}.e30.x", URL_SAFE_NO_PAD.encode(header)));
        assert_eq!(of(r#"{"alg":"RS256","kid":"a"}"#), Some((Algorithm::RS256, Some("a".into()))));
        assert_eq!(of(r#"{"alg":"EdDSA"}"#), Some((Algorithm::EdDSA, None)));
        for bad in [
            r#"{"alg":"none"}"#,
            r#"{"alg":"None"}"#,
            r#"{"alg":"HS256"}"#,
            r#"{"alg":"RS512"}"#,
            r#"{"alg":["RS256"]}"#,
            r#"{"kid":"a"}"#,
            r#"{"alg":"RS256","kid":7}"#,
            r#"{"alg":"RS256","crit":["b64"]}"#,
            "[]",
            "",
        ] {
            assert_eq!(of(bad), None, "{bad}");
        }
        assert_eq!(super::header("no token"), None);
    }

    #[test]
    fn keys_come_from_a_file_or_from_where_nobody_can_change_them() {
        for good in ["https://id.example/jwks", "http://127.0.0.1:9000/jwks", "http://localhost:1/x"] {
            assert_eq!(KeySource::parse(good), Ok(KeySource::Url(good.into())));
        }
        assert_eq!(KeySource::parse("/etc/jwks.json"), Ok(KeySource::File("/etc/jwks.json".into())));
        for bad in ["", "http://id.example/jwks", "ftp://x", "http://127.0.0.1.evil.example/"] {
            assert!(KeySource::parse(bad).is_err(), "{bad}");
        }
    }
}
