use super::*;

const TIMEOUT: Duration = Duration::from_millis(100);

/// A link whose clock is moved by hand.
struct Clock {
    health: LinkHealth,
    now: Instant,
    last_reply: Instant,
    used: bool,
    wake: Option<Instant>,
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

impl Clock {
    /// Connected, and up for half a second.
    fn up() -> Self {
        let now = Instant::now();
        let mut clock = Self { health: LinkHealth::new(TIMEOUT, now), now, last_reply: now, used: false, wake: None };
        assert_eq!((clock.state(), clock.due()), (LinkState::Connecting, Some(Action::Connect)));
        clock.on(Event::Connected);
        assert_eq!((clock.state(), clock.pass(500)), (LinkState::Up, vec![]));
        clock
    }

    fn state(&self) -> LinkState {
        self.health.state()
    }

    fn on(&mut self, event: Event) {
        if matches!(event, Event::Answered | Event::Busy) {
            self.last_reply = self.now;
        }
        self.health.on(event, self.now);
    }

    fn due(&mut self) -> Option<Action> {
        let (action, wake) = self.health.due(self.now, self.last_reply, self.used);
        self.wake = wake;
        self.used &= action != Some(Action::Ping);
        action
    }

    /// Lets milliseconds pass on a runtime that wakes its tasks in time; gives the actions.
    fn pass(&mut self, millis: u64) -> Vec<Action> {
        let end = self.now + ms(millis);
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

    /// The pause until the next attempt, which begins.
    fn pause(&mut self) -> Duration {
        let since = self.now;
        while self.due() != Some(Action::Connect) {
            self.now = self.wake.unwrap();
        }
        self.now - since
    }
}

#[test]
fn an_attempt_is_waited_for_within_the_timeout_and_further_ones_pause_and_are_not() {
    let mut clock = Clock::up();
    clock.on(Event::Ended);
    assert_eq!((clock.state(), clock.pause()), (LinkState::Connecting, Duration::ZERO));
    assert_eq!((clock.pass(99), clock.state()), (vec![], LinkState::Connecting));
    assert_eq!((clock.pass(2), clock.state()), (vec![], LinkState::Down), "one attempt at a time");
    for longest in [25, 50, 100, 200, 400, 800, 1_000, 1_000] {
        clock.on(Event::Ended);
        let pause = clock.pause();
        assert!((ms(longest / 2)..=ms(longest)).contains(&pause), "{pause:?} of {longest} ms");
        assert_eq!(clock.state(), LinkState::Down);
    }
    clock.on(Event::Connected);
    assert_eq!(clock.state(), LinkState::Up);
    // A connection that ends at once is made again with the next pause, and not waited for.
    clock.pass(10);
    clock.on(Event::Ended);
    assert!(clock.state() == LinkState::Down && clock.pause() >= ms(500));
}

#[test]
fn a_doubt_sends_one_ping_without_whose_answer_it_is_slow_then_down() {
    let mut clock = Clock::up();
    clock.on(Event::Doubt);
    assert_eq!(clock.pass(50), [Action::Ping]);
    clock.on(Event::Doubt);
    clock.on(Event::Answered);
    assert_eq!((clock.pass(800), clock.state()), (vec![], LinkState::Up));
    clock.on(Event::Doubt);
    assert_eq!((clock.pass(99), clock.state()), (vec![Action::Ping], LinkState::Up));
    assert_eq!((clock.pass(1), clock.state()), (vec![], LinkState::Slow));
    // Other replies keep the connection.
    clock.last_reply = clock.now;
    assert_eq!((clock.pass(1_999), clock.state()), (vec![], LinkState::Slow));
    assert_eq!(clock.sleep(ms(1)), Some(Action::HangUp));
    clock.on(Event::Ended);
    assert_eq!((clock.state(), clock.pause()), (LinkState::Down, Duration::ZERO), "no call begins to wait again");
}

#[test]
fn a_slow_server_is_asked_until_it_answers_in_time_and_a_busy_one_each_timeout() {
    let mut clock = Clock::up();
    clock.on(Event::Doubt);
    assert_eq!(clock.pass(300), [Action::Ping]);
    clock.on(Event::Answered);
    assert_eq!((clock.state(), clock.pass(50)), (LinkState::Slow, vec![Action::Ping]), "it came late");
    for _ in 0..3 {
        clock.on(Event::Busy);
        assert_eq!((clock.pass(99), clock.pass(1)), (vec![], vec![Action::Ping]));
        assert_eq!(clock.state(), LinkState::Slow);
    }
    clock.on(Event::Answered);
    assert_eq!(clock.state(), LinkState::Up);
}

#[test]
fn a_connection_in_use_is_pinged_each_second_and_an_idle_one_never() {
    let mut clock = Clock::up();
    assert_eq!(clock.pass(5_000), []);
    clock.used = true;
    assert_eq!(clock.due(), Some(Action::Ping));
    clock.on(Event::Answered);
    clock.used = true;
    assert_eq!((clock.pass(999), clock.pass(1)), (vec![], vec![Action::Ping]));
    // It has the time of a call that waits in vain and of the PING behind it.
    assert_eq!((clock.pass(199), clock.state()), (vec![], LinkState::Up));
    assert_eq!((clock.pass(1), clock.state()), (vec![], LinkState::Slow));
}

#[test]
fn what_a_runtime_slept_does_not_count() {
    let mut clock = Clock::up();
    clock.on(Event::Doubt);
    assert_eq!(clock.due(), Some(Action::Ping));
    assert_eq!((clock.sleep(ms(10_000)), clock.state()), (None, LinkState::Up), "it reads first");
    clock.on(Event::Answered);
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
