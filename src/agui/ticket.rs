//! What the URL of an attachment proves: whose it is, which one, and until when.

use cadre_cluster::clock::Timestamp;
use serde::{Deserialize, Serialize};

use crate::fact::id::BlobRef;

/// What tickets are signed for.
pub const PURPOSE: &str = "attachment";
/// Where attachments are.
pub const PATH: &str = "/api/v1/agent/attachments";

/// The payload of a token in a URL.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ticket {
    /// Whose it is.
    pub tenant: String,
    /// Which one.
    pub blob: BlobRef,
    /// From when on it is no longer good.
    pub expires: Timestamp,
}

impl Ticket {
    /// As it is signed.
    pub fn encode(&self) -> Vec<u8> {
        cadre_cluster::codec::pack(self).to_vec()
    }

    /// What was signed.
    pub fn decode(payload: &[u8]) -> Option<Self> {
        cadre_cluster::codec::unpack("ticket", payload).ok()
    }

    /// The URL that carries its token.
    pub fn url(&self, origin: &str, token: &str) -> String {
        format!("{origin}{PATH}/{}?token={token}", self.blob)
    }
}

/// The attachment and the token that a URL names, on whatever host: that is how a gateway is reached from there.
pub fn of_url(url: &str) -> Option<(BlobRef, &str)> {
    let (place, query) = url.split('#').next()?.split_once('?')?;
    let (_, id) = place.rsplit_once(PATH)?;
    let blob = BlobRef::parse(id.strip_prefix('/')?).ok()?;
    let token = query.split('&').find_map(|pair| pair.strip_prefix("token="))?;
    Some((blob, token))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_comes_back_from_its_url() {
        let ticket =
            Ticket { tenant: "acme".into(), blob: BlobRef::parse("blob_1").unwrap(), expires: Timestamp(7) };
        assert_eq!(Ticket::decode(&ticket.encode()), Some(ticket.clone()));
        for origin in ["http://127.0.0.1:7600", "https://cadre.example/behind/a/path", ""] {
            let url = ticket.url(origin, "AbC-_");
            assert_eq!(of_url(&url), Some((ticket.blob.clone(), "AbC-_")), "{url}");
            assert_eq!(of_url(&format!("{url}&x=1#here")), Some((ticket.blob.clone(), "AbC-_")));
        }
    }

    #[test]
    fn what_is_no_url_of_an_attachment_is_refused() {
        let place = format!("https://x{PATH}");
        for bad in
            ["", "https://x/y.png?token=a", &place, &format!("{place}/?token=a"), &format!("{place}/blob_1")]
        {
            assert_eq!(of_url(bad), None, "{bad}");
        }
        assert_eq!(of_url(&format!("{place}/blob_1?tok=a")), None);
        assert_eq!(of_url(&format!("{place}/a/b?token=a")), None, "no path within");
        assert!(Ticket::decode(b"").is_none() && Ticket::decode(b"\x93\x01").is_none());
    }
}
