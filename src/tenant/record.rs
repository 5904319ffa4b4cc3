//! What is kept of a tenant and of a key.

use cadre_cluster::clock::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Scopes;
use crate::fact::Time;

/// A tenant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tenant {
    /// Its name, which is part of every key of its data.
    pub id: String,
    /// What people call it.
    pub title: Option<String>,
    /// Since when.
    pub created: Timestamp,
    /// Since when it is refused, if it is.
    pub suspended: Option<Timestamp>,
}

impl Tenant {
    /// As administrators see it.
    pub fn to_json(&self) -> Value {
        let mut json = json!({
            "tenantId": self.id,
            "status": if self.suspended.is_some() { "suspended" } else { "active" },
            "createdAt": Time(self.created),
        });
        if let Some(title) = &self.title {
            json["title"] = title.as_str().into();
        }
        if let Some(at) = self.suspended {
            json["suspendedAt"] = json!(Time(at));
        }
        json
    }
}

/// A key, without what its holder knows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiKey {
    /// The part of its text that is no secret.
    pub id: String,
    /// Whose it is.
    pub tenant: String,
    /// What facts call whoever uses it.
    pub name: String,
    /// What it may do.
    pub scopes: Scopes,
    /// The argon2id hash of its secret, with salt and parameters.
    pub hash: String,
    /// Since when.
    pub created: Timestamp,
    /// Until when, if there is an end.
    pub expires: Option<Timestamp>,
    /// Since when it is refused, if it is.
    pub revoked: Option<Timestamp>,
}

/// How a key stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It lets in.
    Active,
    /// Its time is over.
    Expired,
    /// It was taken back.
    Revoked,
}

impl Standing {
    /// In a word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Expired => "expired",
            Self::Revoked => "revoked",
        }
    }
}

impl ApiKey {
    /// How it stands at a moment.
    pub fn standing(&self, now: Timestamp) -> Standing {
        match (self.revoked, self.expires) {
            (Some(_), _) => Standing::Revoked,
            (None, Some(expires)) if expires <= now => Standing::Expired,
            (None, _) => Standing::Active,
        }
    }

    /// As administrators see it: without the hash.
    pub fn to_json(&self, now: Timestamp) -> Value {
        let mut json = json!({
            "keyId": self.id,
            "tenantId": self.tenant,
            "name": self.name,
            "scopes": self.scopes,
            "status": self.standing(now).as_str(),
            "createdAt": Time(self.created),
        });
        if let Some(at) = self.expires {
            json["expiresAt"] = json!(Time(at));
        }
        if let Some(at) = self.revoked {
            json["revokedAt"] = json!(Time(at));
        }
        json
    }
}

cadre_cluster::stored! { Tenant: "tenant", ApiKey: "api key" }

#[cfg(test)]
mod tests {
    use cadre_cluster::codec;

    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn key() -> ApiKey {
        ApiKey {
            id: "k".into(),
            tenant: "t".into(),
            name: "n".into(),
            scopes: Scopes::USUAL,
            hash: "$argon2id$".into(),
            created: Timestamp(1),
            expires: Some(Timestamp(10)),
            revoked: None,
        }
    }

    /// A change of layout needs a new version and the upgrade from this one.
    #[test]
    fn stored_bytes_stay_readable() {
        let tenant =
            Tenant { id: "t".into(), title: Some("T".into()), created: Timestamp(1), suspended: None };
        assert_eq!(hex(&codec::encode(&tenant)), "0194a174a15401c0");
        assert_eq!(codec::decode::<Tenant>(&codec::encode(&tenant)), Ok(tenant));
        let expected =
            "0198a16ba174a16e93a472656164a67375626d6974a7617070726f7665aa246172676f6e32696424010ac0";
        assert_eq!(hex(&codec::encode(&key())), expected);
        assert_eq!(codec::decode::<ApiKey>(&codec::encode(&key())), Ok(key()));
    }

    #[test]
    fn a_key_lets_in_until_it_expires_or_is_revoked() {
        assert_eq!(key().standing(Timestamp(9)), Standing::Active);
        assert_eq!(key().standing(Timestamp(10)), Standing::Expired);
        let revoked = ApiKey { revoked: Some(Timestamp(5)), ..key() };
        assert_eq!(revoked.standing(Timestamp(6)), Standing::Revoked);
        assert_eq!(revoked.standing(Timestamp(11)), Standing::Revoked);
    }

    #[test]
    fn what_administrators_see_has_no_hash() {
        let seen = key().to_json(Timestamp(2)).to_string();
        assert!(!seen.contains("argon2") && seen.contains(r#""status":"active""#), "{seen}");
    }
}
