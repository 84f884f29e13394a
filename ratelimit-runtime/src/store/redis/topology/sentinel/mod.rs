//! [`Sentinels`]: servers that know which server is the master.
//!
//! They are all asked at once, and the first answer counts, so that a dead or a frozen one costs
//! nothing while another one answers. Each counts the fail-overs it has seen, its epoch: an answer
//! of an earlier epoch than one that was heard is out of date, and is believed only where the last
//! master known does not say that it is one. Where no sentinel answers, the last master known is
//! taken. In any case the server is asked for its role before it is used.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};

use self::ask::{Line, Said};
use self::known::Known;
use crate::error::{StoreError, StoreErrorKind};
use crate::real_time;
use crate::store::redis::connection::resolve::Resolve;
use crate::store::redis::wire::login::Role;
use crate::store::redis::wire::server::{Connection, Server};

mod ask;
mod known;

#[cfg(any(test, fuzzing))]
pub(crate) fn read(address: &redis::Value, master: &redis::Value, others: &redis::Value) {
    let _ = ask::read(address, master, others);
}

/// How long a sentinel may take to answer, connecting included.
const PATIENCE: Duration = Duration::from_millis(800);
/// How often each is asked while there is a connection to the master.
const EVERY: Duration = Duration::from_secs(1);

/// Who knows where the master of a name is.
pub(crate) struct Sentinels {
    name: String,
    /// Login, TLS and settings of the master, wherever it is.
    master: Server,
    known: Mutex<Known>,
}

/// The master, as the sentinels say.
enum Found {
    Now(Arc<Server>),
    /// Out of date.
    Before {
        epoch: u64,
        master: Arc<Server>,
    },
}

impl Sentinels {
    pub(crate) fn new(name: String, master: Server, seeds: Vec<Server>) -> Self {
        Self { name, master, known: Mutex::new(Known::new(seeds)) }
    }

    pub(crate) fn master(&self) -> &Server {
        &self.master
    }

    pub(super) fn configure_master(&mut self, change: impl Fn(&mut Server)) {
        change(&mut self.master);
        // It has been told where, and not how.
        self.known().master = None;
    }

    #[cfg(feature = "redis-tls")]
    pub(super) fn configure_sentinels(&mut self, change: impl Fn(&mut Server)) {
        self.known().configure(change);
    }

    /// A connection to the master.
    async fn connect_to_master(&self) -> Result<Connection, StoreError> {
        let (epoch, master) = match self.find().await? {
            Found::Now(master) => return master.connect(Role::Master).await,
            Found::Before { epoch, master } => (epoch, master),
        };
        let last = self.known().master.clone();
        if let Some(last) = last.filter(|last| !last.is_where(&master)) {
            let connected = real_time::timeout_at(Instant::now() + PATIENCE, last.connect(Role::Master)).await;
            if let Ok(Ok(connection)) = connected {
                return Ok(connection);
            }
        }
        // Sentinels that were set up anew count from 0.
        self.known().believe(epoch, &master);
        master.connect(Role::Master).await
    }

    /// Where the master is, as the first sentinel says that is up to date.
    async fn find(&self) -> Result<Found, StoreError> {
        let mut asked = JoinSet::new();
        for sentinel in self.sentinels() {
            let name = self.name.clone();
            asked.spawn(async move {
                let ask = async { Line::open(&sentinel).await?.ask(&name).await };
                let answer = real_time::timeout_at(Instant::now() + PATIENCE, ask).await;
                let late = || StoreError::unavailable(format!("the sentinel {sentinel} does not answer"));
                let said = answer.unwrap_or_else(|_| Err(late()))?;
                Ok::<_, StoreError>((sentinel, said))
            });
        }
        let (mut outdated, mut unknown, mut failed) = (None, false, None);
        while let Some(answer) = asked.join_next().await {
            match answer.unwrap_or_else(|_| Err(StoreError::unavailable("asking a sentinel was cut short"))) {
                Ok((sentinel, said)) => match self.hear(&sentinel, said) {
                    Some(Found::Now(master)) => return Ok(Found::Now(master)),
                    Some(Found::Before { epoch, master }) => {
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
            return Ok(Found::Before { epoch, master });
        }
        if unknown {
            let message = format!("no sentinel knows a master by the name of {:?}", self.name);
            return Err(StoreError::misconfigured(message));
        }
        let last = self.known().master.clone().map(Found::Now);
        last.ok_or_else(|| failed.unwrap_or_else(|| StoreError::unavailable("no sentinel can be asked")))
    }

    /// Takes in what a sentinel says; `None` if it knows no master of this name.
    fn hear(&self, sentinel: &Server, said: Said) -> Option<Found> {
        let Said::Master { host, port, epoch, others } = said else { return None };
        let mut known = self.known();
        let is_outdated = epoch < known.epoch;
        known.hear(sentinel, &others, is_outdated, Instant::now());
        let master = Arc::new(self.master.at(&host, port));
        if is_outdated {
            return Some(Found::Before { epoch, master });
        }
        known.believe(epoch, &master);
        Some(Found::Now(master))
    }

    /// Waits until a sentinel says that the master is not this one, but another.
    async fn another_than(&self, master: &Server) {
        let (sender, mut answers) = mpsc::channel(1);
        let mut tasks = JoinSet::new();
        let mut watched: Vec<(Server, AbortHandle)> = Vec::new();
        loop {
            let sentinels = self.sentinels();
            watched.retain(|(server, task)| {
                let is_known = sentinels.iter().any(|sentinel| sentinel.is_where(server));
                if !is_known {
                    task.abort();
                }
                is_known
            });
            for sentinel in sentinels {
                if !watched.iter().any(|(server, _)| server.is_where(&sentinel)) {
                    let task = tasks.spawn(watch(sentinel.clone(), self.name.clone(), sender.clone()));
                    watched.push((sentinel, task));
                }
            }
            while tasks.try_join_next().is_some() {}
            // There is a sender here, so it is never over.
            let Some((sentinel, said)) = answers.recv().await else { continue };
            if matches!(self.hear(&sentinel, said), Some(Found::Now(now)) if !now.is_where(master)) {
                return;
            }
        }
    }

    fn sentinels(&self) -> Vec<Server> {
        self.known().sentinels().cloned().collect()
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whichever server is the master.
impl Resolve for Sentinels {
    /// That of the master: it stays the same wherever the master is.
    fn name(&self) -> String {
        self.name.clone()
    }

    fn connect(self: Arc<Self>) -> Pin<Box<dyn Future<Output = Result<Connection, StoreError>> + Send>> {
        Box::pin(async move { self.connect_to_master().await })
    }

    fn moved_from(self: Arc<Self>, server: Arc<Server>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move { self.another_than(&server).await })
    }
}

impl Clone for Sentinels {
    fn clone(&self) -> Self {
        let known = Mutex::new(self.known().clone());
        Self { name: self.name.clone(), master: self.master.clone(), known }
    }
}

/// Asks one sentinel again and again, on one connection as long as that lasts.
async fn watch(sentinel: Server, name: String, answers: mpsc::Sender<(Server, Said)>) {
    let mut kept = None;
    loop {
        let answer = real_time::timeout_at(Instant::now() + PATIENCE, async {
            let mut line = match kept.take() {
                Some(line) => line,
                None => Line::open(&sentinel).await?,
            };
            Ok::<_, StoreError>((line.ask(&name).await?, line))
        });
        if let Ok(Ok((said, line))) = answer.await {
            kept = Some(line);
            if answers.send((sentinel.clone(), said)).await.is_err() {
                return;
            }
        }
        real_time::sleep(EVERY).await;
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
