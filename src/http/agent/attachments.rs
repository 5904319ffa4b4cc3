//! Images that runs refer to: uploaded here, and fetched by signed URLs.

use std::io;

use axum::{
    Json,
    body::Body,
    extract::{
        Multipart, Path, Query, State,
        multipart::{Field, MultipartError, MultipartRejection},
        rejection::{PathRejection, QueryRejection},
    },
    http::{HeaderMap, HeaderValue, StatusCode, Uri, header},
    response::{IntoResponse, Response},
};
use bytes::{Bytes, BytesMut};
use serde::Deserialize;
use serde_json::{Value, json};

use super::link;
use crate::{
    agui::image,
    blob::{BlobError, NewBlob},
    control::{Code, Error, Scope},
    fact::{Time, id::BlobRef},
    http::{App, credential::Asking, refusal::Refusal},
};

/// The largest image. Models take no larger ones, and each is in memory once while it comes in.
const IMAGE_BYTES_MAX: usize = 10 * 1024 * 1024;
/// How much of what is too large is read and thrown away, so that the client sees the answer.
pub(super) const DISCARDED_BYTES_MAX: usize = 4 * IMAGE_BYTES_MAX;
/// The longest name of a file that is kept, in characters.
const NAME_CHARS_MAX: usize = 255;
/// How much is read from the store at a time.
const CHUNK_BYTES: u64 = 512 * 1024;

/// `POST /api/v1/agent/attachments`
pub(super) async fn upload(
    State(app): State<App>,
    Asking(caller): Asking,
    headers: HeaderMap,
    uri: Uri,
    multipart: Result<Multipart, MultipartRejection>,
) -> Result<Json<Value>, Refusal> {
    caller.require(Scope::Submit)?;
    let mut parts = multipart.map_err(|error| Error::invalid("", error))?;
    let many = |_| Error::rate_limited(1_000, "too many large requests at once");
    let _permit = app.large.try_acquire().map_err(many)?;
    let (mut file, mut read) = (None, 0);
    while let Some(part) = parts.next_field().await.map_err(broken)? {
        if part.name() != Some("file") {
            skip(part, &mut read).await?;
            continue;
        }
        if file.is_some() {
            return Err(Error::invalid("file", "is there twice").into());
        }
        let name = file_name(part.file_name());
        file = Some((name, content(part, &mut read).await?));
    }
    let (filename, content) = file.ok_or_else(|| Error::invalid("file", "is missing"))?;
    let head = &content[..content.len().min(image::HEAD_BYTES)];
    let mime = image::sniff(head)
        .ok_or_else(|| Error::invalid("file", "must be an image: PNG, JPEG, GIF, WebP, AVIF or HEIC"))?;
    let size = content.len();
    let new = NewBlob { blob: app.runtime.new_id(), media_type: mime.into(), session: None, content };
    let blob = new.blob.clone();
    app.runtime.blobs().write(&caller.tenant, new).await.map_err(|error| unreadable(&error))?;
    let (url, ticket) = link::sign(&app, &caller, &link::origin(&headers, &uri), blob.clone()).await?;
    metrics::counter!("cadre_agent_attachments_bytes_total").increment(size as u64);
    Ok(Json(json!({
        "id": blob,
        "url": url,
        "mimeType": mime,
        "filename": filename,
        "sizeBytes": size,
        "expiresAt": Time(ticket.expires),
    })))
}

/// What a URL says besides which attachment it is.
#[derive(Deserialize)]
pub(super) struct Signed {
    #[serde(default)]
    token: String,
}

/// `GET` and `HEAD /api/v1/agent/attachments/{id}`: the URL is the credential.
pub(super) async fn download(
    State(app): State<App>,
    id: Result<Path<String>, PathRejection>,
    signed: Result<Query<Signed>, QueryRejection>,
) -> Result<Response, Refusal> {
    let refused = || Error::new(Code::Forbidden, "this URL is not good, or no longer");
    let (Ok(Path(id)), Ok(Query(Signed { token }))) = (id, signed) else { return Err(refused().into()) };
    let ticket = link::verify(&app, &token).await?.ok_or_else(refused)?;
    let now = app.runtime.now();
    if ticket.blob.as_str() != id || ticket.expires <= now {
        return Err(refused().into());
    }
    let meta = match app.runtime.blobs().meta(&ticket.tenant, &ticket.blob).await {
        Ok(meta) => meta,
        Err(BlobError::NotFound { .. } | BlobError::Expired { .. }) => {
            return Err(Error::not_found("attachment", &ticket.blob).into());
        }
        Err(error) => return Err(unreadable(&error)),
    };
    let kept = format!("private, max-age={}", now.until(ticket.expires).as_secs());
    let size = meta.size_bytes;
    let mut response = (StatusCode::OK, stream(app, ticket.tenant, ticket.blob, size)).into_response();
    let about = response.headers_mut();
    let fixed = [
        (header::CONTENT_DISPOSITION, "inline"),
        // Whatever it is, browsers must neither guess nor run it.
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::CONTENT_SECURITY_POLICY, "default-src 'none'; sandbox"),
        // The URL is a credential: it does not go anywhere else.
        (header::REFERRER_POLICY, "no-referrer"),
    ];
    about.extend(fixed.map(|(name, value)| (name, HeaderValue::from_static(value))));
    let said = |text: &str| HeaderValue::from_str(text).ok();
    about.extend(said(&meta.media_type).map(|value| (header::CONTENT_TYPE, value)));
    about.extend(said(&kept).map(|value| (header::CACHE_CONTROL, value)));
    about.insert(header::CONTENT_LENGTH, HeaderValue::from(size));
    Ok(response)
}

/// The content, read as fast as the client takes it.
fn stream(app: App, tenant: String, blob: BlobRef, size: u64) -> Body {
    Body::from_stream(futures::stream::try_unfold(0, move |at| {
        let (app, tenant, blob) = (app.clone(), tenant.clone(), blob.clone());
        async move {
            if at >= size {
                return Ok::<Option<(Bytes, u64)>, io::Error>(None);
            }
            let to = (at + CHUNK_BYTES).min(size);
            let chunk = app.runtime.blobs().read(&tenant, &blob, at..to).await.map_err(io::Error::other)?;
            if chunk.len() as u64 != to - at {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
            }
            Ok(Some((chunk, to)))
        }
    }))
}

/// The whole of a file, if it is small enough. `read` counts all parts together.
async fn content(mut part: Field<'_>, read: &mut usize) -> Result<Bytes, Refusal> {
    let mut content = BytesMut::new();
    let before = *read;
    while let Some(chunk) = part.chunk().await.map_err(broken)? {
        count(&chunk, read)?;
        if *read - before <= IMAGE_BYTES_MAX {
            content.extend_from_slice(&chunk);
        }
    }
    match *read - before {
        size if size > IMAGE_BYTES_MAX => Err(too_large(size)),
        _ => Ok(content.freeze()),
    }
}

async fn skip(mut part: Field<'_>, read: &mut usize) -> Result<(), Refusal> {
    while let Some(chunk) = part.chunk().await.map_err(broken)? {
        count(&chunk, read)?;
    }
    Ok(())
}

fn count(chunk: &Bytes, read: &mut usize) -> Result<(), Refusal> {
    *read += chunk.len();
    if *read > DISCARDED_BYTES_MAX { Err(too_large(*read)) } else { Ok(()) }
}

fn too_large(actual: usize) -> Refusal {
    Error::too_large(IMAGE_BYTES_MAX as u64, actual as u64).with("field", "file").into()
}

fn broken(error: MultipartError) -> Refusal {
    if error.status() == StatusCode::PAYLOAD_TOO_LARGE {
        return too_large(DISCARDED_BYTES_MAX);
    }
    Error::invalid("", format_args!("the multipart body is not readable: {}", error.body_text())).into()
}

fn unreadable(error: &BlobError) -> Refusal {
    match error {
        BlobError::Read(_) | BlobError::Write(_) | BlobError::Leaving { .. } => {
            Error::unavailable(format!("attachments cannot be read or written now: {error}")).into()
        }
        _ => Refusal::internal(&error.to_string()),
    }
}

/// What people call it: no folders, nothing that is not shown.
fn file_name(name: Option<&str>) -> String {
    let name = name.and_then(|name| name.rsplit(['/', '\\']).next()).unwrap_or("");
    let name: String = name.chars().filter(|char| !char.is_control()).take(NAME_CHARS_MAX).collect();
    if name.trim().is_empty() { "attachment".into() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_no_folders_and_nothing_hidden() {
        for (name, kept) in [
            (None, "attachment"),
            (Some(""), "attachment"),
            (Some("  "), "attachment"),
            (Some("图片.png"), "图片.png"),
            (Some("../../etc/passwd"), "passwd"),
            (Some("C:\\x\\a.png"), "a.png"),
            (Some("a\r\nb.png"), "ab.png"),
        ] {
            assert_eq!(file_name(name), kept);
        }
        assert_eq!(file_name(Some(&"x".repeat(999))).len(), NAME_CHARS_MAX);
    }
}
