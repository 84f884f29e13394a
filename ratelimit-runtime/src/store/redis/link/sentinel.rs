//! [`Sentinels`]: servers that know which server is the master.
//!
//! All of them are asked at once, and the first answer whose master can be used counts, so that a
//! dead or frozen sentinel costs nothing while another one answers. Each counts the fail-overs it
//! has seen, its epoch: an answer of an earlier epoch than one seen before is outdated. If all
//! answers are outdated, or none arrives, the last known master is used, and outdated ones only if
//! the last known server cannot be used. In any case the server is asked for its role before it is
//! used.
//!
//! A connected master is left for another of a later epoch only. Sentinels of one epoch that
//! disagree are set up wrongly, and would lead from one to the other and back. Where the user may
//! not ask for the epoch, a master is left once it says itself that it is a replica.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redis::{Pipeline, Value, from_redis_value_ref};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::connect::{Connected, connect, log_in};
use super::connection::Connection;
use super::probe::Probed;
use super::stream::{lead_to_one, within};
use crate::error::{StoreError, StoreErrorKind};
use crate::store::redis::errors;
use crate::store::redis::settings::deployment::SentinelNames;
use crate::store::redis::settings::server::{Address, Server, TcpAddress};

/// The shortest and the longest time that a sentinel has to answer, including connecting.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(800);
const LONGEST_TIMEOUT: Duration = Duration::from_secs(5);
/// The time between two questions to a sentinel while the master is connected.
const ASK_EVERY: Duration = Duration::from_secs(1);

/// The sentinels that watch the master of one name.
pub(crate) struct Sentinels {
    pub(super) names: SentinelNames,
    /// The login and TLS of the master, whatever its address.
    master: Server,
    /// The last answer that was not outdated.
    known: Mutex<Option<SentinelAnswer>>,
    /// The time that sentinels have to answer: twice the time of the last answer on a new
    /// connection, doubled after each time without an answer.
    timeout: Mutex<Duration>,
}

/// A sentinel's answer about the master.
#[derive(Clone)]
struct SentinelAnswer {
    master: TcpAddress,
    /// The count of fail-overs: of two sentinels that disagree, the one with the higher epoch is
    /// right. 0 if the user may not ask for it.
    epoch: u64,
}

/// A sentinel's answer, and the connection on which it was asked.
type SentinelReply = Result<(SentinelAnswer, Connection), StoreError>;

impl Sentinels {
    /// Sentinels that have the TLS of the master.
    pub(crate) fn new(names: SentinelNames, master: Server) -> Self {
        Self {
            names,
            master,
            known: Mutex::default(),
            timeout: Mutex::new(ANSWER_TIMEOUT),
        }
    }

    fn timeout(&self) -> MutexGuard<'_, Duration> {
        self.timeout.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn known(&self) -> MutexGuard<'_, Option<SentinelAnswer>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The sentinels as servers to connect to.
    fn servers(&self) -> impl Iterator<Item = Arc<Server>> {
        let at = |address| Server {
            login: self.names.login.clone(),
            ..self.master.at(address)
        };
        self.names
            .addresses
            .iter()
            .map(move |address| Arc::new(at(address)))
    }

    /// Keeps a sentinel's answer, if it is up to date. `false` if it is outdated.
    fn note(&self, answer: &SentinelAnswer) -> bool {
        let mut known = self.known();
        let is_up_to_date = known
            .as_ref()
            .is_none_or(|known| answer.epoch >= known.epoch);
        if is_up_to_date {
            *known = Some(answer.clone());
        }
        is_up_to_date
    }

    pub(super) async fn connect_to_master(
        &self,
        greeting: Option<&Pipeline>,
    ) -> Result<Connected, StoreError> {
        let connect =
            async |master: &TcpAddress| match connect(&Arc::new(self.master.at(master)), greeting)
                .await?
            {
                (_, Probed::Replica) => Err(StoreError::unavailable(
                    "Redis is not the master that Sentinel takes it for",
                )),
                connected => Ok(connected),
            };
        let (mut tried, mut outdated, mut error) = (Vec::new(), Vec::new(), None);
        let (name, start, timeout) = (&self.names.name, Instant::now(), *self.timeout());
        let mut asked: JoinSet<SentinelReply> = self
            .servers()
            .map(|sentinel| ask(None, sentinel, name.clone(), timeout))
            .collect();
        let mut is_silent = true;
        while let Some(answer) = asked.join_next().await {
            if let Ok(Ok(_)) = answer {
                is_silent = false;
                let twice = 2 * start.elapsed();
                *self.timeout() = twice.clamp(ANSWER_TIMEOUT, LONGEST_TIMEOUT);
            }
            match answer {
                Ok(Ok((answer, _))) if !self.note(&answer) => outdated.push(answer),
                Ok(Ok((answer, _))) if !tried.contains(&answer.master) => {
                    match connect(&answer.master).await {
                        // Another sentinel may know of a fail-over that this one has missed.
                        Err(failed) => error = Some(failed),
                        connected => return connected,
                    }
                    tried.push(answer.master);
                }
                Ok(Err(failed))
                    if error.is_none()
                        || tried.is_empty() && failed.kind() == StoreErrorKind::Misconfigured =>
                {
                    error = Some(failed);
                }
                _ => {}
            }
        }
        if is_silent && start.elapsed() >= timeout {
            *self.timeout() = (2 * timeout).min(LONGEST_TIMEOUT);
        }
        let last = self.known().clone();
        // Sentinels that were set up anew count from 0. Where one goes on naming a server that
        // cannot be used, its answer must not end the connection to another again and again.
        let is_named = |known: &&SentinelAnswer| tried.contains(&known.master);
        let epoch = last
            .as_ref()
            .filter(is_named)
            .map_or(0, |known| known.epoch);
        outdated.sort_by_key(|answer| Reverse(answer.epoch));
        for answer in last.into_iter().chain(outdated) {
            if tried.contains(&answer.master) {
                continue;
            }
            match connect(&answer.master).await {
                Err(failed) => error = Some(failed),
                connected => {
                    let epoch = answer.epoch.max(epoch);
                    *self.known() = Some(SentinelAnswer { epoch, ..answer });
                    return connected;
                }
            }
            tried.push(answer.master);
        }
        Err(error.unwrap_or_else(|| StoreError::unavailable("no sentinel can be asked")))
    }

    /// Waits until a sentinel tells of a fail-over to another master than this one. It may be one
    /// that cannot be reached.
    pub(super) async fn another_than(self: &Arc<Self>, master: &Address) {
        let Address::Tcp(master) = master else {
            debug_assert!(false, "sentinels name hosts and ports");
            return pending().await;
        };
        let names_another = |sentinel| Arc::clone(self).names_another(sentinel, master.clone());
        let mut asking: JoinSet<()> = self.servers().map(names_another).collect();
        asking.join_next().await;
    }

    /// `false` if the server at this address says that it is a replica. A sentinel may be set up
    /// wrongly.
    async fn is_master(&self, at: &TcpAddress) -> bool {
        let connected = connect(&Arc::new(self.master.at(at)), None).await;
        !matches!(connected, Ok((_, Probed::Replica)))
    }

    /// Asks a sentinel every second, until it names another master than this one.
    async fn names_another(self: Arc<Self>, sentinel: Arc<Server>, master: TcpAddress) {
        let mut kept = None::<Connection>;
        loop {
            let next = Instant::now() + ASK_EVERY;
            let open = kept.take().filter(|connection| !connection.has_ended());
            let (name, timeout) = (self.names.name.clone(), *self.timeout());
            if let Ok((answer, connection)) = ask(open, Arc::clone(&sentinel), name, timeout).await
            {
                let is_newer = self
                    .known()
                    .as_ref()
                    .is_none_or(|known| answer.epoch > known.epoch);
                if is_newer && lead_to_one(&answer.master, &master).await {
                    self.note(&answer);
                } else if is_newer && self.is_master(&answer.master).await {
                    self.note(&answer);
                    return;
                }
                kept = Some(connection);
            }
            tokio::time::sleep_until(next).await;
        }
    }
}

/// Asks one sentinel, on the connection `kept` or a new one.
async fn ask(
    kept: Option<Connection>,
    sentinel: Arc<Server>,
    name: String,
    timeout: Duration,
) -> SentinelReply {
    let ask = async {
        let connection = match kept {
            Some(connection) => connection,
            None => log_in(&sentinel).await?,
        };
        let mut question = redis::pipe();
        question
            .cmd("SENTINEL")
            .arg("GET-MASTER-ADDR-BY-NAME")
            .arg(&name)
            .cmd("SENTINEL")
            .arg("MASTER")
            .arg(&name);
        match connection.ask(&question).await?.as_slice() {
            [Value::ServerError(error), ..] => Err(errors::from_server(error)),
            [Value::Nil, ..] => Err(StoreError::misconfigured(format!(
                "it knows no master by the name of {name:?}"
            ))),
            [address, fields] => {
                let (host, port) =
                    from_redis_value_ref(address).map_err(|_| errors::unexpected_reply())?;
                // An error, where the user may not ask for them.
                let fields: HashMap<String, String> =
                    from_redis_value_ref(fields).unwrap_or_default();
                let epoch = fields
                    .get("config-epoch")
                    .and_then(|epoch| epoch.parse().ok())
                    .unwrap_or_default();
                Ok((
                    SentinelAnswer {
                        master: TcpAddress { host, port },
                        epoch,
                    },
                    connection,
                ))
            }
            _ => Err(errors::unexpected_reply()),
        }
    };
    let answer = within(timeout, ask)
        .await
        .unwrap_or_else(|late| Err(StoreError::unavailable(late.to_string())));
    answer.map_err(|error| {
        let message = format!("the sentinel at {sentinel}: {}", error.message());
        error.with_message(message)
    })
}
