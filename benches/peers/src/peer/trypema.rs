//! trypema: a sliding window of buckets, on Redis.

use std::sync::Arc;

use redis::IntoConnectionInfo as _;
use trypema::redis::{RedisKey, RedisRateLimiterProvider};
use trypema::{BucketSize, RateLimit, RateLimitDecision, RateLimiterBuilder as _, WindowSize};

use crate::Failure;
use crate::server::Server;

pub struct Trypema {
    provider: Arc<RedisRateLimiterProvider>,
    rate: RateLimit,
}

impl Trypema {
    pub async fn open(server: &Server, max: u32) -> Result<Self, Failure> {
        let info = server.url().into_connection_info()?;
        let info = info.set_tcp_settings(redis::io::tcp::TcpSettings::default().set_nodelay(true));
        let connection = redis::Client::open(info)?.get_connection_manager().await?;
        let provider = RedisRateLimiterProvider::builder(connection)
            .window_size(WindowSize::hours_or_panic(1))
            .bucket_size(BucketSize::milliseconds_or_panic(100))
            .disable_cleanup()
            .build()?;
        Ok(Self {
            provider,
            rate: RateLimit::per_hour_or_panic(f64::from(max)),
        })
    }

    pub async fn admits(&self, user: &str) -> Result<bool, Failure> {
        let key = RedisKey::try_from(user)?;
        Ok(matches!(
            self.provider.absolute().inc(&key, &self.rate, 1).await?,
            RateLimitDecision::Allowed
        ))
    }
}
