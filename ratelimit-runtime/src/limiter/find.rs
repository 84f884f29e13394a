//! Finds the limiter of a check: the one of the task's scope, the thread's default, or the one
//! installed for the whole process.

use std::cell::RefCell;
use std::future::Future;
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

/// The limiter of one scope or default, with a reference counter of its own: one counter for the
/// whole process, which every check would change, would keep cores waiting for each other.
pub(crate) struct Scope(Arc<Engine>);

tokio::task_local! {
    static SCOPED: Arc<Scope>;
}

#[cfg(feature = "_layer")]
tokio::task_local! {
    /// The proxies that the innermost layer around the running code was given, if any was.
    static PROXIES: Option<crate::TrustedProxies>;
}

thread_local! {
    static DEFAULTS: RefCell<Vec<Arc<Scope>>> = const { RefCell::new(Vec::new()) };
}

static INSTALLED: ArcSwapOption<Engine> = ArcSwapOption::const_empty();
static IMPLICIT: OnceCell<Arc<Engine>> = OnceCell::new();

/// The limiter that was found, and the place. It stays alive as long as this value, even if another
/// one is installed or set as the default meanwhile.
pub(crate) enum Found {
    Here(Arc<Scope>),
    Installed(Guard<Option<Arc<Engine>>>),
}

impl Found {
    #[inline]
    pub(crate) fn engine(&self) -> &Arc<Engine> {
        self.explicit().unwrap_or_else(|| implicit())
    }

    /// The limiter; `None` for the implicit one in memory.
    #[inline]
    fn explicit(&self) -> Option<&Arc<Engine>> {
        match self {
            Self::Here(scope) => Some(&scope.0),
            Self::Installed(installed) => installed.as_ref(),
        }
    }
}

/// The limiter for a check made here and now: that of the task, else of the thread, else the
/// installed one, else one in memory.
#[inline]
pub(crate) fn find() -> Found {
    match SCOPED.try_with(Arc::clone) {
        Ok(scope) => Found::Here(scope),
        Err(_) => unscoped(),
    }
}

fn unscoped() -> Found {
    match DEFAULTS.try_with(|defaults| defaults.borrow().last().map(Arc::clone)) {
        Ok(Some(default)) => Found::Here(default),
        _ => Found::Installed(INSTALLED.load()),
    }
}

/// The limiter for a check made here and now, to be kept.
pub(crate) fn current() -> Arc<Engine> {
    Arc::clone(find().engine())
}

/// The responses of the limiter in force; the default without a limiter.
#[cfg(feature = "http")]
pub(crate) fn responses() -> Arc<crate::Responses> {
    let found = find();
    let responses = found.explicit().map(|engine| &engine.responses);
    responses.cloned().unwrap_or_default()
}

/// The proxies that a layer around the running code trusts, or else the limiter in force here; none
/// if there is no limiter.
#[cfg(feature = "http")]
pub(crate) fn trusted_proxies() -> crate::TrustedProxies {
    /// One value, because it remembers what has been logged.
    static NONE: LazyLock<crate::TrustedProxies> = LazyLock::new(Default::default);
    #[cfg(feature = "_layer")]
    if let Some(proxies) = of_layer() {
        return proxies;
    }
    let found = find();
    let proxies = found.explicit().map(|engine| &engine.trusted_proxies);
    proxies.unwrap_or(&NONE).clone()
}

#[cfg(feature = "_layer")]
fn of_layer() -> Option<crate::TrustedProxies> {
    PROXIES.try_with(Clone::clone).ok().flatten()
}

/// Runs a future in which these proxies are trusted; `None` stands for those of a layer further
/// out.
#[cfg(feature = "_layer")]
pub(crate) fn behind<F: Future>(
    proxies: Option<crate::TrustedProxies>,
    future: F,
) -> impl Future<Output = F::Output> {
    PROXIES.scope(proxies.or_else(of_layer), future)
}

/// Runs a closure as [`behind`] runs a future.
#[cfg(feature = "_layer")]
pub(crate) fn behind_now<T>(proxies: Option<crate::TrustedProxies>, work: impl FnOnce() -> T) -> T {
    PROXIES.sync_scope(proxies.or_else(of_layer), work)
}

#[cold]
fn implicit() -> &'static Arc<Engine> {
    let mut is_new = false;
    let engine = IMPLICIT.get_or_init(|| {
        is_new = true;
        Arc::new(Engine::on(MemoryStore::new()))
    });
    // Once it can be found: a subscriber may call a limited function.
    if is_new {
        observe::log::no_limiter();
    }
    engine
}

pub(super) fn install(engine: Arc<Engine>) {
    INSTALLED.store(Some(engine));
}

pub(super) fn scope<F: Future>(engine: Arc<Engine>, future: F) -> Scoped<F> {
    Scoped {
        inner: SCOPED.scope(Arc::new(Scope(engine)), future),
    }
}

/// Runs a closure whose checks use this limiter.
#[cfg(feature = "_layer")]
pub(crate) fn within<T>(engine: Arc<Engine>, work: impl FnOnce() -> T) -> T {
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
    /// The address of the default. It keeps the guard on the thread that set the default.
    default: *const (),
}

fn address(default: &Arc<Scope>) -> *const () {
    Arc::as_ptr(default).cast()
}

pub(super) fn set_default(engine: Arc<Engine>) -> DefaultGuard {
    let default = Arc::new(Scope(engine));
    let guard = DefaultGuard {
        default: address(&default),
    };
    DEFAULTS.with_borrow_mut(|defaults| defaults.push(default));
    guard
}

impl Drop for DefaultGuard {
    fn drop(&mut self) {
        // Guards may be dropped in any order, and at the end of the thread. The limiter is dropped
        // after the borrow.
        let _taken = DEFAULTS.try_with(|defaults| {
            let mut defaults = defaults.borrow_mut();
            defaults
                .iter()
                .position(|default| address(default) == self.default)
                .map(|at| defaults.remove(at))
        });
    }
}
