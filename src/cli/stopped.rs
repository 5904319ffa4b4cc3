//! How a server is asked to end.

use tokio::{
    signal::unix::{SignalKind, signal},
    sync::watch,
};

/// Becomes true on Ctrl-C or a polite request to end. The second one ends the process.
pub(super) fn stopped() -> anyhow::Result<watch::Receiver<bool>> {
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let (sender, receiver) = watch::channel(false);
    tokio::spawn(async move {
        loop {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            if sender.send_replace(true) {
                std::process::exit(130);
            }
        }
    });
    Ok(receiver)
}
