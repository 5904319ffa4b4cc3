//! The file that says where a cluster's coordinators are: `description:id@host:port,…`.
//!
//! The client library reads it too, but a wrong one only shows in answers that never come. So what can be
//! seen to be wrong is said here.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use crate::store::OpenError;

const VARIABLE: &str = "FDB_CLUSTER_FILE";
const IN_WORKING_DIRECTORY: &str = "fdb.cluster";
#[cfg(not(target_os = "macos"))]
const INSTALLED: &str = "/etc/foundationdb/fdb.cluster";
#[cfg(target_os = "macos")]
const INSTALLED: &str = "/usr/local/etc/foundationdb/fdb.cluster";

/// A cluster file that could be read and makes sense.
#[derive(Debug)]
pub(super) struct ClusterFile {
    path: String,
    coordinators: String,
}

/// Finds the cluster file where the client library would, and reads it.
pub(super) fn locate(configured: Option<&Path>) -> Result<ClusterFile, OpenError> {
    let path = match (configured, env::var_os(VARIABLE)) {
        (Some(path), _) => path.to_owned(),
        (None, Some(path)) if !path.is_empty() => path.into(),
        _ if Path::new(IN_WORKING_DIRECTORY).exists() => IN_WORKING_DIRECTORY.into(),
        _ => INSTALLED.into(),
    };
    ClusterFile::read(path)
}

impl ClusterFile {
    fn read(path: PathBuf) -> Result<Self, OpenError> {
        let shown = path.display();
        let refuse = |reason: String| OpenError::Unreachable { reason };
        let content = match fs::read_to_string(&path) {
            Ok(content) => content,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(refuse(format!(
                    "cluster file {shown} is missing; copy it from a machine of the cluster, and name it in \
                     `cluster_file` or {VARIABLE}"
                )));
            }
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                return Err(refuse(format!(
                    "cluster file {shown} is not text; copy it again from the cluster"
                )));
            }
            Err(source) => return Err(OpenError::Io { action: "read", path, source }),
        };
        let coordinators = parse(&content).map_err(|what| {
            refuse(format!("cluster file {shown} {what}; it has one line `description:id@host:port,…`"))
        })?;
        match path.to_str() {
            Some(path) => Ok(Self { path: path.to_owned(), coordinators }),
            None => Err(refuse(format!("the path of cluster file {shown} is not UTF-8; rename it"))),
        }
    }

    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// Nobody answered.
    pub(super) fn silent(&self, patience: Duration) -> OpenError {
        let Self { path, coordinators } = self;
        let certificates = match coordinators.contains(":tls") {
            true => ", and that both sides' certificates pass each other's `verify_peers`",
            false => "",
        };
        let reason = format!(
            "no answer within {} ms from the cluster that {path} names ({coordinators}); check that it runs \
             and is available (`fdbcli --exec status`), that these addresses can be reached from here, and \
             that the client library has its version{certificates}",
            patience.as_millis()
        );
        OpenError::Unreachable { reason }
    }
}

/// The coordinators, or what is wrong.
fn parse(content: &str) -> Result<String, String> {
    let mut lines = content
        .lines()
        .map(|line| line.split('#').next().unwrap_or_default().trim())
        .filter(|line| !line.is_empty());
    let line = match (lines.next(), lines.next()) {
        (None, _) => return Err("is empty".into()),
        (Some(line), None) => line,
        (Some(_), Some(second)) => return Err(format!("has a second line `{second}`")),
    };
    let (cluster, coordinators) = line.split_once('@').ok_or_else(|| format!("has no `@` in `{line}`"))?;
    let (description, id) = cluster.split_once(':').ok_or_else(|| format!("has no `:` in `{cluster}`"))?;
    let is_word = |text: &str| {
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    if !is_word(description) || !is_word(id) {
        return Err(format!("has `{cluster}` where letters, digits and `_` are allowed, with one `:`"));
    }
    for coordinator in coordinators.split(',') {
        let address = coordinator.strip_suffix(":tls").unwrap_or(coordinator);
        let port = address.rsplit_once(':').filter(|(host, _)| !host.is_empty()).map(|(_, port)| port);
        if !port.is_some_and(|port| port.parse::<u16>().is_ok_and(|port| port != 0)) {
            return Err(format!("has no host and port in `{coordinator}`"));
        }
    }
    Ok(coordinators.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_clusters_write_is_understood() {
        for (content, coordinators) in [
            ("docker:docker@127.0.0.1:4500", "127.0.0.1:4500"),
            (
                "# by fdbmonitor\n\nab_1:Z9@10.0.0.1:4500,10.0.0.2:4500:tls\n",
                "10.0.0.1:4500,10.0.0.2:4500:tls",
            ),
            ("a:b@[::1]:4500 # home\r\n", "[::1]:4500"),
            (
                "a:b@fdb-0.fdb.default.svc.cluster.local:4501:tls",
                "fdb-0.fdb.default.svc.cluster.local:4501:tls",
            ),
        ] {
            assert_eq!(parse(content).as_deref(), Ok(coordinators), "{content:?}");
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (content, what) in [
            ("", "empty"),
            ("# nothing\n", "empty"),
            ("127.0.0.1:4500", "no `@`"),
            ("ab@127.0.0.1:4500", "no `:`"),
            (":b@127.0.0.1:4500", "where letters"),
            ("a-b:c@127.0.0.1:4500", "where letters"),
            ("a:b:c@127.0.0.1:4500", "where letters"),
            ("a:b@", "no host and port"),
            ("a:b@127.0.0.1", "no host and port"),
            ("a:b@127.0.0.1:99999", "no host and port"),
            ("a:b@127.0.0.1:4500,", "no host and port"),
            ("a:b@127.0.0.1:4500\nc:d@127.0.0.1:4501", "second line"),
        ] {
            let error = parse(content).expect_err(content);
            assert!(error.contains(what), "{content:?}: {error}");
        }
    }

    #[test]
    fn a_missing_file_is_named_with_what_to_do() {
        let error = locate(Some(Path::new("/nowhere/fdb.cluster"))).unwrap_err().to_string();
        assert!(error.contains("/nowhere/fdb.cluster") && error.contains(VARIABLE), "{error}");
    }

    #[test]
    fn silence_is_explained_by_what_there_is_to_check() {
        let said = |coordinators: &str| {
            let file = ClusterFile { path: "/etc/fdb.cluster".into(), coordinators: coordinators.into() };
            file.silent(Duration::from_secs(2)).to_string()
        };
        let plain = said("10.0.0.1:4500");
        assert!(
            plain.contains("2000 ms")
                && plain.contains("/etc/fdb.cluster")
                && plain.contains("10.0.0.1:4500")
        );
        assert!(!plain.contains("certificates") && said("10.0.0.1:4500:tls").contains("certificates"));
    }

    #[test]
    fn a_folder_is_no_cluster_file() {
        let folder = tempfile::tempdir().unwrap();
        let error = locate(Some(folder.path())).unwrap_err();
        assert!(matches!(error, OpenError::Io { action: "read", .. }), "{error}");
    }
}
