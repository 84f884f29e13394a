//! Where limiters are put for checks to find: the scope of a task, the default of a thread, the
//! whole process.

use std::cell::RefCell;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
#[cfg(feature = "http")]
use std::sync::LazyLock;
use std::task::{Context, Poll};

use arc_swap::{ArcSwapOption, Guard};
use once_cell::sync::OnceCell;
use pin_project_lite::pin_project;
use tokio::task::futures::TaskLocalFuture;

use crate::engine::Engine;
use crate::observe;
use crate::store::memory::MemoryStore;

/// The limiter of one scope, with a reference counter of its own: one counter for the whole
/// process, which every check would change, would keep cores waiting for each other.
pub(crate) struct Scope(Arc<Engine>);

tokio::task_local! {
    static SCOPED: Arc<Scope>;
}

thread_local! {
    static DEFAULTS: RefCell<Vec<(u64, Arc<Engine>)>> = const { RefCell::new(Vec::new()) };
}

static INSTALLED: ArcSwapOption<Engine> = ArcSwapOption::const_empty();
static IMPLICIT: OnceCell<Arc<Engine>> = OnceCell::new();

/// The limiter that was found, by where. It stays alive as long as this value, even if another one
/// is installed or set as the default meanwhile.
pub(crate) enum Found {
    Scoped(Arc<Scope>),
    Default(Arc<Engine>),
    Installed(Guard<Option<Arc<Engine>>>),
}

impl Found {
    #[inline]
    pub(crate) fn engine(&self) -> &Arc<Engine> {
        match self {
            Self::Scoped(scope) => &scope.0,
            Self::Default(engine) => engine,
            Self::Installed(installed) => installed.as_ref().unwrap_or_else(|| implicit()),
        }
    }
}

/// The limiter for a check made here and now: that of the task, else of the thread, else the
/// installed one, else one in memory.
#[inline]
pub(crate) fn find() -> Found {
    match SCOPED.try_with(Arc::clone) {
        Ok(scope) => Found::Scoped(scope),
        Err(_) => unscoped(),
    }
}

fn unscoped() -> Found {
    let of_thread = DEFAULTS.try_with(|defaults| {
        defaults
            .borrow()
            .last()
            .map(|(_, engine)| Arc::clone(engine))
    });
    match of_thread {
        Ok(Some(engine)) => Found::Default(engine),
        _ => Found::Installed(INSTALLED.load()),
    }
}

/// The limiter for a check made here and now, to be kept.
pub(crate) fn current() -> Arc<Engine> {
    Arc::clone(find().engine())
}

/// How the limiter in force here answers refusals; the default if there is no limiter.
#[cfg(feature = "http")]
pub(crate) fn responses() -> Arc<crate::Responses> {
    setting(|engine| Arc::clone(&engine.responses))
}

/// The proxies that the limiter in force here trusts; none if there is no limiter.
#[cfg(feature = "http")]
pub(crate) fn trusted_proxies() -> crate::TrustedProxies {
    /// One value, because it remembers what has been logged.
    static NONE: LazyLock<crate::TrustedProxies> = LazyLock::new(Default::default);
    setting(|engine| Some(engine.trusted_proxies.clone())).unwrap_or_else(|| NONE.clone())
}

/// A setting of the limiter in force here; the default if that is the implicit one in memory.
#[cfg(feature = "http")]
fn setting<T: Default>(of: impl FnOnce(&Engine) -> T) -> T {
    match find() {
        Found::Installed(installed) => installed
            .as_ref()
            .map(|engine| of(engine))
            .unwrap_or_default(),
        found => of(found.engine()),
    }
}

#[cold]
fn implicit() -> &'static Arc<Engine> {
    IMPLICIT.get_or_init(|| {
        observe::log::no_limiter();
        Arc::new(Engine::on(MemoryStore::new()))
    })
}

pub(super) fn install(engine: Arc<Engine>) {
    INSTALLED.store(Some(engine));
}

pub(super) fn scope<F: Future>(engine: Arc<Engine>, future: F) -> Scoped<F> {
    Scoped {
        inner: SCOPED.scope(Arc::new(Scope(engine)), future),
    }
}

#[cfg(feature = "_layer")]
pub(super) fn within<T>(engine: Arc<Engine>, work: impl FnOnce() -> T) -> T {
    SCOPED.sync_scope(Arc::new(Scope(engine)), work)
}

pin_project! {
    /// A future whose checks use the limiter it was given; made by
    /// [`RateLimiter::scope`](crate::RateLimiter::scope).
    ///
    /// Tasks that it spawns are not part of it.
    #[must_use = "futures do nothing unless awaited"]
    pub struct Scoped<F> {
        #[pin]
        inner: TaskLocalFuture<Arc<Scope>, F>,
    }
}

impl<F: Future> Future for Scoped<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        self.project().inner.poll(cx)
    }
}

impl<F> std::fmt::Debug for Scoped<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Scoped")
    }
}

/// Keeps a limiter as the default of this thread until it is dropped; made by
/// [`RateLimiter::set_default`](crate::RateLimiter::set_default).
#[derive(Debug)]
#[must_use = "the default is taken back when the guard is dropped"]
pub struct DefaultGuard {
    id: u64,
    /// The thread that set the default has to drop the guard.
    not_send: PhantomData<*const ()>,
}

pub(super) fn set_default(engine: Arc<Engine>) -> DefaultGuard {
    DEFAULTS.with_borrow_mut(|defaults| {
        let id = defaults.last().map_or(0, |(id, _)| id + 1);
        defaults.push((id, engine));
        DefaultGuard {
            id,
            not_send: PhantomData,
        }
    })
}

impl Drop for DefaultGuard {
    fn drop(&mut self) {
        let id = self.id;
        // Guards may be dropped in any order, and at the end of the thread. The limiter is dropped
        // after the borrow.
        let _taken = DEFAULTS.try_with(|defaults| {
            let mut defaults = defaults.borrow_mut();
            defaults
                .iter()
                .position(|(at, _)| *at == id)
                .map(|at| defaults.remove(at))
        });
    }
}
