//! [`One`]: one server, the way to it, and what can befall both.

use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ratelimit_runtime::{RateLimiterBuilder, RedisCredentials, RedisMode, RedisStore};

use crate::harness::World;
use crate::support::clock::ServerClock;
use crate::support::proxy::Proxy;
use crate::support::redis::{Link, RedisServer};
use crate::support::tls::{Authority, TlsServer};
use crate::support::unique;

/// The names of a server of a test.
pub(crate) const LOCAL: [&str; 2] = ["127.0.0.1", "localhost"];

/// How a server is set up.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Setup {
    pub(crate) args: &'static [&'static str],
    /// It saves to a folder that outlives it.
    pub(crate) disk: bool,
    /// Its clock is this many milliseconds ahead, and can be set.
    pub(crate) clock: Option<i64>,
    pub(crate) tls: bool,
    /// Callers come by a proxy, which tells replies apart but for those of TLS.
    pub(crate) proxy: bool,
    /// Callers log in.
    pub(crate) login: Login,
    pub(crate) mode: RedisMode,
}

impl Setup {
    pub(crate) const NEW: Self = Self {
        args: &[],
        disk: false,
        clock: None,
        tls: false,
        proxy: false,
        login: Login::None,
        mode: RedisMode::Scripts,
    };
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Login {
    None,
    /// As the URL says.
    Url,
    /// With what a provider gives, which may be renewed after two seconds.
    Provider {
        renewed: bool,
    },
}

pub(crate) struct One {
    setup: Setup,
    server: Option<RedisServer>,
    pub(crate) tls: Option<(Authority, TlsServer)>,
    proxy: Option<Proxy>,
    pub(crate) clock: Option<ServerClock>,
    pub(crate) disk: Option<Disk>,
    /// A connection that was made before the fault.
    pub(crate) admin: Option<Link>,
    /// What the provider gives.
    pub(crate) password: Arc<Mutex<&'static str>>,
}

impl One {
    pub(crate) fn server(&self) -> &RedisServer {
        self.server
            .as_ref()
            .unwrap_or_else(|| &self.tls.as_ref().unwrap().1.server)
    }

    pub(crate) fn server_mut(&mut self) -> &mut RedisServer {
        self.server.as_mut().unwrap()
    }

    pub(crate) fn proxy(&self) -> &Proxy {
        self.proxy.as_ref().unwrap()
    }

    pub(crate) fn cli(&self, command: &[&str]) {
        self.server().cli(command);
    }

    pub(crate) fn config(&self, name: &str, value: &str) {
        assert_eq!(self.server().cli(&["CONFIG", "SET", name, value]), "OK");
    }

    pub(crate) fn kill_connections(&self) {
        self.cli(&["CLIENT", "KILL", "TYPE", "normal"]);
    }

    pub(crate) fn set_user(&self, rules: &[&str]) {
        assert_eq!(
            self.server()
                .cli(&[&["ACL", "SETUSER", "limiter", "on"], rules].concat()),
            "OK"
        );
    }

    /// Where callers connect to.
    fn port(&self) -> u16 {
        let behind = || {
            self.tls
                .as_ref()
                .map_or_else(|| self.server().port(), |(_, server)| server.port)
        };
        self.proxy.as_ref().map_or_else(behind, Proxy::port)
    }
}

impl World for One {
    type Setup = Setup;

    async fn start(setup: Setup) -> Self {
        let disk = setup.disk.then(Disk::new);
        let mut args = setup.args.to_vec();
        args.extend(disk.iter().flat_map(|disk| ["--dir", disk.path()]));
        let clock = setup.clock.map(|millis| {
            let clock = ServerClock::new();
            clock.set_ms(millis);
            clock
        });
        let tls = setup.tls.then(|| {
            let authority = Authority::new();
            let server = TlsServer::start_with(&authority, &authority.identity(&LOCAL), &args);
            (authority, server)
        });
        let server = match (&clock, &tls) {
            (_, Some(_)) => None,
            (Some(clock), None) => Some(clock.server(&args)),
            (None, None) => Some(RedisServer::start_with(&args)),
        };
        let password = Arc::new(Mutex::new("right"));
        let mut one = Self {
            setup,
            server,
            tls,
            proxy: None,
            clock,
            disk,
            admin: None,
            password,
        };
        if setup.login != Login::None {
            one.set_user(&[">right", "~*", "&*", "+@all"]);
        }
        if setup.proxy {
            let proxy = Proxy::start(one.port()).await;
            if !setup.tls {
                proxy.mistreat(None);
            }
            one.proxy = Some(proxy);
        }
        one
    }

    fn store(&self, builder: RateLimiterBuilder) -> RateLimiterBuilder {
        let scheme = if self.setup.tls { "rediss" } else { "redis" };
        let user = if self.setup.login == Login::Url {
            "limiter:right@"
        } else {
            ""
        };
        let url = format!("{scheme}://{user}127.0.0.1:{}/", self.port());
        let mut store = RedisStore::new(&url).unwrap().mode(self.setup.mode);
        if let Some((authority, _)) = &self.tls {
            store = store.ca_certificates(authority.certificate()).unwrap();
        }
        if let Login::Provider { renewed } = self.setup.login {
            let password = Arc::clone(&self.password);
            store = store.credentials(move || {
                let given = RedisCredentials::new("limiter", *password.lock().unwrap());
                let given = if renewed {
                    given.renew_after(Duration::from_secs(2))
                } else {
                    given
                };
                async { Ok::<_, std::io::Error>(given) }
            });
        }
        builder.store(store)
    }

    fn servers(&self) -> Vec<&RedisServer> {
        vec![self.server()]
    }
}

/// A folder for what servers save, which outlives them.
pub(crate) struct Disk(PathBuf);

impl Disk {
    fn new() -> Self {
        let path = std::env::temp_dir().join(unique("ratelimit-faults"));
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
