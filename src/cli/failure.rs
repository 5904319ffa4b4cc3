//! How a subcommand fails, and what the process says then.

use std::{io, process::ExitCode};

use serde_json::{Value, json};

/// Why a subcommand did not do what it should.
#[derive(Debug)]
pub enum Failure {
    /// The server said no: its error, as it came.
    Refused(Value),
    /// There was no server to ask.
    Unreachable {
        /// Where.
        url: String,
        /// What happened.
        reason: String,
    },
    /// Whoever reads the output has enough.
    Closed,
    /// Anything else.
    Other(anyhow::Error),
}

impl Failure {
    /// Something that the user can correct.
    pub fn new(message: impl Into<String>) -> Self {
        Self::Other(anyhow::anyhow!(message.into()))
    }

    /// Says it on standard error, and how the process ends.
    pub fn report(&self, json: bool) -> ExitCode {
        if matches!(self, Self::Closed) {
            return ExitCode::SUCCESS;
        }
        if json {
            eprintln!("{}", self.to_json());
        } else {
            eprintln!("cadre: {}", self.text());
        }
        ExitCode::from(if matches!(self, Self::Unreachable { .. }) { 6 } else { 1 })
    }

    fn text(&self) -> String {
        match self {
            Self::Refused(error) => {
                let text = |name: &str| error[name].as_str().unwrap_or("?").to_owned();
                let again = if error["retryable"] == true { " (trying again may help)" } else { "" };
                format!("{}{} [{}]{again}", text("message"), hint(error), text("code"))
            }
            Self::Unreachable { url, reason } => {
                format!(
                    "no Cadre at {url}: start one with `cadre dev`, or name another with --url ({reason})"
                )
            }
            Self::Closed => String::new(),
            Self::Other(error) => format!("{error:#}"),
        }
    }

    fn to_json(&self) -> Value {
        let local = |code: &str, retryable: bool| json!({ "code": code, "message": self.text(), "retryable": retryable, "details": {} });
        let error = match self {
            Self::Refused(error) => error.clone(),
            Self::Unreachable { .. } => local("unavailable", true),
            Self::Closed | Self::Other(_) => local("invalid_argument", false),
        };
        json!({ "error": error })
    }
}

/// Where to look for what does not exist, or what to show.
fn hint(error: &Value) -> &'static str {
    if error["code"] == "unauthorized" {
        return "; give a key with --token or CADRE_TOKEN";
    }
    let Some(missing) = error["message"].as_str().and_then(|text| text.strip_prefix("there is no ")) else {
        return "";
    };
    match missing.split(' ').next() {
        Some("session") => "; `cadre sessions` lists them",
        Some("task") => "; `cadre tasks` lists them",
        Some("command") => "; `cadre call` lists them",
        Some("action") => "; `cadre approve --session SESSION` lists them",
        Some("tenant") => "; `cadre admin tenants` lists them",
        Some("key") => "; `cadre admin keys list TENANT` lists them",
        Some("agent") => "; `scripted` is always there",
        _ => "",
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::Other(error)
    }
}

/// What goes wrong while writing to standard output.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe { Self::Closed } else { Self::Other(error.into()) }
    }
}
