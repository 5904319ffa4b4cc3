//! The power goes while a process commits.
//!
//! As in [`kill`](super::kill), another process commits and talks about it; then what it had not synced is lost
//! ([`power`]). What is left is looked at in a copy, and the next process goes on with the original: nobody
//! repairs it in between.

use std::process::{Command, Stdio};

use rand::{Rng, SeedableRng, rngs::SmallRng};
use serde::{Deserialize, Serialize};

use super::{
    super::power::{self, Act, CUT, Part, Plan},
    steps::{Said, take},
    *,
};

const LIFE: &str = "CADRE_TEST_STORE_LIFE";

/// What the other process does.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Life {
    plan: Plan,
    durable: bool,
    /// How many steps every writer takes before the store is closed and opened again.
    steps: usize,
}

fn config(path: &Path, durable: bool) -> EmbeddedConfig {
    let sync = if durable { SyncMode::Durable } else { SyncMode::Relaxed };
    EmbeddedConfig { sync, reserve_bytes: 16 << 10, checkpoint_bytes: 32 << 10, ..small(path) }
}

/// The other process; does nothing in an ordinary test run.
#[test]
fn writer() {
    let Ok(life) = std::env::var(LIFE) else { return };
    let life: Life = serde_json::from_str(&life).unwrap();
    let config = config(&life.plan.root, life.durable);
    power::plan(life.plan);
    loop {
        take(&Embedded::open(config.clone()).unwrap().store(), life.steps);
    }
}

/// A folder that loses its power again and again.
struct Victim {
    folder: tempfile::TempDir,
    rng: SmallRng,
    said: Said,
    durable: bool,
    /// What is not synced although the store wants it to be.
    unsynced: Option<Part>,
}

impl Victim {
    fn new(seed: u64) -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            rng: SmallRng::seed_from_u64(seed),
            said: Said::default(),
            durable: true,
            unsynced: None,
        }
    }

    fn draw(&mut self) -> Life {
        const MOMENTS: [(Act, Part); 12] = [
            (Act::Write, Part::Segment),
            (Act::Sync, Part::Segment),
            (Act::Write, Part::Draft),
            (Act::Sync, Part::Draft),
            (Act::Name, Part::Log),
            (Act::Sync, Part::Log),
            (Act::Write, Part::Engine),
            (Act::Resize, Part::Engine),
            (Act::Sync, Part::Engine),
            (Act::Write, Part::Sums),
            (Act::Sync, Part::Sums),
            (Act::Sync, Part::Other),
        ];
        let rng = &mut self.rng;
        let before = rng.random_bool(0.7).then(|| MOMENTS[rng.random_range(0..MOMENTS.len())]);
        let nth_max = if before.is_some() { [1, 4, 16][rng.random_range(0..3)] } else { 300 };
        let nth = rng.random_range(1..=nth_max);
        let share = rng.random();
        let plan = Plan {
            root: self.folder.path().join("new/data"),
            attic: self.folder.path().join("attic"),
            seed: rng.random(),
            before,
            nth,
            kill: rng.random_bool(0.2),
            kept: [0.0, 1.0, share, share][rng.random_range(0..4)],
            unsynced: self.unsynced,
        };
        Life { plan, durable: self.durable, steps: rng.random_range(1..80) }
    }

    /// One life up to its end: how many steps there are after it, or what is wrong.
    fn live(&mut self, life: &Life) -> Result<u64, String> {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "store::embedded::tests::power::writer", "--nocapture", "--test-threads=1"])
            .env(LIFE, serde_json::to_string(life).unwrap())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        self.said.listen(child.stdout.take().unwrap());
        child.wait().unwrap();
        let end = &self.said.last_line;
        assert!(end.starts_with(CUT), "the other process ended on its own: {life:?}");
        if !life.plan.left().exists() {
            fs::remove_dir_all(&life.plan.attic).unwrap();
        }
        let copy = tempfile::tempdir().unwrap();
        if life.plan.root.exists() {
            copy_as_after_a_crash(&life.plan.root, copy.path());
        }
        let opened = Embedded::open(config(copy.path(), false)).map_err(|error| error.to_string());
        let checked = opened.and_then(|embedded| run(self.said.check(&embedded.store())));
        checked.map_err(|wrong| format!("{wrong}\n{end}\n{life:?}"))
    }
}

#[test]
fn when_the_power_goes_nothing_confirmed_is_missing_and_nothing_is_torn() {
    const FOLDERS: u64 = 10;
    const LIVES: u64 = 12;
    let mut steps = 0;
    for seed in 0..FOLDERS {
        let mut victim = Victim::new(seed);
        for _ in 0..LIVES {
            let life = victim.draw();
            steps = victim.live(&life).unwrap_or_else(|wrong| panic!("folder {seed}: {wrong}"));
            println!("{steps} steps, {}", victim.said.last_line);
        }
    }
    assert!(steps > LIVES);
}

#[test]
fn a_segment_is_not_used_again_before_its_old_name_is_certain_to_be_gone() {
    for seed in 0..4 {
        let mut victim = Victim::new(seed);
        for nth in [3, 4, 5, 6] {
            let mut life = victim.draw();
            life.steps = 100;
            life.plan =
                Plan { before: Some((Act::Sync, Part::Draft)), nth, kill: false, kept: 1.0, ..life.plan };
            victim.live(&life).unwrap_or_else(|wrong| panic!("folder {seed}: {wrong}"));
        }
    }
}

/// Shows that these tests can fail, and that no sync is there for nothing.
#[test]
fn a_sync_that_is_left_out_is_noticed() {
    const LIVES_MAX: usize = 60;
    let parts = [Part::Segment, Part::Draft, Part::Log, Part::Engine, Part::Sums, Part::Other].map(Some);
    for unsynced in parts.into_iter().chain([None]) {
        let mut victim = Victim { durable: unsynced.is_some(), unsynced, ..Victim::new(1) };
        let mut live = || {
            let life = victim.draw();
            victim.live(&life).err()
        };
        let noticed = (1..=LIVES_MAX).find_map(|life| Some((life, live()?)));
        let (life, wrong) = noticed.unwrap_or_else(|| panic!("{unsynced:?} need not be synced"));
        println!("without syncs of {unsynced:?}, after {life}: {wrong}");
    }
}
