//! A process that is killed while it commits.
//!
//! The test runs itself as another process, which commits as fast as it can and says so on its output, and
//! kills it. Whatever was said must be there.

use std::{
    process::{Command, Stdio},
    time::Duration,
};

use rand::{Rng, SeedableRng, rngs::SmallRng};

use super::{
    steps::{Said, take},
    *,
};

const FOLDER: &str = "CADRE_TEST_STORE_WRITER";
const KILLS: u64 = 25;

fn config(path: &Path) -> EmbeddedConfig {
    // Small enough that checkpoints and new segments happen all the time.
    EmbeddedConfig { sync: SyncMode::Durable, reserve_bytes: 64 << 10, ..small(path) }
}

/// The other process; does nothing in an ordinary test run.
#[test]
fn writer() {
    let Some(path) = std::env::var_os(FOLDER) else { return };
    let embedded = Embedded::open(config(Path::new(&path))).unwrap();
    take(&embedded.store(), usize::MAX);
}

#[test]
fn killed_at_any_moment_nothing_confirmed_is_missing_and_nothing_is_torn() {
    let folder = tempfile::tempdir().unwrap();
    let mut rng = SmallRng::seed_from_u64(7);
    let mut said = Said::default();
    let mut steps = 0;
    for kill in 0..KILLS {
        let life = Duration::from_millis(rng.random_range(5..150));
        said = run_and_kill(folder.path(), life, said);
        let embedded = Embedded::open(config(folder.path())).unwrap();
        steps = run(said.check(&embedded.store())).unwrap_or_else(|wrong| panic!("kill {kill}: {wrong}"));
    }
    println!("{steps} steps survived {KILLS} kills");
    assert!(steps > KILLS);
}

/// Adds what the writer said before it was killed.
fn run_and_kill(folder: &Path, life: Duration, mut said: Said) -> Said {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "store::embedded::tests::kill::writer", "--nocapture", "--test-threads=1"])
        .env(FOLDER, folder)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = child.stdout.take().unwrap();
    let listener = std::thread::spawn(move || {
        said.listen(output);
        said
    });
    std::thread::sleep(life);
    child.kill().unwrap();
    child.wait().unwrap();
    listener.join().unwrap()
}
