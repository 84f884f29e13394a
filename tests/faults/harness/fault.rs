//! [`Fault`]: a fault of a common shape, as a row of a table: how it begins, how it ends, and what
//! callers are to see.

use std::time::Duration;

use ratelimit_runtime::{OnUnavailable, RateLimiterBuilder};
use tokio::time::Instant;

use super::account::{Account, Answered};
use super::left::nothing_is_left_on;
use super::load::{CALLERS, Load, POLICIES};
use super::log::Logged;
use super::row::Row;
use super::runner::Case;
use crate::support::redis::RedisServer;

/// The servers that a fault befalls.
pub(crate) trait World: Sized + 'static {
    /// What it is started with.
    type Setup: Copy + Send + 'static;

    async fn start(setup: Self::Setup) -> Self;

    /// Gives a limiter its store.
    fn store(&self, builder: RateLimiterBuilder) -> RateLimiterBuilder;

    /// On which nothing may be left in the end.
    fn servers(&self) -> Vec<&RedisServer>;

    /// Ends what else uses them.
    async fn end(&mut self) {}
}

/// What callers see of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    /// Calls are answered as each policy says.
    Outage,
    /// Nothing: the store answers.
    Nothing,
    /// Now and then, one of the two.
    Either,
    /// Calls are told of a mistake, in words that hold these.
    Mistake(&'static str),
}

type Act<W> = fn(&mut W);

/// A row of the table.
pub(crate) struct Fault<W: World> {
    name: &'static str,
    pub(crate) says: &'static str,
    setup: W::Setup,
    pub(crate) begins: Act<W>,
    again: Option<(Duration, Act<W>)>,
    pub(crate) lasts: Duration,
    pub(crate) ends: Act<W>,
    pub(crate) within: Duration,
    afterwards: Act<W>,
    then: fn(&W, &Account),
    seen: Seen,
    is_at_the_start: bool,
    pub(crate) forgets: bool,
    has_two_masters: bool,
}

impl<W: World> Fault<W> {
    /// The case of this name, what its row says of it, and how the world is set up.
    pub(crate) fn new(name: &'static str, says: &'static str, setup: W::Setup) -> Self {
        Self {
            name,
            says,
            setup,
            begins: |_| {},
            again: None,
            lasts: Duration::ZERO,
            ends: |_| {},
            within: Duration::from_secs(2),
            afterwards: |_| {},
            then: |_, _| {},
            seen: Seen::Outage,
            is_at_the_start: false,
            forgets: false,
            has_two_masters: false,
        }
    }

    pub(crate) fn begins(self, begins: Act<W>) -> Self {
        Self { begins, ..self }
    }

    /// As long as it lasts, this happens each so many milliseconds.
    pub(crate) fn again(self, millis: u64, again: Act<W>) -> Self {
        Self {
            again: Some((Duration::from_millis(millis), again)),
            ..self
        }
    }

    /// It ends so many milliseconds after it began.
    pub(crate) fn ends(self, millis: u64, ends: Act<W>) -> Self {
        Self {
            lasts: Duration::from_millis(millis),
            ends,
            ..self
        }
    }

    /// Within so many milliseconds after its end the store alone answers; within two seconds unless
    /// said.
    pub(crate) fn within(self, millis: u64) -> Self {
        Self {
            within: Duration::from_millis(millis),
            ..self
        }
    }

    /// What happens once the store answers again.
    pub(crate) fn afterwards(self, afterwards: Act<W>) -> Self {
        Self { afterwards, ..self }
    }

    /// What else has to hold.
    pub(crate) fn then(self, then: fn(&W, &Account)) -> Self {
        Self { then, ..self }
    }

    pub(crate) fn unnoticed(self) -> Self {
        Self {
            seen: Seen::Nothing,
            ..self
        }
    }

    /// Some calls may be answered by policy.
    pub(crate) fn hardly_noticed(self) -> Self {
        Self {
            seen: Seen::Either,
            ..self
        }
    }

    pub(crate) fn told(self, words: &'static str) -> Self {
        Self {
            seen: Seen::Mistake(words),
            ..self
        }
    }

    /// The service starts when it has begun.
    pub(crate) fn at_the_start(self) -> Self {
        Self {
            is_at_the_start: true,
            ..self
        }
    }

    /// What the store has logged is lost, or older than it is.
    pub(crate) fn forgets(self) -> Self {
        Self {
            forgets: true,
            ..self
        }
    }

    /// For a moment there are two masters.
    pub(crate) fn two_masters(self) -> Self {
        Self {
            has_two_masters: true,
            ..self
        }
    }

    /// A case of it, which plays it on a world of its own.
    pub(crate) fn case<P: Future<Output = Row>>(
        self,
        play: impl FnOnce(Self, W) -> P + Send + 'static,
    ) -> Case {
        Case::new(self.name, async move || {
            let world = W::start(self.setup).await;
            let servers = world.servers().into_iter();
            servers.for_each(|server| Logged::forget(&server.address()));
            play(self, world).await
        })
    }

    /// Keeps callers on the world while the fault comes and goes.
    pub(crate) async fn play(self, mut world: W) -> Row {
        let mut load = if self.is_at_the_start {
            (self.begins)(&mut world);
            Load::during_a_fault(|builder| world.store(builder))
        } else {
            let mut load = Load::with(|builder| world.store(builder)).await;
            load.fault();
            if self.forgets {
                load.store_forgets();
            }
            (self.begins)(&mut world);
            load
        };
        let begun = Instant::now();
        let (pause, again) = self.again.unwrap_or((self.lasts, |_| {}));
        while begun.elapsed() < self.lasts {
            again(&mut world);
            load.go_on(pause).await;
        }
        (self.ends)(&mut world);
        load.healed();
        load.recover(self.within).await;
        (self.afterwards)(&mut world);
        load.go_on(Duration::from_millis(200)).await;
        let account = load.end_with(|account| {
            if matches!(self.seen, Seen::Mistake(_)) {
                account.expect_misconfigured();
            }
            if self.has_two_masters {
                account.expect_two_masters();
            }
        });
        let account = account.await;
        match self.seen {
            Seen::Outage => account.assert_felt(),
            Seen::Nothing => account.assert_unnoticed(),
            Seen::Either => {}
            Seen::Mistake(words) => assert_told(&account, words),
        }
        (self.then)(&world, &account);
        world.end().await;
        world
            .servers()
            .into_iter()
            .filter(|server| server.runs())
            .for_each(nothing_is_left_on);
        account.row(self.says)
    }
}

/// A mistake is told as one, whatever the policy.
fn assert_told(account: &Account, words: &str) {
    for policy in POLICIES {
        assert!(
            account.during(policy, Answered::Misconfigured) > 0,
            "under `{policy}` no caller is told of it"
        );
        // But for those who were on their way when the connection ended.
        let unchecked = account.during(policy, Answered::Nobody);
        assert!(
            unchecked <= CALLERS,
            "under `{policy}` a mistake lets {unchecked} calls through"
        );
    }
    let said: Vec<_> = account
        .of(OnUnavailable::Local)
        .filter_map(|call| call.error.as_deref())
        .collect();
    assert!(
        !said.is_empty() && said.iter().all(|error| error.contains(words)),
        "{:?}",
        said.first()
    );
}
