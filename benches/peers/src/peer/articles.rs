//! What people paste from articles: a script, sent by hand over the multiplexed connection of
//! redis-rs.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use redis::aio::MultiplexedConnection;
use redis::cluster::ClusterClient;
use redis::cluster_async::ClusterConnection;
use redis::io::tcp::TcpSettings;
use redis::{AsyncConnectionConfig, Cmd, FromRedisValue, IntoConnectionInfo as _};

use crate::Failure;
use crate::server::Server;
use crate::work::{Rate, WINDOW};

/// A sliding window in a sorted set, on the caller's clock.
const ZSET: &str = include_str!("zset.lua");

/// A fixed window in a counter.
const INCR: &str = include_str!("incr.lua");

/// Whether a connection sends at once what it is given, or waits for earlier bytes to be
/// acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoDelay {
    /// TCP_NODELAY is set.
    Set,
    /// As redis-rs makes a connection: it is not.
    AsMade,
}

impl NoDelay {
    fn settings(self) -> TcpSettings {
        TcpSettings::default().set_nodelay(self == Self::Set)
    }
}

/// The connection that all of these use.
#[derive(Clone)]
pub enum Connection {
    Lone(MultiplexedConnection),
    Clustered(ClusterConnection),
}

impl Connection {
    pub async fn open(server: &Server, no_delay: NoDelay) -> Result<Self, Failure> {
        let info = server.url().into_connection_info()?;
        let info = info.set_tcp_settings(no_delay.settings());
        let config = AsyncConnectionConfig::new().set_response_timeout(None);
        Ok(Self::Lone(
            redis::Client::open(info)?
                .get_multiplexed_async_connection_with_config(&config)
                .await?,
        ))
    }

    /// To the Cluster of this server.
    pub async fn of_cluster(server: &Server, no_delay: NoDelay) -> Result<Self, Failure> {
        let nodes = server.addresses().into_iter();
        let nodes = nodes.map(|address| format!("redis://{address}"));
        let client = ClusterClient::builder(nodes)
            .tcp_settings(no_delay.settings())
            .build()?;
        Ok(Self::Clustered(client.get_async_connection().await?))
    }

    pub async fn send<T: FromRedisValue>(&self, command: &Cmd) -> Result<T, Failure> {
        Ok(match self {
            Self::Lone(connection) => command.query_async(&mut connection.clone()).await?,
            Self::Clustered(connection) => command.query_async(&mut connection.clone()).await?,
        })
    }

    pub async fn ping(&self) -> Result<bool, Failure> {
        self.send::<String>(&redis::cmd("PING")).await.map(|_| true)
    }

    async fn load(&self, script: &str) -> Result<String, Failure> {
        self.send(redis::cmd("SCRIPT").arg("LOAD").arg(script))
            .await
    }
}

pub struct Zset {
    connection: Connection,
    sha: String,
    rate: Rate,
    calls: AtomicU64,
}

impl Zset {
    pub async fn open(connection: Connection, rate: Rate) -> Result<Self, Failure> {
        let sha = connection.load(ZSET).await?;
        Ok(Self {
            connection,
            sha,
            rate,
            calls: AtomicU64::new(0),
        })
    }

    pub async fn admits(&self, user: &str) -> Result<bool, Failure> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis() as u64;
        // The better ones make the member unique.
        let member = format!("{now}-{}", self.calls.fetch_add(1, Ordering::Relaxed));
        let mut command = redis::cmd("EVALSHA");
        command.arg(&self.sha).arg(1).arg(format!("rate:{user}"));
        command
            .arg(now)
            .arg(self.rate.window.as_millis() as u64)
            .arg(self.rate.max)
            .arg(member);
        self.connection.send(&command).await
    }
}

pub struct Incr {
    connection: Connection,
    sha: String,
    max: u32,
}

impl Incr {
    pub async fn open(connection: Connection, max: u32) -> Result<Self, Failure> {
        let sha = connection.load(INCR).await?;
        Ok(Self {
            connection,
            sha,
            max,
        })
    }

    pub async fn admits(&self, user: &str) -> Result<bool, Failure> {
        let mut command = redis::cmd("EVALSHA");
        command
            .arg(&self.sha)
            .arg(1)
            .arg(format!("rate:{user}"))
            .arg(WINDOW.as_millis() as u64)
            .arg(self.max);
        self.connection.send(&command).await
    }
}
