//! What a token claims, held against the provider and the clock.

use cadre_cluster::clock::Timestamp;
use serde_json::Value;

use super::Issuer;
use crate::tenant::{Scopes, check_tenant};

/// What facts say of a subject is cut there.
const SUBJECT_CHARS_MAX: usize = 200;

/// What a good token says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Claimed {
    pub tenant: String,
    pub subject: String,
    pub scopes: Scopes,
    pub expires: Timestamp,
}

/// What the claims say, or why they count for nothing.
pub(super) fn check(claims: &Value, issuer: &Issuer, now: Timestamp) -> Result<Claimed, &'static str> {
    if claims["iss"].as_str() != Some(issuer.issuer.as_str()) {
        return Err("another issuer");
    }
    let is_for_us = match &claims["aud"] {
        Value::String(audience) => *audience == issuer.audience,
        Value::Array(all) => all.iter().any(|audience| audience.as_str() == Some(issuer.audience.as_str())),
        _ => false,
    };
    if !is_for_us {
        return Err("another audience");
    }
    let expires = time(&claims["exp"]).ok_or("no time when it expires")?.after(issuer.leeway);
    if expires <= now {
        return Err("expired");
    }
    match claims.get("nbf") {
        Some(from) if time(from).ok_or("not a time")? > now.after(issuer.leeway) => {
            return Err("not yet valid");
        }
        _ => {}
    }
    let tenant = claims[&issuer.tenant_claim].as_str().ok_or("no tenant")?;
    check_tenant(tenant).map_err(|_| "no name of a tenant")?;
    let subject = claims["sub"].as_str().filter(|subject| !subject.is_empty()).ok_or("no subject")?;
    let subject = subject.chars().filter(|c| !c.is_control()).take(SUBJECT_CHARS_MAX).collect();
    let scopes = match &claims[&issuer.scope_claim] {
        Value::String(words) => Scopes::among(words.split_ascii_whitespace()),
        Value::Array(words) => Scopes::among(words.iter().filter_map(Value::as_str)),
        _ => Scopes::NONE,
    };
    Ok(Claimed { tenant: tenant.to_owned(), subject, scopes, expires })
}

/// Seconds since 1970, with parts of them.
fn time(value: &Value) -> Option<Timestamp> {
    let seconds = value.as_f64().filter(|seconds| (0.0..1e12).contains(seconds))?;
    Some(Timestamp((seconds * 1_000.0) as u64))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::{super::KeySource, *};
    use crate::control::Scope;

    fn issuer() -> Issuer {
        Issuer {
            issuer: "https://id.example".into(),
            audience: "cadre".into(),
            keys: KeySource::File("jwks.json".into()),
            tenant_claim: "tenant".into(),
            scope_claim: "scope".into(),
            leeway: Duration::from_secs(30),
        }
    }

    fn claims() -> Value {
        json!({ "iss": "https://id.example", "aud": ["other", "cadre"], "exp": 1_000, "nbf": 500, "sub": "ada",
            "tenant": "acme", "scope": "openid read submit" })
    }

    fn at(seconds: u64, change: impl FnOnce(&mut Value)) -> Result<Claimed, &'static str> {
        let mut claims = claims();
        change(&mut claims);
        check(&claims, &issuer(), Timestamp(seconds * 1_000))
    }

    #[test]
    fn a_good_token_says_whose_it_is_and_what_it_may_do() {
        let claimed = at(700, |_| {}).unwrap();
        assert_eq!((claimed.tenant.as_str(), claimed.subject.as_str()), ("acme", "ada"));
        assert_eq!(claimed.scopes, Scopes::NONE.with(Scope::Read).with(Scope::Submit));
        assert_eq!(
            at(700, |claims| claims["scope"] = json!(["read"])).unwrap().scopes,
            Scopes::NONE.with(Scope::Read)
        );
        assert_eq!(at(700, |claims| claims["scope"] = json!(7)).unwrap().scopes, Scopes::NONE);
    }

    #[test]
    fn a_token_holds_within_its_times_and_a_little_around_them() {
        for (seconds, expected) in [(469, false), (470, true), (1_029, true), (1_030, false)] {
            assert_eq!(at(seconds, |_| {}).is_ok(), expected, "{seconds}");
        }
        assert_eq!(at(1, |claims| drop(claims.as_object_mut().unwrap().remove("nbf"))).map(|_| ()), Ok(()));
    }

    #[test]
    fn p8_what_is_not_as_it_should_be_counts_for_nothing() {
        for (name, value) in [
            ("iss", json!("https://evil.example")),
            ("iss", json!(null)),
            ("aud", json!("other")),
            ("aud", json!([])),
            ("exp", json!(null)),
            ("exp", json!("1000")),
            ("exp", json!(-1)),
            ("exp", json!(1e300)),
            ("nbf", json!("500")),
            ("sub", json!("")),
            ("sub", json!(null)),
            ("tenant", json!(null)),
            ("tenant", json!(["acme"])),
            ("tenant", json!("../acme")),
            ("tenant", json!("")),
        ] {
            let refused = at(700, |claims| claims[name] = value.clone());
            assert!(refused.is_err(), "{name} {value}: {refused:?}");
        }
    }
}
