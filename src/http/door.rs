//! The way from handlers to [`Runtime::call`].
//!
//! A handler's future moves between threads, and the compiler cannot prove that the future of a call may (it awaits
//! async closures, whose futures are only known to be `Send` for one lifetime at a time). So calls stay on a few
//! threads of their own, which drive them within the same tokio runtime. Once [`Runtime::call`] promises `Send`, this
//! file is one line.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use serde_json::Value;
use tokio::{
    runtime::Handle,
    sync::{mpsc, oneshot},
    task::LocalSet,
};

use super::refusal::Refusal;
use crate::{
    control::{Error, result::Answer},
    runtime::{Caller, Runtime},
};

/// Calls that wait to be begun, per thread: beginning one takes microseconds, so more than this is an overload.
const WAITING_MAX: usize = 1_024;
/// Decoding and checking arguments is all that happens there; the work is done by the entities.
const THREADS_MAX: usize = 4;

/// Has commands executed. Cheap to clone.
#[derive(Clone)]
pub(super) struct Door {
    threads: Arc<[mpsc::Sender<Job>]>,
    next: Arc<AtomicUsize>,
}

struct Job {
    call: Call,
    reply: oneshot::Sender<Result<Answer, Error>>,
}

/// A command as it arrived.
pub(super) struct Call {
    /// Who asks.
    pub caller: Caller,
    /// For what.
    pub name: String,
    /// With what.
    pub arguments: Value,
    /// What makes it once.
    pub key: Option<String>,
    /// How long the caller waits.
    pub deadline: Duration,
}

impl Door {
    /// Opens it, within a tokio runtime. The threads end with the last clone.
    pub(super) fn open(runtime: &Runtime) -> io::Result<Self> {
        let threads = thread::available_parallelism().map_or(1, |cores| cores.get().min(THREADS_MAX));
        let open = |_| {
            let (sender, jobs) = mpsc::channel(WAITING_MAX);
            let (runtime, tokio) = (runtime.clone(), Handle::current());
            let thread = thread::Builder::new().name("cadre-commands".into());
            thread.spawn(move || tokio.block_on(LocalSet::new().run_until(execute(runtime, jobs))))?;
            Ok(sender)
        };
        let threads = (0..threads).map(open).collect::<io::Result<Vec<_>>>()?;
        Ok(Self { threads: threads.into(), next: Arc::default() })
    }

    /// Executes a command. When this is dropped, so is the call.
    pub(super) async fn call(&self, call: Call) -> Result<Answer, Refusal> {
        let thread = &self.threads[self.next.fetch_add(1, Ordering::Relaxed) % self.threads.len()];
        let (reply, answer) = oneshot::channel();
        thread.try_send(Job { call, reply }).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => Error::rate_limited(1_000, "too many commands at once"),
            mpsc::error::TrySendError::Closed(_) => Error::unavailable("the server has stopped"),
        })?;
        match answer.await {
            Ok(answer) => Ok(answer?),
            Err(_) => Err(Refusal::internal("a command ended without an answer")),
        }
    }
}

async fn execute(runtime: Runtime, mut jobs: mpsc::Receiver<Job>) {
    while let Some(Job { call, mut reply }) = jobs.recv().await {
        let runtime = runtime.clone();
        tokio::task::spawn_local(async move {
            let Call { caller, name, arguments, key, deadline } = call;
            let answer = tokio::select! {
                biased;
                () = reply.closed() => return,
                answer = runtime.call(&caller, &name, arguments, key.as_deref(), deadline) => answer,
            };
            // Whoever has gone needs no answer.
            let _ = reply.send(answer);
        });
    }
}
