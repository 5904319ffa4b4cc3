//! A command on its way: who wants it, until when, and under which key.

use std::time::Duration;

use cadre_cluster::{
    address::Address,
    clock::Timestamp,
    host::{Called, Entity},
};
use rand::Rng;
use tokio::time::Instant;

use super::{Caller, Runtime, failure::of_call, key::KeyRecord};
use crate::{
    control::{AnyCommand, Error, Kind, result::Answer},
    entity::session::fingerprint,
    fact::IdSource,
    sabotage::{Sabotage, is_on},
};

/// A command that was admitted.
pub(super) struct Request<'a> {
    /// Who wants it.
    pub caller: &'a Caller,
    /// The caller's key, if it has one.
    pub key: Option<&'a str>,
    /// Until when the caller waits.
    pub until: Instant,
    /// Where the ids of what the caller has not named come from: the same for the same key.
    seed: u64,
    at: Timestamp,
    /// Whether the key is known from an earlier try, which may have been executed.
    pub repeated: bool,
}

/// So long an order to close may take to be heard, however little time the caller has: it then says that it is being
/// carried out, not that nobody knows.
const ORDER_HEARD: Duration = Duration::from_secs(5);

impl Request<'_> {
    /// The same, for giving an order to close.
    pub fn for_order(&self) -> Request<'_> {
        let until = self.until.max(Instant::now() + ORDER_HEARD);
        Request { until, ..*self }
    }

    /// New ids. Asked twice under one key, it gives the same ones in the same order.
    pub fn ids(&self) -> IdSource {
        IdSource::new(self.at, self.seed)
    }

    /// The address of an entity of the caller's tenant.
    pub fn address(&self, kind: &str, id: &str) -> Address {
        #[cfg(feature = "simulation")]
        if is_on(Sabotage::TenantMixedUp) {
            let tenant = crate::sabotage::tenant_before(&self.caller.tenant);
            return Address::new(&tenant, kind, id).expect("tenants and ids are valid parts of addresses");
        }
        Address::new(&self.caller.tenant, kind, id).expect("tenants and ids are valid parts of addresses")
    }

    /// Who wants it, as facts say it.
    pub fn by(&self) -> String {
        self.caller.name.clone()
    }

    /// How long there is left.
    pub fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }
}

/// A command that has come in.
pub(super) enum Admitted<'a> {
    /// It is to be executed.
    New(Request<'a>),
    /// It was executed before, under the same key.
    Known(Result<Answer, Error>),
}

impl Runtime {
    /// Admits a command: a key that was used for another one is a conflict, whatever entity that was about.
    pub(super) async fn admit<'a>(
        &self,
        caller: &'a Caller,
        command: &AnyCommand,
        key: Option<&'a str>,
        deadline: Duration,
    ) -> Result<Admitted<'a>, Error> {
        let (mut seed, mut at, mut repeated) = (self.draw(), self.clock.now(), false);
        let key = key.filter(|_| command.kind() == Kind::Write);
        if let Some(key) = key {
            if !(8..=128).contains(&key.chars().count()) || key.chars().any(char::is_control) {
                return Err(Error::invalid("Idempotency-Key", "must be 8 to 128 characters"));
            }
            let fingerprint = fingerprint(&(command.name(), command.arguments()));
            let record = KeyRecord { fingerprint, seed, at, found: None, answer: None };
            let known = self.reserve(&caller.tenant, key, record.clone()).await?;
            if known.fingerprint != record.fingerprint {
                return Err(Error::conflict(
                    "key_reused",
                    "the idempotency key was used for another command",
                ));
            }
            if let Some(answer) = known.answer {
                return Ok(Admitted::Known(answer.answer()));
            }
            if !is_on(Sabotage::IdsMadeAnew) {
                (seed, at) = (known.seed, known.at);
            }
            repeated = (known.seed, known.at) != (record.seed, record.at);
        }
        Ok(Admitted::New(Request { caller, key, until: Instant::now() + deadline, seed, at, repeated }))
    }

    /// A random number.
    pub(super) fn draw(&self) -> u64 {
        self.entropy.lock().unwrap_or_else(std::sync::PoisonError::into_inner).random()
    }

    /// Asks an entity.
    pub(super) async fn ask<E>(
        &self,
        request: &Request<'_>,
        address: &Address,
        command: &E::Command,
    ) -> Result<Called<E::Reply>, Error>
    where
        E: Entity<Refusal = Error>,
    {
        self.ask_under::<E>(request, address, command, request.key).await
    }

    /// Asks an entity under another key than the caller's, or none.
    pub(super) async fn ask_under<E>(
        &self,
        request: &Request<'_>,
        address: &Address,
        command: &E::Command,
        key: Option<&str>,
    ) -> Result<Called<E::Reply>, Error>
    where
        E: Entity<Refusal = Error>,
    {
        let key = key.filter(|_| !is_on(Sabotage::KeyNotPassedOn));
        self.client.call::<E>(address, command, key, request.left()).await.map_err(of_call)
    }
}
