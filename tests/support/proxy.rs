//! [`Proxy`]: a way to a server on which things happen.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot, watch};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// A TCP proxy on a port of its own, in a thread of its own: whatever keeps a test busy, the proxy goes on. It ends with
/// its last clone, and its connections with it.
#[derive(Clone, Debug)]
pub(crate) struct Proxy {
    port: u16,
    weather: Arc<Weather>,
    _end: Arc<oneshot::Sender<()>>,
}

#[derive(Debug)]
struct Weather {
    server: AtomicU64,
    swallows: AtomicBool,
    refuses: AtomicBool,
    garbles: AtomicBool,
    /// How many replies are to be cut.
    cuts: AtomicU64,
    delay_us: AtomicU64,
    accepted: AtomicU64,
    /// So many of the first connections lead nowhere.
    forgotten: AtomicU64,
    /// Said to the client, once, before a decision.
    stray: Mutex<Option<Vec<u8>>>,
    /// How often all connections were reset.
    resets: watch::Sender<u64>,
}

impl Proxy {
    /// A proxy in front of the server at this port.
    pub(crate) async fn start(server: u16) -> Self {
        let weather = Arc::new(Weather {
            server: AtomicU64::new(server.into()),
            swallows: AtomicBool::new(false),
            refuses: AtomicBool::new(false),
            garbles: AtomicBool::new(false),
            cuts: AtomicU64::new(0),
            delay_us: AtomicU64::new(0),
            accepted: AtomicU64::new(0),
            forgotten: AtomicU64::new(0),
            stray: Mutex::new(None),
            resets: watch::Sender::new(0),
        });
        let (end, ended) = oneshot::channel();
        let (bound, port) = oneshot::channel();
        let shared = Arc::clone(&weather);
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
                bound.send(listener.local_addr().unwrap().port()).unwrap();
                tokio::select! {
                    () = accept(listener, shared) => {}
                    _ = ended => {}
                }
            });
        });
        Self { port: port.await.unwrap(), weather, _end: Arc::new(end) }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    /// New connections go to the server at this port, as if a name led elsewhere.
    pub(crate) fn lead_to(&self, server: u16) {
        self.weather.server.store(server.into(), Ordering::Relaxed);
    }

    /// Whether from now on everything is lost that is sent, in both directions. New connections are accepted, and hear
    /// nothing.
    pub(crate) fn swallow(&self, on: bool) {
        self.weather.swallows.store(on, Ordering::Relaxed);
    }

    /// Everything is lost from now on that is sent on the connections there are; new ones are as they should be.
    pub(crate) fn forget_all(&self) {
        self.weather.forgotten.store(self.accepted(), Ordering::Relaxed);
    }

    /// How long each direction takes.
    pub(crate) fn delay(&self, each_way: Duration) {
        self.weather.delay_us.store(u64::try_from(each_way.as_micros()).unwrap(), Ordering::Relaxed);
    }

    /// Whether from now on replies arrive as something else.
    pub(crate) fn garble(&self, on: bool) {
        self.weather.garbles.store(on, Ordering::Relaxed);
    }

    /// The next so many replies are cut in the middle, and their connections closed.
    pub(crate) fn cut_replies(&self, count: u64) {
        self.weather.cuts.store(count, Ordering::Relaxed);
    }

    /// Resets all connections there are, as a firewall does.
    pub(crate) fn reset_all(&self) {
        self.weather.resets.send_modify(|resets| *resets += 1);
    }

    /// Whether new connections are reset as soon as they are made.
    pub(crate) fn refuse(&self, on: bool) {
        self.weather.refuses.store(on, Ordering::Relaxed);
    }

    /// Says this to one client, before a decision.
    pub(crate) fn say(&self, stray: &[u8]) {
        *self.weather.stray.lock().unwrap() = Some(stray.to_vec());
    }

    /// Whether what was to be said has been.
    pub(crate) fn has_said(&self) -> bool {
        self.weather.stray.lock().unwrap().is_none()
    }

    /// How many connections were accepted so far.
    pub(crate) fn accepted(&self) -> u64 {
        self.weather.accepted.load(Ordering::Relaxed)
    }
}

async fn accept(listener: TcpListener, weather: Arc<Weather>) {
    while let Ok((client, _)) = listener.accept().await {
        let number = weather.accepted.fetch_add(1, Ordering::Relaxed);
        if weather.refuses.load(Ordering::Relaxed) {
            let _ = client.set_zero_linger();
            continue;
        }
        let port = u16::try_from(weather.server.load(Ordering::Relaxed)).unwrap();
        // Nobody is there: the client is hung up on.
        let Ok(server) = TcpStream::connect(("127.0.0.1", port)).await else { continue };
        client.set_nodelay(true).unwrap();
        server.set_nodelay(true).unwrap();
        let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
        tokio::spawn(carry(from_client, to_server, Arc::clone(&weather), number, false));
        tokio::spawn(carry(from_server, to_client, Arc::clone(&weather), number, true));
    }
}

/// Carries one direction of a connection, until it ends or all are reset.
async fn carry(mut from: OwnedReadHalf, to: OwnedWriteHalf, weather: Arc<Weather>, number: u64, to_client: bool) {
    let mut resets = weather.resets.subscribe();
    let (sender, receiver) = mpsc::unbounded_channel();
    tokio::spawn(write(to, receiver, weather.resets.subscribe()));
    let mut chunk = vec![0; 65_536];
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
        if weather.swallows.load(Ordering::Relaxed) || number < weather.forgotten.load(Ordering::Relaxed) {
            continue;
        }
        let mut bytes = chunk.get(..came).unwrap().to_vec();
        let mut ends = false;
        if to_client {
            ends = weather.distort(&mut bytes);
        }
        let delay = Duration::from_micros(weather.delay_us.load(Ordering::Relaxed));
        if sender.send((Instant::now() + delay, bytes)).is_err() || ends {
            return;
        }
    }
}

impl Weather {
    /// What becomes of a reply. Whether the connection ends with it.
    fn distort(&self, bytes: &mut Vec<u8>) -> bool {
        // In between two decisions, so that somebody waits for the second.
        if let Some(at) = bytes.windows(5).rposition(|start| start == b"$36\r\n")
            && let Some(stray) = self.stray.lock().unwrap().take()
        {
            bytes.splice(at..at, stray);
        }
        if self.garbles.load(Ordering::Relaxed) {
            for (place, byte) in bytes.iter_mut().enumerate() {
                *byte = byte.wrapping_mul(167) ^ u8::try_from(place % 251).unwrap();
            }
        }
        let cut = |left: u64| left.checked_sub(1);
        let cuts = self.cuts.fetch_update(Ordering::Relaxed, Ordering::Relaxed, cut).is_ok();
        if cuts {
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
