//! [`FakeSentinel`]: answers as a sentinel does, whatever it is told to.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::redis::RedisServer;

/// What a sentinel says.
#[derive(Debug, Clone)]
struct View {
    host: &'static str,
    master: u16,
    epoch: u64,
}

/// It ends with this.
#[derive(Debug)]
pub(crate) struct FakeSentinel {
    port: u16,
    view: Arc<Mutex<View>>,
    alive: watch::Sender<bool>,
}

impl FakeSentinel {
    /// One that names this master, of this epoch.
    pub(crate) async fn start(master: &RedisServer, epoch: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let view = Arc::new(Mutex::new(View {
            host: "127.0.0.1",
            master: master.port(),
            epoch,
        }));
        let (alive, mut ended) = watch::channel(true);
        let said = Arc::clone(&view);
        tokio::spawn(async move {
            let mut clients = JoinSet::new();
            loop {
                let accepted = tokio::select! {
                    accepted = listener.accept() => accepted,
                    _ = ended.wait_for(|alive| !alive) => return,
                };
                let (mut client, _) = accepted.unwrap();
                let said = Arc::clone(&said);
                clients.spawn(async move {
                    let mut chunk = vec![0; 1 << 16];
                    while let Ok(came @ 1..) = client.read(&mut chunk).await {
                        // What is asked here comes whole.
                        let asked = String::from_utf8_lossy(chunk.get(..came).unwrap_or_default())
                            .to_uppercase();
                        let view = said.lock().unwrap().clone();
                        let mut reply = String::new();
                        for word in asked.split("\r\n") {
                            match word {
                                "PING" => reply.push_str("+PONG\r\n"),
                                "CLIENT" => reply.push_str("+OK\r\n"),
                                "GET-MASTER-ADDR-BY-NAME" => {
                                    reply.push_str(&list(&[view.host, &view.master.to_string()]));
                                }
                                "MASTER" => reply
                                    .push_str(&list(&["config-epoch", &view.epoch.to_string()])),
                                _ => {}
                            }
                        }
                        if client.write_all(reply.as_bytes()).await.is_err() {
                            return;
                        }
                    }
                });
            }
        });
        Self { port, view, alive }
    }

    /// From now on it says this of the master.
    pub(crate) fn say(&self, master: &RedisServer, epoch: u64) {
        let mut view = self.view.lock().unwrap();
        (view.master, view.epoch) = (master.port(), epoch);
    }

    /// From now on it names the master by this host.
    pub(crate) fn say_host(&self, host: &'static str) {
        self.view.lock().unwrap().host = host;
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// `redis+sentinel://127.0.0.1:<port>/main`
    pub(crate) fn url(&self) -> String {
        format!("redis+sentinel://127.0.0.1:{}/main", self.port)
    }
}

fn list(words: &[&str]) -> String {
    let head = format!("*{}\r\n", words.len());
    words.iter().fold(head, |list, word| {
        list + &format!("${}\r\n{word}\r\n", word.len())
    })
}
