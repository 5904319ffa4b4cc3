//! An entity from end to end: a kettle that is switched on by a command, boils by a timer, and whistles by an effect.
//!
//! ```console
//! $ cargo run -p cadre-cluster --example kettle -- /tmp/kettle
//! ```
//!
//! Kill it while the water heats (`kill -9`, Ctrl-C), run it again with the same folder, and it goes on where it was:
//! the timer and the effect are in the store, and each counts once.

use std::{path::PathBuf, process::ExitCode, sync::Arc, time::Duration};

use async_trait::async_trait;
use cadre_cluster::{
    address::Address,
    bus::LocalBus,
    clock::SystemClock,
    codec,
    feed::{Cursor, Feed, NewEvent, Tail, TailConfig},
    host::{
        Decision, EffectContext, EffectError, EffectPolicy, EffectResult, Entity, HostConfig, Input, Kinds,
        Moment, Node,
    },
    placement::Takeover,
    store::embedded::{Embedded, EmbeddedConfig},
};
use serde::{Deserialize, Serialize};

/// The kind. It holds configuration only; what an entity is lies in its state.
struct Kettle;

/// Kept in the store, and in memory while it is used.
#[derive(Debug, Default, Serialize, Deserialize)]
struct State {
    heating: bool,
    boiled: u32,
}

#[derive(Debug, Serialize, Deserialize)]
enum Command {
    SwitchOn { seconds: u64 },
}

/// All that ever happens to a kettle. Also what its feed says.
#[derive(Debug, Serialize, Deserialize)]
enum Fact {
    SwitchedOn,
    Boiled,
    Whistled { how: String },
}

#[derive(Debug, Serialize, Deserialize)]
struct Whistle;

cadre_cluster::stored! {
    State: "kettle",
    Command: "kettle command",
    Whistle: "whistle",
}

#[async_trait]
impl Entity for Kettle {
    const KIND: &'static str = "kettle";
    type State = State;
    type Command = Command;
    /// How often it has boiled before.
    type Reply = u64;
    type Refusal = String;
    type Message = ();
    type Fact = Fact;
    type Effect = Whistle;
    type Outcome = String;

    // Pure: reads the state, may refuse, and says what follows. Time comes from `moment`.
    fn decide(
        &self,
        state: &State,
        input: Input<Self>,
        moment: &Moment<'_>,
    ) -> Result<Decision<Self>, String> {
        Ok(match input {
            Input::Command(Command::SwitchOn { .. }) if state.heating => {
                return Err("it is on already".into());
            }
            Input::Command(Command::SwitchOn { seconds }) => Decision::facts([Fact::SwitchedOn])
                .set_timer("boils", moment.now.in_ms(seconds * 1_000))
                .reply(state.boiled.into()),
            Input::Timer { .. } => {
                Decision::facts([Fact::Boiled]).start_effect("whistle", &Whistle, EffectPolicy::default())
            }
            Input::Effect { result, .. } => {
                let how = match result {
                    EffectResult::Done(how) => how,
                    EffectResult::Failed { reason, .. } => format!("not at all: {reason}"),
                    EffectResult::Lost => "perhaps".into(),
                };
                Decision::facts([Fact::Whistled { how }])
            }
            Input::Message { .. } | Input::Progress { .. } => Decision::nothing(),
        })
    }

    // Pure, and cannot fail. The feed folded with this is the state.
    fn apply(state: &mut State, fact: &Fact) {
        match fact {
            Fact::SwitchedOn => state.heating = true,
            Fact::Boiled => {
                state.heating = false;
                state.boiled += 1;
            }
            Fact::Whistled { .. } => {}
        }
    }

    fn feed(&self, _: &State, _: &Address) -> Option<String> {
        Some("kitchen".into())
    }

    fn event(&self, fact: &Fact, _: u64, _: &Moment<'_>) -> Option<NewEvent> {
        Some(NewEvent { terms: Vec::new(), body: codec::pack(fact) })
    }

    // The only part that touches the world. It may run again when the node dies meanwhile.
    async fn perform(&self, _: Whistle, context: EffectContext) -> Result<String, EffectError> {
        tokio::time::sleep(Duration::from_millis(200)).await;
        Ok(format!("at attempt {}", context.attempt))
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("kettle: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<(), Box<dyn std::error::Error>> {
    let folder: PathBuf =
        std::env::args_os().nth(1).ok_or("say where to keep the data: kettle FOLDER")?.into();
    let embedded = Embedded::open(EmbeddedConfig::new(&folder))?;
    let (store, bus) = (embedded.store(), Arc::new(LocalBus::new()));
    // The folder is locked, so no former life of this node can still be running.
    let config = HostConfig { takeover: Takeover::AtOnce, ..HostConfig::new("home", "stove") };
    let kinds = Kinds::new().with(Kettle);
    let node = Node::start(config, store.clone(), bus.clone(), Arc::new(SystemClock), kinds, 1).await?;

    let kettle = Address::new("me", Kettle::KIND, "the-red-one")?;
    let switched = node
        .client()
        .call::<Kettle>(&kettle, &Command::SwitchOn { seconds: 3 }, None, Duration::from_secs(10))
        .await;
    match switched {
        Ok(called) => println!("switched on, {} times boiled so far", called.reply),
        Err(error) => println!("not switched on: {error}"),
    }
    let feed = Feed::new(store, "me", "kitchen", node.feed_epoch());
    let mut tail = Tail::new(feed, "home", bus, Cursor::START, TailConfig::default());
    loop {
        let page = tail.next().await?;
        let mut is_over = false;
        for event in page.events {
            let fact: Fact = codec::unpack("fact", &event.body)?;
            println!("{} {fact:?}", event.cursor);
            is_over = matches!(fact, Fact::Whistled { .. });
        }
        if is_over && !page.more {
            break;
        }
    }
    node.drain().await;
    embedded.close().await;
    Ok(())
}
