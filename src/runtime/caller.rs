//! Who asks.

/// Somebody who may ask something. The tenant comes from the credential alone (P8).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// Whose data it is about.
    pub tenant: String,
    /// Who it is, as facts say it: `api`, `cli`, a key's name.
    pub name: String,
}

impl Caller {
    /// On a machine of one's own, without credentials.
    pub fn local() -> Self {
        Self { tenant: "local".into(), name: "local".into() }
    }
}
