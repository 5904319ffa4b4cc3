//! Resume tokens: signed, bound to a tenant and a channel, good for as long as a channel is remembered.

use cadre_cluster::clock::Timestamp;

use super::KEPT;
use crate::{
    control::Error,
    fact::id::ChannelId,
    runtime::{Caller, Runtime, failure::unreadable},
    signing::InvalidToken,
};

/// What the signature is for.
const PURPOSE: &str = "channel";

/// What a token says: that a tenant was given a channel at that time.
struct Said<'a> {
    tenant: &'a str,
    channel: &'a str,
    at: Timestamp,
}

impl<'a> Said<'a> {
    fn write(&self) -> Vec<u8> {
        // Neither a tenant nor an id holds a line break.
        format!("{}\n{}\n{}", self.at.0, self.channel, self.tenant).into_bytes()
    }

    fn read(text: &'a [u8]) -> Option<Self> {
        let mut parts = std::str::from_utf8(text).ok()?.splitn(3, '\n');
        let at = Timestamp(parts.next()?.parse().ok()?);
        Some(Self { at, channel: parts.next()?, tenant: parts.next()? })
    }
}

/// Forged, expired, of another tenant or channel: which one is nobody's business.
pub(super) fn refused() -> Error {
    Error::unauthorized("the resume token is not good for this channel: open a new one")
        .with("field", "resumeToken")
}

impl Runtime {
    /// A token for a channel.
    pub(super) async fn token_of_channel(
        &self,
        caller: &Caller,
        channel: &ChannelId,
    ) -> Result<String, Error> {
        let said = Said { tenant: &caller.tenant, channel: channel.as_str(), at: self.clock.now() };
        self.signer.sign(PURPOSE, &said.write()).await.map_err(unreadable)
    }

    /// The channel that a token is for.
    pub(super) async fn channel_of_token(&self, caller: &Caller, token: &str) -> Result<ChannelId, Error> {
        let said = match self.signer.verify(PURPOSE, token).await {
            Ok(said) => said,
            Err(InvalidToken::Rejected) => return Err(refused()),
            Err(error @ InvalidToken::Unavailable { .. }) => return Err(unreadable(error)),
        };
        let said = Said::read(&said).ok_or_else(refused)?;
        if said.tenant != caller.tenant || said.at.after(KEPT) <= self.clock.now() {
            return Err(refused());
        }
        ChannelId::parse(said.channel).map_err(|_| refused())
    }
}
