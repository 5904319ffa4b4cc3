//! How fast a tenant may ask, at this gateway.
//!
//! A bucket for each tenant holds as many tokens as its quota allows per second, and gets that many back each second. It is
//! this gateway's own: behind several, a tenant may ask as often at each. What is refused here was never begun, so it is no
//! fact, but a 429 that says when to come back, and a metric.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use crate::control::Error;

/// Tenants that are counted at once. One that has asked nothing for a second has a full bucket, which need not be kept.
const COUNTED_MAX: usize = 16_384;

/// What is counted of a tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Rate {
    Requests,
    Commands,
}

impl Rate {
    const fn quota(self) -> &'static str {
        match self {
            Self::Requests => "requestsPerSecond",
            Self::Commands => "commandsPerSecond",
        }
    }
}

#[derive(Default)]
pub(super) struct Limits(Mutex<HashMap<(Rate, String), Bucket>>);

impl Limits {
    /// Counts one more, if there is a limit.
    pub fn take(&self, rate: Rate, tenant: &str, per_second: Option<u64>) -> Result<(), Error> {
        let Some(per_second) = per_second else { return Ok(()) };
        let now = Instant::now();
        let mut buckets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= COUNTED_MAX {
            buckets.retain(|_, bucket| !bucket.is_full(now));
            // More tenants than are counted, all within a second: nobody is refused for that.
            if buckets.len() >= COUNTED_MAX {
                buckets.clear();
            }
        }
        let bucket = buckets.entry((rate, tenant.to_owned())).or_insert(Bucket { debt: 0.0, at: now });
        bucket.take(now, per_second).map_err(|wait| {
            let quota = rate.quota();
            metrics::counter!("cadre_rate_limited_total", "tenant" => tenant.to_owned(), "quota" => quota)
                .increment(1);
            let wait = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).max(1);
            let message = format!("the tenant may send {per_second} {} per second", &quota[..8]);
            Error::rate_limited(wait, message).with("quota", quota).with("limit", per_second)
        })
    }
}

/// What of a second's worth is used up.
#[derive(Debug, Clone, Copy)]
struct Bucket {
    /// In parts of a second's worth: 1 is all of it.
    debt: f64,
    at: Instant,
}

impl Bucket {
    fn take(&mut self, now: Instant, per_second: u64) -> Result<(), Duration> {
        let one = 1.0 / per_second.max(1) as f64;
        let debt = (self.debt - now.duration_since(self.at).as_secs_f64()).max(0.0);
        (self.debt, self.at) = (debt, now);
        if per_second == 0 {
            return Err(Duration::from_secs(60));
        }
        // A little more than all of it is rounding.
        if debt + one > 1.0 + 1e-9 {
            return Err(Duration::from_secs_f64(debt + one - 1.0));
        }
        self.debt += one;
        Ok(())
    }

    fn is_full(&self, now: Instant) -> bool {
        now.duration_since(self.at).as_secs_f64() >= self.debt
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn p8_a_tenant_has_its_rate_and_takes_nothing_from_others() {
        let limits = Limits::default();
        let take = |tenant: &str| limits.take(Rate::Commands, tenant, Some(10));
        let taken = (0..25).filter(|_| take("noisy").is_ok()).count();
        assert_eq!(taken, 10, "a second's worth at once");
        let refused = take("noisy").unwrap_err();
        assert_eq!(refused.details["quota"], "commandsPerSecond");
        assert!((90..=100).contains(&refused.retry_after_ms().unwrap()), "{refused:?}");
        assert_eq!(take("quiet"), Ok(()));
        assert_eq!(limits.take(Rate::Requests, "noisy", Some(10)), Ok(()));
        assert_eq!(limits.take(Rate::Commands, "noisy", None), Ok(()));
        tokio::time::advance(Duration::from_millis(305)).await;
        assert_eq!(
            (0..25).filter(|_| take("noisy").is_ok()).count(),
            3,
            "and three tenths after three tenths"
        );
        tokio::time::advance(Duration::from_secs(3_600)).await;
        assert_eq!((0..25).filter(|_| take("noisy").is_ok()).count(), 10, "never more than a second's worth");
    }

    #[tokio::test(start_paused = true)]
    async fn p9_tenants_that_ask_nothing_are_not_kept() {
        let limits = Limits::default();
        for number in 0..COUNTED_MAX {
            limits.take(Rate::Requests, &number.to_string(), Some(1)).unwrap();
        }
        tokio::time::advance(Duration::from_secs(2)).await;
        limits.take(Rate::Requests, "one more", Some(1)).unwrap();
        assert_eq!(limits.0.lock().unwrap().len(), 1);
        assert!(limits.take(Rate::Requests, "none", Some(0)).is_err());
    }
}
