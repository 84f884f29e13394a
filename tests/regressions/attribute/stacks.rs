//! Several attributes that are one guard, however they came to be there: a refused call is charged
//! to none of them.

use ratelimit_runtime::rate_limit as limit;
use ratelimit_runtime::{RateLimitError, rate_limit};

use super::{Outcome, alone};

#[rate_limit(key = "<id>", window = "60s", max = 1)]
#[cfg_attr(all(), rate_limit(window = "60s", max = 2))]
async fn below_in_a_cfg_attr(id: u32) -> Outcome {
    Ok(())
}

#[cfg_attr(all(), rate_limit(key = "<id>", window = "60s", max = 1))]
#[cfg_attr(all(), rate_limit(window = "60s", max = 2))]
async fn both_in_a_cfg_attr(id: u32) -> Outcome {
    Ok(())
}

/// The topmost one knows the other by its name.
#[limit(key = "<id>", window = "60s", max = 1)]
#[rate_limit(window = "60s", max = 2)]
async fn below_another_name(id: u32) -> Outcome {
    Ok(())
}

#[rate_limit(key = "<id>", window = "60s", max = 1)]
#[tracing::instrument]
#[rate_limit(window = "60s", max = 2)]
async fn around_another_attribute(id: u32) -> Outcome {
    Ok(())
}

/// Names for the attribute, and another crate's under ours.
mod named {
    pub(crate) mod limits {
        #[allow(unused_imports, reason = "the attribute above reads the one that is written with this path")]
        pub(crate) use ratelimit_runtime::rate_limit;
    }
    pub(crate) mod another_crate {
        pub(crate) use tracing::instrument as rate_limit;
    }
}

#[rate_limit(key = "<id>", window = "60s", max = 1)]
#[named::limits::rate_limit(window = "60s", max = 2)]
async fn below_under_a_path(id: u32) -> Outcome {
    Ok(())
}

#[named::another_crate::rate_limit(skip_all)]
#[rate_limit(key = "<id>", window = "60s", max = 1)]
#[named::another_crate::rate_limit(level = "debug", skip_all)]
#[rate_limit(window = "60s", max = 2)]
#[named::another_crate::rate_limit]
async fn beside_attributes_of_another_crate(id: u32) -> Outcome {
    Ok(())
}

#[async_trait::async_trait]
trait Send2 {
    #[rate_limit(key = "<id>", window = "60s", max = 1)]
    #[cfg_attr(all(), rate_limit(window = "60s", max = 2))]
    async fn send(&self, id: u32) -> Outcome {
        Ok(())
    }
}

struct Sender;

impl Send2 for Sender {}

#[tokio::test]
async fn they_charge_all_or_none() {
    async fn check(call: impl AsyncFn(u32) -> Result<(), RateLimitError>) {
        alone(async {
            assert!(call(1).await.is_ok());
            for _ in 0..5 {
                assert!(call(1).await.is_err(), "one each");
            }
            assert!(call(2).await.is_ok(), "what was refused is not charged to everybody's limit");
            assert!(call(3).await.is_err(), "two for everybody");
        })
        .await;
    }
    check(below_in_a_cfg_attr).await;
    check(both_in_a_cfg_attr).await;
    check(below_another_name).await;
    check(around_another_attribute).await;
    check(below_under_a_path).await;
    check(beside_attributes_of_another_crate).await;
    check(async |id| Sender.send(id).await).await;
}
