//! Which session a thread is, and which turn a run.
//!
//! A run's id may be any text, so the turn's is derived from it. It counts within its thread: the same id in two threads
//! is two runs.

use sha2::{Digest, Sha256};

use crate::fact::id::{Id, SessionId, TurnId};

/// A UUID in its usual form, in lower case.
pub fn uuid(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let fits = |(at, byte): (usize, &u8)| match at {
        8 | 13 | 18 | 23 => *byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    };
    (bytes.len() == 36 && bytes.iter().enumerate().all(fits)).then(|| text.to_ascii_lowercase())
}

/// The session of a thread; none when the thread's id is no UUID.
pub fn session(thread: &str) -> Option<SessionId> {
    SessionId::parse(&format!("{}_{}", SessionId::PREFIX, uuid(thread)?)).ok()
}

/// The thread that a session is; none when it was not made by a run.
pub fn thread(session: &SessionId) -> Option<String> {
    uuid(session.suffix()).filter(|uuid| uuid == session.suffix())
}

/// The turn of a run.
pub fn turn(thread: &str, run: &str) -> TurnId {
    let thread = uuid(thread).unwrap_or_default();
    let hash = Sha256::digest([thread.as_bytes(), b"/", run.as_bytes()].concat());
    let hex: String = hash.iter().take(20).map(|byte| format!("{byte:02x}")).collect();
    TurnId::with_suffix(&format!("run_{hex}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const THREAD: &str = "550e8400-e29b-41d4-a716-446655440000";

    #[test]
    fn a_thread_is_one_session_however_it_is_written() {
        let session = session(THREAD).unwrap();
        assert_eq!(session.as_str(), format!("sess_{THREAD}"));
        assert_eq!(super::session(&THREAD.to_uppercase()), Some(session.clone()));
        assert_eq!(thread(&session).as_deref(), Some(THREAD));
        assert_eq!(thread(&SessionId::parse("sess_01hf7yat00").unwrap()), None);
        for bad in
            ["", "550e8400e29b41d4a716446655440000", &THREAD[1..], &THREAD.replace('5', "g"), &"é".repeat(18)]
        {
            assert_eq!(super::session(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_run_is_one_turn_of_its_thread_whatever_its_id_is_made_of() {
        let turn_of = |run: &str| turn(THREAD, run);
        assert_eq!(turn_of("run-001"), turn(&THREAD.to_uppercase(), "run-001"));
        let other = "650e8400-e29b-41d4-a716-446655440000";
        assert_ne!(turn_of("run-001"), turn(other, "run-001"));
        let odd = ["run-001", "run-002", "", " ", "语", "a/b", "../..", "a\nb", &"x".repeat(128)];
        let turns: std::collections::BTreeSet<_> = odd.iter().map(|run| turn_of(run)).collect();
        assert_eq!(turns.len(), odd.len());
        // Runs of today are looked for by those who come back tomorrow.
        assert_eq!(turn_of("run-001").as_str(), "turn_run_25753a97d188a49fe84c6504ddf3c0cb62e8a671");
    }
}
