//! [`Connection`]: one connection of the crate `redis`, with its times and its state.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::sync::{self, Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use redis::io::tcp::socket2::Socket;
use redis::{
    AsyncConnectionConfig, Cmd, Pipeline, ProtocolVersion, RedisConnectionInfo, RedisError,
    ServerError, Value,
};
use tokio::sync::{Mutex, Notify, watch};
use tokio::task::AbortHandle;

use super::stream::Opened;
use crate::error::StoreError;
use crate::pace;
use crate::store::redis::errors;
use crate::store::redis::settings::server::Server;

/// The room to send: more than the calls and PINGs that may be in flight, so that none waits for
/// it.
const CHANNEL: usize = 128;
/// The microseconds of round trip for which one more call is kept in flight.
const PER_CALL: u32 = 250;
/// The round trip, in microseconds, below which a server on this machine is near. Then the kernel
/// may hold back writes until the reply to the write before (`TCP_NODELAY` is off): waking the
/// server takes longer than the way to it. *Measured*: 2 and 4 callers made 1.1 to 1.2 times as
/// many decisions a second, 16 and 32 1.3 to 1.5 times; further away, each would wait twice as
/// long.
const NEAR: u32 = 200;
/// The number of further connections.
const OTHERS: usize = 8;
/// The microseconds without a read after which a connection may have ended unnoticed.
const UNREAD_US: u64 = 5_000;

/// A lock that lives while a caller waits for it or has it.
type KeyLock = Weak<Mutex<()>>;
/// The turns of the callers of each key that any wait for.
pub(crate) type KeyTurns = Arc<sync::Mutex<HashMap<Box<[u8]>, KeyLock>>>;

/// The error of a connection that ended before the reply arrived: the command may have run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lost;

/// A connection of the crate `redis`, logged in. Dropping it ends it. Times are in µs since it
/// began.
pub(crate) struct Connection {
    redis: MultiplexedConnection,
    /// The task that drives the connection. It holds the sender of `open`: however it ends, `open`
    /// is closed.
    driver: AbortHandle,
    /// The socket, if the server is on this machine. The driver owns it, and closes it with the
    /// stream.
    socket: Option<Weak<Socket>>,
    /// `true` if the kernel holds back writes.
    gathers: AtomicBool,
    open: watch::Receiver<()>,
    /// The reason why this side ended it.
    cause: OnceLock<StoreError>,
    /// The server at the other end.
    pub(crate) server: Arc<Server>,
    /// The time after which the login expires.
    pub(super) renew_after: Option<Duration>,
    pub(crate) began: Instant,
    last_reply: AtomicU64,
    /// The time at which the newest answered command was sent.
    answered: AtomicU64,
    /// The shortest time between sending and reply.
    round_trip: AtomicU32,
    /// The number of calls numbered so far.
    numbers: AtomicU32,
    /// `true` if a call was sent since the last PING.
    pub(super) used: AtomicBool,
    /// `true` if the next PING asks whether scripts may set expiries.
    pub(super) asks_for_rights: AtomicBool,
    /// Wakes the link's task, to ask the server for its state.
    doubted: Notify,
    /// Further connections to the server, each for one caller at a time.
    others: [Arc<Mutex<Option<Self>>>; OTHERS],
    /// The turns of keys whose callers wait for, or have, one of `others`.
    pub(crate) turns: KeyTurns,
}

impl Connection {
    /// A connection on a stream to the server that is logged in.
    pub(super) async fn new(
        (stream, socket): Opened,
        server: &Arc<Server>,
        renew_after: Option<Duration>,
    ) -> Result<Self, RedisError> {
        // The crate is told of no login, and sends nothing.
        let settings = RedisConnectionInfo::default()
            .set_protocol(ProtocolVersion::RESP2)
            .set_skip_set_lib_name();
        let config = AsyncConnectionConfig::new()
            .set_response_timeout(None)
            .set_connection_timeout(None)
            .set_pipeline_buffer_size(CHANNEL);
        let (redis, driver) =
            MultiplexedConnection::new_with_config(&settings, stream, config).await?;
        let (stays_open, open) = watch::channel(());
        let local = socket.map(Arc::new);
        let socket = local.as_ref().map(Arc::downgrade);
        let driver = tokio::spawn(async move {
            let _stays_open = (stays_open, local);
            driver.await;
        });
        Ok(Self {
            redis,
            driver: driver.abort_handle(),
            socket,
            gathers: AtomicBool::new(false),
            open,
            cause: OnceLock::new(),
            server: Arc::clone(server),
            renew_after,
            began: Instant::now(),
            last_reply: AtomicU64::new(0),
            answered: AtomicU64::new(0),
            round_trip: AtomicU32::new(u32::MAX),
            numbers: AtomicU32::new(0),
            used: AtomicBool::new(false),
            asks_for_rights: AtomicBool::new(false),
            doubted: Notify::new(),
            others: Default::default(),
            turns: KeyTurns::default(),
        })
    }

    /// The further connection at index `which` modulo 8; the first caller that needs it opens it.
    pub(crate) fn beside(&self, which: u16) -> Arc<Mutex<Option<Self>>> {
        let other = self.others.get(usize::from(which) % OTHERS);
        debug_assert!(other.is_some(), "a remainder is below its divisor");
        other.map(Arc::clone).unwrap_or_default()
    }

    /// The number of the next call.
    pub(crate) fn number(&self) -> u32 {
        self.numbers.fetch_add(1, Relaxed)
    }

    /// The calls that may be in flight: two, or as many as the round trip needs, at most 64.
    pub(crate) fn depth(&self) -> usize {
        usize::try_from(self.round_trip.load(Relaxed) / PER_CALL)
            .unwrap_or_default()
            .clamp(2, 64)
    }

    /// The shortest time between sending and reply so far; zero before the first reply.
    pub(super) fn round_trip(&self) -> Duration {
        match self.round_trip.load(Relaxed) {
            u32::MAX => Duration::ZERO,
            micros => Duration::from_micros(micros.into()),
        }
    }

    /// `true` if the server is on this machine, and answers soon.
    pub(crate) fn is_near(&self) -> bool {
        self.socket.is_some() && self.round_trip.load(Relaxed) < NEAR
    }

    /// Sets whether writes to a near server wait for replies to earlier ones, so that they wake it
    /// together.
    pub(crate) fn gather(&self, gathers: bool) {
        if self.is_near()
            && self.gathers.swap(gathers, Relaxed) != gathers
            && let Some(socket) = self.socket.as_ref().and_then(Weak::upgrade)
        {
            // If that fails, calls take longer.
            let _ = socket.set_tcp_nodelay(!gathers);
        }
    }

    fn micros(&self, at: Instant) -> u64 {
        u64::try_from(at.saturating_duration_since(self.began).as_micros()).unwrap_or(u64::MAX)
    }

    pub(super) fn last_reply(&self) -> Instant {
        self.began + Duration::from_micros(self.last_reply.load(Relaxed))
    }

    /// `true` if nothing has been read for so long that the server may have hung up unnoticed.
    pub(crate) fn is_unread(&self, now: Instant) -> bool {
        self.micros(now)
            .saturating_sub(self.last_reply.load(Relaxed))
            > UNREAD_US
    }

    /// Records a call on a further connection, so that the link sends PINGs to the server.
    pub(crate) fn note_use(&self) {
        self.used.store(true, Relaxed);
    }

    /// Sends one command; `sent` is now. An error of the server is returned as a value.
    pub(crate) async fn send(&self, command: &Cmd, sent: Instant) -> Result<Value, Lost> {
        self.note_use();
        let reply = self
            .redis
            .clone()
            .send_packed_command(command)
            .await
            .map_err(|_| Lost)?;
        self.note_answer(sent);
        Ok(reply)
    }

    /// Sends several commands, each behind an `ASKING` or not, and returns a reply to each.
    pub(crate) async fn send_all(
        &self,
        commands: impl IntoIterator<Item = Cmd>,
        asking: bool,
    ) -> Result<Vec<Value>, Lost> {
        let mut pipeline = redis::pipe();
        for command in commands {
            if asking {
                pipeline.cmd("ASKING");
            }
            pipeline.add_command(command);
        }
        self.note_use();
        let replies = self.ask(&pipeline).await.map_err(|_| Lost)?.into_iter();
        let each = 1 + usize::from(asking);
        Ok(replies.skip(each - 1).step_by(each).collect())
    }

    /// Sends commands of the link itself, which are no use of the connection. The error is the
    /// reason why it has ended.
    pub(super) async fn ask(&self, pipeline: &Pipeline) -> Result<Vec<Value>, StoreError> {
        let sent = Instant::now();
        let replies = self
            .redis
            .clone()
            .send_packed_commands(pipeline, 0, pipeline.len())
            .await;
        let replies = replies.map_err(|_| self.cause())?;
        self.note_answer(sent);
        Ok(replies)
    }

    fn note_answer(&self, sent: Instant) {
        let (sent, now) = (self.micros(sent), self.micros(Instant::now()));
        self.answered.fetch_max(sent, Relaxed);
        self.last_reply.store(now, Relaxed);
        let took = u32::try_from(now.saturating_sub(sent)).unwrap_or(u32::MAX);
        let before = self.round_trip.fetch_min(took, Relaxed);
        if took < NEAR && NEAR <= before {
            self.gather(true);
        }
    }

    /// Waits for the reply to a call sent at `sent`, however long that takes. After `time` the link
    /// is doubtful, unless a command sent later was answered: if the caller drops this at a
    /// limiter's timeout, `time` has to be less, half of it.
    pub(crate) async fn awaited<T>(
        &self,
        sent: Instant,
        time: Duration,
        reply: impl Future<Output = T>,
    ) -> T {
        let mut reply = pin!(reply);
        if let Ok(reply) = pace::timeout_at((sent + time).into(), reply.as_mut()).await {
            return reply;
        }
        if self.answered.load(Relaxed) <= self.micros(sent) {
            self.doubted.notify_one();
        }
        reply.await
    }

    /// Handles an error in reply to a call. A connection to a replica ends. A server that is busy
    /// or loading, or no longer knows the login or a right, is sent a PING: the same reply makes it
    /// slow, or begins another connection, which logs in anew.
    pub(crate) fn note(&self, error: &ServerError) {
        if errors::is_replica(error) {
            self.end(errors::replica());
        } else if errors::is_forbidden_to_script(error) {
            self.asks_for_rights.store(true, Relaxed);
            self.doubted.notify_one();
        } else if errors::is_no_service(error) || errors::is_logged_out(error) {
            self.doubted.notify_one();
        }
    }

    /// Waits until the connection has ended, or is doubtful.
    pub(super) async fn told(&self) {
        let mut open = self.open.clone();
        tokio::select! {
            () = self.doubted.notified() => {}
            _ = open.changed() => {}
        }
    }

    /// `true` if the connection has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.open.has_changed().is_err() || self.cause.get().is_some()
    }

    /// The reason why it has ended.
    pub(super) fn cause(&self) -> StoreError {
        self.cause
            .get()
            .cloned()
            .unwrap_or_else(|| StoreError::unavailable("the connection to Redis has ended"))
    }

    /// Ends the connection because a reply does not fit its call: all calls in flight are lost.
    pub(crate) fn hang_up(&self) {
        self.end(StoreError::unavailable(
            "a reply of Redis does not fit its call: the connection was ended",
        ));
    }

    /// Ends the connection for this reason, which callers see before its driver has stopped.
    pub(super) fn end(&self, cause: StoreError) {
        self.cause.get_or_init(|| cause);
        self.driver.abort();
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}
