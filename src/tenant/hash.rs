//! Hashing what keys know, slowly, on threads of its own.
//!
//! argon2id takes 19 MiB and some tens of milliseconds, on purpose. So at most two are computed at once, whoever asks, and
//! those who wait are bounded too: a flood of wrong keys takes two threads, not the server. An id that nobody has costs the
//! same as a wrong secret, so that the time of an answer does not tell which ids there are.

use std::{
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        mpsc::{Receiver, SyncSender, TrySendError, sync_channel},
    },
    thread,
};

use argon2::{
    Argon2,
    password_hash::{PasswordHash, PasswordHasher, PasswordVerifier, SaltString},
};
use rand::{TryRngCore, rngs::OsRng};
use tokio::sync::oneshot;

/// At once: 40 MiB, and as many cores as the smallest machine has.
const THREADS: usize = 2;
/// Those who wait: the last of them for about two seconds, after which clients give up.
const WAITING_MAX: usize = 64;
const SALT_BYTES: usize = 16;

/// There are too many keys to check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("too many credentials are being checked")]
pub(crate) struct Busy;

enum Job {
    Hash { secret: String, answer: oneshot::Sender<Option<String>> },
    Verify { secret: String, hash: Option<String>, answer: oneshot::Sender<bool> },
}

/// The threads, which start with the first question and end with whoever holds this.
#[derive(Clone, Default)]
pub(super) struct Hasher(Arc<OnceLock<SyncSender<Job>>>);

impl Hasher {
    /// What to keep of a secret, as a PHC string.
    pub async fn hash(&self, secret: &str) -> Result<String, Busy> {
        let (answer, answered) = oneshot::channel();
        self.send(Job::Hash { secret: secret.to_owned(), answer })?;
        answered.await.ok().flatten().ok_or(Busy)
    }

    /// Whether a secret is the one that is kept; nothing is kept of an unknown one, which takes as long.
    pub async fn verify(&self, secret: &str, hash: Option<String>) -> Result<bool, Busy> {
        let (answer, answered) = oneshot::channel();
        self.send(Job::Verify { secret: secret.to_owned(), hash, answer })?;
        answered.await.map_err(|_| Busy)
    }

    fn send(&self, job: Job) -> Result<(), Busy> {
        self.0.get_or_init(start).try_send(job).map_err(|error| match error {
            TrySendError::Full(_) => Busy,
            TrySendError::Disconnected(_) => {
                tracing::error!("nobody is left to check credentials");
                Busy
            }
        })
    }
}

fn start() -> SyncSender<Job> {
    let (jobs, queue) = sync_channel(WAITING_MAX);
    let queue = Arc::new(Mutex::new(queue));
    for number in 1..=THREADS {
        let queue = queue.clone();
        let thread = thread::Builder::new().name(format!("cadre-keys-{number}"));
        if let Err(error) = thread.spawn(move || work(&queue)) {
            tracing::error!(%error, "cannot start a thread that checks credentials");
        }
    }
    jobs
}

fn work(queue: &Mutex<Receiver<Job>>) {
    loop {
        let job = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        // Whoever has asked may have gone.
        match job {
            Ok(Job::Hash { secret, answer }) => drop(answer.send(hash(&secret))),
            Ok(Job::Verify { answer, .. }) if answer.is_closed() => {}
            Ok(Job::Verify { secret, hash, answer }) => drop(answer.send(verify(&secret, hash.as_deref()))),
            Err(_) => return,
        }
    }
}

fn hash(secret: &str) -> Option<String> {
    let mut salt = [0; SALT_BYTES];
    OsRng.try_fill_bytes(&mut salt).ok()?;
    let salt = SaltString::encode_b64(&salt).ok()?;
    Some(Argon2::default().hash_password(secret.as_bytes(), &salt).ok()?.to_string())
}

fn verify(secret: &str, hash: Option<&str>) -> bool {
    let Some(hash) = hash.and_then(|hash| PasswordHash::new(hash).ok()) else {
        // The answer is known; the work is done all the same.
        let mut out = [0; 32];
        let worked = Argon2::default().hash_password_into(secret.as_bytes(), &[0; SALT_BYTES], &mut out);
        std::hint::black_box((worked.is_ok(), out));
        return false;
    };
    Argon2::default().verify_password(secret.as_bytes(), &hash).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_the_secret_itself_is_right() {
        let hasher = Hasher::default();
        let kept = hasher.hash("the secret").await.unwrap();
        assert!(kept.starts_with("$argon2id$v=19$m=19456,t=2,p=1$") && !kept.contains("secret"), "{kept}");
        assert_ne!(hasher.hash("the secret").await.unwrap(), kept, "every secret has salt of its own");
        assert_eq!(hasher.verify("the secret", Some(kept.clone())).await, Ok(true));
        for wrong in ["", "the secre", "the secret ", "The secret"] {
            assert_eq!(hasher.verify(wrong, Some(kept.clone())).await, Ok(false), "{wrong}");
        }
        assert_eq!(hasher.verify("the secret", None).await, Ok(false));
        assert_eq!(hasher.verify("the secret", Some("$argon2id$".into())).await, Ok(false));
    }

    #[tokio::test]
    async fn p9_a_flood_of_wrong_keys_is_bounded() {
        let hasher = Hasher::default();
        let asked = (0..4 * WAITING_MAX).map(|_| hasher.verify("wrong", None));
        let answers = futures::future::join_all(asked).await;
        let refused = answers.iter().filter(|answer| **answer == Err(Busy)).count();
        assert!(refused >= WAITING_MAX, "{refused} of {} were turned away", answers.len());
        assert!(!answers.contains(&Ok(true)));
    }
}
