//! Folders that are not what they should be.

use super::*;
use crate::store::OpenError;

/// Every file below a folder, and what is in it.
fn contents(path: &Path) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let mut files = Vec::new();
    for entry in fs::read_dir(path).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(contents(&path));
        } else {
            files.push((path.clone(), fs::read(&path).unwrap()));
        }
    }
    files.sort();
    files
}

#[test]
fn a_folder_of_somebody_else_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("thesis.txt"), "do not touch").unwrap();
    let before = contents(folder.path());
    let error = Embedded::open(small(folder.path())).unwrap_err();
    assert!(matches!(&error, OpenError::Foreign { reason, .. } if reason.contains("thesis.txt")), "{error}");
    assert_eq!(contents(folder.path()), before);
}

#[test]
fn a_format_file_of_somebody_else_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("format"), "A4 portrait\n").unwrap();
    let before = contents(folder.path());
    let error = Embedded::open(small(folder.path())).unwrap_err();
    assert!(matches!(error, OpenError::Foreign { .. }), "{error}");
    assert_eq!(contents(folder.path()), before);
}

#[test]
fn a_newer_format_is_refused_with_both_versions() {
    let folder = tempfile::tempdir().unwrap();
    drop(Embedded::open(small(folder.path())).unwrap());
    let path = folder.path().join("format");
    let text = fs::read_to_string(&path).unwrap().replace("format 2", "format 3");
    fs::write(&path, text).unwrap();
    let before = contents(folder.path());
    let error = Embedded::open(small(folder.path())).unwrap_err().to_string();
    assert!(error.contains("format 3") && error.contains("format 2"), "{error}");
    assert_eq!(contents(folder.path()), before);
}

#[test]
fn a_manifest_from_before_it_named_the_newest_segment_is_read_and_written_anew() {
    let folder = tempfile::tempdir().unwrap();
    run(async {
        let embedded = Embedded::open(small(folder.path())).unwrap();
        put(&embedded.store(), "key", "value").await.unwrap();
        embedded.close().await;
    });
    let written = fs::read_to_string(folder.path().join("format")).unwrap();
    let body = written.split("log ").next().unwrap().replace("format 2", "format 1");
    write_manifest(folder.path(), &body);
    let embedded = Embedded::open(small(folder.path())).unwrap();
    assert_eq!(run(get(&embedded.store(), "key")).as_deref(), Some(&b"value"[..]));
    assert!(fs::read_to_string(folder.path().join("format")).unwrap().contains("format 2\n"));
}

#[test]
fn a_file_in_place_of_the_folder_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    fs::write(&path, "a file").unwrap();
    let error = Embedded::open(small(&path)).unwrap_err();
    assert!(matches!(error, OpenError::Foreign { .. }), "{error}");
}

#[test]
fn a_folder_that_cannot_be_made_is_an_error_that_names_it() {
    let error = Embedded::open(small(Path::new("/proc/nowhere/data"))).unwrap_err();
    assert!(matches!(error, OpenError::Io { .. }), "{error}");
    assert!(error.to_string().contains("/proc/nowhere/data"), "{error}");
}

#[test]
fn a_crash_during_the_first_opening_is_no_obstacle() {
    let folder = tempfile::tempdir().unwrap();
    drop(Embedded::open(small(folder.path())).unwrap());
    let ready = fs::read_to_string(folder.path().join("format")).unwrap();
    // The manifest of a store that was never finished.
    let body = ready.split("state").next().unwrap().to_owned() + "state creating\nlog 0\n";
    write_manifest(folder.path(), &body);
    fs::write(folder.path().join("base"), "half").unwrap();
    fs::remove_dir_all(folder.path().join("log")).unwrap();
    let embedded = Embedded::open(small(folder.path())).unwrap();
    run(put(&embedded.store(), "key", "value")).unwrap();
    drop(embedded);
    // Only a draft, and only a lock.
    for name in ["format.new", "lock"] {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(name), "ha").unwrap();
        run(put(&Embedded::open(small(folder.path())).unwrap().store(), "key", "value")).unwrap();
    }
}

#[test]
fn a_missing_part_is_damage_that_is_named() {
    for name in ["base", "base.sums", "log"] {
        let folder = tempfile::tempdir().unwrap();
        let embedded = Embedded::open(small(folder.path())).unwrap();
        run(put(&embedded.store(), "key", "value")).unwrap();
        drop(embedded);
        let part = folder.path().join(name);
        if part.is_dir() {
            fs::remove_dir_all(&part).unwrap()
        } else {
            fs::remove_file(&part).unwrap()
        }
        let error = Embedded::open(small(folder.path())).unwrap_err();
        assert!(matches!(&error, OpenError::Corrupt { path, .. } if *path == part), "{error}");
        assert!(!part.exists());
    }
}

#[test]
fn the_engine_of_another_store_is_damage() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for folder in [&one, &other] {
        let embedded = Embedded::open(small(folder.path())).unwrap();
        run(put(&embedded.store(), "key", "value")).unwrap();
    }
    for name in ["base", "base.sums"] {
        fs::copy(one.path().join(name), other.path().join(name)).unwrap();
    }
    let error = Embedded::open(small(other.path())).unwrap_err();
    assert!(
        matches!(&error, OpenError::Corrupt { reason, .. } if reason.contains("another store")),
        "{error}"
    );
}

#[test]
fn a_folder_that_vanishes_breaks_no_promise_and_nothing_hangs() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    let embedded = Embedded::open(small(&path)).unwrap();
    let store = embedded.store();
    run(async {
        put(&store, "before", "value").await.unwrap();
        // The next segment may be made at the same time.
        while path.exists() {
            fs::remove_dir_all(&path).ok();
        }
        // Whatever is answered, the answer comes, and reads go on.
        for n in 0..400 {
            put(&store, &format!("after{n}"), &"x".repeat(1000)).await.ok();
        }
        assert_eq!(get(&store, "before").await.unwrap(), "value");
        embedded.close().await;
    });
}
