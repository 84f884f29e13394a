//! The attribute beside others, and several of it on one function.

use ratelimit_runtime::rate_limit;
use tracing::instrument;

use super::{Outcome, alone};

#[rate_limit(key = "<id>", window = "60s", max = 1)]
#[instrument(skip_all, fields(id), err)]
async fn above(id: u32) -> Outcome {
    Ok(())
}

#[instrument(skip_all, fields(id), ret)]
#[rate_limit(key = "<id>", window = "60s", max = 1)]
async fn below(id: u32) -> Outcome {
    Ok(())
}

#[rate_limit(key = "<id>", window = "60s", max = 2)]
#[instrument(skip_all)]
#[rate_limit(window = "60s", max = 1)]
async fn around(id: u32) -> Outcome {
    Ok(())
}

#[cfg_attr(all(), rate_limit(key = "<id>", window = "60s", max = 1))]
async fn by_cfg_attr(id: u32) -> Outcome {
    Ok(())
}

#[async_trait::async_trait]
trait Mail {
    async fn above(&self, to: (u32, &str)) -> Outcome;
    async fn below(&self, to: (u32, &str)) -> Outcome;
}

struct Mailer {
    region: &'static str,
}

#[async_trait::async_trait]
impl Mail for Mailer {
    #[rate_limit(key = "<self.region>:<tenant>:<email>", window = "60s", max = 1)]
    #[instrument(skip_all)]
    async fn above(&self, (tenant, email): (u32, &str)) -> Outcome {
        Ok(())
    }

    #[instrument(skip_all, ret, err)]
    #[rate_limit(key = "<self.region>:<tenant>:<email>", window = "60s", max = 1)]
    async fn below(&self, (tenant, email): (u32, &str)) -> Outcome {
        Ok(())
    }
}

#[tokio::test]
async fn instrument_stands_above_below_and_between() {
    one_each!(above(1), above(2));
    one_each!(below(1), below(2));
    one_each!(by_cfg_attr(1), by_cfg_attr(2));
    let mailer = Mailer { region: "eu" };
    one_each!(mailer.above((1, "a")), mailer.above((2, "a")));
    one_each!(mailer.below((1, "a")), mailer.below((1, "b")));
    alone(async {
        assert!(around(1).await.is_ok());
        assert!(
            around(2).await.is_err(),
            "the attribute below `instrument` was lost"
        );
    })
    .await;
}

/// Sends a code.
#[must_use = "a code that is not read is lost"]
#[inline]
#[allow(
    clippy::needless_pass_by_value,
    reason = "kept, or the deny below is an error"
)]
#[rate_limit(key = "<email>", window = "60s", max = 1)]
#[doc(alias = "mail")]
#[cfg_attr(any(), deprecated)]
async fn send(email: String) -> Outcome {
    #![deny(
        clippy::needless_pass_by_value,
        reason = "inner attributes stay innermost"
    )]
    drop(email);
    Ok(())
}

#[deprecated = "use `send`"]
#[rate_limit(key = "<email>", window = "60s", max = 1)]
async fn old(email: &str) -> Outcome {
    Ok(())
}

#[rate_limit(window = "60s", max = 1)]
#[cfg(any())]
async fn configured_out(gone: Gone) -> Outcome {
    Ok(())
}

#[rate_limit(window = "60s", max = 1)]
#[cfg(not(any()))]
async fn configured_out() -> Outcome {
    Ok(())
}

#[tokio::test]
async fn other_attributes_keep_their_effect() {
    alone(async {
        assert!(send("a".to_owned()).await.is_ok());
        assert!(send("a".to_owned()).await.is_err());
        #[expect(deprecated, reason = "the attribute is kept, so this is expected")]
        let outcome = old("a").await;
        assert!(outcome.is_ok());
        assert!(configured_out().await.is_ok());
        assert!(configured_out().await.is_err());
    })
    .await;
}

#[tokio::test]
async fn functions_inside_functions_have_buckets_of_their_own() {
    #[rate_limit(key = "<id>", window = "60s", max = 1)]
    async fn send(id: u32) -> Outcome {
        Ok(())
    }

    mod other {
        use super::*;

        #[rate_limit(key = "<id>", window = "60s", max = 1)]
        pub(super) async fn send(id: u32) -> Outcome {
            Ok(())
        }
    }

    one_each!(send(1), other::send(1));
}
