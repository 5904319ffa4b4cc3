//! The client of a server.

use std::{io::Read, time::Duration};

use serde_json::{Value, json};
use ureq::{
    Agent, Body,
    http::{Request, Response, Uri},
    tls::{PemItem, RootCerts, TlsConfig, parse_pem},
};

use super::{Shared, failure::Failure};

/// Longer than any machine that is there needs to answer a connection.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// The server gives a sign of life every 15 seconds; three missed ones are a dead connection.
const SILENCE_MAX: Duration = Duration::from_secs(45);
/// The position before all events.
pub const START: &str = "00000000000000000000000000000000";

/// A text as part of an address, whatever is in it: what is no id is for the server to say.
pub fn segment(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:,*".contains(&byte);
    let part = |byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    text.bytes().map(part).collect()
}

/// TLS that trusts the certificates in a file, and no others.
fn trusting(path: &std::path::Path) -> Result<TlsConfig, Failure> {
    let wrong = |why: &dyn std::fmt::Display| Failure::new(format!("--ca-cert {}: {why}", path.display()));
    let text = std::fs::read(path).map_err(|error| wrong(&error))?;
    let mut certificates = Vec::new();
    for item in parse_pem(&text) {
        if let PemItem::Certificate(certificate) = item.map_err(|error| wrong(&error))? {
            certificates.push(certificate);
        }
    }
    if certificates.is_empty() {
        return Err(wrong(&"there is no certificate in it"));
    }
    Ok(TlsConfig::builder().root_certs(RootCerts::new_with_certs(&certificates)).build())
}

/// Talks to one server.
#[derive(Debug, Clone)]
pub struct Client {
    url: String,
    token: Option<String>,
    agent: Agent,
    /// Whether answers are for programs.
    pub json: bool,
}

impl Client {
    /// A client as the arguments say.
    pub fn new(shared: &Shared) -> Result<Self, Failure> {
        let url = shared.url.trim_end_matches('/').to_owned();
        let uri: Uri = url.parse().map_err(|error| Failure::new(format!("--url {url}: {error}")))?;
        if !matches!(uri.scheme_str(), Some("http" | "https")) {
            return Err(Failure::new(format!("--url {url}: must begin with http:// or https://")));
        }
        let is_local = uri.host().is_some_and(|host| {
            let ip = host.trim_matches(['[', ']']).parse::<std::net::IpAddr>();
            host == "localhost" || ip.is_ok_and(|ip| ip.to_canonical().is_loopback())
        });
        let mut config = Agent::config_builder()
            .http_status_as_error(false)
            .timeout_connect(Some(CONNECT_MAX))
            .max_redirects(0)
            .user_agent(concat!("cadre/", env!("CARGO_PKG_VERSION")));
        if is_local {
            // A proxy for the rest of the world knows nothing of this machine.
            config = config.proxy(None);
        }
        if let Some(path) = &shared.ca_cert {
            config = config.tls_config(trusting(path)?);
        }
        Ok(Self { url, token: shared.token.clone(), agent: config.build().into(), json: shared.json })
    }

    /// Has a command executed. The answer is the whole body: `result` and perhaps `cursor`.
    pub fn call(&self, name: &str, arguments: &Value) -> Result<Value, Failure> {
        self.call_with(name, arguments, &[])
    }

    /// [`Self::call`] with more headers.
    pub fn call_with(
        &self,
        name: &str,
        arguments: &Value,
        headers: &[(&str, String)],
    ) -> Result<Value, Failure> {
        let mut request = self.agent.post(format!("{}/v1/commands/{name}", self.url));
        for (name, value) in self.credential().iter().chain(headers) {
            request = request.header(*name, value);
        }
        self.read(request.send_json(arguments))
    }

    /// All entries of a list, as far as `limit`, and whether there are more.
    pub fn list(&self, name: &str, arguments: Value, limit: usize) -> Result<(Vec<Value>, bool), Failure> {
        let plural = name.trim_start_matches("list_");
        let (mut all, mut arguments) = (Vec::new(), arguments);
        // One more than is wanted tells whether there is more.
        while all.len() <= limit {
            arguments["limit"] = json!((limit - all.len()).saturating_add(1).min(1_000));
            let answer = self.call(name, &arguments)?;
            let result = &answer["result"];
            all.extend(result[plural].as_array().cloned().unwrap_or_default());
            if result["hasMore"] != true || result["cursor"].is_null() {
                break;
            }
            arguments["after"] = result["cursor"].clone();
        }
        let more = all.len() > limit;
        all.truncate(limit);
        Ok((all, more))
    }

    /// Reads something.
    pub fn get(&self, path: &str) -> Result<Value, Failure> {
        self.read(self.request(path, None).call())
    }

    /// Sends something to a path, with a body if there is one.
    pub fn send(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Value, Failure> {
        let mut request = Request::builder().method(method).uri(format!("{}{path}", self.url));
        if let Some((name, value)) = self.credential() {
            request = request.header(name, value);
        }
        let wrong = |error| Failure::new(format!("{method} {path}: {error}"));
        let response = match body {
            Some(body) => {
                let request = request.header("content-type", "application/json").body(body.to_string());
                self.agent.run(request.map_err(wrong)?)
            }
            None => self.agent.run(request.body(()).map_err(wrong)?),
        };
        self.read(response)
    }

    /// All that a session's feed has now of these classes, each given to `each`. Says where it ends.
    pub fn events(
        &self,
        session: &str,
        types: &str,
        mut each: impl FnMut(&Value),
    ) -> Result<String, Failure> {
        let mut after = START.to_owned();
        loop {
            let session = segment(session);
            let path = format!("/v1/sessions/{session}/events?after={after}&limit=1000&types={types}");
            let page = self.get(&path)?;
            page["events"].as_array().into_iter().flatten().for_each(&mut each);
            after = page["cursor"].as_str().unwrap_or(START).to_owned();
            if page["hasMore"] != true {
                return Ok(after);
            }
        }
    }

    /// The bytes of something, as they come.
    pub fn bytes(&self, path: &str) -> Result<impl Read + use<>, Failure> {
        Ok(self.check(self.request(path, None).call())?.into_body().into_reader())
    }

    /// A stream of events, after the last one that was seen.
    pub fn stream(&self, path: &str, last: Option<&str>) -> Result<impl Read + Send + use<>, Failure> {
        let request = self.request(path, last).header("accept", "text/event-stream");
        let request = request.config().timeout_per_read(Some(SILENCE_MAX)).build();
        Ok(self.check(request.call())?.into_body().into_reader())
    }

    fn request(&self, path: &str, last: Option<&str>) -> ureq::RequestBuilder<ureq::typestate::WithoutBody> {
        let mut request = self.agent.get(format!("{}{path}", self.url));
        if let Some((name, value)) = self.credential() {
            request = request.header(name, value);
        }
        match last {
            Some(last) => request.header("last-event-id", last),
            None => request,
        }
    }

    fn credential(&self) -> Option<(&'static str, String)> {
        self.token.as_ref().map(|token| ("authorization", format!("Bearer {token}")))
    }

    fn read(&self, response: Result<Response<Body>, ureq::Error>) -> Result<Value, Failure> {
        let text = self.check(response)?.into_body().into_with_config().limit(u64::MAX).read_to_string();
        let text = text.map_err(|error| self.unreachable(&error))?;
        serde_json::from_str(&text)
            .map_err(|_| Failure::new(format!("{} answers, but not as Cadre", self.url)))
    }

    fn check(&self, response: Result<Response<Body>, ureq::Error>) -> Result<Response<Body>, Failure> {
        let mut response = response.map_err(|error| self.unreachable(&error))?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let text = response.body_mut().read_to_string().unwrap_or_default();
        match serde_json::from_str::<Value>(&text).ok().filter(|body| body["error"]["code"].is_string()) {
            Some(mut body) => Err(Failure::Refused(body["error"].take())),
            None => Err(Failure::new(format!("{} answers {status}, but not as Cadre", self.url))),
        }
    }

    fn unreachable(&self, error: &ureq::Error) -> Failure {
        Failure::Unreachable { url: self.url.clone(), reason: error.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_text_can_be_part_of_an_address() {
        assert_eq!(segment("sess_1:a.b-c"), "sess_1:a.b-c");
        assert_eq!(segment("turn.*,task.*"), "turn.*,task.*");
        assert_eq!(segment("a b/../ä?x=1&y#"), "a%20b%2F..%2F%C3%A4%3Fx%3D1%26y%23");
    }
}
