//! A power cut, for tests.
//!
//! A killed process leaves what it wrote with the operating system; a power cut loses whatever was not synced,
//! in part, sector by sector and in no order. Here every change is written down with what was there before,
//! until its file is synced. At a planned moment every thread is stopped in front of its next change, a drawn
//! part of the changes is taken back, and the process ends. Or it ends as if killed, and what was not synced is
//! left for the next process to lose.
//!
//! Lengths of files are lost like sectors. Changes of names in a folder reach the disk in their order, up to a
//! drawn one, and without regard to what is in the files. Not modelled: sectors that are torn themselves, names
//! in any order, and syncs that fail.

use std::{
    collections::{BTreeMap, HashMap},
    fs::{self, File},
    io::Write,
    ops::Range,
    os::unix::fs::{FileExt, MetadataExt},
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, OnceLock, PoisonError},
};

use rand::{Rng, SeedableRng, rngs::SmallRng};
use serde::{Deserialize, Serialize};

use super::files;

/// What a disk writes entirely or not at all.
const SECTOR: u64 = 512;
/// The end comes here when the planned moment does not.
const STEPS_MAX: u32 = 1500;

/// How the line begins that is printed last.
pub(super) const CUT: &str = "cut";

/// What a step does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Act {
    Write,
    Resize,
    Sync,
    /// Makes, renames or removes a file.
    Name,
}

/// What it does it to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Part {
    Segment,
    /// A segment without its name.
    Draft,
    Engine,
    Sums,
    Log,
    Other,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Plan {
    pub(super) root: PathBuf,
    /// For what this module needs to keep, next to the store.
    pub(super) attic: PathBuf,
    pub(super) seed: u64,
    /// The end comes before the `nth` step of this kind, or of any kind.
    pub(super) before: Option<(Act, Part)>,
    pub(super) nth: u32,
    /// Only the process ends, and the power goes in a later one.
    pub(super) kill: bool,
    /// The share of sectors and lengths that reached the disk without a sync.
    pub(super) kept: f64,
    /// Syncs of this do nothing.
    pub(super) unsynced: Option<Part>,
}

/// What is not certain to be on the disk.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Doubt {
    /// By inode.
    files: BTreeMap<u64, Before>,
    /// By folder, in order: each the renames that undo it.
    names: BTreeMap<PathBuf, Vec<Vec<(PathBuf, PathBuf)>>>,
    /// How many things were put into the attic.
    shelves: usize,
}

/// What a file was like at its last sync and after each change since.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Before {
    lengths: Vec<u64>,
    sectors: BTreeMap<u64, Vec<Vec<u8>>>,
}

pub(super) struct Power {
    plan: Plan,
    rng: SmallRng,
    steps: u32,
    matching: u32,
    doubt: Doubt,
    open: HashMap<u64, File>,
    parts: HashMap<u64, Part>,
}

static POWER: OnceLock<Mutex<Power>> = OnceLock::new();

/// Held while a change is made, when there is a plan.
type On = Option<MutexGuard<'static, Power>>;

/// From now on every change counts.
pub(super) fn plan(plan: Plan) {
    fs::create_dir_all(&plan.attic).unwrap();
    let rng = SmallRng::seed_from_u64(plan.seed);
    let doubt = match fs::read(plan.left()) {
        Ok(left) => rmp_serde::from_slice(&left).unwrap(),
        Err(_) => Doubt::default(),
    };
    fs::remove_file(plan.left()).ok();
    let (open, parts) = (HashMap::new(), HashMap::new());
    let mut power = Power { plan, rng, steps: 0, matching: 0, doubt, open, parts };
    // A file that was removed has nothing to lose.
    power.doubt.files.retain(|inode, _| {
        let file = power.plan.find(*inode).map(|path| files::open(&path).unwrap());
        file.is_some_and(|file| power.open.insert(*inode, file).is_none())
    });
    assert!(POWER.set(Mutex::new(power)).is_ok(), "one plan per process");
}

fn power() -> On {
    POWER.get().map(|power| power.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Before `len` bytes are written at `offset`.
pub(super) fn write(file: &File, offset: u64, len: usize) -> On {
    let mut power = power()?;
    power.step(Act::Write, file);
    let end = offset + len as u64;
    power.remember(file, offset..end, |length| end > length);
    Some(power)
}

/// Before a file becomes `len` bytes long.
pub(super) fn resize(file: &File, len: u64) -> On {
    let mut power = power()?;
    power.step(Act::Resize, file);
    let cut_off = len..file.metadata().unwrap().len().max(len);
    power.remember(file, cut_off, |length| len != length);
    Some(power)
}

/// Instead of a sync: true when there is a plan.
pub(super) fn sync(file: &File) -> bool {
    let Some(mut power) = power() else { return false };
    let part = power.step(Act::Sync, file);
    if power.plan.unsynced != Some(part) {
        power.doubt.files.remove(&inode(file));
    }
    true
}

/// Before a file or a folder is made, or a file is emptied.
pub(super) fn create(path: &Path) -> On {
    POWER.get()?;
    if let Ok(file) = files::open(path) {
        return resize(&file, 0);
    }
    let mut power = power()?;
    power.step_in(Act::Name, path.parent()?);
    let shelf = power.shelf();
    power.rename_back(path, vec![(path.to_owned(), shelf)]);
    Some(power)
}

/// Before a file is renamed.
pub(super) fn rename(from: &Path, to: &Path) -> On {
    let mut power = power()?;
    power.step_in(Act::Name, to.parent()?);
    if !from.exists() {
        return Some(power);
    }
    let mut back = vec![(to.to_owned(), from.to_owned())];
    if to.exists() {
        let shelf = power.shelf();
        fs::hard_link(to, &shelf).unwrap();
        back.push((shelf, to.to_owned()));
    }
    power.rename_back(to, back);
    Some(power)
}

/// Before a file or a folder is removed.
pub(super) fn remove(path: &Path) -> On {
    let mut power = power()?;
    power.step_in(Act::Name, path.parent()?);
    let shelf = power.shelf();
    if path.is_dir() {
        fs::rename(path, &shelf).unwrap();
        fs::create_dir(path).unwrap();
    } else if path.exists() {
        fs::hard_link(path, &shelf).unwrap();
    } else {
        return Some(power);
    }
    power.rename_back(path, vec![(shelf, path.to_owned())]);
    Some(power)
}

/// Instead of a sync of the names in a folder: true when there is a plan.
pub(super) fn sync_folder(path: &Path) -> bool {
    let Some(mut power) = power() else { return false };
    let part = power.step_in(Act::Sync, path);
    if power.plan.unsynced != Some(part) {
        power.doubt.names.remove(path);
    }
    true
}

impl Power {
    fn step(&mut self, act: Act, file: &File) -> Part {
        let inode = inode(file);
        let part = match self.parts.get(&inode) {
            Some(part) => *part,
            None => self.plan.find(inode).map_or(Part::Other, |path| self.plan.part(&path)),
        };
        self.parts.insert(inode, part);
        self.count(act, part);
        part
    }

    fn step_in(&mut self, act: Act, folder: &Path) -> Part {
        let part = if folder == self.plan.log() { Part::Log } else { Part::Other };
        self.count(act, part);
        part
    }

    fn count(&mut self, act: Act, part: Part) {
        self.steps += 1;
        let planned = self.plan.before.is_none_or(|planned| planned == (act, part));
        self.matching += u32::from(planned);
        if planned && self.matching == self.plan.nth || self.steps == STEPS_MAX {
            let lost = if self.plan.kill { self.leave() } else { self.lose() };
            let line = format!("\n{CUT} before step {}, {act:?} of {part:?}: {lost}\n", self.steps);
            std::io::stdout().lock().write_all(line.as_bytes()).unwrap();
            std::process::abort();
        }
    }

    /// Keeps what is in the sectors that `bytes` touch, and the length if it will change.
    fn remember(&mut self, file: &File, bytes: Range<u64>, changes: impl FnOnce(u64) -> bool) {
        let inode = inode(file);
        self.open.entry(inode).or_insert_with(|| file.try_clone().unwrap());
        let before = self.doubt.files.entry(inode).or_default();
        let length = file.metadata().unwrap().len();
        before.lengths.extend(changes(length).then_some(length));
        for sector in bytes.start / SECTOR..bytes.end.div_ceil(SECTOR) {
            let at = sector * SECTOR;
            let mut contents = vec![0; SECTOR as usize];
            let there = length.saturating_sub(at).min(SECTOR) as usize;
            file.read_exact_at(&mut contents[..there], at).unwrap();
            before.sectors.entry(sector).or_default().push(contents);
        }
    }

    fn rename_back(&mut self, path: &Path, back: Vec<(PathBuf, PathBuf)>) {
        let folder = path.parent().unwrap_or(path).to_owned();
        self.doubt.names.entry(folder).or_default().push(back);
        self.parts.clear();
    }

    /// A name for something that is to be kept.
    fn shelf(&mut self) -> PathBuf {
        self.doubt.shelves += 1;
        self.plan.attic.join(self.doubt.shelves.to_string())
    }

    /// The power is gone.
    fn lose(&mut self) -> String {
        let doubt = std::mem::take(&mut self.doubt);
        let (mut lost, mut all) = (0, 0);
        for (inode, before) in &doubt.files {
            let file = self.open[inode].try_clone().unwrap();
            let now = file.metadata().unwrap().len();
            let length = before.lengths.get(self.draw(before.lengths.len())).copied().unwrap_or(now);
            file.set_len(length).unwrap();
            for (sector, before) in &before.sectors {
                let at = sector * SECTOR;
                // What was cut off and is back has no present state.
                let states = before.len() - usize::from(at >= now);
                if let Some(contents) = before.get(self.draw(states))
                    && at < length
                {
                    let there = (length - at).min(SECTOR) as usize;
                    file.write_all_at(&contents[..there], at).unwrap();
                    lost += 1;
                }
                all += 1;
            }
        }
        let mut names = 0;
        // A folder after what is in it.
        for changes in doubt.names.values().rev() {
            let kept = self.rng.random_range(0..=changes.len());
            names += changes.len() - kept;
            for (from, to) in changes[kept..].iter().rev().flatten() {
                fs::rename(from, to).unwrap();
            }
        }
        format!("lost {lost} of {all} sectors and {names} names")
    }

    /// One of `states` former states, or the present one.
    fn draw(&mut self, states: usize) -> usize {
        if states == 0 || self.rng.random_bool(self.plan.kept) {
            states
        } else {
            self.rng.random_range(0..states)
        }
    }

    /// The process is gone and the power is still on.
    fn leave(&mut self) -> String {
        fs::write(self.plan.left(), rmp_serde::to_vec(&self.doubt).unwrap()).unwrap();
        format!("left {} files in doubt", self.doubt.files.len())
    }
}

impl Plan {
    fn log(&self) -> PathBuf {
        self.root.join("log")
    }

    /// What a process that was killed left in doubt.
    pub(super) fn left(&self) -> PathBuf {
        self.attic.join("left")
    }

    fn part(&self, path: &Path) -> Part {
        let extension = path.extension().unwrap_or_default();
        if path.parent() == Some(&self.log()) {
            if extension == "log" { Part::Segment } else { Part::Draft }
        } else if path == self.root.join("base") {
            Part::Engine
        } else if extension == "sums" {
            Part::Sums
        } else {
            Part::Other
        }
    }

    fn find(&self, inode: u64) -> Option<PathBuf> {
        let folders = [self.log(), self.root.clone(), self.attic.clone()];
        let mut entries = folders.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten();
        entries
            .find(|entry| entry.metadata().is_ok_and(|found| found.ino() == inode))
            .map(|entry| entry.path())
    }
}

fn inode(file: &File) -> u64 {
    file.metadata().unwrap().ino()
}
