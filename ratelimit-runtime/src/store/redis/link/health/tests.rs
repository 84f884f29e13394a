use super::*;

const TIMEOUT: Duration = Duration::from_millis(100);

/// A link whose clock is moved by hand.
struct Clock {
    health: LinkHealth,
    now: Instant,
    last_reply: Instant,
    used: bool,
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

impl Clock {
    /// Connected, and up for half a second.
    fn up() -> Self {
        let now = Instant::now();
        let mut clock = Self {
            health: LinkHealth::new(now),
            now,
            last_reply: now,
            used: false,
        };
        clock.health.set_timeout(TIMEOUT);
        clock.passes(0, &[Action::Connect], LinkState::Connecting);
        clock.health.connected(clock.now);
        clock.passes(500, &[], LinkState::Up);
        clock
    }

    /// What is due now, and when to ask again.
    fn due(&mut self) -> (Option<Action>, Option<Instant>) {
        let (action, wake) = self.health.due(self.now, self.last_reply, self.used);
        assert!(
            action == Some(Action::HangUp) || wake.is_none_or(|wake| wake > self.now),
            "without end"
        );
        self.used &= action != Some(Action::Ping);
        (action, wake)
    }

    /// Lets milliseconds pass, in which it is asked again only when it says; gives the actions.
    fn pass(&mut self, millis: u64) -> Vec<Action> {
        let end = self.now + ms(millis);
        let mut actions = Vec::new();
        loop {
            let (action, wake) = self.due();
            actions.extend(action);
            match wake {
                Some(wake) if wake > self.now && wake <= end => self.now = wake,
                _ => break,
            }
        }
        self.now = end;
        actions
    }

    /// Lets milliseconds pass, after which these actions were taken, and this is the state.
    #[track_caller]
    fn passes(&mut self, millis: u64, actions: &[Action], state: LinkState) {
        let passed = (self.pass(millis), self.health.state());
        assert_eq!(passed, (actions.to_vec(), state));
    }

    /// The pause until the next attempt, which begins.
    fn pause(&mut self) -> Duration {
        let since = self.now;
        loop {
            match self.due() {
                (Some(Action::Connect), _) => return self.now - since,
                (_, wake) => self.now = wake.unwrap(),
            }
        }
    }
}

#[test]
fn calls_wait_for_the_first_attempt_to_connect_alone() {
    let mut clock = Clock::up();
    clock.health.ended(clock.now);
    assert_eq!(
        (clock.health.state(), clock.pause()),
        (LinkState::Connecting, Duration::ZERO)
    );
    clock.passes(99, &[], LinkState::Connecting);
    // One attempt at a time.
    clock.passes(1, &[], LinkState::Down);
    for longest in [25, 50, 100, 200, 400, 800, 1_000, 1_000] {
        clock.health.ended(clock.now);
        clock.health.rested(RESTED, clock.now);
        let pause = clock.pause();
        assert!(
            (ms(longest / 2)..=ms(longest)).contains(&pause),
            "{pause:?} of {longest} ms"
        );
        assert_eq!(clock.health.state(), LinkState::Down);
    }
    // Nothing drives an attempt while the runtime rests.
    clock.health.rested(RESTED, clock.now);
    clock.passes(99, &[], LinkState::Connecting);
    clock.passes(1, &[], LinkState::Down);
    clock.health.connected(clock.now);
    clock.passes(10, &[], LinkState::Up);
    // A connection that ends at once is made again with the next pause, and not waited for.
    clock.health.ended(clock.now);
    assert!(clock.health.state() == LinkState::Down && clock.pause() >= ms(500));
}

#[test]
fn a_reply_that_a_resting_runtime_has_not_read_is_not_late() {
    let mut clock = Clock::up();
    clock.health.doubted(clock.now);
    clock.passes(200, &[Action::Ping], LinkState::Slow);
    // This one came late: another is sent at once.
    clock.health.answered(clock.now);
    clock.passes(50, &[Action::Ping], LinkState::Slow);
    clock.now += ms(10_000);
    clock.health.rested(ms(10_000), clock.now);
    clock.health.answered(clock.now);
    clock.passes(0, &[], LinkState::Up);
}

#[test]
fn an_unanswered_ping_makes_a_server_slow_then_down() {
    let mut clock = Clock::up();
    clock.health.doubted(clock.now);
    assert_eq!(clock.pass(50), [Action::Ping]);
    clock.health.doubted(clock.now);
    // It has its time.
    clock.passes(49, &[], LinkState::Up);
    clock.health.answered(clock.now);
    clock.passes(800, &[], LinkState::Up);
    clock.health.doubted(clock.now);
    clock.passes(99, &[Action::Ping], LinkState::Up);
    clock.passes(1, &[], LinkState::Slow);
    clock.pass(50);
    clock.health.answered(clock.now);
    assert_eq!(
        (clock.health.state(), clock.pass(0)),
        (LinkState::Slow, vec![Action::Ping]),
        "it came late"
    );
    // Other replies keep the connection.
    clock.last_reply = clock.now;
    clock.passes(1_999, &[], LinkState::Slow);
    assert_eq!(clock.pass(1), [Action::HangUp]);
    clock.health.ended(clock.now);
    assert_eq!(
        (clock.health.state(), clock.pause()),
        (LinkState::Down, Duration::ZERO),
        "no call begins to wait"
    );
}

#[test]
fn a_connection_in_use_is_pinged_each_second_and_an_idle_one_never() {
    let mut clock = Clock::up();
    assert_eq!(clock.pass(5_000), []);
    clock.used = true;
    assert_eq!(clock.pass(0), [Action::Ping]);
    clock.health.answered(clock.now);
    clock.used = true;
    assert_eq!(
        (clock.pass(999), clock.pass(1)),
        (vec![], vec![Action::Ping])
    );
    // It has the time of a call that waits in vain and of the PING behind it.
    clock.passes(199, &[], LinkState::Up);
    clock.passes(1, &[], LinkState::Slow);
}
