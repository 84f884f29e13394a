//! [`Proxy`]: a way to a server on which things happen.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use ratelimit_runtime::RedisStore;

use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot, watch};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::random::Random;

/// What is done to a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mischief {
    /// It comes twice.
    Double,
    /// It does not come.
    Lose,
    /// It comes after the one that follows it.
    Swap,
    /// It says nothing.
    Empty,
}

/// A connection that is so young is left in peace, mostly: one that ends at once makes the client
/// wait longer and longer.
const YOUNG: Duration = Duration::from_millis(120);
/// Then one of so many replies is mistreated.
const EVERY: u64 = 40;

/// A TCP proxy on a port of its own, in a thread of its own: whatever keeps a test busy, the proxy
/// goes on. It ends with its last clone, and its connections with it.
#[derive(Clone, Debug)]
pub(crate) struct Proxy {
    port: u16,
    weather: Arc<Weather>,
    _end: Arc<oneshot::Sender<()>>,
}

/// What happens on the way.
#[derive(Debug)]
struct Weather {
    now: Mutex<State>,
    /// How often all connections were reset.
    resets: watch::Sender<u64>,
}

#[derive(Debug, Default)]
#[allow(clippy::struct_excessive_bools, reason = "a switch each")]
struct State {
    server: u16,
    swallows: bool,
    refuses: bool,
    garbles: bool,
    /// How many replies are to be cut.
    cuts: u64,
    /// How many bytes of clients still pass, if not all.
    passes: Option<usize>,
    /// Of each direction.
    delay: Duration,
    accepted: u64,
    /// So many of the first connections lead nowhere.
    forgotten: u64,
    /// Whether replies are told apart, on connections made from now on.
    by_reply: bool,
    mischief: Option<Mischief>,
    mistreated: u64,
    /// Replies to this command are lost.
    unanswered: Option<&'static str>,
    /// What is sent with this command arrives so much later.
    held: Option<(&'static str, Duration)>,
}

impl Weather {
    fn now(&self) -> MutexGuard<'_, State> {
        self.now.lock().unwrap()
    }
}

/// What both directions of a connection know.
#[derive(Debug)]
struct Line {
    weather: Arc<Weather>,
    /// How many there were before it.
    number: u64,
    by_reply: bool,
    since: Instant,
    /// By their places, the commands whose replies are lost.
    unanswered: Mutex<HashSet<u64>>,
}

impl Proxy {
    /// A proxy in front of the server at this port.
    pub(crate) async fn start(server: u16) -> Self {
        let weather = Arc::new(Weather {
            now: Mutex::new(State {
                server,
                ..State::default()
            }),
            resets: watch::Sender::new(0),
        });
        let (end, ended) = oneshot::channel();
        let (bound, port) = oneshot::channel();
        let shared = Arc::clone(&weather);
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async {
                let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
                bound.send(listener.local_addr().unwrap().port()).unwrap();
                tokio::select! {
                    () = accept(listener, shared) => {}
                    _ = ended => {}
                }
            });
        });
        Self {
            port: port.await.unwrap(),
            weather,
            _end: Arc::new(end),
        }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// `127.0.0.1:<port>`
    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    pub(crate) fn store(&self) -> RedisStore {
        RedisStore::new(&self.url()).unwrap()
    }

    /// New connections go to the server at this port, as if a name led elsewhere.
    pub(crate) fn lead_to(&self, server: u16) {
        self.weather.now().server = server;
    }

    /// Whether from now on everything is lost that is sent, in both directions. New connections are
    /// accepted, and hear nothing.
    pub(crate) fn swallow(&self, on: bool) {
        self.weather.now().swallows = on;
    }

    /// Everything is lost from now on that is sent on the connections there are; new ones are as
    /// they should be.
    pub(crate) fn forget_all(&self) {
        let mut now = self.weather.now();
        now.forgotten = now.accepted;
    }

    /// How long each direction takes.
    pub(crate) fn delay(&self, each_way: Duration) {
        self.weather.now().delay = each_way;
    }

    /// Whether from now on replies arrive as something else.
    pub(crate) fn garble(&self, on: bool) {
        self.weather.now().garbles = on;
    }

    /// The next so many replies are cut in the middle, and their connections closed.
    pub(crate) fn cut_replies(&self, count: u64) {
        self.weather.now().cuts = count;
    }

    /// All connections end once clients have sent so many bytes more, and the rest does not arrive.
    pub(crate) fn cut_after(&self, bytes: Option<usize>) {
        self.weather.now().passes = bytes;
    }

    /// Resets all connections there are, as a firewall does.
    pub(crate) fn reset_all(&self) {
        self.weather.resets.send_modify(|resets| *resets += 1);
    }

    /// Whether new connections are reset as soon as they are made.
    pub(crate) fn refuse(&self, on: bool) {
        self.weather.now().refuses = on;
    }

    /// Whether from now on some replies are mistreated, on connections that are made after the
    /// first call of this.
    pub(crate) fn mistreat(&self, mischief: Option<Mischief>) {
        let mut now = self.weather.now();
        (now.by_reply, now.mischief) = (true, mischief);
    }

    /// How many replies were mistreated so far.
    pub(crate) fn mistreated(&self) -> u64 {
        self.weather.now().mistreated
    }

    /// Whether from now on replies to this command are lost, on connections that are made after the
    /// first call of this.
    pub(crate) fn leave_unanswered(&self, command: Option<&'static str>) {
        let mut now = self.weather.now();
        (now.by_reply, now.unanswered) = (true, command);
    }

    /// What clients send together with this command, or operation of a script, takes so much longer
    /// from now on.
    pub(crate) fn hold(&self, held: Option<(&'static str, Duration)>) {
        self.weather.now().held = held;
    }

    /// How many connections were accepted so far.
    pub(crate) fn accepted(&self) -> u64 {
        self.weather.now().accepted
    }
}

async fn accept(listener: TcpListener, weather: Arc<Weather>) {
    while let Ok((client, _)) = listener.accept().await {
        let (number, refuses, port, by_reply) = {
            let mut now = weather.now();
            now.accepted += 1;
            (now.accepted - 1, now.refuses, now.server, now.by_reply)
        };
        if refuses {
            let _ = client.set_zero_linger();
            continue;
        }
        // Nobody is there: the client is hung up on.
        let Ok(server) = TcpStream::connect(("127.0.0.1", port)).await else {
            continue;
        };
        client.set_nodelay(true).unwrap();
        server.set_nodelay(true).unwrap();
        let ((from_client, to_client), (from_server, to_server)) =
            (client.into_split(), server.into_split());
        let line = Arc::new(Line {
            by_reply,
            weather: Arc::clone(&weather),
            number,
            since: Instant::now(),
            unanswered: Mutex::default(),
        });
        tokio::spawn(carry(from_client, to_server, Arc::clone(&line), false));
        tokio::spawn(carry(from_server, to_client, line, true));
    }
}

/// Carries one direction of a connection, until it ends or all are reset.
async fn carry(mut from: OwnedReadHalf, to: OwnedWriteHalf, line: Arc<Line>, to_client: bool) {
    let weather = &line.weather;
    let mut resets = weather.resets.subscribe();
    let (sender, receiver) = mpsc::unbounded_channel();
    tokio::spawn(write(to, receiver, weather.resets.subscribe()));
    let mut chunk = vec![0; 65_536];
    let mut replies = Replies::new(Random::another());
    loop {
        let came = tokio::select! {
            came = from.read(&mut chunk) => came,
            _ = resets.changed() => {
                let _ = from.as_ref().set_zero_linger();
                return;
            }
        };
        let came = match came {
            Ok(came) if came > 0 => came,
            _ => return,
        };
        let mut bytes = chunk.get(..came).unwrap().to_vec();
        let has = |command: &str| {
            let mut words = bytes.windows(command.len());
            !to_client && words.any(|word| word == command.as_bytes())
        };
        let (is_lost, delay) = {
            let now = weather.now();
            let held = now.held.filter(|(command, _)| has(command));
            let delay = now.delay + held.map_or(Duration::ZERO, |(_, longer)| longer);
            (now.swallows || line.number < now.forgotten, delay)
        };
        if is_lost {
            continue;
        }
        let mut ends = false;
        if line.by_reply && to_client {
            bytes = replies.mistreat(&bytes, &line);
        } else if line.by_reply {
            replies.look_at(&bytes, &line);
        }
        if to_client {
            ends = weather.now().distort(&mut bytes);
        } else if let Some(passes) = &mut weather.now().passes {
            let came = bytes.len();
            bytes.truncate(*passes);
            *passes -= bytes.len();
            ends = bytes.len() < came;
        }
        if sender.send((Instant::now() + delay, bytes)).is_err() || ends {
            return;
        }
    }
}

/// Replies, or commands, one by one.
struct Replies {
    rest: Vec<u8>,
    /// How many there were.
    count: u64,
    /// One that is to come after the next.
    kept: Option<Vec<u8>>,
    random: Random,
    is_hasty: bool,
}

impl Replies {
    fn new(mut random: Random) -> Self {
        let is_hasty = random.below(8) == 0;
        Self {
            rest: Vec::new(),
            count: 0,
            kept: None,
            random,
            is_hasty,
        }
    }

    fn next(&mut self) -> Option<Vec<u8>> {
        let length = frame(&self.rest)?;
        self.count += 1;
        Some(self.rest.drain(..length).collect())
    }

    /// Commands that a client sends.
    fn look_at(&mut self, bytes: &[u8], line: &Line) {
        self.rest.extend_from_slice(bytes);
        while let Some(command) = self.next() {
            let unanswered = line.weather.now().unanswered;
            let name = command
                .split(|byte| *byte == b'\n')
                .nth(2)
                .unwrap_or_default();
            if unanswered.is_some_and(|unanswered| name.trim_ascii() == unanswered.as_bytes()) {
                line.unanswered.lock().unwrap().insert(self.count);
            }
        }
    }

    /// Replies that a server sends.
    fn mistreat(&mut self, bytes: &[u8], line: &Line) -> Vec<u8> {
        self.rest.extend_from_slice(bytes);
        let mut sent = Vec::new();
        while let Some(reply) = self.next() {
            if line.unanswered.lock().unwrap().remove(&self.count) {
                line.weather.now().mistreated += 1;
                continue;
            }
            if let Some(kept) = self.kept.take() {
                sent.extend([reply, kept].concat());
                continue;
            }
            let mischief = line.weather.now().mischief;
            let is_due = self.is_hasty || line.since.elapsed() >= YOUNG;
            let mischief = mischief.filter(|_| is_due && self.random.below(EVERY) == 0);
            line.weather.now().mistreated += u64::from(mischief.is_some());
            match mischief {
                None => sent.extend(reply),
                Some(Mischief::Double) => sent.extend([reply.as_slice(), &reply].concat()),
                Some(Mischief::Lose) => {}
                Some(Mischief::Swap) => self.kept = Some(reply),
                Some(Mischief::Empty) => sent.extend(b"$0\r\n\r\n"),
            }
        }
        sent
    }
}

/// How long the reply at the front is, or the command; `None` if it is not there as a whole.
fn frame(bytes: &[u8]) -> Option<usize> {
    let mut end = bytes.windows(2).position(|pair| pair == b"\r\n")? + 2;
    let length = || {
        std::str::from_utf8(bytes.get(1..end - 2)?)
            .ok()?
            .parse::<i64>()
            .ok()
    };
    match bytes.first()? {
        b'$' | b'=' | b'!' => {
            let whole = usize::try_from(length()?).map_or(end, |length| end + length + 2);
            (bytes.len() >= whole).then_some(whole)
        }
        sort @ (b'*' | b'~' | b'>' | b'%') => {
            for _ in 0..length()? * if *sort == b'%' { 2 } else { 1 } {
                end += frame(bytes.get(end..)?)?;
            }
            Some(end)
        }
        _ => Some(end),
    }
}

impl State {
    /// What becomes of a reply. Whether the connection ends with it.
    fn distort(&mut self, bytes: &mut Vec<u8>) -> bool {
        if self.garbles {
            for (place, byte) in bytes.iter_mut().enumerate() {
                *byte = byte.wrapping_mul(167) ^ u8::try_from(place % 251).unwrap();
            }
        }
        let cuts = self.cuts > 0;
        if cuts {
            self.cuts -= 1;
            bytes.truncate(bytes.len() / 2);
        }
        cuts
    }
}

/// Writes what is due, when it is due.
async fn write(
    mut to: OwnedWriteHalf,
    mut due: mpsc::UnboundedReceiver<(Instant, Vec<u8>)>,
    resets: watch::Receiver<u64>,
) {
    while let Some((at, bytes)) = due.recv().await {
        tokio::time::sleep_until(at.into()).await;
        if to.write_all(&bytes).await.is_err() {
            return;
        }
    }
    if resets.has_changed().unwrap_or(true) {
        // Otherwise the other end is told in peace before it is told in anger.
        to.forget();
    }
}
