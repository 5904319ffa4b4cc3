//! A cluster that speaks TLS and nothing else. The test starts its own; without fdbserver, fdbcli and openssl on
//! the PATH it does nothing. One test, because a process has one set of certificates.
#![cfg(feature = "fdb")]

mod fdb_support;

use std::{
    net::TcpListener,
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use cadre_cluster::store::fdb::{self, Config, Tls};
use fdb_support::{within, write};
use tempfile::TempDir;

const PASSWORD: &str = "correct horse";

/// A server with its files, killed when dropped.
struct Server {
    process: Child,
    folder: TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn is_there(program: &str) -> bool {
    Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

fn run(folder: &Path, program: &str, arguments: &str) -> bool {
    let command = Command::new(program)
        .args(arguments.split_whitespace().map(|argument| argument.replace('+', " ")))
        .current_dir(folder)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    command.expect("asked for before").success()
}

const CERTIFICATES: &str = "--tls-certificate-file cert.pem --tls-key-file plain.pem --tls-ca-file cert.pem";

async fn start() -> Server {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    let password = format!("pass:{}", PASSWORD.replace(' ', "+"));
    let make = format!(
        "req -x509 -newkey rsa:2048 -passout {password} -keyout key.pem -out cert.pem -subj /CN=fdb.test"
    );
    assert!(run(path, "openssl", &make));
    assert!(run(path, "openssl", &format!("pkey -in key.pem -passin {password} -out plain.pem")));
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("{}:tls", listener.local_addr().expect("a port"));
    drop(listener);
    std::fs::write(path.join("fdb.cluster"), format!("tls:tls@{address}\n")).expect("a file");
    let process = Command::new("fdbserver")
        .args(format!("-p {address} -C fdb.cluster -d data -L log {CERTIFICATES}").split_whitespace())
        .args(["--tls-verify-peers", "Check.Valid=1"])
        .current_dir(path)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("asked for before");
    let server = Server { process, folder };
    let configure = format!("-C fdb.cluster {CERTIFICATES} --timeout 5 --exec configure+new+single+memory");
    within(60, async {
        while !run(server.folder.path(), "fdbcli", &configure) {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    })
    .await;
    server
}

#[tokio::test]
async fn a_cluster_is_reached_with_the_certificates_of_the_configuration() {
    if !["fdbserver", "fdbcli", "openssl"].into_iter().all(is_there) {
        eprintln!("skipped: fdbserver, fdbcli and openssl have to be on the PATH");
        return;
    }
    let server = start().await;
    let file = |name: &str| Some(server.folder.path().join(name));
    let tls = Tls {
        cert: file("cert.pem"),
        key: file("key.pem"),
        ca: file("cert.pem"),
        verify_peers: Some("Check.Valid=1,S.CN=fdb.test".into()),
        password: Some(PASSWORD.into()),
    };
    let config = Config { cluster_file: file("fdb.cluster"), tls: Some(tls), ..Config::new("tls") };
    let store = within(30, fdb::open(config.clone())).await.unwrap();
    write(&store, |tx| tx.set(&b"k"[..], &b"v"[..])).await;
    assert_eq!(store.begin().get(b"k").await.unwrap().unwrap(), "v");
    let without = fdb::open(Config { tls: None, ..config }).await.unwrap_err().to_string();
    assert!(without.contains("other TLS"), "{without}");
}
