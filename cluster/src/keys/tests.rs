use proptest::prelude::*;

use super::*;
use crate::{codec::golden::hex, store::Version};

/// Texts that are hard to keep apart: short, and full of what encodings treat specially.
fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[\\x00-\\x03a-c\u{ff}.*>]{1,4}", "\\PC{1,20}"]
}

/// The same, of what may be in an address.
fn part() -> impl Strategy<Value = String> {
    prop_oneof!["[a-c\u{ff}.*>]{1,4}", "\\PC{1,20}"]
}

fn address() -> impl Strategy<Value = Address> {
    (part(), part(), part()).prop_map(|(tenant, kind, id)| Address::new(&tenant, &kind, &id).unwrap())
}

fn stamp() -> impl Strategy<Value = Stamp> {
    (any::<u64>(), any::<u16>()).prop_map(|(version, order)| Stamp::new(Version(version), order))
}

/// A stamped key as the store keeps it.
fn stamped(key: StampedKey, stamp: &Stamp, position: u16) -> Vec<u8> {
    let (key, offset) = key.at(position);
    let mut key = key.to_vec();
    key[offset..offset + Stamp::LEN].copy_from_slice(stamp.as_bytes());
    key
}

proptest! {
    #[test]
    fn what_a_key_is_made_of_can_be_read_from_it(
        of in address(), name in text(), shard in any::<u16>(), due in any::<u64>(), stamp in stamp(),
        position in any::<u16>(), epoch in any::<u32>(), number in any::<u64>(),
    ) {
        let (shard, due) = (ShardId(shard), Timestamp(due));
        let message = stamped(inbox_message(shard, &of), &stamp, position);
        prop_assert_eq!(inbox_owner(&message), Some(of.clone()));
        prop_assert_eq!(stamp_of(&message), Some((stamp, position)));
        prop_assert_eq!(&with_stamp(&inbox(shard, &of), &stamp, position)[..], &message[..]);
        prop_assert_eq!(parse_timer(&timer(shard, due, &of, &name)), Some((due, of.clone(), name.clone())));
        prop_assert_eq!(parse_awake(&awake(shard, &of)), Some(of.clone()));
        prop_assert_eq!(expiry_owner(&stamped(expiry(shard, due, &of), &stamp, position)), Some(of.clone()));
        prop_assert_eq!(parse_state(&state(&of)), Some(of.clone()));
        prop_assert_eq!(dead_letter_owner(&stamped(dead_letter(&of), &stamp, position)), Some(of.clone()));
        let event = stamped(feed_event(of.tenant(), &name, epoch), &stamp, position);
        let at = Some((epoch, stamp, position));
        prop_assert_eq!(parse_position(&event, feed(of.tenant(), &name).len()), at);
        let entry = stamped(index_entry(of.tenant(), &name, of.kind(), of.id(), epoch), &stamp, position);
        let prefix = index(of.tenant(), &name, of.kind(), of.id()).len();
        prop_assert_eq!(parse_position(&entry, prefix), at);
        prop_assert_eq!(&entry[prefix..], &event[feed(of.tenant(), &name).len()..], "an entry finds its event");
        prop_assert_eq!(parse_commit_marker(&commit_marker(&name, due.0, number)), Some((name, due.0)));
    }

    #[test]
    fn positions_sort_like_what_they_stand_for(
        of in address(), one in (any::<u32>(), stamp(), any::<u16>()), other in (any::<u32>(), stamp(), any::<u16>()),
    ) {
        let event = |(epoch, stamp, position): (u32, Stamp, u16)| {
            stamped(feed_event(of.tenant(), of.id(), epoch), &stamp, position)
        };
        prop_assert_eq!(event(one).cmp(&event(other)), one.cmp(&other));
        let message = |(_, stamp, position): (u32, Stamp, u16)| {
            stamped(inbox_message(ShardId(1), &of), &stamp, position)
        };
        prop_assert_eq!(message(one).cmp(&message(other)), (one.1, one.2).cmp(&(other.1, other.2)));
    }

    #[test]
    fn timers_sort_by_time_and_are_due_in_time(
        one in (any::<u64>(), address(), text()), other in (any::<u64>(), address(), text()), now in any::<u64>(),
    ) {
        let key = |(due, of, name): &(u64, Address, String)| timer(ShardId(3), Timestamp(*due), of, name);
        if one.0 != other.0 {
            prop_assert_eq!(key(&one).cmp(&key(&other)), one.0.cmp(&other.0));
        }
        let (due, later) = (timers_due(ShardId(3), Timestamp(now)), timers_after(ShardId(3), Timestamp(now)));
        if now < u64::MAX {
            prop_assert_eq!(due.contains(&key(&one)), one.0 <= now);
            prop_assert_eq!(later.contains(&key(&one)), one.0 > now);
        }
        prop_assert!(!timers_due(ShardId(2), Timestamp(now)).contains(&key(&one)), "another shard");
    }

    #[test]
    fn nothing_is_taken_for_somebody_elses(one in address(), other in address(), stamp in stamp()) {
        prop_assume!(one != other);
        let message = stamped(inbox_message(ShardId(1), &one), &stamp, 0);
        prop_assert!(!KeyRange::prefix(inbox(ShardId(1), &other)).contains(&message));
        prop_assert_ne!(state(&one), state(&other));
        prop_assert_ne!(idempotency(&one, "k"), idempotency(&other, "k"));
        let event = stamped(feed_event(one.tenant(), one.id(), 1), &stamp, 0);
        let same = one.tenant() == other.tenant() && one.id() == other.id();
        prop_assert_eq!(KeyRange::prefix(feed(other.tenant(), other.id())).contains(&event), same);
        let same = one.tenant() == other.tenant();
        prop_assert_eq!(idempotencies(other.tenant()).contains(&idempotency(&one, one.id())), same);
        let letter = stamped(dead_letter(&one), &stamp, 0);
        prop_assert_eq!(dead_letters(other.tenant()).contains(&letter), same);
        let same = same && one.kind() == other.kind();
        prop_assert_eq!(states(other.tenant(), other.kind()).contains(&state(&one)), same);
    }

    #[test]
    fn records_are_found_by_the_start_of_their_path(
        one in part(), other in part(), path in any::<Vec<u8>>(), start in any::<Vec<u8>>(), cut in any::<u8>(),
    ) {
        let record = data(&one, &path);
        prop_assert_eq!(data_path(&record, &one), Some(&path[..]));
        prop_assert_eq!(data_path(&record, &other), (one == other).then_some(&path[..]));
        let own = &path[..usize::from(cut).min(path.len())];
        prop_assert!(data_range(&one, own).contains(&record) && data_range(&one, b"").contains(&record));
        prop_assert_eq!(data_range(&one, &start).contains(&record), path.starts_with(&start));
        prop_assert_eq!(data_range(&other, own).contains(&record), one == other);
        let state = state(&Address::new(&one, "kind", "id").unwrap());
        prop_assert_eq!(data_path(&state, &one), None);
        prop_assert!(!data_range(&one, b"").contains(&state));
    }

    #[test]
    fn leases_sort_by_shard(one in any::<u16>(), other in any::<u16>()) {
        prop_assert_eq!(lease(ShardId(one)).cmp(&lease(ShardId(other))), one.cmp(&other));
        prop_assert!(is_lease(&lease(ShardId(one))) && !is_lease(&member("lease")));
    }
}

#[test]
fn keys_never_change() {
    let of = Address::new("acme", "account", "1").unwrap();
    let (shard, at) = (ShardId(258), Timestamp(1_700_000_000_000));
    let stamp = Stamp::new(Version(0x0102_0304), 5);
    let keys = [
        ("cluster", cluster().to_vec(), "1501"),
        ("member", member("n").to_vec(), "1502026e00"),
        ("lease", lease(shard).to_vec(), "1503160102"),
        ("fence", fence("n", 7).to_vec(), "1504026e001507"),
        ("marker", commit_marker("n", 7, 300).to_vec(), "1505026e00150716012c"),
        (
            "inbox",
            stamped(inbox_message(shard, &of), &stamp, 6),
            "150616010215010261636d6500026163636f756e740002310033000000000102030400050006",
        ),
        (
            "timer",
            timer(shard, at, &of, "t").to_vec(),
            "150616010215021a018bcfe568000261636d6500026163636f756e7400023100027400",
        ),
        ("awake", awake(shard, &of).to_vec(), "150616010215030261636d6500026163636f756e7400023100"),
        (
            "expiry",
            stamped(expiry(shard, at, &of), &stamp, 6),
            "150616010215041a018bcfe568000261636d6500026163636f756e740002310033000000000102030400050006",
        ),
        ("state", state(&of).to_vec(), "15070261636d65001501026163636f756e7400023100"),
        ("idempotency", idempotency(&of, "k").to_vec(), "15070261636d65001502026163636f756e7400023100026b00"),
        (
            "event",
            stamped(feed_event("acme", "f", 1), &stamp, 6),
            "15070261636d65001503026600150133000000000102030400050006",
        ),
        (
            "index",
            stamped(index_entry("acme", "f", "i", "t", 1), &stamp, 6),
            "15070261636d65001504026600026900027400150133000000000102030400050006",
        ),
        ("feed meta", feed_meta("acme", "f").to_vec(), "15070261636d65001505026600"),
        (
            "dead letter",
            stamped(dead_letter(&of), &stamp, 6),
            "15070261636d65001506026163636f756e740002310033000000000102030400050006",
        ),
        ("data", data("acme", b"\x02x\0").to_vec(), "15070261636d65001507027800"),
    ];
    for (name, key, expected) in keys {
        assert_eq!(hex(&key), expected, "{name}");
    }
}

proptest! {
    #[test]
    fn every_key_of_a_tenant_says_whose_it_is_and_lies_between_its_neighbours(of in address(), other in address(), path in any::<Vec<u8>>()) {
        let keys = [state(&of), idempotency(&of, "k"), feed_meta(of.tenant(), "f"), data(of.tenant(), &path)];
        for key in keys {
            let said = tenant_of(&key);
            prop_assert_eq!(said.as_deref(), Some(of.tenant()));
            prop_assert!(tenant(of.tenant()).contains(&key) && tenants().contains(&key));
            prop_assert!(other.tenant() == of.tenant() || !tenant(other.tenant()).contains(&key));
        }
        prop_assert_eq!(tenant_of(&awake(ShardId(1), &of)), None);
        prop_assert_eq!(tenant_of(&cluster()), None);
    }
}

#[test]
fn a_commit_marker_holds_the_stamp_of_its_commit() {
    assert_eq!(hex(Stamp::new(Version(0x0102_0304), 5).as_bytes()), "00000000010203040005");
}
