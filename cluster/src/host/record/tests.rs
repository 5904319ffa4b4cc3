use super::*;
use crate::{
    address::Address,
    codec::golden::{hex, hold},
    host::{EffectPolicy, Repeat},
    store::Version,
};

fn bytes_of(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

fn stamp() -> Stamp {
    Stamp::new(Version(0x0102_0304), 5)
}

#[test]
fn a_stored_entity_never_changes_its_layout() {
    let policy = EffectPolicy {
        deadline_ms: 1_000,
        attempts_max: 3,
        backoff_ms: 10,
        backoff_ms_max: 500,
        repeat: Repeat::Never,
    };
    let effect = PendingEffect {
        effect: Bytes::from_static(b"e"),
        policy,
        attempt: 2,
        not_before: Timestamp(70_000),
        held: true,
        trace: Some("00-t-s-01".into()),
    };
    let record = Record {
        sequence: 300,
        at: Timestamp(1_700_000_000_000),
        timers: BTreeMap::from([("timer".into(), Timestamp(80_000))]),
        effects: BTreeMap::from([("effect".into(), effect)]),
        state: Bytes::from_static(b"\x01state"),
    };
    hold(
        &record,
        "0395cd012ccf0000018bcfe5680081a574696d6572ce0001388081a665666665637496c4016595cd03e8030acd01f4a54e6576657202ce00011170c3a930302d742d732d3031c406017374617465",
    );
    hold(&Record::default(), "039500008080c400");
}

#[test]
fn an_entity_stored_before_effects_could_be_held_is_read() {
    const VERSION_1: &str = "0195cd012ccf0000018bcfe5680081a574696d6572ce0001388081a665666665637494c4016595cd03e8030acd01f4a54e6576657202ce00011170c406017374617465";
    let record: Record = codec::decode(&bytes_of(VERSION_1)).unwrap();
    let effect = &record.effects["effect"];
    assert_eq!((record.sequence, effect.attempt, effect.held), (300, 2, false));
}

#[test]
fn an_entity_stored_before_effects_had_a_trace_is_read() {
    const VERSION_2: &str = "0295cd012ccf0000018bcfe5680081a574696d6572ce0001388081a665666665637495c4016595cd03e8030acd01f4a54e6576657202ce00011170c3c406017374617465";
    let record: Record = codec::decode(&bytes_of(VERSION_2)).unwrap();
    let effect = &record.effects["effect"];
    assert_eq!((effect.attempt, effect.held, &effect.trace), (2, true, &None));
}

#[test]
fn what_is_stored_beside_an_entity_never_changes_its_layout() {
    hold(&ExpiryRecord { keys: vec!["a".into(), "b".into()] }, "019192a161a162");
    let from = Address::new("acme", "account", "1").unwrap();
    hold(
        &MessageRecord {
            from: from.clone(),
            body: Bytes::from_static(b"body"),
            sent: Timestamp(70_000),
            trace: Some("00-t-s-01".into()),
        },
        "029493a461636d65a76163636f756e74a131c404626f6479ce00011170a930302d742d732d3031",
    );
    let before = bytes_of("019293a461636d65a76163636f756e74a131c404626f6479");
    let before: MessageRecord = codec::decode(&before).unwrap();
    assert_eq!((before.from, before.sent, before.trace), (from, Timestamp(0), None), "version 1 is read");
    let letter = DeadLetter {
        input: "message".into(),
        body: Bytes::from_static(b"body"),
        reason: "why".into(),
        at: Timestamp(1_700_000_000_000),
    };
    hold(&letter, "0194a76d657373616765c404626f6479a3776879cf0000018bcfe56800");
}

#[test]
fn a_recorded_answer_never_changes_its_layout() {
    let record = AnswerRecord {
        fingerprint: 0x0102_0304,
        refused: true,
        body: Bytes::from_static(b"no"),
        expires: Timestamp(1_700_000_000_000),
        cursor: None,
    };
    let (mut value, offset) = record.encode_stamped(9, Some(6));
    value[offset..offset + Stamp::LEN].copy_from_slice(stamp().as_bytes());
    assert_eq!(
        hex(&value),
        "010000000001020304000500060000000994c41000000000000000000000000001020304c3c4026e6fcf0000018bcfe56800"
    );
    let cursor = Some(Cursor::new(9, stamp(), 6));
    assert_eq!(AnswerRecord::decode(&value), Ok(AnswerRecord { cursor, ..record.clone() }));
    let (value, _) = record.encode_stamped(9, None);
    assert_eq!(AnswerRecord::decode(&value), Ok(record), "without an event there is no cursor");
    assert!(AnswerRecord::decode(&value[..10]).is_err());
    assert!(AnswerRecord::decode(&[2; 40]).unwrap_err().to_string().contains("version 2"));
}

#[test]
fn as_many_of_the_longest_keys_as_a_list_holds_fit_a_value() {
    let keys = vec!["k".repeat(crate::host::wire::Request::KEY_BYTES_MAX); ExpiryRecord::KEYS_MAX];
    assert!(codec::encode(&ExpiryRecord { keys }).len() < crate::store::VALUE_BYTES_MAX);
}
