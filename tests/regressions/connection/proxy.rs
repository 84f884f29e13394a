//! A way to a server on which things happen.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

#[derive(Clone)]
pub(crate) struct Proxy {
    port: u16,
    weather: Arc<Weather>,
}

#[derive(Default)]
struct Weather {
    /// What is sent while this is set is lost.
    swallows: AtomicBool,
    /// How long each direction takes.
    delay_us: AtomicU64,
    accepted: AtomicU64,
    /// Said to the client, once, before a decision.
    stray: Mutex<Option<Vec<u8>>>,
}

impl Proxy {
    pub(crate) async fn start(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let weather = Arc::new(Weather::default());
        let proxy = Self { port, weather: Arc::clone(&weather) };
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                weather.accepted.fetch_add(1, Ordering::Relaxed);
                let server = TcpStream::connect(("127.0.0.1", server)).await.unwrap();
                client.set_nodelay(true).unwrap();
                server.set_nodelay(true).unwrap();
                let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
                tokio::spawn(carry(from_client, to_server, Arc::clone(&weather), false));
                tokio::spawn(carry(from_server, to_client, Arc::clone(&weather), true));
            }
        });
        proxy
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    /// Whether from now on everything is lost that is sent, in both directions.
    pub(crate) fn swallow(&self, on: bool) {
        self.weather.swallows.store(on, Ordering::Relaxed);
    }

    pub(crate) fn delay(&self, each_way: Duration) {
        self.weather.delay_us.store(u64::try_from(each_way.as_micros()).unwrap(), Ordering::Relaxed);
    }

    pub(crate) fn say(&self, stray: &[u8]) {
        *self.weather.stray.lock().unwrap() = Some(stray.to_vec());
    }

    /// Whether what was to be said has been.
    pub(crate) fn has_said(&self) -> bool {
        self.weather.stray.lock().unwrap().is_none()
    }

    pub(crate) fn accepted(&self) -> u64 {
        self.weather.accepted.load(Ordering::Relaxed)
    }
}

async fn carry(
    mut from: tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    weather: Arc<Weather>,
    to_client: bool,
) {
    let (sender, mut receiver) = mpsc::unbounded_channel::<(Instant, Vec<u8>)>();
    tokio::spawn(async move {
        while let Some((at, bytes)) = receiver.recv().await {
            tokio::time::sleep_until(at.into()).await;
            if to.write_all(&bytes).await.is_err() {
                return;
            }
        }
    });
    let mut chunk = vec![0; 65_536];
    loop {
        let came = match from.read(&mut chunk).await {
            Ok(came) if came > 0 => came,
            _ => return,
        };
        if weather.swallows.load(Ordering::Relaxed) {
            continue;
        }
        let mut bytes = chunk.get(..came).unwrap().to_vec();
        // In between two decisions, so that somebody waits for the second.
        if to_client
            && let Some(at) = bytes.windows(5).rposition(|start| start == b"$36\r\n")
            && let Some(stray) = weather.stray.lock().unwrap().take()
        {
            bytes.splice(at..at, stray);
        }
        let delay = Duration::from_micros(weather.delay_us.load(Ordering::Relaxed));
        if sender.send((Instant::now() + delay, bytes)).is_err() {
            return;
        }
    }
}
