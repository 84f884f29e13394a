#![deny(warnings)]

use ratelimit_runtime::{RateLimitError, rate_limit};

macro_rules! algorithms {
    ($($algorithm:literal)*) => {
        #[tokio::test]
        async fn runs() {$({
            #[rate_limit(window = "60s", max = 1, algorithm = $algorithm, name = $algorithm)]
            async fn send() -> Result<(), RateLimitError> {
                Ok(())
            }
            assert!(send().await.is_ok(), $algorithm);
            assert!(send().await.is_err(), $algorithm);
        })*}
    };
}

algorithms!("sliding_window" "sliding_counter" "fixed_window" "token_bucket" "leaky_bucket");
