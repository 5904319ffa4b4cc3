//! How much a tenant may use. What is not said is not limited.

use serde::{Deserialize, Serialize};

use crate::control::Error;

/// More than any of them can mean.
const MOST: u64 = 1 << 50;

macro_rules! quotas {
    ($($(#[doc = $doc:literal])+ $name:ident = $wire:literal;)+) => {
        /// The quotas of a tenant.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
        pub struct Quotas {
            $($(#[doc = $doc])+ #[serde(default)] pub $name: Option<u64>,)+
        }

        impl Quotas {
            /// Their names, as administrators write them.
            pub const NAMES: &'static [&'static str] = &[$($wire,)+];

            /// As administrators see them; those that are not limited are `null`.
            pub fn to_json(&self) -> serde_json::Value {
                serde_json::json!({ $($wire: self.$name,)+ })
            }

            /// Sets one by its name.
            pub fn set(&mut self, name: &str, value: Option<u64>) -> Result<(), Error> {
                if let Some(value) = value.filter(|value| *value > MOST) {
                    return Err(Error::invalid(name, format_args!("must be at most {MOST}, not {value}")));
                }
                match name {
                    $($wire => self.$name = value,)+
                    _ => {
                        let known = Self::NAMES.join(", ");
                        let name: String = name.chars().take(40).collect();
                        let message = format!("is no quota; there are {known}");
                        return Err(Error::invalid(name, message));
                    }
                }
                Ok(())
            }
        }
    };
}

quotas! {
    /// Requests per second, at each gateway; as many may come at once.
    requests_per_second = "requestsPerSecond";
    /// Commands per second, at each gateway; as many may come at once.
    commands_per_second = "commandsPerSecond";
}

cadre_cluster::stored! { Quotas: "quotas" }

#[cfg(test)]
mod tests {
    use cadre_cluster::codec;

    use super::*;

    /// A change of layout needs a new version and the upgrade from this one.
    #[test]
    fn stored_bytes_stay_readable() {
        let quotas = Quotas { commands_per_second: Some(5), ..Quotas::default() };
        assert_eq!(&codec::encode(&quotas)[..], [1, 0x92, 0xc0, 5]);
        assert_eq!(codec::decode::<Quotas>(&codec::encode(&quotas)), Ok(quotas));
    }

    #[test]
    fn a_quota_is_a_known_name_and_a_number() {
        let mut quotas = Quotas::default();
        for name in Quotas::NAMES {
            quotas.set(name, Some(7)).unwrap();
            assert_eq!(quotas.to_json()[name], 7);
            quotas.set(name, None).unwrap();
        }
        assert_eq!(quotas, Quotas::default());
        assert_eq!(quotas.set("turns", Some(1)).unwrap_err().field(), Some("turns"));
        assert_eq!(
            quotas.set("commandsPerSecond", Some(u64::MAX)).unwrap_err().field(),
            Some("commandsPerSecond")
        );
    }
}
