//! [`Service`]: requests a second and their time as a client of an axum service sees them, whose
//! handler asks a limiter on Redis.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::get;
use ratelimit_runtime::Algorithm;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::histogram::{Histogram, median};
use crate::peer::{Kind, Peer};
use crate::server::Server;
use crate::table::{Table, number, ratio};
use crate::{Failure, progress, runtime};

/// Of the client, which waits for each response before its next request.
pub const CONNECTIONS: [u64; 4] = [4, 16, 64, 256];

/// The keys that requests name in turn.
const USERS: u64 = 20_000;

const MAX: u32 = 100;

const BY_HAND: [Kind; 2] = [Kind::ArticleZset, Kind::ArticleZsetAsMade];
const LOG: Kind = Kind::OnRedis(Algorithm::SlidingWindow);
const SIDES: [Kind; 4] = [
    BY_HAND[0],
    BY_HAND[1],
    LOG,
    Kind::OnRedis(Algorithm::LeakyBucket),
];

/// The medians of one side by one number of connections.
struct Point {
    side: Kind,
    connections: u64,
    per_second: f64,
    p50: f64,
}

pub struct Service {
    points: Vec<Point>,
    failures: BTreeSet<String>,
}

impl Service {
    /// Blocks: the client has a thread of its own, and the service two workers.
    pub fn measure(server: &Server, rounds: usize, time: Duration) -> Self {
        let mut runs = Vec::new();
        for side in SIDES {
            runs.extend(CONNECTIONS.map(|connections| (side, connections, Vec::new())));
        }
        let mut failures = BTreeSet::new();
        for round in 1..=rounds {
            progress(format_args!("service, round {round} of {rounds}"));
            for (side, connections, runs) in &mut runs {
                match run(server, *side, *connections, time) {
                    Ok(run) => runs.push(run),
                    Err(error) => {
                        failures.insert(format!("{}: {error}", side.name()));
                    }
                }
            }
        }
        let points = runs.into_iter().map(|(side, connections, runs)| Point {
            side,
            connections,
            per_second: median(runs.iter().map(|run| run.0).collect()),
            p50: median(runs.iter().map(|run| run.1).collect()),
        });
        Self {
            points: points.collect(),
            failures,
        }
    }

    fn of(&self, side: Kind, connections: u64) -> Option<&Point> {
        let mut points = self.points.iter();
        points.find(|point| point.side == side && point.connections == connections)
    }

    fn rate(&self, side: Kind, connections: u64) -> f64 {
        self.of(side, connections)
            .map_or(f64::NAN, |point| point.per_second)
    }

    /// Of the sliding window, × the better setting of the script by hand.
    pub fn against_by_hand(&self, connections: u64) -> f64 {
        self.against(LOG, connections)
    }

    fn against(&self, side: Kind, connections: u64) -> f64 {
        let [one, other] = BY_HAND.map(|side| self.rate(side, connections));
        self.rate(side, connections) / one.max(other)
    }

    pub fn report(&self) -> String {
        let mut text = String::new();
        for (what, figure) in [
            (
                "requests/s",
                (|point| point.per_second) as fn(&Point) -> f64,
            ),
            ("p50 µs", |point| point.p50),
        ] {
            let head = CONNECTIONS.map(|connections| format!("{connections} connections"));
            let mut table = Table::new(std::iter::once(what.to_owned()).chain(head));
            for side in SIDES {
                let cells = CONNECTIONS.map(|connections| {
                    self.of(side, connections)
                        .map_or(String::new(), |point| number(figure(point)))
                });
                table.row(std::iter::once(side.name()).chain(cells));
            }
            if what == "requests/s" {
                for side in &SIDES[2..] {
                    let cells =
                        CONNECTIONS.map(|connections| ratio(self.against(*side, connections)));
                    let name = format!("{}, × the better ZSET Lua", side.name().replace("**", ""));
                    table.row(std::iter::once(name).chain(cells));
                }
            }
            let _ = writeln!(text, "{table}");
        }
        for failure in &self.failures {
            let _ = writeln!(text, "A round is missing. {failure}\n");
        }
        text
    }
}

/// Requests a second, and p50 in microseconds.
fn run(
    server: &Server,
    side: Kind,
    connections: u64,
    time: Duration,
) -> Result<(f64, f64), Failure> {
    server.empty()?;
    let service = runtime(2)?;
    let address = service.block_on(async {
        let peer = Arc::new(Peer::open(side, server, MAX).await?);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let router = Router::new().route("/{user}", get(answer)).with_state(peer);
        tokio::spawn(async move { axum::serve(listener, router).await });
        Ok::<_, Failure>(address)
    })?;
    let client = std::thread::spawn(move || request(address, connections, time));
    let outcome = client.join().map_err(|_| "the client panicked")?;
    service.shutdown_background();
    outcome
}

async fn answer(
    State(peer): State<Arc<Peer>>,
    Path(user): Path<String>,
) -> (StatusCode, &'static str) {
    match peer.admits(&user).await {
        Ok(true) => (StatusCode::OK, "ok"),
        Ok(false) => (StatusCode::TOO_MANY_REQUESTS, "no"),
        Err(_) => (StatusCode::INTERNAL_SERVER_ERROR, "no"),
    }
}

fn request(address: SocketAddr, connections: u64, time: Duration) -> Result<(f64, f64), Failure> {
    let client = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    client.block_on(async {
        let mut connected = Vec::new();
        for _ in 0..connections {
            let connection = TcpStream::connect(address).await?;
            connection.set_nodelay(true)?;
            connected.push(connection);
        }
        let (mut sum, mut requests) = (Histogram::new(), 0);
        let start = Instant::now();
        let deadline = start + time;
        let connections: Vec<_> = (0..connections)
            .zip(connected)
            .map(|(first, connection)| {
                tokio::spawn(repeat(connection, first, connections, deadline))
            })
            .collect();
        for connection in connections {
            let (took, count) = connection.await??;
            sum.merge(&took);
            requests += count;
        }
        let per_second = requests as f64 / start.elapsed().as_secs_f64();
        Ok((per_second, sum.quantile(0.5) / 1e3))
    })
}

/// Requests on one connection, one after the other.
async fn repeat(
    mut connection: TcpStream,
    first: u64,
    step: u64,
    deadline: Instant,
) -> Result<(Histogram, u64), Failure> {
    let (mut took, mut requests, mut response) = (Histogram::new(), 0, Vec::with_capacity(512));
    let mut user = first;
    while Instant::now() < deadline {
        let request = format!(
            "GET /user{} HTTP/1.1\r\nhost: service\r\n\r\n",
            user % USERS
        );
        let sent = Instant::now();
        connection.write_all(request.as_bytes()).await?;
        response.clear();
        while !response.ends_with(b"\r\n\r\nok") {
            if connection.read_buf(&mut response).await? == 0 || response.ends_with(b"\r\n\r\nno") {
                return Err("a request was not admitted".into());
            }
        }
        took.add(u64::try_from(sent.elapsed().as_nanos())?);
        requests += 1;
        user += step;
    }
    Ok((took, requests))
}
