//! The arguments of the program: the service, the rule, the key.

#![allow(
    clippy::doc_markdown,
    reason = "these comments are what `--help` prints"
)]

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::builder::NonEmptyStringValueParser;
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgGroup, Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use clap_complete::Shell;
use ratelimit_runtime::{Algorithm, Key, Limit, ParseError, Policy, RateLimiter, RedisStore, Rule};
use serde_json::{Map, Value};

use crate::escapes::unescaped;
use crate::in_force::InForce;
use crate::lookup::{is_digest, key_of};
use crate::printable::escaped;
use crate::replay;

const EXAMPLES: &str = "\
Examples:
  ratelimit-admin rules
  ratelimit-admin find  alice@example.com
  ratelimit-admin top
  ratelimit-admin list  login
  ratelimit-admin peek  login alice@example.com --limits 5/1m
  ratelimit-admin reset login '<acme>/<7>' --policies policies.toml
  ratelimit-admin in-flight export
  ratelimit-admin block login alice@example.com --limits '5/1m,50/1d' --for 10m --prefix shop:prod
  ratelimit-admin replay --rule 20/1m access.log

Limits and algorithm are those that the service has written to its Redis; what is said here
goes before. The keys are those of this rule, these windows, this algorithm and this prefix. A
service that has refused a key a moment ago may go on for a second before it asks Redis again.

Exit codes: 0 done (also if there was nothing to do), 1 Redis did not answer, 2 something has to be
changed first: an argument, a setting, a file that cannot be read or written, or keys that are left
out, which the output names; so is a master of a Cluster that does not answer.";

/// Show the rate limits of a service on its Redis; reset, block and unblock keys; try limits on a
/// log of requests
#[derive(Parser)]
#[command(name = "ratelimit-admin", version, propagate_version = true, after_help = EXAMPLES)]
pub(crate) struct Program {
    #[command(flatten)]
    pub(crate) service: Service,
    #[command(subcommand)]
    pub(crate) task: Task,
}

#[derive(Subcommand)]
pub(crate) enum Task {
    Replay(Box<replay::Args>),
    /// Print the completion script of a shell
    Completions {
        shell: Shell,
    },
    /// Print a man page: of the program, or of a subcommand
    Man {
        #[arg(value_name = "SUBCOMMAND")]
        of: Option<String>,
    },
    #[command(flatten)]
    OnRedis(Box<Command>),
}

impl Program {
    /// The arguments. Subcommands that ask no Redis refuse the options of the service, and so do
    /// not show them.
    pub(crate) fn arguments() -> clap::Command {
        let of_service = Service::augment_args(clap::Command::new(""));
        let hidden = || of_service.get_arguments().map(|arg| arg.clone().hide(true));
        ["replay", "completions", "man"]
            .into_iter()
            .fold(Self::command(), |command, name| {
                command.mut_subcommand(name, |subcommand| subcommand.args(hidden()))
            })
    }

    /// The arguments of the process. Ends the process if they are wrong or ask for help.
    pub(crate) fn of_process() -> Self {
        let mut command = Self::arguments();
        let matches = command.get_matches_mut();
        let program = Self::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
        let is_said = |id: &str| matches.value_source(id) == Some(ValueSource::CommandLine);
        // As of a variable of a script that is not set: another Redis must not stand in for it.
        if is_said("url") && program.service.url.as_deref() == Some("") {
            let empty = "--url is empty: say which Redis, or leave it out";
            command.error(ErrorKind::InvalidValue, empty).exit();
        }
        if !matches!(program.task, Task::OnRedis(_))
            && let Some(flag) = Service::augment_args(clap::Command::new(""))
                .get_arguments()
                .find(|argument| is_said(argument.get_id().as_str()))
        {
            let name = matches.subcommand_name().unwrap_or_default();
            let flag = flag.get_long().unwrap_or_default();
            command
                .error(
                    ErrorKind::ArgumentConflict,
                    format!("{name} asks no Redis: leave --{flag} out"),
                )
                .exit();
        }
        program
    }
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// List the rules on Redis: names, algorithms, windows and numbers of keys; limits, blocks and
    /// templates of keys as services have written them. Scans all keys of the server; without
    /// --prefix, it lists the rules of all prefixes
    Rules,
    /// Show the state of a value, such as an e-mail address, under each rule whose key it can be.
    /// Knows the rules that services have written to Redis; says which it left out
    Find {
        /// The value of the one placeholder of a key: alice@example.com, 7, 192.0.2.1
        #[arg(value_name = "VALUE", value_parser = NonEmptyStringValueParser::new())]
        value: String,
        /// Take limits and overrides of the policies that rules use from this file of TOML or
        /// JSON
        #[arg(long, value_name = "FILE")]
        policies: Option<PathBuf>,
    },
    /// List the keys that are refused or blocked now, of one rule or of all that services have
    /// written to Redis
    Top {
        /// Name of a rule, or the last part of it
        #[arg(value_name = "RULE", value_parser = NonEmptyStringValueParser::new())]
        name: Option<String>,
        /// Look at so many keys at most
        #[arg(long, default_value_t = 1000, value_name = "NUMBER")]
        max_keys: usize,
    },
    /// Show what is left for a key; nothing is charged
    Peek {
        #[command(flatten)]
        bucket: Bucket,
    },
    /// List the keys that Redis holds for a rule, and what is left for each
    List {
        #[command(flatten)]
        rule: RuleArgs,
        /// Stop after so many keys
        #[arg(long, default_value_t = 100, value_name = "NUMBER")]
        max_keys: usize,
    },
    /// List the keys of a rule with calls in flight (`concurrent`), and how many each has
    InFlight {
        /// Name of the rule, as for the other commands
        #[arg(value_name = "RULE", value_parser = NonEmptyStringValueParser::new())]
        name: String,
        /// Stop after so many keys
        #[arg(long, default_value_t = 100, value_name = "NUMBER")]
        max_keys: usize,
    },
    #[command(flatten)]
    Change(Change),
}

#[derive(Subcommand)]
pub(crate) enum Change {
    /// Delete the counts and the block of a key
    Reset {
        #[command(flatten)]
        bucket: Bucket,
    },
    /// Refuse a key for a while, whatever is left for it
    Block {
        #[command(flatten)]
        bucket: Bucket,
        /// For how long, such as 10m or 1h 30m; replaces an earlier block
        #[arg(long = "for", value_name = "DURATION", value_parser = duration)]
        duration: Duration,
        /// Block even if Redis holds no key of a rule of this name (which may be misspelt)
        #[arg(long)]
        new: bool,
    },
    /// End the block of a key; its counts stay
    Unblock {
        #[command(flatten)]
        bucket: Bucket,
    },
}

#[derive(Args, Clone)]
#[command(next_help_heading = "The service")]
pub(crate) struct Service {
    /// Redis of the service: redis://…, redis+sentinel://…/master or redis+cluster://…; without
    /// this and RATELIMIT_URL, REDIS_URL
    #[arg(global = true, long, env = "RATELIMIT_URL", hide_env_values = true)]
    url: Option<String>,
    /// The `prefix` of the service's limiter
    #[arg(global = true, long, env = "RATELIMIT_PREFIX")]
    pub(crate) prefix: Option<String>,
    /// The secret of `hash_keys`, if the service sets one; not needed for keys as `list` prints
    /// them
    #[arg(global = true, long, env = "RATELIMIT_SECRET", hide_env_values = true)]
    pub(crate) secret: Option<String>,
    /// The authorities that TLS trusts in place of the platform's, as PEM
    #[arg(global = true, long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// The certificate to show to a Redis that asks for one, as PEM
    #[arg(global = true, long, value_name = "FILE", requires = "cert_key")]
    cert: Option<PathBuf>,
    /// The key of that certificate, as PEM
    #[arg(global = true, long, value_name = "FILE", requires = "cert")]
    cert_key: Option<PathBuf>,
    /// The service runs no scripts on Redis (`RedisMode::Transactions`)
    #[arg(global = true, long)]
    pub(crate) no_scripts: bool,
    /// How long to wait for Redis
    #[arg(global = true, long, default_value = "5s", value_name = "DURATION", value_parser = duration)]
    pub(crate) timeout: Duration,
    /// Print JSON, for programs
    #[arg(global = true, long)]
    pub(crate) json: bool,
}

#[derive(Args, Clone)]
#[command(group = ArgGroup::new("of the rule").args(["limits", "policies"]))]
pub(crate) struct RuleArgs {
    /// Name of the rule: `name = "…"` of the attribute as it is, or else the path of the function
    /// with dots, such as shop.Mailer.send. To reset, block and unblock, the last part is enough
    /// where Redis holds keys of one such rule
    #[arg(value_name = "RULE", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) name: String,
    /// Limits of the rule, if the service has not written them to Redis: 5/1m, or several:
    /// 5/1m,50/1d
    #[arg(long)]
    limits: Option<String>,
    /// Algorithm of the rule, if it is not sliding_window: token_bucket, for example
    #[arg(long, requires = "limits")]
    algorithm: Option<Algorithm>,
    /// How much a bucket admits at once, if that is not its `max`
    #[arg(long, requires = "limits")]
    burst: Option<u64>,
    /// Time zone of calendar quotas, such as 500/day, if it is not UTC
    #[arg(long, requires = "limits")]
    zone: Option<String>,
    /// Take limits and algorithm from this file of policies, of TOML or JSON: login = "5/1m"
    #[arg(long, value_name = "FILE")]
    policies: Option<PathBuf>,
    /// Name of the policy in that file, if it differs from the name of the rule; without a file,
    /// which policy of a rule whose calls say theirs
    #[arg(long, value_name = "NAME", conflicts_with = "limits")]
    policy: Option<String>,
    /// `true` if the rule, as its limiter has written it, is in shadow mode.
    #[arg(skip)]
    pub(crate) is_in_shadow: bool,
}

/// The name of the one policy of the program's limiter.
pub(crate) const POLICY: &str = "the rule's";

#[derive(Args, Clone)]
pub(crate) struct Bucket {
    #[command(flatten)]
    pub(crate) rule: RuleArgs,
    /// The key as `list` prints it, each value in brackets and escaped: '<acme>/<7>'. A single
    /// value needs no brackets, and no text around it where Redis knows the rule:
    /// alice@example.com; a single IPv6 address stands for its /64, unless Redis holds a key with
    /// the address itself. '<>' is the empty text
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    key: Option<String>,
    /// The rule has no key: all callers share one bucket
    #[arg(long, conflicts_with = "key")]
    pub(crate) global: bool,
}

impl Change {
    pub(crate) fn bucket(&self) -> &Bucket {
        match self {
            Self::Reset { bucket, .. }
            | Self::Block { bucket, .. }
            | Self::Unblock { bucket, .. } => bucket,
        }
    }

    pub(crate) fn takes_the_name_as_it_is(&self) -> bool {
        matches!(self, Self::Block { new: true, .. })
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Reset { .. } => "reset",
            Self::Block { .. } => "block",
            Self::Unblock { .. } => "unblock",
        }
    }
}

impl Service {
    pub(crate) fn url(&self) -> Result<String, String> {
        let given = self.url.clone().filter(|url| !url.is_empty());
        let url = given
            .or_else(|| std::env::var("REDIS_URL").ok())
            .filter(|url| !url.is_empty());
        url.ok_or_else(|| {
            "which Redis? Say --url redis://host/, or set RATELIMIT_URL or REDIS_URL".to_owned()
        })
    }

    /// The store with the certificates of the given files.
    pub(crate) fn with_certificates(&self, mut store: RedisStore) -> Result<RedisStore, String> {
        let read = |file: &Path| {
            std::fs::read(file).map_err(|error| format!("{}: {error}", file.display()))
        };
        if let Some(file) = &self.ca {
            let trusted = store.ca_certificates(read(file)?);
            store = trusted.map_err(|why| format!("--ca {}: {why}", file.display()))?;
        }
        if let (Some(file), Some(key)) = (&self.cert, &self.cert_key) {
            let shown = store.client_certificate(read(file)?, read(key)?);
            store = shown.map_err(|why| format!("--cert {}: {why}", file.display()))?;
        }
        Ok(store)
    }
}

/// Parses a duration. `M` is a month to `humantime`, and to others a minute.
fn duration(text: &str) -> Result<Duration, String> {
    if text.contains('M') {
        return Err("`M` may be minutes or months: write `10m` or `10months`".to_owned());
    }
    humantime::parse_duration(text).map_err(|error| error.to_string())
}

/// The policies in a file, as a service reads it.
pub(crate) fn policies_in(file: &Path) -> Result<HashMap<String, Policy>, String> {
    let policies = RateLimiter::policies_in(file).map_err(|error| error.to_string())?;
    let mut by_name = HashMap::new();
    for (name, policy) in policies {
        if by_name.insert(name.clone(), policy).is_some() {
            let file = file.display();
            return Err(format!("{file}: the policy `{name}` is defined twice"));
        }
    }
    Ok(by_name)
}

impl RuleArgs {
    /// `true` if the arguments say where limits and algorithm come from.
    pub(crate) fn has_limits(&self) -> bool {
        self.limits.is_some() || self.policies.is_some()
    }

    /// The arguments with the name, limits and algorithm that a limiter has written.
    pub(crate) fn known_as(&self, rules: &InForce) -> Result<Self, String> {
        let rule = rules.rule(&self.name, self.policy.as_deref())?;
        let of_rule = |why| format!("{}: {why}", escaped(&rule.name));
        let limits = rule.limits().map_err(of_rule)?;
        let texts: Vec<_> = limits.limits().iter().map(Limit::to_string).collect();
        Ok(Self {
            name: rule.name.clone(),
            limits: Some(texts.join(",")),
            algorithm: Some(limits.algorithm()),
            burst: rule.line.burst,
            policy: rule.line.policy.clone(),
            is_in_shadow: rule.is_in_shadow(),
            ..self.clone()
        })
    }

    /// `true` if the limits are a policy's as a limiter has written it, without its overrides.
    pub(crate) fn is_without_overrides(&self) -> bool {
        self.policy.is_some() && self.policies.is_none()
    }

    /// Replaces a name given by its last part by the whole name. The policy keeps the given one.
    pub(crate) fn name_is(&mut self, name: String) {
        let given = std::mem::replace(&mut self.name, name);
        if self.policies.is_some() {
            self.policy.get_or_insert(given);
        }
    }

    /// The rule, and the policy that gives the limits of each key.
    pub(crate) fn rule(&self) -> Result<(Rule, Policy), String> {
        let policy = match &self.policies {
            Some(file) => self.policy_of(file)?,
            None => self
                .policy_of_flags()
                .map_err(|why| format!("--limits, --algorithm, --burst, --zone: {why}"))?,
        };
        let [first, ..] = policy.limits() else {
            return Err("a rule has at least one limit".to_owned());
        };
        Ok((
            Rule::named(self.name.as_str(), *first).with_policy(POLICY),
            policy,
        ))
    }

    fn policy_of(&self, file: &Path) -> Result<Policy, String> {
        let mut policies = policies_in(file)?;
        let name = self.policy.as_ref().unwrap_or(&self.name);
        policies.remove(name).ok_or_else(|| {
            let mut names: Vec<_> = policies.into_keys().collect();
            names.sort();
            format!(
                "{} has no `{name}`, only {}; say --policy NAME",
                file.display(),
                names.join(", ")
            )
        })
    }

    fn policy_of_flags(&self) -> Result<Policy, serde_json::Error> {
        let mut policy = Map::new();
        policy.extend(
            self.limits
                .clone()
                .map(|limits| ("limits".to_owned(), limits.into())),
        );
        policy.extend(
            self.algorithm
                .map(|algorithm| ("algorithm".to_owned(), algorithm.to_string().into())),
        );
        policy.extend(self.burst.map(|burst| ("burst".to_owned(), burst.into())));
        policy.extend(
            self.zone
                .clone()
                .map(|zone| ("zone".to_owned(), zone.into())),
        );
        serde_json::from_value(Value::Object(policy))
    }
}

/// The network in a key, if there is one. No call with an address as its key has one, except the
/// /64 of an IPv6 subscriber.
fn network(text: &str) -> Option<&str> {
    text.split(['<', '>']).find(|value| {
        let Some((address, Ok(_))) = value
            .split_once('/')
            .map(|(address, prefix)| (address, prefix.parse::<u8>()))
        else {
            return false;
        };
        let Ok(address) = address.parse::<IpAddr>() else {
            return false;
        };
        Key::from_rendered(&format!("<{value}>")).ok() != Some(Key::of(&address))
    })
}

impl Bucket {
    /// The bucket with the name and limits that a limiter has written, and the key that the rule's
    /// template makes of a value.
    pub(crate) fn known_as(
        &self,
        rules: &InForce,
        has_secret: bool,
    ) -> Result<(Self, Option<Key>), String> {
        let rule = rules.rule(&self.rule.name, self.rule.policy.as_deref())?;
        let value = self.key.as_deref().map(unescaped);
        let key = key_of(rule, value.as_deref(), has_secret);
        let key = key.map_err(|why| format!("{}: {}", escaped(&rule.name), escaped(&why)))?;
        let rule = self.rule.known_as(rules)?;
        Ok((
            Self {
                rule,
                ..self.clone()
            },
            key,
        ))
    }

    /// The reason why no call can have this key; `None` if one can.
    pub(crate) fn mistake(&self) -> Option<String> {
        let text = unescaped(self.key.as_deref()?);
        network(&text).map(|network| {
            format!(
                "no call has the network {network} as its key: name each address, of IPv6 each /64 \
                 as <2001:db8:1:2::/64>"
            )
        })
    }

    /// The key, and the key to use instead if Redis holds that one.
    pub(crate) fn key(&self) -> Result<(Key, Option<Key>), String> {
        let Some(text) = &self.key else {
            let missing = || {
                "which key? Say it behind the rule, or --global for a rule without one".to_owned()
            };
            return self
                .global
                .then(|| (Key::global(), None))
                .ok_or_else(missing);
        };
        let text = &unescaped(text);
        if is_digest(text.as_bytes()) || text.contains(['<', '>']) {
            let key = Key::from_rendered(text)
                .map_err(|error: ParseError| format!("the key {text}: {error}"))?;
            return Ok((key, None));
        }
        let exact = Key::of(text);
        Ok(match text.parse::<IpAddr>() {
            // As services count them, of which most take `ClientIp` for the key.
            Ok(address) => {
                let counted = Key::of(&address);
                let other = (counted != exact).then_some(exact);
                (counted, other)
            }
            Err(_) => (exact, None),
        })
    }
}
