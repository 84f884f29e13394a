//! [`Vitals`]: what a link notes of its connection.

use std::future::Future;
use std::io;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::error::StoreError;

/// How many of the first bytes are kept until the login is done.
const BEGINNING: usize = 512;

/// What is noted of a connection. Times are microseconds since it began.
#[derive(Debug)]
pub(super) struct Vitals {
    /// Wakes the task of the link.
    wake: Arc<Notify>,
    pub(super) began: Instant,
    last_byte: AtomicU64,
    /// When the newest of the commands that were answered was sent.
    answered: AtomicU64,
    /// A call was sent since the last PING.
    pub(super) used: AtomicBool,
    ended: AtomicBool,
    pub(super) doubted: AtomicBool,
    pub(super) is_replica: AtomicBool,
    /// What came first; `None` once the login is done.
    beginning: Mutex<Option<Vec<u8>>>,
    /// Why it has ended: what was noted first.
    cause: OnceLock<(io::ErrorKind, StoreError)>,
}

impl Vitals {
    pub(super) fn new(wake: Arc<Notify>) -> Self {
        Self {
            wake,
            began: Instant::now(),
            last_byte: AtomicU64::new(0),
            answered: AtomicU64::new(0),
            used: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            doubted: AtomicBool::new(false),
            is_replica: AtomicBool::new(false),
            beginning: Mutex::new(Some(Vec::new())),
            cause: OnceLock::new(),
        }
    }

    /// Drives a connection. However that ends, the link is told at once.
    pub(super) async fn watch(self: Arc<Self>, driver: impl Future<Output = ()>) {
        struct Ending(Arc<Vitals>);

        impl Drop for Ending {
            fn drop(&mut self) {
                self.0.tell(&self.0.ended);
            }
        }

        let _ending = Ending(self);
        driver.await;
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Acquire)
    }

    /// Notes why it ends, before its driver is stopped.
    pub(super) fn end(&self, cause: StoreError) {
        self.cause.get_or_init(|| (io::ErrorKind::Other, cause));
        self.tell(&self.ended);
    }

    fn micros(&self, at: Instant) -> u64 {
        u64::try_from(at.saturating_duration_since(self.began).as_micros()).unwrap_or(u64::MAX)
    }

    pub(super) fn last_byte(&self) -> Instant {
        self.began + Duration::from_micros(self.last_byte.load(Relaxed))
    }

    /// Notes that a command was answered which was sent at this moment.
    pub(super) fn note_answer(&self, sent: Instant) {
        self.answered.fetch_max(self.micros(sent), Relaxed);
    }

    /// Whether something that was sent after this moment was answered.
    pub(super) fn has_answered_since(&self, sent: Instant) -> bool {
        self.answered.load(Relaxed) > self.micros(sent)
    }

    /// Sets a flag and wakes the link's task.
    pub(super) fn tell(&self, flag: &AtomicBool) {
        if !flag.swap(true, Release) {
            self.wake.notify_one();
        }
    }

    pub(super) fn note_read(&self, bytes: &[u8]) {
        if bytes.is_empty() {
            let closed = || StoreError::unavailable("Redis has closed the connection");
            self.cause.get_or_init(|| (io::ErrorKind::UnexpectedEof, closed()));
            return;
        }
        self.last_byte.store(self.micros(Instant::now()), Relaxed);
        if let Some(beginning) = &mut *lock(&self.beginning) {
            let left = BEGINNING.saturating_sub(beginning.len());
            beginning.extend(bytes.iter().take(left));
        }
    }

    pub(super) fn note_error(&self, error: &io::Error) {
        let lost = || StoreError::unavailable(format!("the connection to Redis was lost: {error}"));
        self.cause.get_or_init(|| (error.kind(), lost()));
    }

    pub(super) fn cause(&self) -> (io::ErrorKind, StoreError) {
        let closed = || StoreError::unavailable("the connection to Redis is closed");
        self.cause.get().cloned().unwrap_or_else(|| (io::ErrorKind::Other, closed()))
    }

    /// What came first, which is not kept any longer.
    pub(super) fn take_beginning(&self) -> Vec<u8> {
        lock(&self.beginning).take().unwrap_or_default()
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
