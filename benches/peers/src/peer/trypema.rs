//! trypema: a sliding window of buckets, on Redis, or in the process and now and then on Redis.

use std::sync::Arc;

use redis::IntoConnectionInfo as _;
use redis::aio::ConnectionManager;
use trypema::hybrid::HybridRateLimiterProvider;
use trypema::redis::{RedisKey, RedisKeyRef, RedisRateLimiterProvider};
use trypema::{BucketSize, RateLimit, RateLimitDecision, RateLimiterBuilder as _, WindowSize};

use crate::Failure;
use crate::server::Server;
use crate::work::Rate;

pub struct Trypema {
    provider: Arc<RedisRateLimiterProvider>,
    rate: RateLimit,
}

impl Trypema {
    pub async fn open(server: &Server, max: u32) -> Result<Self, Failure> {
        let provider = RedisRateLimiterProvider::builder(connection(server).await?)
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

/// Buckets of 100 ms that are told to Redis every 10 ms, as it is made.
pub struct Hybrid {
    provider: Arc<HybridRateLimiterProvider>,
    rate: RateLimit,
}

impl Hybrid {
    pub async fn open(server: &Server, rate: Rate) -> Result<Self, Failure> {
        let provider = HybridRateLimiterProvider::builder(connection(server).await?)
            .window_size(WindowSize::seconds(rate.window.as_secs())?)
            .disable_cleanup()
            .build()?;
        let per_second = f64::from(rate.max) / rate.window.as_secs_f64();
        Ok(Self {
            provider,
            rate: RateLimit::per_second(per_second)?,
        })
    }

    /// As its documentation says for hot paths: by what is known here, if that is enough.
    pub async fn admits(&self, user: &str) -> Result<bool, Failure> {
        let limiter = self.provider.absolute();
        let decision = match limiter.try_inc(RedisKeyRef::try_from(user)?, 1)? {
            Some(decision) => decision,
            None => {
                limiter
                    .inc(&RedisKey::try_from(user)?, &self.rate, 1)
                    .await?
            }
        };
        Ok(matches!(decision, RateLimitDecision::Allowed))
    }
}

async fn connection(server: &Server) -> Result<ConnectionManager, Failure> {
    let info = server.url().into_connection_info()?;
    let info = info.set_tcp_settings(redis::io::tcp::TcpSettings::default().set_nodelay(true));
    Ok(redis::Client::open(info)?.get_connection_manager().await?)
}
