//! Effects: work outside the store.

use cadre_cluster::{
    host::{EffectPolicy, Repeat},
    trace,
};

use crate::common::{
    World, eventually,
    probe::{Command, Message, Script, add, hasty, probe},
    world::tell,
};

fn perform(id: &str, script: Script) -> Command {
    Command::Perform { id: id.into(), script, policy: hasty() }
}

fn say(what: &str) -> Script {
    Script::Say(what.into())
}

async fn ended(world: &World, id: &str) -> String {
    let mut how = String::new();
    eventually(&format!("{id} ends"), async || match world.stored(&probe("one")).await.ended.get(id) {
        Some(end) => {
            how = end.clone();
            true
        }
        None => false,
    })
    .await;
    how
}

pub async fn an_effect_ends_as_it_went(world: World) {
    let node = world.node("a").await;
    let scripts = [
        ("done", say("well"), "well", 1),
        ("retried", Script::FailFirst(2), "done at 3", 3),
        ("panics", Script::PanicFirst(1), "done at 2", 2),
        ("failed", Script::FailFirst(9), "failed after 3: not yet", 3),
        ("fatal", Script::Fatal, "failed after 1: never", 1),
        ("hangs", Script::Hang, "failed after 3: no result within 300 ms", 3),
    ];
    for (id, script, ..) in &scripts {
        tell(&node.client(), probe("one"), perform(id, script.clone())).await;
    }
    for (id, _, how, attempts) in scripts {
        assert_eq!(ended(&world, id).await, how, "{id}");
        assert_eq!(world.deeds.of(id), attempts, "{id}");
    }
}

pub async fn p7_after_a_crash_an_effect_is_done_again_or_lost(world: World) {
    let node = world.node("a").await;
    let patient = EffectPolicy { deadline_ms: 600_000, ..hasty() };
    let never = EffectPolicy { repeat: Repeat::Never, ..patient };
    let start = |id: &str, policy| Command::Perform { id: id.into(), script: Script::HangFirst, policy };
    tell(&node.client(), probe("one"), start("safe", patient)).await;
    tell(&node.client(), probe("one"), start("once", never)).await;
    eventually("both have begun", async || world.deeds.of("safe") == 1 && world.deeds.of("once") == 1).await;
    drop(node);
    // Nobody calls the entity: it is woken because it has something to do.
    let _node = world.node("b").await;
    assert_eq!(ended(&world, "safe").await, "done at 2");
    assert_eq!(ended(&world, "once").await, "lost");
    assert_eq!(world.deeds.of("once"), 1, "what must not be repeated is not");
}

pub async fn a_cancelled_effect_stops_and_says_nothing(world: World) {
    let node = world.node("a").await;
    tell(&node.client(), probe("one"), perform("e", Script::HangFirst)).await;
    eventually("it has begun", async || world.deeds.of("e") == 1).await;
    tell(&node.client(), probe("one"), Command::Abort { id: "e".into() }).await;
    tell(&node.client(), probe("one"), perform("mark", Script::Hang)).await;
    ended(&world, "mark").await;
    assert_eq!(world.stored(&probe("one")).await.ended.get("e"), None);
    assert_eq!(world.deeds.of("e"), 1, "and is not tried again");
}

pub async fn an_id_can_be_used_again_once_its_effect_has_ended(world: World) {
    let node = world.node("a").await;
    tell(&node.client(), probe("one"), perform("e", say("first"))).await;
    assert_eq!(ended(&world, "e").await, "first");
    tell(&node.client(), probe("one"), perform("e", say("second"))).await;
    eventually("the second is done", async || ended(&world, "e").await == "second").await;
    assert_eq!(world.deeds.of("e"), 2);
}

pub async fn an_effect_that_is_replaced_does_not_answer_for_the_new_one(world: World) {
    let node = world.node("a").await;
    let client = node.client();
    let patient = EffectPolicy { deadline_ms: 600_000, ..hasty() };
    tell(&client, probe("one"), Command::Perform { id: "e".into(), script: Script::Hang, policy: patient })
        .await;
    eventually("the first has begun", async || world.deeds.of("e") == 1).await;
    tell(&client, probe("one"), Command::Replace { id: "e".into(), script: say("new"), policy: hasty() })
        .await;
    assert_eq!(ended(&world, "e").await, "new");
}

pub async fn effects_start_at_once_after_the_clock_went_back(world: World) {
    let node = world.node("a").await;
    tell(&node.client(), probe("one"), add("1", 1)).await;
    world.clock.shift_ms(-3_600_000);
    tell(&node.client(), probe("one"), perform("e", Script::FailFirst(1))).await;
    assert_eq!(ended(&world, "e").await, "done at 2");
}

pub async fn p7_pending_effects_are_taken_up_though_there_is_not_room_for_all_at_once(world: World) {
    let node = world.node("a").await;
    let patient = EffectPolicy { deadline_ms: 600_000, ..hasty() };
    for n in 0..20 {
        let start = Command::Perform { id: format!("e{n}"), script: Script::HangFirst, policy: patient };
        tell(&node.client(), probe(&n.to_string()), start).await;
    }
    eventually("all have begun", async || world.deeds.of("e19") == 1).await;
    drop(node);
    let mut config = world.config("b");
    config.entities_live_max = 4;
    let _node = world.try_node(config).await.unwrap();
    for n in 0..20 {
        let id = format!("e{n}");
        eventually("it is done", async || {
            world.stored(&probe(&n.to_string())).await.ended.get(&id).is_some_and(|how| how == "done at 2")
        })
        .await;
    }
}

pub async fn what_an_effect_reports_is_durable_before_it_goes_on(world: World) {
    let node = world.node("a").await;
    let patient = EffectPolicy { deadline_ms: 600_000, ..hasty() };
    let report = Command::Perform { id: "e".into(), script: Script::Report { times: 5 }, policy: patient };
    tell(&node.client(), probe("one"), report).await;
    eventually("it ends", async || ended(&world, "e").await == "5 seen").await;
}

pub async fn p7_a_result_that_cannot_be_applied_ends_as_a_failure(world: World) {
    let node = world.node("a").await;
    for (id, script, expected) in [
        ("panics", Script::SayPanic, "decide panicked: told to panic"),
        ("large", Script::SayTooMuch, "bytes large, the limit is"),
    ] {
        tell(&node.client(), probe("one"), perform(id, script)).await;
        let how = ended(&world, id).await;
        assert!(how.starts_with("failed after 1: its result could not be applied"), "{how}");
        assert!(how.contains(expected), "{how}");
        assert_eq!(world.deeds.of(id), 1, "it is not done again");
    }
    assert_eq!(world.dead_letters().await.len(), 2, "and the results are kept");
}

pub async fn p9_attempts_that_end_with_their_owner_count(world: World) {
    let policy = EffectPolicy { deadline_ms: 600_000, attempts_max: 2, ..hasty() };
    let node = world.node("a").await;
    let start = Command::Perform { id: "e".into(), script: Script::Hang, policy };
    tell(&node.client(), probe("one"), start).await;
    eventually("it has begun", async || world.deeds.of("e") == 1).await;
    drop(node);
    let node = world.node("b").await;
    eventually("it is done again", async || world.deeds.of("e") == 2).await;
    drop(node);
    let _node = world.node("c").await;
    assert_eq!(ended(&world, "e").await, "failed after 2: its owner went away");
    assert_eq!(world.deeds.of("e"), 2);
}

pub async fn a_callers_trace_context_reaches_what_follows_on_any_node(world: World) {
    let (a, b) = (world.node("a").await, world.node("b").await);
    world.settled(&[&a, &b]).await;
    let client = world.client().await;
    for n in 0..8 {
        // One of these pairs, at the least, does not live on one node.
        let (from, to) = (probe(&format!("from-{n}")), probe(&format!("to-{n}")));
        let context = format!("00-{n:032x}-00f067aa0ba902b7-01");
        let own = perform("own", Script::SayTrace);
        let message = Message::Perform { id: "other".into(), script: Script::SayTrace };
        let others = Command::Misguide { to: to.clone(), message };
        let calls = async {
            tell(&client, from.clone(), own).await;
            tell(&client, from.clone(), others).await;
        };
        trace::within(Some(context.clone()), calls).await;
        eventually("both end in the caller's context", async || {
            let (own, other) = (world.stored(&from).await.ended, world.stored(&to).await.ended);
            own.get("own") == Some(&context) && other.get("other") == Some(&context)
        })
        .await;
    }
    tell(&client, probe("one"), perform("none", Script::SayTrace)).await;
    assert_eq!(ended(&world, "none").await, "");
}
