//! [`Sentinels`]: servers that know which server is the master.
//!
//! They are all asked at once, and the first answer counts, so that a dead or a frozen one costs
//! nothing while another one answers. Each counts the fail-overs it has seen, its epoch: an answer
//! of an earlier epoch than one that was heard is outdated, and is used only where the last master
//! known does not say that it is one. Where no sentinel answers, the last master known is taken. In
//! any case the server is asked for its role before it is used.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use redis::{Cmd, Value, from_redis_value_ref};
use tokio::task::JoinSet;

use super::connect::{Connected, connect, log_in};
use super::connection::{Connection, Lost};
use super::pause_until;
use super::probe::Probed;
use crate::error::{StoreError, StoreErrorKind};
use crate::real_time;
use crate::store::redis::errors;
use crate::store::redis::settings::deployment::SentinelNames;
use crate::store::redis::settings::server::{Address, Server, TcpAddress};

/// How long a sentinel may take to answer, connecting included.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(800);
/// How often each is asked while there is a connection to the master.
const ASK_EVERY: Duration = Duration::from_secs(1);

/// The sentinels that watch the master of one name.
pub(crate) struct Sentinels {
    pub(super) names: SentinelNames,
    /// Login and TLS of the master, wherever it is.
    master: Server,
    /// The last answer that was not outdated.
    known: Mutex<Option<SentinelAnswer>>,
}

/// What a sentinel answers about the master.
#[derive(Clone)]
struct SentinelAnswer {
    master: TcpAddress,
    /// Counts fail-overs: of two sentinels that disagree, the one with the higher epoch is right. 0
    /// if the user may not ask for it.
    epoch: u64,
}

/// What one sentinel answers, and the connection that it was asked on.
type Asked = (TcpAddress, Result<(SentinelAnswer, Connection), StoreError>);

impl Sentinels {
    /// All sentinels have the TLS of the master.
    pub(crate) fn new(names: SentinelNames, master: Server) -> Self {
        Self { names, master, known: Mutex::default() }
    }

    fn known(&self) -> MutexGuard<'_, Option<SentinelAnswer>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks all sentinels at once, on these connections or on new ones.
    fn ask_all(&self, mut kept: HashMap<TcpAddress, Connection>) -> JoinSet<Asked> {
        let mut asked = JoinSet::new();
        for address in &self.names.addresses {
            let kept = kept.remove(address).filter(|connection| !connection.has_ended());
            let sentinel = Arc::new(Server { login: self.names.login.clone(), ..self.master.at(address) });
            let (address, name) = (address.clone(), self.names.name.clone());
            asked.spawn(async move { (address, ask(kept, &sentinel, &name).await) });
        }
        asked
    }

    /// Notes what a sentinel answers. Whether that is outdated.
    fn note(&self, answer: &SentinelAnswer) -> bool {
        let mut known = self.known();
        let is_outdated = known.as_ref().is_some_and(|known| answer.epoch < known.epoch);
        if !is_outdated {
            *known = Some(answer.clone());
        }
        is_outdated
    }

    pub(super) async fn connect_to_master(&self, greeting: &[Cmd]) -> Result<Connected, StoreError> {
        let connect = async |master: &TcpAddress| to_master(&Arc::new(self.master.at(master)), greeting).await;
        let (mut outdated, mut failed) = (None::<SentinelAnswer>, None);
        let mut asked = self.ask_all(HashMap::new());
        while let Some(answer) = asked.join_next().await {
            match answer {
                Ok((_, Ok((answer, _)))) => {
                    if !self.note(&answer) {
                        return connect(&answer.master).await;
                    }
                    if outdated.as_ref().is_none_or(|best| best.epoch < answer.epoch) {
                        outdated = Some(answer);
                    }
                }
                Ok((_, Err(error))) if failed.is_none() || error.kind() == StoreErrorKind::Misconfigured => {
                    failed = Some(error);
                }
                _ => {}
            }
        }
        let last = self.known().as_ref().map(|known| known.master.clone());
        let Some(outdated) = outdated else {
            let failed = || failed.unwrap_or_else(|| StoreError::unavailable("no sentinel can be asked"));
            return connect(&last.ok_or_else(failed)?).await;
        };
        if let Some(last) = last.filter(|last| *last != outdated.master) {
            let connected = real_time::timeout_at(Instant::now() + ANSWER_TIMEOUT, connect(&last)).await;
            if let Ok(Ok(connected)) = connected {
                return Ok(connected);
            }
        }
        // Sentinels that were set up anew count from 0.
        *self.known() = Some(outdated.clone());
        connect(&outdated.master).await
    }

    /// Waits until a sentinel says that the master is not this one, but another.
    pub(super) async fn another_than(&self, master: &Address) {
        let mut kept = HashMap::new();
        loop {
            let next = Instant::now() + ASK_EVERY;
            let mut asked = self.ask_all(std::mem::take(&mut kept));
            while let Some(answer) = asked.join_next().await {
                if let Ok((sentinel, Ok((answer, connection)))) = answer {
                    if !self.note(&answer) && Address::Tcp(answer.master) != *master {
                        return;
                    }
                    kept.insert(sentinel, connection);
                }
            }
            pause_until(next).await;
        }
    }
}

/// Connects to a server that says itself that it is a master.
async fn to_master(server: &Arc<Server>, greeting: &[Cmd]) -> Result<Connected, StoreError> {
    match connect(server, greeting).await? {
        (_, Probed::Replica) => Err(StoreError::unavailable("Redis is not the master that Sentinel takes it for")),
        (_, Probed::Serves | Probed::RoleUnknown) => {
            let message = "under Sentinel, the ACL of the Redis user has to allow `ROLE`, by which a server says that it \
                           is the master";
            Err(StoreError::misconfigured(message))
        }
        connected => Ok(connected),
    }
}

/// Asks one sentinel, on this connection or a new one.
async fn ask(
    kept: Option<Connection>,
    sentinel: &Arc<Server>,
    name: &str,
) -> Result<(SentinelAnswer, Connection), StoreError> {
    let ask = async {
        let connection = match kept {
            Some(connection) => connection,
            None => log_in(sentinel).await?,
        };
        let mut question = redis::pipe();
        question.cmd("SENTINEL").arg("GET-MASTER-ADDR-BY-NAME").arg(name).cmd("SENTINEL").arg("MASTER").arg(name);
        let replies = connection.send_all(&question).await;
        let replies = replies.map_err(|Lost| StoreError::unavailable("the connection is closed"))?;
        match replies.as_slice() {
            [Value::ServerError(error), ..] => Err(errors::from_server(error)),
            [Value::Nil, ..] => Err(StoreError::misconfigured(format!("it knows no master by the name of {name:?}"))),
            [address, fields] => {
                let (host, port) = from_redis_value_ref(address).map_err(|_| errors::unexpected_reply())?;
                let fields: HashMap<String, String> = from_redis_value_ref(fields).unwrap_or_default();
                let epoch = fields.get("config-epoch").and_then(|epoch| epoch.parse().ok()).unwrap_or_default();
                Ok((SentinelAnswer { master: TcpAddress { host, port }, epoch }, connection))
            }
            _ => Err(errors::unexpected_reply()),
        }
    };
    let late = || StoreError::unavailable("it does not answer");
    let answer = real_time::timeout_at(Instant::now() + ANSWER_TIMEOUT, ask).await.unwrap_or_else(|_| Err(late()));
    answer.map_err(|error| StoreError::new(error.kind(), format!("the sentinel at {sentinel}: {}", error.message())))
}
