//! What the tests of hosting share: a test entity, a world of nodes on a store and a bus, and the claims.
#![allow(dead_code, reason = "each test program uses its part")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

pub mod bank;
pub mod claims;
pub mod faulty;
pub mod probe;
pub mod world;

use std::time::Duration;

use tokio::time::Instant;

pub use world::World;

/// Far more than anything here takes, also on a machine that is busy with something else.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Runs one claim in a world of its own.
pub fn run<S, C>(setup: impl FnOnce() -> S, claim: impl FnOnce(World) -> C)
where
    S: Future<Output = World>,
    C: Future<Output = ()>,
{
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime starts").block_on(async {
        let world = setup().await;
        let bound = 3 * PATIENCE;
        tokio::time::timeout(bound, claim(world)).await.expect("the claim comes to an end");
    });
}

/// Waits for what comes about in the background.
pub async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds().await {
        assert!(Instant::now() < deadline, "does not come about: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// One test per claim, in a world made by `$setup`.
#[macro_export]
macro_rules! hosting_claims {
    ($setup:expr) => {
        $crate::hosting_claims!(@ $setup;
            commands::a_command_is_answered_with_the_cursor_of_its_event,
            commands::p3_the_same_key_has_the_same_answer_after_a_restart,
            commands::a_refusal_is_durable_under_its_key,
            commands::a_key_used_for_another_command_is_refused,
            commands::keys_expire_and_are_swept,
            commands::many_commands_at_once_share_few_commits,
            commands::an_unknown_kind_is_named,
        );
    };
    (@ $setup:expr; $($module:ident::$claim:ident),* $(,)?) => {
        $(
            #[test]
            fn $claim() {
                $crate::common::run(|| $setup(stringify!($claim)), $crate::common::claims::$module::$claim);
            }
        )*
    };
}
