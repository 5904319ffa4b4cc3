//! Log files that are used again.

use super::*;

#[test]
fn what_a_former_life_left_in_a_segment_never_hides_what_is_in_it_now() {
    let folder = tempfile::tempdir().unwrap();
    let live = folder.path().join("live");
    run(async {
        let embedded = Embedded::open(small(&live)).unwrap();
        for n in 0..20 {
            put(&embedded.store(), &format!("old{n:02}"), "value").await.unwrap();
        }
        embedded.close().await;
    });
    // As a version left it that was stopped in its next opening and kept no count of segments: the old segment has
    // lost its name, and the new one has none yet.
    let written = fs::read_to_string(live.join("format")).unwrap();
    write_manifest(&live, &written.split("log ").next().unwrap().replace("format 2", "format 1"));
    let log = live.join("log");
    for entry in fs::read_dir(&log).unwrap() {
        let path = entry.unwrap().path();
        if fs::read(&path).unwrap().windows(5).any(|bytes| bytes == b"old00") {
            fs::rename(&path, log.join(format!("spare-{}", path.file_stem().unwrap().display()))).unwrap();
        } else {
            fs::remove_file(&path).unwrap();
        }
    }
    let embedded = Embedded::open(small(&live)).unwrap();
    run(put(&embedded.store(), "new00", "value")).unwrap();
    let (once, twice) = (folder.path().join("once"), folder.path().join("twice"));
    copy_as_after_a_crash(&live, &once);
    let embedded = Embedded::open(small(&once)).unwrap();
    assert_eq!(run(get(&embedded.store(), "new00")).unwrap(), "value");
    copy_as_after_a_crash(&once, &twice);
    let embedded = Embedded::open(small(&twice)).unwrap();
    assert_eq!(run(get(&embedded.store(), "new00")).unwrap(), "value");
}
