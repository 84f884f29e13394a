//! Bytes: of a key with one request, and of a logged request.

use std::sync::Arc;

use ratelimit_runtime::Algorithm;

use crate::Failure;
use crate::measure::fill;
use crate::peer::{self, Kind, Peer};
use crate::progress;
use crate::server::Server;
use crate::table::{Table, number, ratio};

/// What one more request adds to a log.
#[derive(Debug, Clone, Copy)]
pub struct PerRequest {
    pub ours: f64,
    pub ours_beyond_128: f64,
    pub article: f64,
    pub article_beyond_128: f64,
}

pub struct Bytes {
    per_key: Vec<(Kind, u64, f64)>,
    pub per_request: PerRequest,
}

impl Bytes {
    pub async fn measure(server: &Server, keys: u64) -> Self {
        let mut per_key = Vec::new();
        for kind in peer::ALL {
            // One of them has no keys, and another takes half a minute for them; the keys of two
            // are not on the server.
            if kind == Kind::Ping || kind == Kind::ActixLimitation || kind.is_in_process() {
                continue;
            }
            progress(format_args!("bytes: {}", kind.name()));
            match bytes_per_key(kind, server, keys).await {
                Ok(bytes) => per_key.push((kind, keys, bytes)),
                Err(error) => progress(format_args!("{}: {error}", kind.name())),
            }
        }
        let ours = |max| (Kind::OnRedis(Algorithm::SlidingWindow), max);
        let article = (Kind::ArticleZset, 100_000);
        let per_request = PerRequest {
            ours: per_request(server, ours(126), 63, 126).await,
            ours_beyond_128: per_request(server, ours(20_000), 1_000, 20_000).await,
            article: per_request(server, article, 63, 126).await,
            article_beyond_128: per_request(server, article, 1_000, 20_000).await,
        };
        Self {
            per_key,
            per_request,
        }
    }

    pub fn report(&self) -> String {
        let article = self
            .per_key
            .iter()
            .find(|(kind, ..)| *kind == Kind::ArticleZset);
        let article = article.map_or(f64::NAN, |(.., bytes)| *bytes);
        let mut table = Table::new(["one request per key", "keys", "bytes per key", "× ZSET Lua"]);
        for (kind, keys, bytes) in &self.per_key {
            table.row([
                kind.name(),
                number(*keys as f64),
                number(*bytes),
                ratio(bytes / article),
            ]);
        }
        let each = self.per_request;
        let mut more = Table::new(["one more request in a log", "this crate", "ZSET Lua", "×"]);
        for (size, ours, article) in [
            ("up to 126", each.ours, each.article),
            (
                "up to 20,000",
                each.ours_beyond_128,
                each.article_beyond_128,
            ),
        ] {
            more.row([
                size.to_owned(),
                number(ours),
                number(article),
                ratio(ours / article),
            ]);
        }
        format!("{table}\n{more}")
    }
}

async fn bytes_per_key(kind: Kind, server: &Server, keys: u64) -> Result<f64, Failure> {
    server.empty()?;
    let peer = Peer::open(kind, server, 100).await?;
    peer.admits("nobody").await?;
    let before = server.used_memory()?;
    fill(Arc::new(peer), keys, 1).await?;
    Ok((server.used_memory()? - before) as f64 / keys as f64)
}

/// Bytes per request between two numbers of requests on one key; not a number if that failed.
async fn per_request(server: &Server, peer: (Kind, u32), from: u32, to: u32) -> f64 {
    slope(server, peer, from, to).await.unwrap_or_else(|error| {
        progress(format_args!("bytes per request: {error}"));
        f64::NAN
    })
}

async fn slope(
    server: &Server,
    (kind, max): (Kind, u32),
    from: u32,
    to: u32,
) -> Result<f64, Failure> {
    server.empty()?;
    let peer = Arc::new(Peer::open(kind, server, max).await?);
    fill(Arc::clone(&peer), 1, from).await?;
    let before = server.bytes_of_the_key()?;
    fill(peer, 1, to - from).await?;
    Ok((server.bytes_of_the_key()? as f64 - before as f64) / f64::from(to - from))
}
