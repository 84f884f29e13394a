use super::*;

const TIMEOUT: Duration = Duration::from_millis(100);

/// A link whose clock is moved by hand.
struct Clock {
    health: LinkHealth,
    now: Instant,
    last_byte: Instant,
    used: bool,
    wake: Option<Instant>,
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

impl Clock {
    fn start() -> Self {
        let now = Instant::now();
        Self { health: LinkHealth::new(TIMEOUT, now), now, last_byte: now, used: false, wake: None }
    }

    /// Connected, and up for a second.
    fn up() -> Self {
        let mut clock = Self::start();
        assert_eq!(clock.due(), Some(Action::Connect));
        clock.on(Event::Connected(PingAnswer::Serves));
        assert_eq!((clock.state(), clock.due()), (LinkState::Up, None));
        clock.pass(ms(500));
        clock
    }

    fn state(&self) -> LinkState {
        self.health.state()
    }

    fn on(&mut self, event: Event) {
        self.health.on(event, self.now);
    }

    fn due(&mut self) -> Option<Action> {
        let (action, wake) = self.health.due(self.now, self.last_byte, self.used);
        self.wake = wake;
        if action == Some(Action::Ping) {
            self.used = false;
        }
        action
    }

    /// Lets time pass on a runtime that wakes its tasks in time; gives the actions meanwhile.
    fn pass(&mut self, time: Duration) -> Vec<Action> {
        let end = self.now + time;
        let mut actions = Vec::new();
        loop {
            actions.extend(self.due());
            match self.wake {
                Some(wake) if wake <= end && wake > self.now => self.now = wake,
                _ if self.now == end => return actions,
                _ => self.now = end,
            }
        }
    }

    /// The same on a runtime that stands still.
    fn sleep(&mut self, time: Duration) -> Option<Action> {
        self.now += time;
        self.due()
    }

    fn answer(&mut self, answer: PingAnswer) {
        self.last_byte = self.now;
        self.on(Event::Answered(answer));
    }

    /// A call is sent; how long until the next PING is.
    fn ping_in_use(&mut self) -> Duration {
        let since = self.now;
        self.used = true;
        while self.due() != Some(Action::Ping) {
            self.now += ms(1);
        }
        self.now - since
    }

    /// The pause until the next attempt, which begins.
    fn pause(&mut self) -> Duration {
        let since = self.now;
        while self.due() != Some(Action::Connect) {
            self.now = self.wake.unwrap_or(self.now + ms(5_000));
            assert!(self.now < since + ms(5_000), "there is no attempt");
        }
        self.now - since
    }
}

#[test]
fn the_first_attempt_is_waited_for_and_further_ones_are_not() {
    let mut clock = Clock::start();
    assert_eq!(clock.due(), Some(Action::Connect));
    assert_eq!(clock.state(), LinkState::Connecting);
    assert_eq!(clock.pass(ms(99)), [], "one attempt at a time");
    assert_eq!(clock.state(), LinkState::Connecting);
    assert_eq!(clock.pass(ms(2)), []);
    assert_eq!(clock.state(), LinkState::Down, "calls have waited for as long as they may");
    for (longest, shortest) in [(25, 12), (50, 25), (100, 50), (200, 100), (400, 200), (800, 400), (1_000, 500)] {
        clock.on(Event::Failed);
        let pause = clock.pause();
        assert!((ms(shortest)..=ms(longest)).contains(&pause), "{pause:?} of {longest} ms");
        assert_eq!(clock.state(), LinkState::Down);
    }
    clock.on(Event::Connected(PingAnswer::Serves));
    assert_eq!(clock.state(), LinkState::Up);
}

#[test]
fn a_doubt_sends_one_ping_and_an_answer_ends_it() {
    let mut clock = Clock::up();
    clock.on(Event::Doubt);
    assert_eq!(clock.due(), Some(Action::Ping));
    clock.on(Event::Doubt);
    assert_eq!(clock.pass(ms(99)), []);
    assert_eq!(clock.state(), LinkState::Up);
    clock.answer(PingAnswer::Serves);
    assert_eq!(clock.pass(ms(800)), []);
    assert_eq!(clock.state(), LinkState::Up);
}

#[test]
fn without_an_answer_it_is_slow_then_down() {
    let mut clock = Clock::up();
    clock.on(Event::Doubt);
    assert_eq!(clock.pass(ms(99)), [Action::Ping]);
    assert_eq!(clock.state(), LinkState::Up);
    assert_eq!(clock.pass(ms(1)), []);
    assert_eq!(clock.state(), LinkState::Slow);
    clock.on(Event::Doubt);
    assert_eq!(clock.pass(ms(1_899)), [], "one PING at a time");
    assert_eq!(clock.state(), LinkState::Slow);
    assert_eq!(clock.sleep(ms(1)), Some(Action::HangUp));
    clock.on(Event::Ended);
    assert_eq!(clock.state(), LinkState::Down, "no caller begins to wait again");
    assert_eq!(clock.pause(), Duration::ZERO);
}

#[test]
fn bytes_of_other_replies_keep_a_slow_connection() {
    let mut clock = Clock::up();
    clock.on(Event::Doubt);
    assert_eq!(clock.pass(ms(1_500)), [Action::Ping]);
    clock.last_byte = clock.now;
    assert_eq!(clock.pass(ms(1_999)), []);
    assert_eq!(clock.sleep(ms(1)), Some(Action::HangUp));
}

#[test]
fn a_slow_server_is_asked_again_until_it_answers_in_time() {
    let mut clock = Clock::up();
    clock.on(Event::Doubt);
    assert_eq!(clock.pass(ms(300)), [Action::Ping]);
    clock.answer(PingAnswer::Serves);
    assert_eq!(clock.state(), LinkState::Slow, "it came late");
    assert_eq!(clock.due(), Some(Action::Ping));
    assert_eq!(clock.pass(ms(50)), []);
    clock.answer(PingAnswer::Serves);
    assert_eq!(clock.state(), LinkState::Up);
}

#[test]
fn a_busy_server_is_slow_and_asked_each_timeout() {
    let mut clock = Clock::up();
    clock.on(Event::Doubt);
    assert_eq!(clock.due(), Some(Action::Ping));
    clock.answer(PingAnswer::Busy);
    for _ in 0..3 {
        assert_eq!(clock.state(), LinkState::Slow);
        assert_eq!(clock.pass(ms(99)), []);
        assert_eq!(clock.pass(ms(1)), [Action::Ping]);
        clock.answer(PingAnswer::Busy);
    }
    clock.pass(ms(100));
    clock.answer(PingAnswer::Serves);
    assert_eq!(clock.state(), LinkState::Up);
    // One that is loading when it is connected to.
    let mut clock = Clock::start();
    clock.due();
    clock.on(Event::Connected(PingAnswer::Busy));
    assert_eq!((clock.state(), clock.pass(ms(100))), (LinkState::Slow, vec![Action::Ping]));
}

#[test]
fn a_connection_in_use_is_pinged_each_second_and_an_idle_one_never() {
    let mut clock = Clock::up();
    assert_eq!(clock.pass(ms(5_000)), []);
    for _ in 0..3 {
        let since = clock.ping_in_use();
        clock.pass(ms(1));
        clock.answer(PingAnswer::Serves);
        assert!(since <= ms(1_000), "{since:?}");
    }
    // It has the time of a call that waits in vain and of the PING behind it.
    clock.ping_in_use();
    assert_eq!((clock.pass(ms(199)), clock.state()), (vec![], LinkState::Up));
    clock.pass(ms(1));
    assert_eq!(clock.state(), LinkState::Slow);
}

#[test]
fn a_lost_connection_is_made_again_at_once() {
    let mut clock = Clock::up();
    clock.on(Event::Ended);
    assert_eq!((clock.state(), clock.pause()), (LinkState::Connecting, Duration::ZERO));
    clock.on(Event::Connected(PingAnswer::Serves));
    assert_eq!(clock.state(), LinkState::Up);
}

#[test]
fn connections_that_end_at_once_are_made_again_with_pauses() {
    let mut clock = Clock::up();
    clock.on(Event::Ended);
    for longest in [25, 50, 100, 200] {
        clock.pause();
        clock.on(Event::Connected(PingAnswer::Serves));
        clock.pass(ms(10));
        clock.on(Event::Ended);
        assert_eq!(clock.state(), if longest == 25 { LinkState::Connecting } else { LinkState::Down });
        let next = clock.health.backoff.clone().pause();
        assert!(next <= ms(longest * 2), "{next:?} after {longest} ms");
    }
}

#[test]
fn a_replica_is_down_and_its_name_may_lead_to_another_server() {
    let mut clock = Clock::up();
    clock.on(Event::Failed);
    assert_eq!(clock.state(), LinkState::Down);
    assert!(clock.pause() <= ms(25));
}

#[test]
fn what_a_runtime_slept_does_not_count() {
    let mut clock = Clock::up();
    clock.on(Event::Doubt);
    assert_eq!(clock.due(), Some(Action::Ping));
    assert_eq!(clock.sleep(ms(10_000)), None);
    assert_eq!(clock.state(), LinkState::Up, "what has come meanwhile is read first");
    clock.answer(PingAnswer::Serves);
    assert_eq!((clock.state(), clock.due()), (LinkState::Up, None));
    // One that wakes its tasks late for ever notices yet, and gives up yet.
    clock.on(Event::Doubt);
    assert_eq!(clock.due(), Some(Action::Ping));
    let start = clock.now;
    let hung_up = (0..200).find_map(|_| {
        let late = clock.wake.map_or(ms(10), |wake| wake - clock.now) + ms(10);
        clock.sleep(late)
    });
    assert_eq!((clock.state(), hung_up), (LinkState::Slow, Some(Action::HangUp)));
    assert!(clock.now - start < ms(2_500), "{:?}", clock.now - start);
}
