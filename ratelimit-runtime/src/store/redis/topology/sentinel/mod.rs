//! [`Sentinels`]: servers that know which server is the master.
//!
//! They are all asked at once, and the first answer counts, so that a dead or a frozen one costs
//! nothing while another one answers. Each counts the fail-overs it has seen, its epoch: an answer
//! of an earlier epoch than one that was heard is outdated, and is used only where the last master
//! known does not answer that it is one. Where no sentinel answers, the last master known is taken.
//! In any case the server is asked for its role before it is used.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};

use self::ask::{SentinelAnswer, SentinelConnection};
use self::directory::Directory;
use crate::error::{StoreError, StoreErrorKind};
use crate::real_time;
use crate::store::redis::connection::resolve::Resolve;
use crate::store::redis::wire::login::Role;
use crate::store::redis::wire::server::{Server, Session};

mod ask;
mod directory;

#[cfg(any(test, fuzzing))]
pub(crate) fn read(address: &redis::Value, master: &redis::Value, others: &redis::Value) {
    let _ = ask::read(address, master, others);
}

/// How long a sentinel may take to answer, connecting included.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(800);
/// How often each is asked while there is a connection to the master.
const ASK_EVERY: Duration = Duration::from_secs(1);

/// The sentinels that watch the master of one name.
pub(crate) struct Sentinels {
    name: String,
    /// Login, TLS and settings of the master, wherever it is.
    master: Server,
    directory: Mutex<Directory>,
}

/// Which server the sentinels say is the master.
enum MasterAnswer {
    Current(Arc<Server>),
    Outdated { epoch: u64, master: Arc<Server> },
}

impl Sentinels {
    pub(crate) fn new(name: String, master: Server, seeds: Vec<Server>) -> Self {
        Self { name, master, directory: Mutex::new(Directory::new(seeds)) }
    }

    pub(crate) fn master(&self) -> &Server {
        &self.master
    }

    pub(super) fn configure_master(&mut self, change: impl Fn(&mut Server)) {
        change(&mut self.master);
        // It has the former settings.
        self.directory().master = None;
    }

    #[cfg(feature = "redis-tls")]
    pub(super) fn configure_sentinels(&mut self, change: impl Fn(&mut Server)) {
        self.directory().configure(change);
    }

    /// Connects to the master.
    async fn connect_to_master(&self) -> Result<Session, StoreError> {
        let (epoch, master) = match self.find().await? {
            MasterAnswer::Current(master) => return master.connect(Role::Master).await,
            MasterAnswer::Outdated { epoch, master } => (epoch, master),
        };
        let last = self.directory().master.clone();
        if let Some(last) = last.filter(|last| !last.has_address_of(&master)) {
            let connected = real_time::timeout_at(Instant::now() + ANSWER_TIMEOUT, last.connect(Role::Master)).await;
            if let Ok(Ok(connection)) = connected {
                return Ok(connection);
            }
        }
        // Sentinels that were set up anew count from 0.
        self.directory().set_master(epoch, &master);
        master.connect(Role::Master).await
    }

    /// Asks all sentinels for the master, until one gives an answer that is not outdated.
    async fn find(&self) -> Result<MasterAnswer, StoreError> {
        let mut asked = JoinSet::new();
        for sentinel in self.sentinels() {
            let name = self.name.clone();
            asked.spawn(async move {
                let ask = async { SentinelConnection::open(Arc::clone(&sentinel)).await?.ask(&name).await };
                let answer = real_time::timeout_at(Instant::now() + ANSWER_TIMEOUT, ask).await;
                let late = || StoreError::unavailable(format!("the sentinel {sentinel} does not answer"));
                let answer = answer.unwrap_or_else(|_| Err(late()))?;
                Ok::<_, StoreError>((sentinel, answer))
            });
        }
        let (mut outdated, mut unknown, mut failed) = (None, false, None);
        while let Some(answer) = asked.join_next().await {
            match answer.unwrap_or_else(|_| Err(StoreError::unavailable("asking a sentinel was cut short"))) {
                Ok((sentinel, answer)) => match self.note_answer(&sentinel, answer) {
                    Some(MasterAnswer::Current(master)) => return Ok(MasterAnswer::Current(master)),
                    Some(MasterAnswer::Outdated { epoch, master }) => {
                        if outdated.as_ref().is_none_or(|(best, _)| *best < epoch) {
                            outdated = Some((epoch, master));
                        }
                    }
                    None => unknown = true,
                },
                Err(error) if failed.is_none() || error.kind() == StoreErrorKind::Misconfigured => failed = Some(error),
                Err(_) => {}
            }
        }
        if let Some((epoch, master)) = outdated {
            return Ok(MasterAnswer::Outdated { epoch, master });
        }
        if unknown {
            let message = format!("no sentinel knows a master by the name of {:?}", self.name);
            return Err(StoreError::misconfigured(message));
        }
        let last = self.directory().master.clone().map(MasterAnswer::Current);
        last.ok_or_else(|| failed.unwrap_or_else(|| StoreError::unavailable("no sentinel can be asked")))
    }

    /// Notes what a sentinel answers; `None` if it knows no master of this name.
    fn note_answer(&self, sentinel: &Server, answer: SentinelAnswer) -> Option<MasterAnswer> {
        let SentinelAnswer::Master { host, port, epoch, others } = answer else { return None };
        let mut directory = self.directory();
        let is_outdated = epoch < directory.epoch;
        directory.note_answer(sentinel, &others, is_outdated, Instant::now());
        let master = Arc::new(self.master.at(&host, port));
        if is_outdated {
            return Some(MasterAnswer::Outdated { epoch, master });
        }
        directory.set_master(epoch, &master);
        Some(MasterAnswer::Current(master))
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
            // There is a sender here, so there is always a next one.
            let Some((sentinel, answer)) = answers.recv().await else { continue };
            if matches!(self.note_answer(&sentinel, answer), Some(MasterAnswer::Current(now)) if !now.has_address_of(master))
            {
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

/// Whichever server is the master.
impl Resolve for Sentinels {
    /// The name of the master, which stays the same wherever that is.
    fn name(&self) -> String {
        self.name.clone()
    }

    fn connect(self: Arc<Self>) -> Pin<Box<dyn Future<Output = Result<Session, StoreError>> + Send>> {
        Box::pin(async move { self.connect_to_master().await })
    }

    fn moved_from(self: Arc<Self>, server: Arc<Server>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move { self.another_than(&server).await })
    }
}

impl Clone for Sentinels {
    fn clone(&self) -> Self {
        let directory = Mutex::new(self.directory().clone());
        Self { name: self.name.clone(), master: self.master.clone(), directory }
    }
}

/// Asks one sentinel again and again, on one connection as long as that lasts.
async fn watch(sentinel: Arc<Server>, name: String, answers: mpsc::Sender<(Arc<Server>, SentinelAnswer)>) {
    let mut kept = None;
    loop {
        let answer = real_time::timeout_at(Instant::now() + ANSWER_TIMEOUT, async {
            let mut connection = match kept.take() {
                Some(connection) => connection,
                None => SentinelConnection::open(Arc::clone(&sentinel)).await?,
            };
            Ok::<_, StoreError>((connection.ask(&name).await?, connection))
        });
        if let Ok(Ok((answer, connection))) = answer.await {
            kept = Some(connection);
            if answers.send((Arc::clone(&sentinel), answer)).await.is_err() {
                return;
            }
        }
        real_time::sleep(ASK_EVERY).await;
    }
}

/// The master's name and where the sentinels are: nothing secret.
impl fmt::Display for Sentinels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} by Sentinel at ", self.name)?;
        let sentinels: Vec<_> = self.sentinels().iter().map(ToString::to_string).collect();
        f.write_str(&sentinels.join(","))
    }
}
