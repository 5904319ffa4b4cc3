//! Doing what runs ask of the world.

use std::time::Duration;

use bytes::Bytes;
use cadre_cluster::host::{EffectContext, EffectError, Entity};
use serde_json::Value;
use tokio::sync::mpsc;

use super::{
    Effect, Engine, Outcome, ToolOutput,
    effect::Spilled,
    tool::{ToolContext, ToolError, ToolReturn},
};
use crate::{
    blob::{BlobError, NewBlob},
    fact::{
        Failure, Ids, Part,
        id::{BlobRef, CallId, Id, SessionId, child_suffix},
    },
};

/// What a fact carries at most; the rest is kept apart.
pub const SPILL_BYTES: usize = 32 * 1024;
/// What of it is shown all the same.
const PREVIEW_BYTES: usize = 1024;
/// A reader sees text that is this old at most, in pieces of about this size.
const COALESCE_FOR: Duration = Duration::from_millis(40);
const COALESCE_BYTES: usize = 1024;

impl Engine {
    /// Performs an effect of any entity.
    pub async fn perform<E>(&self, effect: Effect, context: EffectContext) -> Result<Outcome, EffectError>
    where
        E: Entity<Outcome = Outcome>,
    {
        match effect {
            Effect::Model { provider, mut request, .. } => {
                let Some(provider) = self.provider(&provider).cloned() else {
                    return Err(EffectError::fatal(format!("there is no provider {provider}")));
                };
                if let Some(blob) = request.stored.take() {
                    let mut parts = match self.load(context.address.tenant(), &blob).await? {
                        Ok(parts) => parts,
                        Err(failure) => {
                            return Ok(Outcome::Answered { attempt: context.attempt, answer: Err(failure) });
                        }
                    };
                    parts.append(&mut request.input);
                    request.input = parts;
                }
                let (said, mut texts) = mpsc::channel(64);
                let reports = async {
                    while let Some(text) = coalesce(&mut texts).await {
                        let said = Outcome::Said { attempt: context.attempt, text };
                        if context.report::<E>(&said).await.is_err() {
                            return; // nobody waits any more
                        }
                    }
                };
                let (answer, ()) = tokio::join!(provider.stream(&request, said), reports);
                let answer = answer.map_err(|error| error.failure);
                Ok(Outcome::Answered { attempt: context.attempt, answer })
            }
            Effect::Tool { call, name, args, session, stored, about } => {
                let args = match stored {
                    None => args,
                    Some(blob) => match self.fetch(context.address.tenant(), &blob).await? {
                        Ok(content) => String::from_utf8_lossy(&content).into_owned(),
                        Err(failure) => return Ok(Outcome::Returned(Err(failure))),
                    },
                };
                self.call_tool(&call, &name, &args, (session, about), &context).await
            }
            Effect::Watchers { .. } | Effect::Cycle { .. } => {
                Err(EffectError::fatal("only a task looks at what it has to do with others"))
            }
            Effect::Items { .. } | Effect::IsOpen { .. } | Effect::Remove { .. } => {
                Err(EffectError::fatal("only a job looks after its items and its schedule"))
            }
        }
    }

    /// An input that is too large to be carried about.
    async fn load(&self, tenant: &str, blob: &BlobRef) -> Result<Result<Vec<Part>, Failure>, EffectError> {
        let read = |content: Bytes| {
            serde_json::from_slice(&content)
                .map_err(|error| Failure::new("invalid_argument", error.to_string()))
        };
        Ok(self.fetch(tenant, blob).await?.and_then(read))
    }

    /// What was kept apart.
    async fn fetch(&self, tenant: &str, blob: &BlobRef) -> Result<Result<Bytes, Failure>, EffectError> {
        let Some(blobs) = &self.blobs else { return Err(EffectError::fatal("no blobs are kept here")) };
        match blobs.read_all(tenant, blob).await {
            Ok((content, _)) => Ok(Ok(content)),
            Err(BlobError::NotFound { .. }) => {
                Ok(Err(Failure::new("not_found", format!("there is no input {blob}"))))
            }
            Err(error @ BlobError::Expired { .. }) => {
                let message = format!("{error}: what waits for longer than blobs are kept loses its input");
                Ok(Err(Failure::new("not_found", message)))
            }
            Err(error) => Err(EffectError::transient(error.to_string())),
        }
    }

    async fn call_tool(
        &self,
        call: &CallId,
        name: &str,
        args: &str,
        (session, about): (SessionId, Ids),
        context: &EffectContext,
    ) -> Result<Outcome, EffectError> {
        let Some(tool) = self.tool(name).cloned() else {
            let failure = Failure::new("not_found", format!("there is no tool {name}"));
            return Ok(Outcome::Returned(Err(failure)));
        };
        let tenant = context.address.tenant().to_owned();
        let scene =
            ToolContext { tenant: tenant.clone(), session: session.clone(), attempt: context.attempt };
        let args: Value = serde_json::from_str(args).unwrap_or(Value::Null);
        let (content, media_type, is_value) = match tool.call(args, scene).await {
            Ok(ToolReturn::Value(value)) => {
                (Bytes::from(value.to_string()), "application/json".to_owned(), true)
            }
            Ok(ToolReturn::Bytes { content, media_type }) => (content, media_type, false),
            Err(ToolError::Failed(failure)) => return Ok(Outcome::Returned(Err(failure))),
            Err(ToolError::Unsure { reason }) => return Err(EffectError::unsure(reason)),
        };
        let size_bytes = content.len() as u64;
        if content.len() <= SPILL_BYTES {
            let text = String::from_utf8_lossy(&content).into_owned();
            let (structured, preview) = if is_value { (Some(text), None) } else { (None, Some(text)) };
            let output = ToolOutput { preview, structured, size_bytes, ..Default::default() };
            return Ok(Outcome::Returned(Ok(output)));
        }
        let Some(blobs) = &self.blobs else {
            let failure = Failure::new("payload_too_large", format!("{size_bytes} bytes of output"));
            return Ok(Outcome::Returned(Err(failure)));
        };
        let kept = kept(&content, self.limits.output_bytes);
        let is_cut = kept.len() < content.len();
        // The beginning of something with a structure has none.
        let media_type = if is_cut && is_value { "text/plain".to_owned() } else { media_type };
        let mut blob = BlobRef::with_suffix(&child_suffix(call.suffix(), u64::from(context.attempt)));
        let preview = preview(&content);
        let kept_bytes = is_cut.then_some(kept.len() as u64);
        let new = NewBlob {
            blob: blob.clone(),
            media_type: media_type.clone(),
            session: Some(session),
            content: kept,
        };
        let mut written = blobs.write_about(&tenant, new.clone(), about.clone()).await;
        if let Err(BlobError::Exists { .. }) = written {
            // Whoever made this attempt before died before it could say so, and the tool returned something else then.
            let base = format!("{}/{:032x}", call.suffix(), xxhash_rust::xxh3::xxh3_128(&new.content));
            blob = BlobRef::with_suffix(&child_suffix(&base, u64::from(context.attempt)));
            written = blobs.write_about(&tenant, NewBlob { blob: blob.clone(), ..new }, about).await;
        }
        let meta = written.map_err(|error| EffectError::transient(error.to_string()))?;
        let spilled = Spilled { blob, media_type, hash: meta.hash, expires_ms: meta.expires.0 };
        let output = ToolOutput {
            preview: Some(preview),
            structured: None,
            size_bytes,
            spilled: Some(spilled),
            kept_bytes,
        };
        Ok(Outcome::Returned(Ok(output)))
    }
}

/// The beginning of a content, as text.
fn preview(content: &[u8]) -> String {
    let text = String::from_utf8_lossy(&content[..content.len().min(PREVIEW_BYTES)]);
    text.trim_end_matches(char::REPLACEMENT_CHARACTER).to_owned()
}

/// As much of a content as may be kept. A text is cut where a character ends.
fn kept(content: &Bytes, at_most: usize) -> Bytes {
    if content.len() <= at_most {
        return content.clone();
    }
    let is_inside = |at: usize| content[at] & 0b1100_0000 == 0b1000_0000;
    let end = (at_most.saturating_sub(3)..=at_most).rev().find(|at| !is_inside(*at));
    content.slice(..end.unwrap_or(at_most))
}

/// The next piece of what a model says: not older than [`COALESCE_FOR`], about [`COALESCE_BYTES`] large. `None` when it
/// has said everything.
async fn coalesce(texts: &mut mpsc::Receiver<String>) -> Option<String> {
    let mut piece = texts.recv().await?;
    let until = tokio::time::Instant::now() + COALESCE_FOR;
    while piece.len() < COALESCE_BYTES {
        match tokio::time::timeout_at(until, texts.recv()).await {
            Ok(Some(text)) => piece.push_str(&text),
            Ok(None) | Err(_) => break,
        }
    }
    Some(piece)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn text_is_coalesced_by_time_and_by_size() {
        let (said, mut texts) = mpsc::channel(64);
        tokio::spawn(async move {
            for _ in 0..10 {
                said.send("x".to_owned()).await.unwrap();
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            for _ in 0..3 {
                said.send("y".repeat(600)).await.unwrap();
            }
        });
        let mut pieces = Vec::new();
        while let Some(piece) = coalesce(&mut texts).await {
            pieces.push(piece);
        }
        assert_eq!(pieces.concat(), format!("{}{}", "x".repeat(10), "y".repeat(1800)));
        assert!(pieces.len() < 6 && pieces.iter().all(|piece| piece.len() < 2048), "{pieces:?}");
    }

    #[test]
    fn what_is_kept_of_an_output_is_cut_where_a_character_ends_if_it_has_any() {
        let content = Bytes::from("aé€😀".repeat(10));
        for at_most in 0..=content.len() + 1 {
            let kept = kept(&content, at_most);
            assert!(kept.len() <= at_most && content.len().min(at_most) - kept.len() <= 3, "{at_most}");
            assert!(std::str::from_utf8(&kept).is_ok() && content.starts_with(&kept), "{at_most}");
        }
        let noise = Bytes::from(vec![0x80; 100]);
        assert_eq!(kept(&noise, 50).len(), 50, "what is no text has no characters");
    }

    #[test]
    fn a_preview_is_cut_where_a_character_ends() {
        assert_eq!(preview("é".repeat(2000).as_bytes()).chars().count(), 512);
        assert_eq!(preview(b"short"), "short");
    }
}
