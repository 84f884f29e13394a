//! [`Sentinels`]: servers that know which server is the master: the [`Upstream`] of its link.
//!
//! They are all asked at once, and the first answer counts, so that a dead or a frozen one costs
//! nothing while another one answers. Each counts the fail-overs it has seen, its epoch: an answer
//! of an earlier epoch than one that was heard is outdated, and is used only where the last master
//! known does not say that it is one. Where no sentinel answers, the last master known is taken. In
//! any case the server is asked for its role before it is used.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use redis::Value;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};

use self::answer::SentinelAnswer;
use self::directory::Directory;
use super::errors;
use super::link::{BoxFuture, Connected, Connection, Connector, Lost, Probed, Upstream, pause_until};
use super::settings::deployment::Watched;
use super::settings::server::Server;
use crate::error::{StoreError, StoreErrorKind};
use crate::real_time;

mod answer;
mod directory;

/// How long a sentinel may take to answer, connecting included.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(800);
/// How often each is asked while there is a connection to the master.
const ASK_EVERY: Duration = Duration::from_secs(1);

/// The sentinels that watch the master of one name.
#[derive(Debug)]
pub(crate) struct Sentinels {
    name: String,
    /// Login and TLS of the master, wherever it is.
    master: Server,
    directory: Mutex<Directory>,
}

/// The server that the sentinels say is the master.
enum Found {
    Current(Arc<Server>),
    Outdated { epoch: u64, master: Arc<Server> },
}

impl Sentinels {
    pub(crate) fn new(watched: &Watched) -> Self {
        let Watched { name, master, sentinels } = watched.clone();
        Self { name, master, directory: Mutex::new(Directory::new(sentinels)) }
    }

    async fn connect_to_master(&self, connector: &Connector) -> Result<Connected, StoreError> {
        let (epoch, master) = match self.find().await? {
            Found::Current(master) => return connect(connector, &master).await,
            Found::Outdated { epoch, master } => (epoch, master),
        };
        let last = self.directory().master.clone();
        if let Some(last) = last.filter(|last| !last.has_address_of(&master)) {
            let connected = real_time::timeout_at(Instant::now() + ANSWER_TIMEOUT, connect(connector, &last)).await;
            if let Ok(Ok(connected)) = connected {
                return Ok(connected);
            }
        }
        // Sentinels that were set up anew count from 0.
        self.directory().set_master(epoch, &master);
        connect(connector, &master).await
    }

    /// Asks all sentinels for the master, until one gives an answer that is not outdated.
    async fn find(&self) -> Result<Found, StoreError> {
        let mut asked = JoinSet::new();
        for sentinel in self.sentinels() {
            let name = self.name.clone();
            asked.spawn(async move {
                let answer = ask(&mut None, &sentinel, &name).await?;
                Ok::<_, StoreError>((sentinel, answer))
            });
        }
        let (mut outdated, mut is_unknown, mut failed) = (None, false, None);
        while let Some(answer) = asked.join_next().await {
            match answer.unwrap_or_else(|_| Err(StoreError::unavailable("asking a sentinel was cut short"))) {
                Ok((sentinel, answer)) => match self.note_answer(&sentinel, answer) {
                    Some(Found::Current(master)) => return Ok(Found::Current(master)),
                    Some(Found::Outdated { epoch, master }) => {
                        if outdated.as_ref().is_none_or(|(best, _)| *best < epoch) {
                            outdated = Some((epoch, master));
                        }
                    }
                    None => is_unknown = true,
                },
                Err(error) if failed.is_none() || error.kind() == StoreErrorKind::Misconfigured => failed = Some(error),
                Err(_) => {}
            }
        }
        if let Some((epoch, master)) = outdated {
            return Ok(Found::Outdated { epoch, master });
        }
        if is_unknown {
            let message = format!("no sentinel knows a master by the name of {:?}", self.name);
            return Err(StoreError::misconfigured(message));
        }
        let last = self.directory().master.clone().map(Found::Current);
        last.ok_or_else(|| failed.unwrap_or_else(|| StoreError::unavailable("no sentinel can be asked")))
    }

    /// Notes what a sentinel answers; `None` if it knows no master of this name.
    fn note_answer(&self, sentinel: &Server, answer: SentinelAnswer) -> Option<Found> {
        let SentinelAnswer::Master { host, port, epoch, others } = answer else { return None };
        let mut directory = self.directory();
        let is_outdated = epoch < directory.epoch;
        directory.note_answer(sentinel, &others, is_outdated, Instant::now());
        let master = Arc::new(self.master.at(&host, port));
        if is_outdated {
            return Some(Found::Outdated { epoch, master });
        }
        directory.set_master(epoch, &master);
        Some(Found::Current(master))
    }

    /// Waits until a sentinel says that the master is not this one, but another.
    async fn another_than(&self, master: &Server) {
        let (sender, mut answers) = mpsc::channel(1);
        let mut tasks = JoinSet::new();
        let mut watched: Vec<(Arc<Server>, AbortHandle)> = Vec::new();
        loop {
            let sentinels = self.sentinels();
            watched.retain(|(server, task)| {
                let is_known = sentinels.iter().any(|sentinel| sentinel.has_address_of(server));
                if !is_known {
                    task.abort();
                }
                is_known
            });
            for sentinel in sentinels {
                if !watched.iter().any(|(server, _)| server.has_address_of(&sentinel)) {
                    let task = tasks.spawn(watch(Arc::clone(&sentinel), self.name.clone(), sender.clone()));
                    watched.push((sentinel, task));
                }
            }
            while tasks.try_join_next().is_some() {}
            // There is a sender here, so there is always a next answer.
            let Some((sentinel, answer)) = answers.recv().await else { continue };
            let found = self.note_answer(&sentinel, answer);
            if matches!(found, Some(Found::Current(current)) if !current.has_address_of(master)) {
                return;
            }
        }
    }

    fn sentinels(&self) -> Vec<Arc<Server>> {
        self.directory().sentinels().cloned().map(Arc::new).collect()
    }

    fn directory(&self) -> MutexGuard<'_, Directory> {
        self.directory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Upstream for Sentinels {
    /// The name of the master, which stays the same wherever that is.
    fn name(&self) -> String {
        self.name.clone()
    }

    fn describe(&self, server: &Server) -> String {
        format!("{server} ({self})")
    }

    fn connect(self: Arc<Self>, connector: Connector) -> BoxFuture<Result<Connected, StoreError>> {
        Box::pin(async move { self.connect_to_master(&connector).await })
    }

    fn moved_from(self: Arc<Self>, server: Arc<Server>) -> BoxFuture<()> {
        Box::pin(async move { self.another_than(&server).await })
    }
}

/// The master's name and the addresses of the sentinels: nothing secret.
impl fmt::Display for Sentinels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} by Sentinel at ", self.name)?;
        let sentinels: Vec<_> = self.sentinels().iter().map(ToString::to_string).collect();
        f.write_str(&sentinels.join(","))
    }
}

/// Connects to a server that says itself that it is a master.
async fn connect(connector: &Connector, server: &Arc<Server>) -> Result<Connected, StoreError> {
    match connector.connect(server).await? {
        (_, Probed::Replica) => Err(StoreError::unavailable("Redis is not the master that Sentinel takes it for")),
        (_, Probed::Serves | Probed::RoleUnknown) => {
            let message = "under Sentinel, the ACL of the Redis user has to allow `ROLE`, by which a server says that it \
                           is the master";
            Err(StoreError::misconfigured(message))
        }
        connected => Ok(connected),
    }
}

/// Asks one sentinel again and again, on one connection as long as that lasts.
async fn watch(sentinel: Arc<Server>, name: String, answers: mpsc::Sender<(Arc<Server>, SentinelAnswer)>) {
    let mut kept = None;
    loop {
        let next = Instant::now() + ASK_EVERY;
        if let Ok(answer) = ask(&mut kept, &sentinel, &name).await
            && answers.send((Arc::clone(&sentinel), answer)).await.is_err()
        {
            return;
        }
        pause_until(next).await;
    }
}

/// Asks one sentinel, on the connection that is kept, or a new one, which then is.
async fn ask(kept: &mut Option<Connection>, sentinel: &Arc<Server>, name: &str) -> Result<SentinelAnswer, StoreError> {
    let of = |error: &StoreError, doing: &str| {
        StoreError::new(error.kind(), format!("the sentinel at {sentinel}: {doing}{}", error.message()))
    };
    let last = kept.take().filter(|connection| !connection.has_ended());
    let ask = async {
        let connection = match last {
            Some(connection) => connection,
            // It wakes no link when it ends.
            None => Connector::default().connect_only(sentinel).await.map_err(|error| of(&error, ""))?,
        };
        match connection.send_all(&answer::question(name), 3).await.as_deref() {
            Ok([Value::ServerError(error), ..]) => {
                Err(of(&errors::from_server(error), "SENTINEL GET-MASTER-ADDR-BY-NAME: "))
            }
            Ok([address, master, others]) => match answer::read(address, master, others) {
                Some(answer) => Ok((answer, connection)),
                None => Err(of(&errors::unexpected_reply(), "")),
            },
            Ok(_) => Err(of(&errors::unexpected_reply(), "")),
            Err(Lost) => Err(of(&StoreError::unavailable("the connection is closed"), "")),
        }
    };
    let late = || StoreError::unavailable(format!("the sentinel {sentinel} does not answer"));
    let answered = real_time::timeout_at(Instant::now() + ANSWER_TIMEOUT, ask).await;
    let (answer, connection) = answered.unwrap_or_else(|_| Err(late()))?;
    *kept = Some(connection);
    Ok(answer)
}
