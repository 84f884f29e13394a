//! Who the store says it is, and what becomes of it when that changes.

use std::io::{self, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use super::{MINUTE, PATIENCE, acquire, acquire_in_time, number_of, recovered};
use crate::support::redis::{RedisServer, shared};
use crate::support::{eventually, unique, until};
use ratelimit_runtime::__private::BuiltInStore as _;
use ratelimit_runtime::store::{StoreError, StoreErrorKind};
use ratelimit_runtime::{Limit, RedisCredentials, RedisStore};
use tokio::time::{sleep, timeout};

async fn ready(store: &RedisStore) {
    timeout(PATIENCE, store.ready()).await.unwrap().unwrap();
}

/// Whether the store answers, however late.
async fn answers(store: &RedisStore) -> bool {
    timeout(
        PATIENCE,
        acquire(store, &unique("goes on"), Limit::new(1, MINUTE)),
    )
    .await
    .unwrap()
    .is_ok()
}

/// Waits until the store is told this.
async fn fails_with(store: &RedisStore, text: &str) -> StoreError {
    let start = Instant::now();
    loop {
        match acquire_in_time(store, &unique("fails")).await {
            Err(error) if error.message().contains(text) => return error,
            other => assert!(start.elapsed() < PATIENCE, "{other:?}"),
        }
        sleep(Duration::from_millis(10)).await;
    }
}

fn server_with_user(password: &str) -> RedisServer {
    let server = RedisServer::start();
    set_password(&server, password);
    server
}

fn set_password(server: &RedisServer, password: &str) {
    let password = format!(">{password}");
    let said = server.cli(&[
        "ACL",
        "SETUSER",
        "limiter",
        "on",
        "resetpass",
        &password,
        "~*",
        "&*",
        "+@all",
    ]);
    assert_eq!(said, "OK");
}

/// Ends all connections but that of the test.
fn kill(server: &RedisServer) {
    server.cli(&["CLIENT", "KILL", "USER", "limiter"]);
}

#[tokio::test]
async fn a_provider_is_asked_for_each_connection() {
    let server = server_with_user("first");
    let (password, asked) = (Arc::new(Mutex::new("first")), Arc::new(AtomicU64::new(0)));
    let provider = {
        let (password, asked) = (Arc::clone(&password), Arc::clone(&asked));
        move || {
            asked.fetch_add(1, Ordering::Relaxed);
            let password = *password.lock().unwrap();
            async move {
                tokio::task::yield_now().await;
                match password {
                    "none" => Err(io::Error::other("the vault is sealed")),
                    password => Ok(RedisCredentials::new("limiter", password)),
                }
            }
        }
    };
    // What the URL says is not used.
    let url = format!("redis://nobody:wrong@127.0.0.1:{}/", server.port());
    let store = RedisStore::new(&url).unwrap().credentials(provider);
    ready(&store).await;
    assert_eq!(asked.load(Ordering::Relaxed), 1);
    for _ in 0..10 {
        assert!(answers(&store).await);
    }
    assert_eq!(
        asked.load(Ordering::Relaxed),
        1,
        "a call asks for no credentials"
    );
    set_password(&server, "second");
    *password.lock().unwrap() = "second";
    kill(&server);
    let took = recovered(&store, &unique("again")).await;
    assert!(took < Duration::from_secs(1), "{took:?}");
    assert_eq!(asked.load(Ordering::Relaxed), 2);

    *password.lock().unwrap() = "none";
    kill(&server);
    assert!(fails_with(&store, "the vault is sealed").await.kind() == StoreErrorKind::Unavailable);
    *password.lock().unwrap() = "second";
    let took = recovered(&store, &unique("again")).await;
    assert!(took < Duration::from_secs(3), "{took:?}");
    assert!(
        !format!(
            "{store:?} {:?}",
            RedisCredentials::new("limiter", "hunter2")
        )
        .contains("hunter2")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_token_is_renewed_by_a_connection_that_takes_the_place_of_the_old_one() {
    let server = server_with_user("1");
    let tokens = Arc::new(AtomicU64::new(0));
    let next = Arc::clone(&tokens);
    let store = server.store().credentials(move || {
        let token = next.fetch_add(1, Ordering::Relaxed) + 1;
        let credentials = RedisCredentials::new("limiter", token.to_string());
        async move {
            Ok::<_, io::Error>(if token < 4 {
                credentials.renew_after(Duration::from_secs(1))
            } else {
                credentials
            })
        }
    });
    ready(&store).await;
    // The third is refused: it is asked again.
    for token in ["2", "4"] {
        set_password(&server, token);
        let wanted = token.parse().unwrap();
        let renewed = || tokens.load(Ordering::Relaxed) >= wanted;
        let start = Instant::now();
        while !renewed() {
            assert!(start.elapsed() < PATIENCE);
            assert!(answers(&store).await);
            sleep(Duration::from_millis(10)).await;
        }
    }
    assert!(eventually(|| server
        .info("commandstats", "cmdstat_auth")
        .starts_with("calls=4,")));
    assert!(
        server
            .info("commandstats", "cmdstat_auth")
            .contains("failed_calls=1")
    );
    assert!(
        eventually(|| number_of(&server.info("clients", "connected_clients")) == 2),
        "the old ones end"
    );
    assert_eq!(tokens.load(Ordering::Relaxed), 4);
}

#[tokio::test]
async fn connections_have_a_name() {
    let server = RedisServer::start();
    let url = server.url();
    let store = RedisStore::new(&url).unwrap().client_name("shop-limits");
    ready(&store).await;
    assert!(server.cli(&["CLIENT", "LIST"]).contains("name=shop-limits"));
    let store = RedisStore::new(&url).unwrap().client_name("with a space");
    let error = timeout(PATIENCE, store.ready()).await.unwrap().unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Misconfigured, "{error}");
    assert!(error.message().contains("name"), "{error}");
}

#[tokio::test]
async fn a_store_has_the_settings_of_the_client_it_is_made_from() {
    let server = server_with_user("hunter2");
    let url = format!("redis://limiter:hunter2@127.0.0.1:{}/5", server.port());
    let client = redis::Client::open(url).unwrap();
    let store = RedisStore::from_client(&client).unwrap();
    ready(&store).await;
    assert!(
        acquire(&store, &unique("client"), Limit::new(1, MINUTE))
            .await
            .unwrap()
            .allowed
    );
    assert!(server.info("keyspace", "db5").starts_with("keys=1"));
    assert!(server.cli(&["CLIENT", "LIST"]).contains("user=limiter"));
    assert!(!format!("{store:?}").contains("hunter2"));
    let without_password = redis::Client::open("redis://limiter@127.0.0.1/").unwrap();
    let error = RedisStore::from_client(&without_password).unwrap_err();
    assert!(error.message().contains("without a password"), "{error}");
    // Its own and that of the test; those of the questions above may be closed a moment later.
    let alone = async {
        while number_of(&server.info("clients", "connected_clients")) != 2 {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(PATIENCE, alone).await.unwrap();

    let tls = |insecure| {
        let address = redis::ConnectionAddr::TcpTls {
            host: "h".to_owned(),
            port: 1,
            insecure,
            tls_params: None,
        };
        let info = redis::IntoConnectionInfo::into_connection_info("redis://h")
            .unwrap()
            .set_addr(address);
        RedisStore::from_client(&redis::Client::open(info).unwrap())
    };
    assert!(format!("{:?}", tls(false).unwrap()).contains("tls: true"));
    let error = tls(true).unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Misconfigured);
    assert!(
        error.message().contains("does not check certificates"),
        "{error}"
    );
}

/// Settings of connections may come after the first use.
#[tokio::test]
async fn a_setting_after_the_first_call_holds_from_then_on() {
    let store = shared().store();
    ready(&store).await;
    let name = unique("late");
    let store = store.client_name(&name);
    ready(&store).await;
    assert!(shared().cli(&["CLIENT", "LIST"]).contains(&name));
}

/// Answers as Redis does until it is asked for a decision, and then says that it knows no login.
fn forgets_logins(mut client: &TcpStream) {
    let (mut parser, mut has_forgotten) = (redis::Parser::new(), false);
    while let Ok(command) = parser.parse_value(client) {
        let words: Vec<Vec<u8>> = redis::from_redis_value(command).unwrap();
        let word = |index: usize| String::from_utf8_lossy(&words[index]);
        let reply = match &*word(0) {
            "PING" if !has_forgotten => format!("${}\r\n{}\r\n", words[1].len(), word(1)),
            "ROLE" if !has_forgotten => "*1\r\n$6\r\nmaster\r\n".to_owned(),
            "AUTH" | "SCRIPT" | "EVAL" => "+OK\r\n".to_owned(),
            _ => {
                has_forgotten = true;
                "-NOAUTH Authentication required.\r\n".to_owned()
            }
        };
        if client.write_all(reply.as_bytes()).is_err() {
            return;
        }
    }
}

/// Redis itself keeps those logged in who are; services around it do not.
#[tokio::test]
async fn a_server_that_forgets_the_login_is_logged_in_again() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let logins = Arc::new(AtomicU64::new(0));
    let seen = Arc::clone(&logins);
    thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            seen.fetch_add(1, Ordering::Relaxed);
            thread::spawn(move || forgets_logins(&client));
        }
    });
    let store = RedisStore::new(&format!("redis://:right@127.0.0.1:{port}/")).unwrap();
    ready(&store).await;
    let error = timeout(PATIENCE, acquire(&store, "k", Limit::new(1, MINUTE)))
        .await
        .unwrap()
        .unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Misconfigured);
    assert!(error.message().contains("password"), "{error}");
    until("the store logs in again", PATIENCE, async || {
        logins.load(Ordering::Relaxed) > 1
    })
    .await;
}

#[tokio::test]
async fn a_database_that_does_not_exist_is_misconfigured() {
    let store = RedisStore::new(&format!("{}99", shared().url())).unwrap();
    let error = timeout(PATIENCE, store.ready()).await.unwrap().unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Misconfigured, "{error}");
    assert!(error.message().contains("database"), "{error}");
}

/// A plus in a password is a plus, as in every other URL.
#[tokio::test]
#[cfg(unix)]
async fn a_server_is_reached_by_its_socket() {
    let socket = std::env::temp_dir().join(unique("socket"));
    let socket = socket.to_str().unwrap();
    let server = RedisServer::start_with(&["--requirepass", "a+b", "--unixsocket", socket]);
    for pass in ["a+b", "a%2Bb"] {
        let store = RedisStore::new(&format!("unix://{socket}?pass={pass}&db=3")).unwrap();
        ready(&store).await;
        assert!(answers(&store).await);
    }
    assert!(server.info("keyspace", "db3").starts_with("keys=2"));
    // It is killed, and leaves it behind.
    std::fs::remove_file(socket).unwrap();
}
