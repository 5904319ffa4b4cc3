//! The client library's network thread: one per process, started once, stopped before the process ends.
//!
//! The library cannot be started again after it was stopped or after its start failed, and its code must not
//! run any more once the process takes its memory apart. So the thread belongs to the process and not to
//! any store, and an exit handler has it stopped however the process comes to `exit`: by returning from
//! `main`, by `std::process::exit`, or at the end of a test run.
//!
//! Two things make that harder than it sounds. The handler runs on a thread whose thread-local variables are
//! gone, and the library needs its own there: so a thread that waits for nothing else calls the library. And
//! handlers run in the reverse order of their registration, among them those that take apart what the
//! library made on first use: so ours is registered again after each use that may have been such a first one.

use std::{
    ffi::c_int,
    path::{Path, PathBuf},
    sync::{
        Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, Sender},
    },
    thread::{self, JoinHandle},
};

use foundationdb::{
    FdbError,
    api::{self, FdbApiBuilder, NetworkRunner, NetworkStop},
    options::NetworkOption,
};

use super::Tls;
use crate::store::OpenError;

/// The version of the client library's interface that this driver is written against.
const API_VERSION: i32 = 730;

static NETWORK: OnceLock<Result<Network, String>> = OnceLock::new();
/// From the start of the network until just before it is stopped.
static RUNNING: AtomicBool = AtomicBool::new(false);

/// What all stores of a process share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Settings {
    pub(super) tls: Option<Tls>,
    pub(super) external_client_directory: Option<PathBuf>,
    pub(super) trace_directory: Option<PathBuf>,
}

struct Network {
    settings: Settings,
    running: Mutex<Option<Running>>,
}

struct Running {
    network: (NetworkStop, JoinHandle<()>),
    stopper: (Sender<(NetworkStop, JoinHandle<()>)>, JoinHandle<()>),
}

/// Starts the network unless it runs already. What is given back is kept until the library has been used.
pub(super) fn start(settings: &Settings) -> Result<FirstUse, OpenError> {
    let refuse = |reason: String| Err(OpenError::Unreachable { reason });
    match NETWORK.get_or_init(|| boot(settings.clone())) {
        Err(reason) => refuse(reason.clone()),
        Ok(network) if network.running().is_none() => {
            refuse("the FoundationDB client was stopped and cannot start again; restart the process".into())
        }
        Ok(network) if network.settings != *settings => refuse(
            "the FoundationDB client of this process runs with other TLS, client library or trace settings; \
             use the same for every cluster, or another process"
                .into(),
        ),
        Ok(_) => Ok(FirstUse),
    }
}

/// Registers the exit handler once more when it is over.
pub(super) struct FirstUse;

impl Drop for FirstUse {
    fn drop(&mut self) {
        // Should it be refused, the one from the start still stands.
        at_exit(stop_at_exit);
    }
}

/// Whether the library may be called. Once it is being stopped it is not to be asked for anything new.
pub(super) fn is_running() -> bool {
    RUNNING.load(Ordering::Acquire)
}

/// Stops the network thread and waits for it. Everything that still waits for FoundationDB then fails or waits
/// for good, and nothing can be opened any more. The process does this by itself when it exits; a program that
/// has its tasks in hand does it after the last of them, before it returns from `main`.
pub fn stop() {
    let Some(Ok(network)) = NETWORK.get() else { return };
    let Some(Running { network, stopper: (stopper, thread) }) = network.running().take() else { return };
    RUNNING.store(false, Ordering::Release);
    // The stopper is there until it is told, and tells what goes wrong itself.
    let _ = stopper.send(network);
    let _ = thread.join();
}

impl Network {
    fn running(&self) -> MutexGuard<'_, Option<Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn boot(settings: Settings) -> Result<Network, String> {
    let newest = api::get_max_api_version();
    if newest < API_VERSION {
        return Err(format!(
            "the FoundationDB client library knows its interface up to version {newest}, {API_VERSION} is \
             needed; install foundationdb-clients 7.3 or newer"
        ));
    }
    let refused =
        |error: FdbError| format!("the FoundationDB client does not start: {error} ({})", error.code());
    let mut builder = FdbApiBuilder::default().set_runtime_version(API_VERSION).build().map_err(refused)?;
    for (setting, option) in settings.options()? {
        builder = builder.set_option(option).map_err(|error| {
            format!("the FoundationDB client refuses {setting}: {error} ({})", error.code())
        })?;
    }
    let (runner, started) = builder.build().map_err(refused)?;
    if at_exit(stop_at_exit) != 0 {
        return Err("no exit handler can be registered to stop the FoundationDB client".into());
    }
    let (stopper, told) = mpsc::channel();
    let stopping = spawn("fdb-stop", move || told.recv().into_iter().for_each(halt))?;
    let network = spawn("fdb-network", move || run(runner))?;
    RUNNING.store(true, Ordering::Release);
    let running = Running { network: (started.wait(), network), stopper: (stopper, stopping) };
    Ok(Network { settings, running: Mutex::new(Some(running)) })
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, String> {
    thread::Builder::new()
        .name(name.into())
        .spawn(work)
        .map_err(|error| format!("cannot start a thread for the FoundationDB client: {error}"))
}

fn halt((stop, network): (NetworkStop, JoinHandle<()>)) {
    match stop.stop() {
        Ok(()) => drop(network.join()),
        Err(error) => tracing::error!(%error, code = error.code(), "the FoundationDB client does not stop"),
    }
}

#[allow(
    unsafe_code,
    reason = "sound because the exit handler has the network stopped before the process ends"
)]
fn run(runner: NetworkRunner) {
    if let Err(error) = unsafe { runner.run() } {
        tracing::error!(%error, code = error.code(), "the FoundationDB client's network thread failed");
    }
}

#[allow(unsafe_code, reason = "the C library's registration of exit handlers, which takes any function")]
unsafe extern "C" {
    #[link_name = "atexit"]
    safe fn at_exit(handler: extern "C" fn()) -> c_int;
}

extern "C" fn stop_at_exit() {
    stop();
}

impl Settings {
    /// Refuses what cannot work, before anything is started that cannot be started again.
    pub(super) fn check(&self) -> Result<(), OpenError> {
        self.tls.as_ref().map_or(Ok(()), Tls::check)?;
        for path in [&self.external_client_directory, &self.trace_directory].into_iter().flatten() {
            path.read_dir().map_err(|source| OpenError::Io { action: "list", path: path.clone(), source })?;
        }
        Ok(())
    }

    /// In the order in which the client library wants them.
    fn options(&self) -> Result<Vec<(&'static str, NetworkOption)>, String> {
        let mut options = Vec::new();
        if let Some(tls) = &self.tls {
            if let Some(password) = &tls.password {
                options.push(("tls.password", NetworkOption::TLSPassword(password.clone())));
            }
            if let Some(cert) = &tls.cert {
                options.push(("tls.cert", NetworkOption::TLSCertPath(text(cert)?)));
            }
            if let Some(key) = &tls.key {
                options.push(("tls.key", NetworkOption::TLSKeyPath(text(key)?)));
            }
            if let Some(ca) = &tls.ca {
                options.push(("tls.ca", NetworkOption::TLSCaPath(text(ca)?)));
            }
            if let Some(verify) = &tls.verify_peers {
                let verify = verify.clone().into_bytes();
                options.push(("tls.verify_peers", NetworkOption::TLSVerifyPeers(verify)));
            }
        }
        if let Some(directory) = &self.external_client_directory {
            let option = NetworkOption::ExternalClientDirectory(text(directory)?);
            options.push(("external_client_directory", option));
            // A cluster that no library fits answers with an error instead of never.
            options.push(("external_client_directory", NetworkOption::FailIncompatibleClient));
        }
        if let Some(directory) = &self.trace_directory {
            options.push(("trace_directory", NetworkOption::TraceEnable(text(directory)?)));
            options.push(("trace_directory", NetworkOption::TraceFormat("json".into())));
        }
        Ok(options)
    }
}

fn text(path: &Path) -> Result<String, String> {
    path.to_str().map(str::to_owned).ok_or_else(|| format!("{} is not UTF-8; rename it", path.display()))
}
