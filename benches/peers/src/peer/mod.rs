//! [`Peer`]: one limiter, ready to be asked; a file for each kind.

use ratelimit_runtime::Algorithm;

use crate::Failure;
use crate::server::Server;
use crate::work::Rate;

mod articles;
mod cell;
mod governor;
mod limitation;
pub mod ours;
mod trypema;

/// Who can be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Ping,
    ArticleZset,
    /// On a connection as redis-rs makes it, without TCP_NODELAY.
    ArticleZsetAsMade,
    /// By the connection of redis-rs to a Cluster.
    ClusteredZset,
    /// The same as redis-rs makes it, without TCP_NODELAY.
    ClusteredZsetAsMade,
    ArticleIncr,
    RedisCell,
    /// On a connection as redis-rs makes it, without TCP_NODELAY.
    RedisCellAsMade,
    OnRedis(Algorithm),
    /// With `prefetch`.
    Prefetching(Algorithm),
    Trypema,
    TrypemaHybrid,
    ActixLimitation,
    Governor,
    InMemory(Algorithm),
}

/// Who is asked about every work. Those that answer from what they were told before have a part of
/// their own.
pub const ALL: [Kind; 16] = [
    Kind::Ping,
    Kind::ArticleZset,
    Kind::ArticleZsetAsMade,
    Kind::ArticleIncr,
    Kind::RedisCell,
    Kind::RedisCellAsMade,
    Kind::OnRedis(Algorithm::SlidingWindow),
    Kind::OnRedis(Algorithm::SlidingCounter),
    Kind::OnRedis(Algorithm::FixedWindow),
    Kind::OnRedis(Algorithm::TokenBucket),
    Kind::OnRedis(Algorithm::LeakyBucket),
    Kind::Trypema,
    Kind::ActixLimitation,
    Kind::Governor,
    Kind::InMemory(Algorithm::SlidingWindow),
    Kind::InMemory(Algorithm::LeakyBucket),
];

impl Kind {
    pub fn name(self) -> String {
        match self {
            Self::Ping => "PING".to_owned(),
            Self::ArticleZset => "the articles' ZSET Lua".to_owned(),
            Self::ArticleZsetAsMade => format!("{}, no TCP_NODELAY", Self::ArticleZset.name()),
            Self::ClusteredZset => format!("{}, `cluster_async`", Self::ArticleZset.name()),
            Self::ClusteredZsetAsMade => {
                format!("{}, no TCP_NODELAY", Self::ClusteredZset.name())
            }
            Self::ArticleIncr => "the articles' INCR Lua".to_owned(),
            Self::RedisCell => "redis-cell".to_owned(),
            Self::RedisCellAsMade => format!("{}, no TCP_NODELAY", Self::RedisCell.name()),
            Self::OnRedis(algorithm) => format!("**this crate**, {algorithm}"),
            Self::Prefetching(algorithm) => format!("**this crate**, {algorithm}, `prefetch`"),
            Self::Trypema => "trypema, on Redis".to_owned(),
            Self::TrypemaHybrid => "trypema, hybrid".to_owned(),
            Self::ActixLimitation => "actix-limitation".to_owned(),
            Self::Governor => "governor, in process".to_owned(),
            Self::InMemory(algorithm) => format!("**this crate**, {algorithm}, in process"),
        }
    }

    pub fn is_in_process(self) -> bool {
        matches!(self, Self::Governor | Self::InMemory(_))
    }
}

/// A limiter of so many calls per key.
#[expect(clippy::large_enum_variant, reason = "there is one at a time")]
pub enum Peer {
    Ping(articles::Connection),
    ArticleZset(articles::Zset),
    ArticleIncr(articles::Incr),
    RedisCell(cell::Cell),
    Ours(ours::Ours),
    Trypema(trypema::Trypema),
    TrypemaHybrid(trypema::Hybrid),
    ActixLimitation(limitation::Limitation),
    Governor(governor::Governor),
}

impl Peer {
    /// Connects, and loads what it needs.
    pub async fn open(kind: Kind, server: &Server, rate: impl Into<Rate>) -> Result<Self, Failure> {
        let rate = rate.into();
        let max = rate.max;
        let connection = || articles::Connection::open(server, articles::NoDelay::Set);
        let as_made = || articles::Connection::open(server, articles::NoDelay::AsMade);
        Ok(match kind {
            Kind::Ping => Self::Ping(connection().await?),
            Kind::ArticleZset => {
                Self::ArticleZset(articles::Zset::open(connection().await?, rate).await?)
            }
            Kind::ArticleZsetAsMade => {
                Self::ArticleZset(articles::Zset::open(as_made().await?, rate).await?)
            }
            Kind::ClusteredZset | Kind::ClusteredZsetAsMade => {
                let no_delay = match kind {
                    Kind::ClusteredZset => articles::NoDelay::Set,
                    _ => articles::NoDelay::AsMade,
                };
                let connection = articles::Connection::of_cluster(server, no_delay).await?;
                Self::ArticleZset(articles::Zset::open(connection, rate).await?)
            }
            Kind::ArticleIncr => {
                Self::ArticleIncr(articles::Incr::open(connection().await?, max).await?)
            }
            Kind::RedisCell => {
                Self::RedisCell(cell::Cell::open(server, connection().await?, rate)?)
            }
            Kind::RedisCellAsMade => {
                Self::RedisCell(cell::Cell::open(server, as_made().await?, rate)?)
            }
            Kind::OnRedis(algorithm) => {
                Self::Ours(ours::Ours::on_redis(server, algorithm, rate).await?)
            }
            Kind::Prefetching(algorithm) => {
                Self::Ours(ours::Ours::with_rule(server, ours::prefetching(algorithm, rate)).await?)
            }
            Kind::InMemory(algorithm) => Self::Ours(ours::Ours::in_memory(algorithm, rate)),
            Kind::Trypema => Self::Trypema(trypema::Trypema::open(server, max).await?),
            Kind::TrypemaHybrid => Self::TrypemaHybrid(trypema::Hybrid::open(server, rate).await?),
            Kind::ActixLimitation => {
                Self::ActixLimitation(limitation::Limitation::open(server, max)?)
            }
            Kind::Governor => Self::Governor(governor::Governor::new(max)),
        })
    }

    /// Asks for one call: whether it is admitted.
    pub async fn admits(&self, user: &str) -> Result<bool, Failure> {
        match self {
            Self::Ping(connection) => connection.ping().await,
            Self::ArticleZset(peer) => peer.admits(user).await,
            Self::ArticleIncr(peer) => peer.admits(user).await,
            Self::RedisCell(peer) => peer.admits(user).await,
            Self::Ours(peer) => peer.admits(user).await,
            Self::Trypema(peer) => peer.admits(user).await,
            Self::TrypemaHybrid(peer) => peer.admits(user).await,
            Self::ActixLimitation(peer) => peer.admits(user).await,
            Self::Governor(peer) => Ok(peer.admits(user)),
        }
    }
}
