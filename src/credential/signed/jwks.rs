//! The keys of a provider, fetched when they are needed and kept.
//!
//! A key that is not known is looked for at once, but not more than every half minute: whoever makes up names of keys does
//! not make us ask the provider each time. Those that are known are read again every ten minutes while they are in use,
//! beside the requests and not before them; when the provider does not answer, they stay as they were. Fetching blocks, so
//! it has a thread of its own, one at a time.

use std::{
    fs,
    io::Read,
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::Duration,
};

use jsonwebtoken::{
    Algorithm, DecodingKey,
    jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyAlgorithm, PublicKeyUse},
};
use tokio::{sync::oneshot, time::Instant};

use super::KeySource;
use crate::control::Error;

/// How soon to ask again for a key that was not there.
const MISSING_EVERY: Duration = Duration::from_secs(30);
/// How long keys are used before they are read again: that long a key works which the provider has given up.
const FRESH: Duration = Duration::from_secs(600);
/// How long a provider may take.
const FETCH_MAX: Duration = Duration::from_secs(5);
/// More is no set of keys.
const BYTES_MAX: u64 = 256 * 1024;
/// Providers have two or three.
const KEYS_MAX: usize = 64;

struct Key {
    id: Option<String>,
    algorithm: Algorithm,
    key: Arc<DecodingKey>,
}

pub(super) struct Jwks {
    source: KeySource,
    keys: Arc<Mutex<Held>>,
    /// Who is fetching, and when that was last begun.
    begun: Arc<tokio::sync::Mutex<Option<Instant>>>,
}

#[derive(Default)]
struct Held {
    keys: Vec<Key>,
    since: Option<Instant>,
}

impl Jwks {
    pub fn new(source: KeySource) -> Self {
        Self { source, keys: Arc::default(), begun: Arc::default() }
    }

    /// The key of that name for that algorithm. Without a name it must be the only one.
    pub async fn find(
        &self,
        id: Option<&str>,
        algorithm: Algorithm,
    ) -> Result<Option<Arc<DecodingKey>>, Error> {
        let (found, is_stale) = self.known(id, algorithm);
        if found.is_some() {
            if is_stale {
                self.refresh_beside();
            }
            return Ok(found);
        }
        self.refresh().await;
        let (found, _) = self.known(id, algorithm);
        if found.is_none() && self.held().since.is_none() {
            return Err(Error::unavailable("the keys of the identity provider cannot be read now"));
        }
        Ok(found)
    }

    fn held(&self) -> std::sync::MutexGuard<'_, Held> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn known(&self, id: Option<&str>, algorithm: Algorithm) -> (Option<Arc<DecodingKey>>, bool) {
        let held = self.held();
        let fits = |key: &&Key| key.algorithm == algorithm && (id.is_none() || key.id.as_deref() == id);
        let mut fitting = held.keys.iter().filter(fits);
        let found = fitting.next().map(|key| key.key.clone());
        let is_only = fitting.next().is_none();
        let is_stale = held.since.is_none_or(|since| since.elapsed() >= FRESH);
        (found.filter(|_| is_only), is_stale)
    }

    /// Fetches, unless that was done a moment ago. Those who come meanwhile wait for it.
    async fn refresh(&self) {
        fetch_into(self.source.clone(), self.keys.clone(), self.begun.clone()).await;
    }

    /// The same, waited for by nobody.
    fn refresh_beside(&self) {
        // It ends with the fetch, or at once when one was begun a moment ago.
        tokio::spawn(fetch_into(self.source.clone(), self.keys.clone(), self.begun.clone()));
    }
}

async fn fetch_into(
    source: KeySource,
    keys: Arc<Mutex<Held>>,
    begun: Arc<tokio::sync::Mutex<Option<Instant>>>,
) {
    let mut begun = begun.lock().await;
    if begun.is_some_and(|begun| begun.elapsed() < MISSING_EVERY) {
        return;
    }
    *begun = Some(Instant::now());
    let (answer, answered) = oneshot::channel();
    let thread = thread::Builder::new().name("cadre-jwks".into());
    let spawned = thread.spawn(move || drop(answer.send(fetch(&source))));
    let fetched = match spawned {
        Ok(_) => answered.await.unwrap_or_else(|_| Err("the thread has died".into())),
        Err(error) => Err(error.to_string()),
    };
    let outcome = match fetched {
        Ok(fetched) => {
            let mut held = keys.lock().unwrap_or_else(PoisonError::into_inner);
            *held = Held { keys: fetched, since: Some(Instant::now()) };
            "ok"
        }
        Err(error) => {
            tracing::warn!(error, "the keys of the identity provider cannot be read");
            "failed"
        }
    };
    metrics::counter!("cadre_jwks_fetches_total", "outcome" => outcome).increment(1);
}

fn fetch(source: &KeySource) -> Result<Vec<Key>, String> {
    let mut text = String::new();
    match source {
        KeySource::File(path) => {
            let file = fs::File::open(path).map_err(|error| format!("{}: {error}", path.display()))?;
            file.take(BYTES_MAX).read_to_string(&mut text).map_err(|error| error.to_string())?;
        }
        KeySource::Url(url) => {
            let config =
                ureq::Agent::config_builder().timeout_global(Some(FETCH_MAX)).max_redirects(0).build();
            let response = ureq::Agent::from(config).get(url).call().map_err(|error| error.to_string())?;
            let mut body = response.into_body();
            text = body.with_config().limit(BYTES_MAX).read_to_string().map_err(|error| error.to_string())?;
        }
    }
    parse(&text)
}

/// The keys that can be used. One of a kind that is not known, or that is for something else, is passed by.
fn parse(text: &str) -> Result<Vec<Key>, String> {
    // One by one: a single unknown kind would make the whole set unreadable.
    let set: serde_json::Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let all = set["keys"].as_array().ok_or("it has no list of keys")?;
    let readable = all.iter().filter_map(|key| serde_json::from_value::<Jwk>(key.clone()).ok());
    Ok(readable.take(KEYS_MAX).filter_map(|key| usable(&key)).collect())
}

fn usable(jwk: &Jwk) -> Option<Key> {
    if jwk.common.public_key_use.as_ref().is_some_and(|use_| *use_ != PublicKeyUse::Signature) {
        return None;
    }
    let (algorithm, name) = match &jwk.algorithm {
        AlgorithmParameters::RSA(_) => (Algorithm::RS256, KeyAlgorithm::RS256),
        AlgorithmParameters::EllipticCurve(key) if key.curve == EllipticCurve::P256 => {
            (Algorithm::ES256, KeyAlgorithm::ES256)
        }
        AlgorithmParameters::OctetKeyPair(key) if key.curve == EllipticCurve::Ed25519 => {
            (Algorithm::EdDSA, KeyAlgorithm::EdDSA)
        }
        // A shared secret in a set that anybody can read is none.
        _ => return None,
    };
    if jwk.common.key_algorithm.is_some_and(|named| named != name) {
        return None;
    }
    let key = Arc::new(DecodingKey::from_jwk(jwk).ok()?);
    Some(Key { id: jwk.common.key_id.clone(), algorithm, key })
}

#[cfg(test)]
mod tests {
    use super::*;

    const RSA: &str = r#"{"kty":"RSA","kid":"r","use":"sig","alg":"RS256","n":"sXchDaQebHnPiGvyDOAT4saGEUetSyo9MKLOoWFsueri23bOdgWp4Dy1WlUzewbgBHod5pcM9H95GQRV3JDXboIRROSBigeC5yjU1hGzHHyXss8UDprecbAYxknTcQkhslANGRUZmdTOQ5qTRsLAt6BTYuyvVRdhS8exSZEy_c4gs_7svlJJQ4H9_NxsiIoLwAEk7-Q3UXERGYw_75IDrGA84-lA_-Ct4eTlXHBIY2EaV7t7LjJaynVJCpkv4LKjTTAumiGUIuQhrNhZLuF_RJLqHpM2kgWFLU7-VTdL1VbC2tejvcI2BlMkEpk1BzBZI0KQB0GaDWFLN-aEAw3vRw","e":"AQAB"}"#;
    const ED: &str =
        r#"{"kty":"OKP","kid":"e","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}"#;

    #[test]
    fn keys_of_other_kinds_and_uses_are_passed_by() {
        let secret = r#"{"kty":"oct","kid":"s","k":"c2VjcmV0"}"#;
        let encryption = RSA.replace("\"sig\"", "\"enc\"");
        let longer = RSA.replace("RS256", "RS512");
        let unknown = r#"{"kty":"XYZ","kid":"x"}"#;
        let text = format!(r#"{{"keys":[{secret},{encryption},{longer},{unknown},{RSA},{ED}]}}"#);
        let keys = parse(&text).unwrap();
        let found: Vec<_> = keys.iter().map(|key| (key.id.as_deref(), key.algorithm)).collect();
        assert_eq!(found, [(Some("r"), Algorithm::RS256), (Some("e"), Algorithm::EdDSA)]);
        for bad in ["", "[]", "{}", r#"{"keys":7}"#] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_that_is_not_known_is_looked_for_again_but_not_each_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("jwks.json");
        let jwks = Jwks::new(KeySource::File(path.clone()));
        let find = async |id| jwks.find(Some(id), Algorithm::EdDSA).await.map(|key| key.is_some());
        assert!(find("e").await.unwrap_err().retryable, "there is no file yet");
        std::fs::write(&path, format!(r#"{{"keys":[{RSA}]}}"#)).unwrap();
        assert!(find("e").await.is_err(), "it was asked for a moment ago");
        tokio::time::advance(MISSING_EVERY).await;
        assert_eq!(find("e").await, Ok(false));
        std::fs::write(&path, format!(r#"{{"keys":[{RSA},{ED}]}}"#)).unwrap();
        assert_eq!(find("e").await, Ok(false));
        tokio::time::advance(MISSING_EVERY).await;
        assert_eq!(find("e").await, Ok(true));
        // A key is for one algorithm only, and the file may go.
        assert!(jwks.find(Some("e"), Algorithm::RS256).await.unwrap().is_none());
        std::fs::remove_file(&path).unwrap();
        tokio::time::advance(FRESH).await;
        assert_eq!(find("e").await, Ok(true), "what is known stays");
    }
}
