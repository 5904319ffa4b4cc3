//! How both sides of a connection prove who they are.

use std::{
    fmt, fs,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::store::OpenError;

/// Certificates. What is left out is what the client library's own environment variables (`FDB_TLS_…`) say.
///
/// What is seen to be wrong is refused. What only shows when it is used is not: with a wrong passphrase, or a
/// key of another certificate, the client library 7.3 ends the process when it connects, and says why in its
/// own log (`trace_directory`).
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Tls {
    /// The file with our certificate chain.
    pub cert: Option<PathBuf>,
    /// The file with its private key.
    pub key: Option<PathBuf>,
    /// The file with the authorities that the other side's certificate has to come from.
    pub ca: Option<PathBuf>,
    /// What the other side's certificate has to say, such as `Check.Valid=1,S.CN=fdb.example.com`.
    pub verify_peers: Option<String>,
    /// The passphrase of the key.
    pub password: Option<String>,
}

impl Tls {
    /// Refuses files that the client library could not use: it would only say so in its own log, or crash.
    pub(super) fn check(&self) -> Result<(), OpenError> {
        for (path, what) in
            [(&self.cert, "CERTIFICATE"), (&self.key, "PRIVATE KEY"), (&self.ca, "CERTIFICATE")]
        {
            let Some(path) = path else { continue };
            let pem = read(path)?;
            if !pem.contains("-----BEGIN") || !pem.contains(&format!("{what}-----")) {
                return refuse(path, format!("has no `BEGIN {what}`; it has to be in PEM format"));
            }
            if pem.contains("ENCRYPTED") && self.password.is_none() {
                return refuse(path, "is encrypted; set `tls.password`".into());
            }
        }
        Ok(())
    }
}

fn read(path: &Path) -> Result<String, OpenError> {
    let bytes = fs::read(path);
    let bytes = bytes.map_err(|source| OpenError::Io { action: "read", path: path.to_owned(), source })?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn refuse(path: &Path, fault: String) -> Result<(), OpenError> {
    Err(OpenError::Unreachable { reason: format!("{} {fault}", path.display()) })
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls")
            .field("cert", &self.cert)
            .field("key", &self.key)
            .field("ca", &self.ca)
            .field("verify_peers", &self.verify_peers)
            .field("password", &self.password.as_ref().map(|_| "***"))
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(key: &str, password: Option<&str>) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key.pem");
        fs::write(&path, key).unwrap();
        let tls = Tls { key: Some(path), password: password.map(Into::into), ..Tls::default() };
        tls.check().map_or_else(|error| error.to_string(), |()| String::new())
    }

    #[test]
    fn a_missing_file_is_refused_by_its_path() {
        let error = Tls { ca: Some("/nowhere/ca.pem".into()), ..Tls::default() }.check().unwrap_err();
        assert!(error.to_string().contains("/nowhere/ca.pem"), "{error}");
    }

    #[test]
    fn what_is_no_key_is_refused() {
        assert!(refusal("", None).contains("`BEGIN PRIVATE KEY`"));
        assert!(refusal("-----BEGIN CERTIFICATE-----", None).contains("`BEGIN PRIVATE KEY`"));
        assert_eq!(refusal("-----BEGIN PRIVATE KEY-----", None), "");
        assert_eq!(refusal("-----BEGIN RSA PRIVATE KEY-----", None), "");
    }

    #[test]
    fn an_encrypted_key_wants_a_passphrase() {
        let key = "-----BEGIN ENCRYPTED PRIVATE KEY-----";
        assert!(refusal(key, None).contains("`tls.password`"));
        assert_eq!(refusal(key, Some("hunter2")), "");
    }

    #[test]
    fn the_passphrase_is_never_shown() {
        let shown = format!("{:?}", Tls { password: Some("hunter2".into()), ..Tls::default() });
        assert!(!shown.contains("hunter2") && shown.contains("***"), "{shown}");
    }
}
