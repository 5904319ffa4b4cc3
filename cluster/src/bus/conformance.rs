//! What every driver has to do, as tests that run against each of them.
//!
//! A driver's tests make a [`Pair`] and hand it to [`crate::bus_conformance!`], which makes one test of each
//! claim below. The claims speak of a bus without faults.

use std::{collections::BTreeSet, time::Duration};

use bytes::Bytes;
use futures::future::join_all;
use rand::{Rng, SeedableRng, rngs::SmallRng};
use tokio::{
    task::JoinHandle,
    time::{Instant, timeout},
};

use super::{
    Bus, Delivery, Headers, PublishError, RequestError, Subject, Subscription, TRACEPARENT, escape_token,
    unescape_token,
};

/// Two connections to one bus.
pub struct Pair {
    /// One of them.
    pub one: Bus,
    /// The other.
    pub other: Bus,
    /// How many messages a subscription holds. Small, so that a test can fill it.
    pub queue_capacity: usize,
}

/// Makes a test of each claim: `bus_conformance!(pair().await)`, with the arguments of `tokio::test` behind it.
#[macro_export]
macro_rules! bus_conformance {
    ($pair:expr $(, $($args:tt)*)?) => {
        $crate::bus_conformance! { @tests ($pair) ($($($args)*)?)
            messages_of_one_publisher_arrive_in_order
            a_star_stands_for_one_token
            a_greater_than_sign_stands_for_one_or_more_tokens
            overlapping_subscriptions_each_get_a_copy
            a_dropped_subscription_listens_no_more
            a_closed_subscription_hands_out_what_it_has_and_ends
            closing_loses_no_request
            a_request_gets_its_answer
            the_first_answer_counts
            a_request_to_nobody_fails_at_once
            a_request_without_answer_times_out
            an_answer_after_the_timeout_goes_nowhere
            the_largest_payload_passes_and_a_larger_one_is_refused
            headers_arrive
            concurrent_requests_get_their_own_answers
            a_slow_subscriber_is_bounded_and_hurts_nobody
            a_dropped_next_loses_nothing
            any_text_travels_as_one_token
        }
    };
    (@tests ($pair:expr) $args:tt $($claim:ident)*) => {
        $($crate::bus_conformance! { @test ($pair) $args $claim })*
    };
    (@test ($pair:expr) ($($args:tt)*) $claim:ident) => {
        #[tokio::test($($args)*)]
        async fn $claim() {
            $crate::bus::conformance::$claim($pair).await;
        }
    };
}

/// Longer than anything takes that works, and shorter than anyone wants to wait for what does not.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long nothing has to arrive until nothing is believed to come.
const QUIET: Duration = Duration::from_millis(300);

fn subject(text: &str) -> Subject {
    Subject::from_wire(text)
}

async fn subscribe(bus: &Bus, pattern: &str) -> Box<dyn Subscription> {
    bus.subscribe(&subject(pattern)).await.expect("subscribes")
}

async fn publish(bus: &Bus, to: &str, payload: &str) {
    let payload = Bytes::copy_from_slice(payload.as_bytes());
    bus.publish(&subject(to), Headers::default(), payload).await.expect("publishes");
}

async fn ask(bus: &Bus, to: &str, payload: &str, patience: Duration) -> Result<Bytes, RequestError> {
    let payload = Bytes::copy_from_slice(payload.as_bytes());
    bus.request(&subject(to), Headers::default(), payload, patience).await
}

async fn next(subscription: &mut dyn Subscription) -> Delivery {
    timeout(PATIENCE, subscription.next()).await.expect("a message arrives").expect("the bus is open")
}

fn text(payload: &Bytes) -> String {
    String::from_utf8(payload.to_vec()).expect("payload is text")
}

/// The payloads up to and without `last`.
async fn payloads_until(subscription: &mut dyn Subscription, last: &str) -> Vec<String> {
    let mut payloads = Vec::new();
    loop {
        let payload = text(&next(subscription).await.payload);
        if payload == last {
            return payloads;
        }
        payloads.push(payload);
    }
}

/// Answers every request with its payload.
async fn echo(bus: &Bus, pattern: &str) -> JoinHandle<()> {
    let mut subscription = subscribe(bus, pattern).await;
    tokio::spawn(async move {
        while let Some(delivery) = subscription.next().await {
            delivery.reply.expect("a request").send(delivery.payload).await.expect("answers");
        }
    })
}

/// Claim: what one connection publishes arrives in that order.
pub async fn messages_of_one_publisher_arrive_in_order(Pair { one, other, .. }: Pair) {
    let mut subscription = subscribe(&other, "order.>").await;
    let sent: Vec<String> = (0..40).map(|n| n.to_string()).collect();
    for (n, payload) in sent.iter().enumerate() {
        publish(&one, &format!("order.{}", n % 3), payload).await;
    }
    publish(&one, "order.end", "end").await;
    assert_eq!(payloads_until(&mut *subscription, "end").await, sent);
}

/// Claim: `*` covers exactly one token.
pub async fn a_star_stands_for_one_token(Pair { one, other, .. }: Pair) {
    let mut subscription = subscribe(&other, "star.*.tail").await;
    for to in ["star.tail", "star.a.b.tail", "star.a.tail", "star.a", "other.a.tail", "star.b.tail"] {
        publish(&one, to, to).await;
    }
    publish(&one, "star.end.tail", "end").await;
    assert_eq!(payloads_until(&mut *subscription, "end").await, ["star.a.tail", "star.b.tail"]);
}

/// Claim: `>` covers one or more tokens at the end.
pub async fn a_greater_than_sign_stands_for_one_or_more_tokens(Pair { one, other, .. }: Pair) {
    let mut subscription = subscribe(&other, "deep.>").await;
    for to in ["deep", "deep.a", "deeper.a", "deep.a.b.c", "a.deep.b"] {
        publish(&one, to, to).await;
    }
    publish(&one, "deep.end", "end").await;
    assert_eq!(payloads_until(&mut *subscription, "end").await, ["deep.a", "deep.a.b.c"]);
}

/// Claim: every matching subscription gets each message, with the subject it was sent to.
pub async fn overlapping_subscriptions_each_get_a_copy(Pair { one, other, .. }: Pair) {
    let mut all = Vec::new();
    for (bus, pattern) in [(&one, "copy.a"), (&other, "copy.a"), (&other, "copy.*"), (&other, "copy.>")] {
        all.push(subscribe(bus, pattern).await);
    }
    publish(&one, "copy.a", "x").await;
    for subscription in &mut all {
        let delivery = next(&mut **subscription).await;
        assert_eq!((delivery.subject.as_str(), &*delivery.payload), ("copy.a", &b"x"[..]));
        assert!(delivery.reply.is_none());
    }
}

/// Claim: dropping a subscription ends it, and nobody else's.
pub async fn a_dropped_subscription_listens_no_more(Pair { one, other, .. }: Pair) {
    let mut kept = subscribe(&other, "drop.kept").await;
    let dropped = subscribe(&other, "drop.dropped").await;
    drop(dropped);
    timeout(PATIENCE, async {
        // The end of a subscription may take its time on the way to the server.
        loop {
            match ask(&one, "drop.dropped", "", QUIET).await {
                Err(RequestError::NoResponders { .. }) => return,
                Err(RequestError::TimedOut { .. }) => {}
                other => panic!("nobody could have answered: {other:?}"),
            }
        }
    })
    .await
    .expect("the subscription ends");
    publish(&one, "drop.kept", "x").await;
    assert_eq!(&*next(&mut *kept).await.payload, b"x");
}

/// Claim: closing a subscription loses nothing that it was sent before.
pub async fn a_closed_subscription_hands_out_what_it_has_and_ends(Pair { one, other, .. }: Pair) {
    let mut watching = subscribe(&other, "close.>").await;
    let mut closed = subscribe(&other, "close.it").await;
    for n in 0..5 {
        publish(&one, "close.it", &n.to_string()).await;
    }
    publish(&one, "close.end", "end").await;
    payloads_until(&mut *watching, "end").await;
    closed.close().await;
    for n in 0..5 {
        assert_eq!(text(&next(&mut *closed).await.payload), n.to_string());
    }
    assert!(timeout(PATIENCE, closed.next()).await.expect("it ends").is_none());
    let asked = ask(&one, "close.it", "", QUIET).await;
    assert!(matches!(asked, Ok(_) | Err(RequestError::TimedOut { .. })), "another still listens: {asked:?}");
    drop(watching);
}

/// Claim: who asks while somebody stops listening is answered, or learns at once that nobody listens, however busy
/// the connection is otherwise.
pub async fn closing_loses_no_request(Pair { one, other, .. }: Pair) {
    let busy = one.clone();
    let busy = tokio::spawn(async move {
        loop {
            publish(&busy, "elsewhere", "!").await;
            tokio::task::yield_now().await;
        }
    });
    for round in 0..20 {
        let mut listening = subscribe(&one, &format!("closing.{round}.>")).await;
        let askers: Vec<_> = (0..16)
            .map(|asker| {
                let (other, to) = (other.clone(), format!("closing.{round}.{asker}"));
                tokio::spawn(async move {
                    let mut answers = 0;
                    loop {
                        match ask(&other, &to, "?", PATIENCE).await {
                            Ok(_) => answers += 1,
                            Err(RequestError::NoResponders { .. }) => return answers,
                            Err(error) => panic!("after {answers} answers: {error}"),
                        }
                    }
                })
            })
            .collect();
        for _ in 0..100 {
            let delivery = next(&mut *listening).await;
            delivery.reply.expect("it is a request").send(delivery.payload).await.expect("answers");
        }
        listening.close().await;
        while let Some(delivery) = timeout(PATIENCE, listening.next()).await.expect("it comes to an end") {
            delivery.reply.expect("it is a request").send(delivery.payload).await.expect("answers");
        }
        let answers: u32 = join_all(askers).await.into_iter().map(|answers| answers.expect("asks")).sum();
        assert!(answers >= 100, "{answers}");
    }
    busy.abort();
}

/// Claim: a request reaches its responder and the answer reaches whoever asked, in both directions.
pub async fn a_request_gets_its_answer(Pair { one, other, .. }: Pair) {
    let _here = echo(&one, "ask.one").await;
    let _there = echo(&other, "ask.other.*").await;
    for (from, to) in [(&one, "ask.other.a"), (&other, "ask.one"), (&one, "ask.one")] {
        assert_eq!(ask(from, to, "question", PATIENCE).await, Ok(Bytes::from_static(b"question")));
    }
    assert_eq!(ask(&one, "ask.one", "", PATIENCE).await, Ok(Bytes::new()));
}

/// Claim: of several responders one answer is taken, and the others do no harm.
pub async fn the_first_answer_counts(Pair { one, other, .. }: Pair) {
    let _first = echo(&one, "many").await;
    let _second = echo(&other, "many").await;
    for n in 0..10 {
        let question = n.to_string();
        assert_eq!(ask(&one, "many", &question, PATIENCE).await, Ok(Bytes::from(question)));
    }
}

/// Claim: when nobody listens, that is known long before the timeout.
pub async fn a_request_to_nobody_fails_at_once(Pair { one, other, .. }: Pair) {
    let _near = subscribe(&other, "nobody.here.*").await;
    let asked = timeout(PATIENCE / 4, ask(&one, "nobody.here", "", PATIENCE)).await;
    let expected = RequestError::NoResponders { subject: "nobody.here".into() };
    assert_eq!(asked.expect("an answer at once"), Err(expected));
}

/// Claim: a request that is heard and not answered fails after its timeout, not before.
pub async fn a_request_without_answer_times_out(Pair { one, other, .. }: Pair) {
    let mut subscription = subscribe(&other, "silent").await;
    let listener = tokio::spawn(async move {
        let _held = next(&mut *subscription).await;
        drop(next(&mut *subscription).await);
        std::future::pending::<()>().await;
    });
    for _ in 0..2 {
        let start = Instant::now();
        assert_eq!(ask(&one, "silent", "", QUIET).await, Err(RequestError::TimedOut { timeout_ms: 300 }));
        assert!(start.elapsed() >= QUIET);
    }
    listener.abort();
}

/// Claim: a late answer is no error for the responder and never becomes the answer to another request.
pub async fn an_answer_after_the_timeout_goes_nowhere(Pair { one, other, .. }: Pair) {
    let mut subscription = subscribe(&other, "late").await;
    let late = ask(&one, "late", "first", Duration::from_millis(50));
    assert_eq!(late.await, Err(RequestError::TimedOut { timeout_ms: 50 }));
    let first = next(&mut *subscription).await;
    let second = tokio::spawn(async move { ask(&one, "late", "second", PATIENCE).await });
    let delivery = next(&mut *subscription).await;
    first.reply.expect("a request").send(first.payload).await.expect("answers");
    delivery.reply.expect("a request").send(delivery.payload).await.expect("answers");
    assert_eq!(second.await.expect("asks"), Ok(Bytes::from_static(b"second")));
}

/// Claim: a payload of the stated limit passes, with a trace context too; one byte more is refused, with both
/// figures, by everything that sends.
pub async fn the_largest_payload_passes_and_a_larger_one_is_refused(Pair { one, other, .. }: Pair) {
    let limit = one.max_payload();
    let mut headers = Headers::default();
    headers.set(TRACEPARENT, "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
    let largest = Bytes::from(vec![7; limit]);
    let larger = Bytes::from(vec![7; limit + 1]);

    let mut subscription = subscribe(&other, "size").await;
    let refused = PublishError::TooLarge { limit, actual: limit + 1 };
    assert_eq!(one.publish(&subject("size"), headers.clone(), larger.clone()).await, Err(refused.clone()));
    one.publish(&subject("size"), headers.clone(), largest.clone()).await.expect("publishes");
    assert_eq!(next(&mut *subscription).await.payload, largest);

    let asked = one.request(&subject("size"), headers.clone(), larger.clone(), PATIENCE).await;
    assert_eq!(asked, Err(RequestError::TooLarge { limit, actual: limit + 1 }));
    let asked = {
        let (one, payload) = (one.clone(), largest.clone());
        tokio::spawn(async move { one.request(&subject("size"), headers, payload, QUIET).await })
    };
    let request = next(&mut *subscription).await;
    assert_eq!(request.payload, largest);
    assert_eq!(request.reply.expect("a request").send(larger).await, Err(refused));
    assert_eq!(asked.await.expect("asks"), Err(RequestError::TimedOut { timeout_ms: 300 }));

    publish(&one, "size", "still well").await;
    assert_eq!(&*next(&mut *subscription).await.payload, b"still well");
}

/// Claim: headers arrive as they were set, on messages and requests.
pub async fn headers_arrive(Pair { one, other, .. }: Pair) {
    let mut headers = Headers::default();
    headers.set(TRACEPARENT, "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
    headers.set("tracestate", "a=1,b=2: c");
    headers.set("Cadre-Text", "grüße, 世界");
    headers.set("Cadre-Empty", "");
    headers.set("Cadre-Lines", " two\r\nlines ");
    let expected: BTreeSet<_> = [
        (TRACEPARENT, "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
        ("tracestate", "a=1,b=2: c"),
        ("Cadre-Text", "grüße, 世界"),
        ("Cadre-Empty", ""),
        ("Cadre-Lines", "two  lines"),
    ]
    .into();
    let mut subscription = subscribe(&other, "headers").await;
    one.publish(&subject("headers"), headers.clone(), Bytes::new()).await.expect("publishes");
    assert_eq!(next(&mut *subscription).await.headers.iter().collect::<BTreeSet<_>>(), expected);
    let asked =
        tokio::spawn(async move { one.request(&subject("headers"), headers, Bytes::new(), PATIENCE).await });
    let request = next(&mut *subscription).await;
    assert_eq!(request.headers.iter().collect::<BTreeSet<_>>(), expected);
    request.reply.expect("a request").send(Bytes::new()).await.expect("answers");
    asked.await.expect("asks").expect("is answered");
    publish(&other, "headers", "none").await;
    assert!(next(&mut *subscription).await.headers.is_empty());
}

/// Claim: answers find their requests, in whatever order they are given.
pub async fn concurrent_requests_get_their_own_answers(Pair { one, other, queue_capacity }: Pair) {
    let batch = queue_capacity.min(16);
    let mut subscription = subscribe(&other, "concurrent.*").await;
    let responder = tokio::spawn(async move {
        loop {
            let mut requests = Vec::new();
            while requests.len() < batch {
                requests.push(next(&mut *subscription).await);
            }
            for request in requests.into_iter().rev() {
                let answer = format!("answer to {}", text(&request.payload));
                request.reply.expect("a request").send(answer.into()).await.expect("answers");
            }
        }
    });
    // As many in flight as a queue holds: more could rightly be lost.
    for round in 0..10 {
        let asked = (0..batch).map(|n| {
            let one = &one;
            async move {
                let question = format!("{round}/{n}");
                let answer = ask(one, &format!("concurrent.{n}"), &question, PATIENCE).await;
                assert_eq!(text(&answer.expect("is answered")), format!("answer to {question}"));
            }
        });
        join_all(asked).await;
    }
    responder.abort();
}

/// Claim: a subscription that is not read holds what fits and loses the rest; others lose nothing, and it
/// works again once it is read.
pub async fn a_slow_subscriber_is_bounded_and_hurts_nobody(Pair { one, other, queue_capacity }: Pair) {
    let mut slow = subscribe(&other, "slow").await;
    let mut quick = subscribe(&other, "slow").await;
    let sent: Vec<String> = (0..3 * queue_capacity).map(|n| n.to_string()).collect();
    for payload in &sent {
        publish(&one, "slow", payload).await;
        assert_eq!(&text(&next(&mut *quick).await.payload), payload);
    }
    let mut held = Vec::new();
    while let Ok(delivery) = timeout(QUIET, slow.next()).await {
        held.push(text(&delivery.expect("the bus is open").payload));
    }
    assert_eq!(held, sent[..queue_capacity]);
    publish(&one, "slow", "again").await;
    assert_eq!(&*next(&mut *slow).await.payload, b"again");
}

/// Claim: giving up waiting for a message does not lose it.
pub async fn a_dropped_next_loses_nothing(Pair { one, other, .. }: Pair) {
    let mut subscription = subscribe(&other, "patience").await;
    for n in 0..20 {
        assert!(timeout(Duration::from_millis(1), subscription.next()).await.is_err());
        publish(&one, "patience", &n.to_string()).await;
        assert_eq!(text(&next(&mut *subscription).await.payload), n.to_string());
    }
}

/// Claim: escaped, any text is one token, arrives as it was, and different texts stay apart.
pub async fn any_text_travels_as_one_token(Pair { one, other, .. }: Pair) {
    let mut texts: BTreeSet<String> = [
        "",
        " ",
        ".",
        "..",
        "*",
        ">",
        "a.b",
        "a.*",
        "=",
        "=20",
        "==",
        "tab\tline\r\n",
        "\0",
        "ä",
        "世界",
        "🦀",
    ]
    .map(String::from)
    .into();
    texts.insert("long ".repeat(100));
    let mut rng = SmallRng::seed_from_u64(1);
    for _ in 0..200 {
        let length = rng.random_range(1..12);
        let any = |rng: &mut SmallRng| match rng.random_range(0..4) {
            0 => rng.random::<char>(),
            1 => char::from(rng.random_range(0..128u8)),
            _ => *[' ', '.', '*', '>', '=', '2', 'e', 'E'].get(rng.random_range(0..8)).unwrap_or(&'x'),
        };
        texts.insert((0..length).map(|_| any(&mut rng)).collect());
    }
    let tokens: BTreeSet<String> = texts.iter().map(|text| escape_token(text)).collect();
    assert_eq!(tokens.len(), texts.len(), "two texts became one token");
    let mut subscription = subscribe(&other, "token.*.end").await;
    for text in &texts {
        let to = Subject::from_tokens(["token", &escape_token(text), "end"]);
        one.publish(&to, Headers::default(), Bytes::copy_from_slice(text.as_bytes()))
            .await
            .expect("publishes");
        let delivery = next(&mut *subscription).await;
        let token = delivery.subject.tokens().nth(1).expect("has a token").to_owned();
        assert_eq!(unescape_token(&token).as_deref(), Some(text.as_str()));
        assert_eq!(delivery.payload, text.as_bytes());
    }
}
