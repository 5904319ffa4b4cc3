//! A throw-away NATS server for tests and benchmarks: on a free loopback port, gone when dropped.
//!
//! Everything here panics instead of returning errors: without a server there is nothing to test.

use std::{
    env,
    fs::{self, File, Metadata},
    io::{BufRead, BufReader},
    net::TcpStream,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, Command},
    thread,
    time::Duration,
};

use tempfile::TempDir;

use super::NatsConfig;

/// Names the server to run, when it is not on the PATH.
pub const SERVER_VARIABLE: &str = "CADRE_NATS_SERVER";

const POLL: Duration = Duration::from_millis(10);

/// Ten seconds: a server takes 50 ms to start, on a machine that is busy compiling perhaps a second.
const POLLS_MAX: u32 = 1_000;

/// A running NATS server.
#[derive(Debug)]
pub struct NatsServer {
    binary: PathBuf,
    folder: TempDir,
    port: u16,
    process: Option<Child>,
}

impl NatsServer {
    /// Starts a server that takes everybody.
    pub fn start() -> Self {
        Self::start_with("")
    }

    /// Starts a server with further lines of configuration.
    pub fn start_with(settings: &str) -> Self {
        let binary = find_server();
        let folder = tempfile::Builder::new().prefix("cadre-nats-").tempdir().expect("makes a folder");
        fs::write(folder.path().join("server.conf"), settings).expect("writes the configuration");
        let mut server = Self { binary, folder, port: 0, process: None };
        server.spawn();
        server
    }

    /// Where it listens.
    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Settings of a client for it.
    pub fn config(&self) -> NatsConfig {
        NatsConfig { servers: vec![self.url()], ..NatsConfig::default() }
    }

    /// Kills it, as a crash would.
    pub fn stop(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().expect("the server can be killed");
            process.wait().expect("the server ends");
        }
    }

    /// Starts it again, on the same port.
    pub fn restart(&mut self) {
        self.stop();
        self.spawn();
    }

    /// Makes it neither answer nor go away, as a lost network would.
    pub fn freeze(&mut self) {
        self.signal("STOP");
        // The signal is on its way when `kill` returns; a thread may get to answer before it arrives.
        self.poll(|server| server.is_stopped().then_some(()));
    }

    /// Ends a [`Self::freeze`].
    pub fn thaw(&self) {
        self.signal("CONT");
    }

    fn signal(&self, signal: &str) {
        let process = self.process.as_ref().expect("the server runs");
        // The shell's own `kill`: a small Debian has no other.
        let status = Command::new("sh").args(["-c", &format!("kill -{signal} {}", process.id())]).status();
        assert!(status.expect("runs a shell").success(), "the server takes a signal");
    }

    fn is_stopped(&self) -> bool {
        let process = self.process.as_ref().expect("the server runs");
        let threads =
            fs::read_dir(format!("/proc/{}/task", process.id())).expect("the server's threads are seen");
        threads.flatten().all(|thread| {
            // `1234 (nats-server) T 1 …`
            let stat = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
            stat.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with('T'))
        })
    }

    fn spawn(&mut self) {
        let folder = self.folder.path();
        let log = File::create(folder.join("server.log")).expect("makes the log");
        // The first time the server chooses a free port and writes it down; later it has to be that one.
        let port = if self.port == 0 { "-1".into() } else { self.port.to_string() };
        let process = Command::new(&self.binary)
            .args(["--addr", "127.0.0.1", "--port", &port, "--config"])
            .arg(folder.join("server.conf"))
            .arg("--ports_file_dir")
            .arg(folder)
            .stdout(log.try_clone().expect("clones the log"))
            .stderr(log)
            .spawn()
            .unwrap_or_else(|error| panic!("{} does not start: {error}", self.binary.display()));
        let id = process.id();
        self.process = Some(process);
        if self.port == 0 {
            self.port = self.poll(|server| server.read_port(id));
        }
        self.poll(|server| server.greets().then_some(()));
    }

    /// Waits for what the server does when it is ready.
    fn poll<T>(&mut self, mut ready: impl FnMut(&Self) -> Option<T>) -> T {
        for _ in 0..POLLS_MAX {
            if let Some(done) = ready(self) {
                return done;
            }
            let process = self.process.as_mut().expect("the server was started");
            if let Some(status) = process.try_wait().expect("the server can be watched") {
                panic!("the NATS server ended with {status}:\n{}", self.log());
            }
            thread::sleep(POLL);
        }
        panic!("the NATS server is not ready:\n{}", self.log());
    }

    fn read_port(&self, process: u32) -> Option<u16> {
        // `{"nats":["nats://127.0.0.1:34567"]}`, in a file named after the process.
        let ending = format!("_{process}.ports");
        let files = fs::read_dir(self.folder.path()).expect("the folder can be read");
        let file = files.flatten().find(|file| file.file_name().to_string_lossy().ends_with(&ending))?;
        let text = fs::read_to_string(file.path()).ok()?;
        let digits: String =
            text.split("127.0.0.1:").nth(1)?.chars().take_while(char::is_ascii_digit).collect();
        // Half a file is no port yet.
        text.trim_end().ends_with('}').then(|| digits.parse().ok())?
    }

    fn greets(&self) -> bool {
        let Ok(stream) = TcpStream::connect(("127.0.0.1", self.port)) else { return false };
        let mut greeting = String::new();
        let read = stream
            .set_read_timeout(Some(Duration::from_secs(1)))
            .and_then(|()| BufReader::new(stream).read_line(&mut greeting));
        read.is_ok() && greeting.starts_with("INFO")
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("server.log")).unwrap_or_default()
    }
}

impl Drop for NatsServer {
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take() {
            // It may be dead already; there is nobody to tell.
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

/// The server to run: the one that [`SERVER_VARIABLE`] names, else the one on the PATH, else the newest that
/// `make test` has put under `target/tools`.
fn find_server() -> PathBuf {
    if let Some(path) = env::var_os(SERVER_VARIABLE) {
        let path = PathBuf::from(path);
        assert!(path.is_file(), "{SERVER_VARIABLE} names {}, which is no file", path.display());
        return path;
    }
    let on_path = env::var_os("PATH").and_then(|folders| {
        env::split_paths(&folders).map(|folder| folder.join("nats-server")).find(|path| path.is_file())
    });
    on_path.or_else(|| newest_server(&tools_folder()?)).unwrap_or_else(|| {
        panic!(
            "no nats-server: neither {SERVER_VARIABLE} nor the PATH nor target/tools has one; \
             `make test` installs it"
        )
    })
}

/// `target/tools` beside the workspace that is being tested, wherever below it the test runs.
fn tools_folder() -> Option<PathBuf> {
    let here = env::current_dir().ok()?;
    here.ancestors().map(|folder| folder.join("target/tools")).find(|folder| folder.is_dir())
}

fn newest_server(folder: &Path) -> Option<PathBuf> {
    let mut servers = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).ok()?.flatten() {
            let (path, data) = (entry.path(), entry.metadata().ok()?);
            if data.is_dir() {
                folders.push(path);
            } else if entry.file_name().to_string_lossy().starts_with("nats-server") && is_executable(&data) {
                servers.push((data.modified().ok()?, path));
            }
        }
    }
    servers.into_iter().max().map(|(_, path)| path)
}

fn is_executable(data: &Metadata) -> bool {
    data.permissions().mode() & 0o111 != 0
}
