//! The binary as a process that cannot outlive its test.
#![allow(dead_code, reason = "each test file uses some of it")]

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread,
    time::Duration,
};

use tokio::time::Instant;

/// Longer than anything takes on a machine that others use too.
const PATIENCE: Duration = Duration::from_secs(60);

/// The binary, with nothing of the environment of whoever runs the tests, talking to `url`.
pub fn cadre(url: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cadre"));
    for name in [
        "CADRE_TOKEN",
        "CADRE_DATA",
        "CADRE_LISTEN",
        "CADRE_CONFIG",
        "CADRE_AUTH",
        "CADRE_ADMIN_TOKEN",
        "CADRE_CA_CERT",
        "RUST_LOG",
    ] {
        command.env_remove(name);
    }
    command.env("CADRE_URL", url).stdin(Stdio::null());
    command
}

/// `cadre dev`, or another server, from its beginning.
pub struct Dev {
    process: Child,
    /// A shell that kills the process as soon as this test no longer holds its input, whatever ended the test. It goes
    /// before the process is waited for: until then no other process can have its id.
    watchdog: Child,
    /// What standard output says, line by line.
    lines: Receiver<String>,
}

impl Dev {
    /// Starts one that keeps its data in `data`. It need not get as far as serving. What it has to say goes to `log`.
    pub fn spawn(data: &Path, listen: &str, log: Stdio) -> Self {
        Self::spawn_with(data, listen, log, |_| {})
    }

    /// The same, with more said to it.
    pub fn spawn_with(data: &Path, listen: &str, log: Stdio, more: impl FnOnce(&mut Command)) -> Self {
        let data = data.to_str().unwrap();
        Self::start_with(&["dev", "--listen", listen, "--data", data], log, more)
    }

    /// Starts a server of any kind.
    pub fn start(arguments: &[&str], log: Stdio) -> Self {
        Self::start_with(arguments, log, |_| {})
    }

    fn start_with(arguments: &[&str], log: Stdio, more: impl FnOnce(&mut Command)) -> Self {
        let mut command = cadre("");
        command.args(arguments);
        more(&mut command);
        let mut process = command.stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let mut watchdog = Command::new("sh");
        watchdog.args(["-c", r#"read -r _; kill -9 "$1""#, "sh", &process.id().to_string()]);
        watchdog.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let watchdog = watchdog.spawn().unwrap();
        let (said, lines) = channel();
        let out = BufReader::new(process.stdout.take().unwrap());
        thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                if said.send(line).is_err() {
                    return;
                }
            }
        });
        Self { process, watchdog, lines }
    }

    /// Where it serves, once it does.
    pub fn ready(&self) -> String {
        let line = self.lines.recv_timeout(PATIENCE);
        let line = line.unwrap_or_else(|error| panic!("there is no ready line: {error}"));
        line.strip_prefix("ready ").unwrap_or_else(|| panic!("{line:?} is no ready line")).to_owned()
    }

    /// The next line of standard output; `None` once there can be none.
    pub fn line(&self) -> Option<String> {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(line) => Some(line),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("it neither says anything nor ends"),
        }
    }

    /// Its id.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Sends it a signal, by its name without `SIG`.
    pub fn signal(&self, name: &str) {
        // The shell's own: a small Debian has no other.
        let command = format!("kill -{name} {}", self.process.id());
        let sent = Command::new("sh").args(["-c", &command]).status().unwrap();
        assert!(sent.success(), "{command}");
    }

    /// Waits until it ends by itself.
    pub fn ended(mut self) -> ExitStatus {
        let until = Instant::now() + PATIENCE;
        // By its output, which ends with it: to ask for its status would let its id go.
        while self.lines.recv_timeout(until.saturating_duration_since(Instant::now())).is_ok() {}
        assert!(Instant::now() < until, "it does not end");
        self.end(false)
    }

    /// What becomes of it when its test is gone.
    pub fn abandoned(mut self) -> ExitStatus {
        drop(self.watchdog.stdin.take());
        self.ended()
    }

    /// Ends it at once, as `kill -9` does.
    pub fn kill(mut self) {
        self.end(true);
    }

    fn end(&mut self, kill: bool) -> ExitStatus {
        if kill {
            // One that has ended by itself needs no killing.
            let _ = self.process.kill();
        }
        let _ = self.watchdog.kill();
        let _ = self.watchdog.wait();
        self.process.wait().unwrap()
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        // Whoever has waited for it already gets the same answer again.
        let _ = self.end(true);
    }
}
