//! Bytes that change behind our back. Either the error says so, or everything confirmed is there.

use std::path::PathBuf;

use super::*;
use crate::store::OpenError;

const COMMITS: usize = 12;

/// A folder with some data in the engine and `COMMITS` commits, one record each, in the log.
fn victim() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let (live, crashed) = (folder.path().join("live"), folder.path().join("crashed"));
    run(async {
        let embedded = Embedded::open(small(&live)).unwrap();
        for n in 0..20 {
            put(&embedded.store(), &format!("old{n:02}"), &"o".repeat(3000)).await.unwrap();
        }
        embedded.close().await;
        let embedded = Embedded::open(small(&live)).unwrap();
        for n in 0..COMMITS {
            put(&embedded.store(), &format!("new{n:02}"), "value").await.unwrap();
        }
        copy_as_after_a_crash(&live, &crashed);
    });
    (folder, crashed)
}

/// The segment that holds the commits.
fn segment(folder: &Path) -> PathBuf {
    let mut found: Vec<_> = fs::read_dir(folder.join("log"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| fs::read(path).unwrap().windows(5).any(|bytes| bytes == b"new00"))
        .collect();
    assert_eq!(found.len(), 1);
    found.remove(0)
}

/// Where the records of the commits begin, and where the last ends. All are of one length.
fn records(bytes: &[u8]) -> Vec<usize> {
    // record header, operation header, "newNN", "value"
    const LEN: usize = (24 + 7 + 5 + 5usize).next_multiple_of(8);
    (0..=COMMITS).map(|n| 64 + n * LEN).inspect(|end| assert!(*end <= bytes.len())).collect()
}

/// How many of the commits are there after opening; they are the first ones and complete.
fn open_and_count(folder: &Path) -> Result<usize, OpenError> {
    let embedded = Embedded::open(small(folder))?;
    let found = run(dump(&embedded.store(), 7));
    let (new, old): (Vec<_>, Vec<_>) = found.into_iter().partition(|(key, _)| key.starts_with(b"new"));
    assert_eq!(old.len(), 20);
    for (n, (key, value)) in new.iter().enumerate() {
        assert_eq!((&key[..], &value[..]), (format!("new{n:02}").as_bytes(), &b"value"[..]));
    }
    Ok(new.len())
}

fn with_segment(crashed: &Path, change: impl FnOnce(&mut Vec<u8>)) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    copy_as_after_a_crash(crashed, folder.path());
    let path = segment(folder.path());
    let mut bytes = fs::read(&path).unwrap();
    change(&mut bytes);
    fs::write(&path, bytes).unwrap();
    (folder, path)
}

#[test]
fn a_write_cut_short_at_any_byte_loses_only_itself() {
    let (_keep, crashed) = victim();
    let bytes = fs::read(segment(&crashed)).unwrap();
    let ends = records(&bytes);
    let (begin, end) = (ends[COMMITS - 1], ends[COMMITS]);
    for cut in begin..=end {
        // The padding of a record is zeros already, and it is complete without them.
        let complete = bytes[cut..end].iter().all(|byte| *byte == 0);
        let expected = if complete { COMMITS } else { COMMITS - 1 };
        let (folder, _) = with_segment(&crashed, |bytes| bytes[cut..end].fill(0));
        assert_eq!(open_and_count(folder.path()).unwrap(), expected, "zeros from {cut}");
        let (folder, _) = with_segment(&crashed, |bytes| bytes.truncate(cut));
        assert_eq!(open_and_count(folder.path()).unwrap(), expected, "cut at {cut}");
        // And the log goes on from there, also over another crash.
        let embedded = Embedded::open(small(folder.path())).unwrap();
        run(put(&embedded.store(), "later", "value")).unwrap();
        let again = tempfile::tempdir().unwrap();
        copy_as_after_a_crash(folder.path(), again.path());
        let embedded = Embedded::open(small(again.path())).unwrap();
        assert_eq!(run(get(&embedded.store(), "later")).unwrap(), "value");
    }
}

#[test]
fn a_damaged_record_before_valid_ones_is_reported_and_nothing_is_changed() {
    let (_keep, crashed) = victim();
    let bytes = fs::read(segment(&crashed)).unwrap();
    let ends = records(&bytes);
    for (n, begin) in ends[..COMMITS - 1].iter().enumerate() {
        for at in (*begin + n % 3..ends[n + 1]).step_by(3) {
            // Padding means nothing.
            if (*begin + 20..*begin + 24).contains(&at) || at >= *begin + 24 + 7 + 5 + 5 {
                continue;
            }
            let (folder, path) = with_segment(&crashed, |bytes| bytes[at] ^= 0x41);
            let before = fs::read(&path).unwrap();
            let error = open_and_count(folder.path()).unwrap_err();
            let OpenError::Corrupt { path: named, reason } = &error else { panic!("byte {at}: {error}") };
            assert_eq!(*named, path);
            assert!(reason.contains(&format!("byte {begin}")), "{reason}");
            assert_eq!(fs::read(&path).unwrap(), before);
        }
    }
}

#[test]
fn a_damaged_segment_header_is_reported() {
    let (_keep, crashed) = victim();
    for at in 0..64 {
        let (folder, path) = with_segment(&crashed, |bytes| bytes[at] ^= 0x10);
        let error = open_and_count(folder.path()).unwrap_err();
        assert!(matches!(&error, OpenError::Corrupt { path: named, .. } if *named == path), "{at}: {error}");
    }
}

#[test]
fn a_segment_that_is_missing_in_the_middle_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let (live, crashed) = (folder.path().join("live"), folder.path().join("crashed"));
    // Never checkpointed, so every segment is needed.
    let config = EmbeddedConfig { checkpoint_bytes: 64 << 20, ..small(&live) };
    let embedded = Embedded::open(config).unwrap();
    run(async {
        for n in 0..100 {
            put(&embedded.store(), &format!("key{n}"), &"x".repeat(4000)).await.unwrap();
        }
    });
    copy_as_after_a_crash(&live, &crashed);
    let mut segments: Vec<_> =
        fs::read_dir(crashed.join("log")).unwrap().map(|entry| entry.unwrap().path()).collect();
    segments.retain(|path| path.extension().is_some_and(|extension| extension == "log"));
    segments.sort();
    assert!(segments.len() > 4);
    for missing in &segments[..segments.len() - 1] {
        let victim = tempfile::tempdir().unwrap();
        copy_as_after_a_crash(&crashed, victim.path());
        let name = missing.file_name().unwrap();
        fs::remove_file(victim.path().join("log").join(name)).unwrap();
        let error = Embedded::open(small(victim.path())).unwrap_err();
        assert!(matches!(error, OpenError::Corrupt { .. }), "{error}");
    }
}

#[test]
fn a_manifest_with_any_byte_changed_or_missing_is_refused() {
    let (_keep, crashed) = victim();
    let path = crashed.join("format");
    let good = fs::read(&path).unwrap();
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 0x04;
        for bad in [&bad, &good[..at]] {
            fs::write(&path, bad).unwrap();
            let error = Embedded::open(small(&crashed)).unwrap_err();
            assert!(matches!(error, OpenError::Corrupt { .. } | OpenError::Foreign { .. }), "{at}: {error}");
        }
    }
    fs::write(&path, good).unwrap();
    assert_eq!(open_and_count(&crashed).unwrap(), COMMITS);
}

/// Opens and reads everything, or says that it cannot.
fn read_all(folder: &Path) -> Result<Vec<(Bytes, Bytes)>, String> {
    let embedded = Embedded::open(small(folder)).map_err(|error| error.to_string())?;
    let store = embedded.store();
    run(async {
        let tx = store.begin();
        let mut pairs = Vec::new();
        for key in (0..20).map(|n| format!("old{n:02}")) {
            let value = tx.get(key.as_bytes()).await.map_err(|error| error.to_string())?;
            pairs.push((Bytes::from(key), value.unwrap_or_default()));
        }
        let all = RangeRead::new(KeyRange::new("", "\u{ff}"));
        let page = tx.range(&all).await.map_err(|error| error.to_string())?;
        pairs.extend(page.pairs.into_iter().map(|pair| (pair.key, pair.value)));
        Ok(pairs)
    })
}

#[test]
fn a_damaged_engine_file_is_never_read_as_if_it_were_whole() {
    let (_keep, crashed) = victim();
    let good = tempfile::tempdir().unwrap();
    copy_as_after_a_crash(&crashed, good.path());
    let expected = read_all(good.path()).unwrap();
    let mut refused = 0;
    for name in ["base", "base.sums"] {
        let bytes = fs::read(crashed.join(name)).unwrap();
        // The header byte by byte, then three places in every block that is not empty.
        let header = 0..if name == "base" { 320 } else { 64 };
        let blocks =
            (4096..bytes.len()).step_by(4096).filter(|at| bytes[*at..][..4096].iter().any(|b| *b != 0));
        let places = header.step_by(5).chain(blocks.flat_map(|at| [at, at + 700, at + 4090]));
        for at in places {
            let victim = tempfile::tempdir().unwrap();
            copy_as_after_a_crash(&crashed, victim.path());
            let mut bytes = bytes.clone();
            bytes[at] ^= 0x21;
            fs::write(victim.path().join(name), bytes).unwrap();
            match read_all(victim.path()) {
                Ok(found) => assert!(found == expected, "byte {at} of {name} changed what is read"),
                Err(_) => refused += 1,
            }
        }
    }
    assert!(refused > 10, "only {refused} places mattered");
}

#[test]
fn p2_a_missing_log_segment_is_named_though_nothing_follows_it() {
    let (_folder, crashed) = victim();
    let segments = || {
        let paths = fs::read_dir(crashed.join("log")).unwrap().map(|entry| entry.unwrap().path());
        paths.filter(|path| path.extension().is_some_and(|extension| extension == "log"))
    };
    assert!(segments().count() >= 1);
    for path in segments().collect::<Vec<_>>() {
        fs::remove_file(path).unwrap();
    }
    let error = open_and_count(&crashed).unwrap_err().to_string();
    assert!(error.contains("is missing, the newest is 0"), "{error}");
}
