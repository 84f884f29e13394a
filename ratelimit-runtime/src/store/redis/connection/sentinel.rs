//! [`Sentinels`]: servers that know which server is the master.
//!
//! They are all asked at once, and the first answer counts, so that a dead or a frozen one costs nothing while another one
//! answers. Each counts the fail-overs it has seen, its epoch: an answer of an earlier epoch than one we have heard is
//! out of date. Where nobody can be asked, the last master known is taken. In any case the server is asked for its role
//! before it is used.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio::task::JoinSet;

use self::ask::{Line, Said};
use super::server::Server;
use crate::error::{StoreError, StoreErrorKind};
use crate::real_time;

mod ask;

#[cfg(any(test, fuzzing))]
pub(super) fn read(address: &redis::Value, master: &redis::Value, others: &redis::Value) {
    let _ = ask::read(address, master, others);
}

/// How long a sentinel may take to answer, connecting included.
const PATIENCE: Duration = Duration::from_millis(800);
/// How often each is asked while there is a connection to the master.
const EVERY: Duration = Duration::from_secs(1);
/// How many are known at most.
const MOST: usize = 16;

/// Who knows where the master of a name is.
pub(in super::super) struct Sentinels {
    name: String,
    /// Login, TLS and settings of the master, wherever it is.
    master: Server,
    known: Mutex<Known>,
}

#[derive(Clone)]
struct Known {
    /// First those of the URL, of which there is at least one, then those they have named.
    sentinels: Vec<Server>,
    /// The last master that was found.
    master: Option<Arc<Server>>,
    /// The highest that was heard of.
    epoch: u64,
}

impl Sentinels {
    /// That of the master.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn new(name: String, master: Server, seeds: Vec<Server>) -> Self {
        Self { name, master, known: Mutex::new(Known { sentinels: seeds, master: None, epoch: 0 }) }
    }

    pub(in super::super) fn master(&self) -> &Server {
        &self.master
    }

    pub(super) fn configure_master(&mut self, change: impl Fn(&mut Server)) {
        change(&mut self.master);
        // It has been told where, and not how.
        self.known().master = None;
    }

    #[cfg(feature = "redis-tls")]
    pub(super) fn configure_sentinels(&mut self, change: impl Fn(&mut Server)) {
        self.known().sentinels.iter_mut().for_each(change);
    }

    /// Where the master is, as far as anybody says.
    pub(super) async fn find(&self) -> Result<Arc<Server>, StoreError> {
        let mut asked = JoinSet::new();
        for sentinel in self.known().sentinels.clone() {
            let name = self.name.clone();
            asked.spawn(async move {
                let ask = async { Line::open(&sentinel).await?.ask(&name).await };
                let answer = real_time::timeout_at(Instant::now() + PATIENCE, ask).await;
                let late = || StoreError::unavailable(format!("the sentinel {sentinel} does not answer"));
                answer.unwrap_or_else(|_| Err(late()))
            });
        }
        let (mut outdated, mut unknown, mut failed) = (None, false, None);
        while let Some(answer) = asked.join_next().await {
            match answer.unwrap_or_else(|_| Err(StoreError::unavailable("asking a sentinel was cut short"))) {
                Ok(Said::Master { host, port, epoch, others }) => {
                    let mut known = self.known();
                    known.learn(others);
                    let master = Arc::new(self.master.at(&host, port));
                    if epoch >= known.epoch {
                        known.epoch = epoch;
                        known.master = Some(Arc::clone(&master));
                        return Ok(master);
                    }
                    if outdated.as_ref().is_none_or(|(best, _)| *best < epoch) {
                        outdated = Some((epoch, master));
                    }
                }
                Ok(Said::Unknown) => unknown = true,
                Err(error) if failed.is_none() || error.kind() == StoreErrorKind::Misconfigured => failed = Some(error),
                Err(_) => {}
            }
        }
        if let Some((epoch, master)) = outdated {
            // They have forgotten: sentinels that were set up anew count from 0.
            self.known().epoch = epoch;
            return Ok(master);
        }
        if unknown {
            let message = format!("no sentinel knows a master by the name of {:?}", self.name);
            return Err(StoreError::misconfigured(message));
        }
        let last = self.known().master.clone();
        last.ok_or_else(|| failed.unwrap_or_else(|| StoreError::unavailable("no sentinel can be asked")))
    }

    /// Waits until a sentinel says that the master is not this one, but another.
    pub(super) async fn moved_from(&self, master: &Server) {
        let (sender, mut answers) = mpsc::channel(1);
        let mut watched = JoinSet::new();
        loop {
            let further: Vec<_> = self.known().sentinels.iter().skip(watched.len()).cloned().collect();
            for sentinel in further {
                watched.spawn(watch(sentinel, self.name.clone(), sender.clone()));
            }
            // There is a sender here, so it is never over.
            let Some(Said::Master { host, port, epoch, others }) = answers.recv().await else { continue };
            let mut known = self.known();
            known.learn(others);
            if epoch >= known.epoch {
                known.epoch = epoch;
                if !master.is_at(&host, port) {
                    return;
                }
            }
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clone for Sentinels {
    fn clone(&self) -> Self {
        let known = Mutex::new(self.known().clone());
        Self { name: self.name.clone(), master: self.master.clone(), known }
    }
}

impl Known {
    fn learn(&mut self, others: Vec<(String, u16)>) {
        for (host, port) in others {
            let Some(seed) = self.sentinels.first() else { return };
            if self.sentinels.len() < MOST && !self.sentinels.iter().any(|known| known.is_at(&host, port)) {
                self.sentinels.push(seed.at(&host, port));
            }
        }
    }
}

/// Asks one sentinel again and again, on one connection as long as that lasts.
async fn watch(sentinel: Server, name: String, answers: mpsc::Sender<Said>) {
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
            if answers.send(said).await.is_err() {
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
        let sentinels: Vec<_> = self.known().sentinels.iter().map(ToString::to_string).collect();
        f.write_str(&sentinels.join(","))
    }
}
