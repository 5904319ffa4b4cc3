//! URLs of attachments: made here, and believed when they come back.

use std::time::Duration;

use axum::http::{HeaderMap, Uri, header};

use crate::{
    agui::{
        RunInput, names,
        submission::{self, Image},
        ticket::{self, PURPOSE, Ticket},
    },
    blob::BlobError,
    control::Error,
    fact::{Cursor, id::BlobRef},
    http::App,
    runtime::{Caller, EventFilter},
    signing::InvalidToken,
};

/// How long a URL is good. Long enough to write a message to an image, short enough for a URL that got about.
pub(super) const GOOD_FOR: Duration = Duration::from_secs(3600);

/// How this server is reached by whoever asks.
pub(super) fn origin(headers: &HeaderMap, uri: &Uri) -> String {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let host = uri.authority().map(|host| host.as_str()).or_else(|| text(header::HOST.as_str()));
    let scheme = match text("x-forwarded-proto") {
        Some("https") => "https",
        _ => "http",
    };
    host.map(|host| format!("{scheme}://{host}")).unwrap_or_default()
}

/// A URL for an attachment of the caller's, and until when it is good.
pub(super) async fn sign(
    app: &App,
    caller: &Caller,
    origin: &str,
    blob: BlobRef,
) -> Result<(String, Ticket), Error> {
    let expires = app.runtime.now().after(GOOD_FOR.min(app.runtime.blobs().ttl()));
    let ticket = Ticket { tenant: caller.tenant.clone(), blob, expires };
    let token = app.runtime.signer().sign(PURPOSE, &ticket.encode()).await;
    let token = token.map_err(|error| Error::unavailable(error.to_string()))?;
    Ok((ticket.url(origin, &token), ticket))
}

/// What a token says, if it was signed here. Whether its time is over is the caller's to see.
pub(super) async fn verify(app: &App, token: &str) -> Result<Option<Ticket>, Error> {
    match app.runtime.signer().verify(PURPOSE, token).await {
        Ok(payload) => Ok(Ticket::decode(&payload)),
        Err(InvalidToken::Rejected) => Ok(None),
        Err(error @ InvalidToken::Unavailable { .. }) => Err(Error::unavailable(error.to_string())),
    }
}

/// The images of a run, each found to be the caller's own. Why one is not good is nobody's business (P8).
pub(super) async fn images(app: &App, caller: &Caller, input: &RunInput) -> Result<Vec<Image>, Error> {
    let mut images = Vec::new();
    for (field, url) in submission::urls(input) {
        let refused = || Error::invalid(&field, "must be the URL of an attachment that is still good");
        let (blob, token) = ticket::of_url(url).ok_or_else(refused)?;
        let ticket = verify(app, token).await?.ok_or_else(refused)?;
        if ticket.tenant != caller.tenant || ticket.blob != blob {
            return Err(refused());
        }
        // Whoever comes back to a run brings the URL with which it began.
        if ticket.expires <= app.runtime.now() && !is_known(app, caller, input).await? {
            return Err(refused());
        }
        let meta = match app.runtime.blobs().meta(&caller.tenant, &blob).await {
            Ok(meta) => meta,
            Err(BlobError::Read(error)) => return Err(Error::unavailable(error.to_string())),
            Err(_) => return Err(refused()),
        };
        images.push(Image { blob, media_type: meta.media_type });
    }
    Ok(images)
}

async fn is_known(app: &App, caller: &Caller, input: &RunInput) -> Result<bool, Error> {
    let Some(session) = names::session(&input.thread_id) else { return Ok(false) };
    let turn = Some(names::turn(&input.thread_id, &input.run_id));
    let filter = EventFilter { turn, ..EventFilter::default() };
    let page = app.runtime.events(caller, &session, Cursor::START, 1, &filter).await?;
    Ok(!page.events.is_empty())
}
