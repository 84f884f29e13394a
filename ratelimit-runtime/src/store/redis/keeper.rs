//! The keeper of a [`Slot`]: a task on the runtime whose calls use the connection. It connects, waits until the
//! connection is given up, and connects again.
//!
//! Connecting is nobody's request: it has its own time, and a slow handshake is not cut short by requests that give
//! up. The keeper ends with its runtime or its store, or when it has been failing for a minute and nobody asks any
//! more; however it ends, it takes its slot along, and the next call starts another.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use redis::aio::{MultiplexedConnection, SendError};
use redis::{AsyncConnectionConfig, Client, Cmd, ProtocolVersion, PushInfo, PushKind, RedisError, Value};
use tokio::runtime::Handle;
use tokio::sync::watch;

use super::errors;
use super::link::{Health, Shared, Slot, State, Up};
use crate::error::StoreError;

/// For one attempt: looking up the name, connecting, TLS, logging in and the first reply.
const CONNECT: Duration = Duration::from_secs(5);
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// How long it goes on trying for nobody.
const PATIENCE: Duration = Duration::from_secs(60);
/// Callers that may hand over a command before others have to wait for the connection's task.
const QUEUE: usize = 1024;

/// Starts the keeper of a new slot.
pub(super) fn start(runtime: &Handle, shared: &Arc<Shared>, slot: &Arc<Slot>) {
    let states = slot.state.subscribe();
    let keeper = Keeper { shared: Arc::downgrade(shared), slot: Arc::downgrade(slot), client: shared.client.clone() };
    runtime.spawn(async move { keeper.run(states).await });
}

struct Keeper {
    shared: Weak<Shared>,
    slot: Weak<Slot>,
    client: Client,
}

impl Keeper {
    async fn run(&self, mut states: watch::Receiver<State>) {
        let mut pause = FIRST_PAUSE;
        loop {
            let health = Arc::new(Health::new());
            let lasted = match self.connect(&health).await {
                Ok(connection) => self.serve(connection, health, &mut states).await,
                Err(error) => self.fail(error),
            };
            match lasted {
                // It was good for a while, so what ended it may be over already.
                Some(time) if time > LONGEST_PAUSE => pause = FIRST_PAUSE,
                Some(_) if self.stop_waiting() => {
                    tokio::time::sleep(jittered(pause)).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
                _ => return,
            }
        }
    }

    /// Lets the calls use the connection; says for how long that was good, or `None` if the store is gone.
    async fn serve(
        &self,
        connection: MultiplexedConnection,
        health: Arc<Health>,
        states: &mut watch::Receiver<State>,
    ) -> Option<Duration> {
        {
            let slot = self.slot.upgrade()?;
            slot.state.send_replace(State::Up(Up { connection, health: Arc::clone(&health) }));
            if health.closed.load(Ordering::Acquire) {
                slot.lose(&health, State::Connecting);
            }
        }
        let up = Instant::now();
        states.wait_for(|state| !matches!(state, State::Up(_))).await.ok()?;
        self.slot.upgrade()?.want();
        Some(up.elapsed())
    }

    /// Lets the calls know; `None` if nobody has asked for long.
    fn fail(&self, error: StoreError) -> Option<Duration> {
        let slot = self.slot.upgrade()?;
        slot.state.send_replace(State::Failed(error));
        slot.is_wanted(PATIENCE).then_some(Duration::ZERO)
    }

    /// During a pause nobody is left waiting; says whether to go on.
    fn stop_waiting(&self) -> bool {
        let Some(slot) = self.slot.upgrade() else { return false };
        slot.state.send_if_modified(|state| {
            let waiting = matches!(state, State::Connecting);
            if waiting {
                *state = State::Failed(StoreError::unavailable("the connection to Redis was lost; reconnecting"));
            }
            waiting
        });
        true
    }

    async fn connect(&self, health: &Arc<Health>) -> Result<MultiplexedConnection, StoreError> {
        let mut config = AsyncConnectionConfig::new()
            .set_connection_timeout(None)
            .set_response_timeout(None)
            .set_pipeline_buffer_size(QUEUE);
        let info = self.client.get_connection_info();
        if info.redis_settings().protocol() != ProtocolVersion::RESP2 {
            config = config.set_push_sender(self.on_disconnect(health));
        }
        let attempt = async {
            let mut connection = self.client.get_multiplexed_async_connection_with_config(&config).await?;
            let reply = connection.send_packed_command(&ping()).await?;
            Ok::<_, RedisError>((connection, reply))
        };
        let address = info.addr();
        match tokio::time::timeout(CONNECT, attempt).await {
            Ok(Ok((connection, reply))) => serves(&reply).map(|()| connection),
            Ok(Err(error)) => Err(errors::from_client(error, &address.to_string())),
            Err(_) => Err(StoreError::unavailable(format!("no answer from Redis at {address} within {CONNECT:?}"))),
        }
    }

    /// RESP3 connections say when they end, so that the next one is up before the next call.
    fn on_disconnect(&self, health: &Arc<Health>) -> impl Fn(PushInfo) -> Result<(), SendError> + Send + Sync + use<> {
        let (slot, health) = (self.slot.clone(), Arc::downgrade(health));
        move |push| {
            if let (PushKind::Disconnection, Some(health)) = (push.kind, health.upgrade()) {
                health.closed.store(true, Ordering::Release);
                if let Some(slot) = slot.upgrade() {
                    slot.lose(&health, State::Connecting);
                }
            }
            Ok(())
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        if let Some(slot) = self.slot.upgrade() {
            let error = if std::thread::panicking() {
                StoreError::misconfigured(
                    "connecting to Redis panicked: the tokio runtime needs `enable_all()`, and `rediss://` needs a \
                     rustls crypto provider to be installed first",
                )
            } else {
                StoreError::unavailable("the connection to Redis is closed")
            };
            slot.state.send_replace(State::Failed(error));
        }
        if let Some(shared) = self.shared.upgrade() {
            shared.forget(&self.slot);
        }
    }
}

pub(super) fn ping() -> Cmd {
    redis::cmd("PING")
}

/// Whether the reply to a PING is that of a server that serves. A user who may not PING is being served.
pub(super) fn serves(reply: &Value) -> Result<(), StoreError> {
    match reply {
        Value::ServerError(error) if errors::code(error) != "NOPERM" => Err(errors::from_server(error)),
        _ => Ok(()),
    }
}

/// Between half and all of the pause, so that clients that lost one server do not return in step.
fn jittered(pause: Duration) -> Duration {
    let random = RandomState::new().hash_one(0) % 1024;
    pause / 2 + pause / 2 * u32::try_from(random).unwrap_or_default() / 1024
}
