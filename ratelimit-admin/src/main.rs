//! A program for operators: lists the rules that a service has on its Redis, shows, resets, blocks
//! and unblocks their keys, and tries limits on a log of requests.
//!
//! ```text
//! export REDIS_URL=redis://127.0.0.1/
//! ratelimit-admin rules
//! ratelimit-admin list  send_code.send_code --limits 3/1m
//! ratelimit-admin reset send_code.send_code alice@example.com --limits 3/1m
//! ratelimit-admin replay --rule 20/1m access.log
//! ratelimit-admin --help
//! ```

#![allow(
    rustdoc::broken_intra_doc_links,
    rustdoc::invalid_html_tags,
    reason = "comments of arguments are the texts of the help"
)]

mod arguments;
mod calendar;
mod documents;
mod escapes;
mod in_force;
mod lookup;
mod printable;
mod replay;
mod report;
mod rules;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

use ratelimit_runtime::store::{StoreError, StoreErrorKind};
use ratelimit_runtime::{
    Algorithm, Key, Limit, OnUnavailable, Policy, RateLimitError, RateLimiter, RateLimiterBuilder,
    RedisMode, RedisStore, Rule,
};

use arguments::{Bucket, Change, Command, POLICY, Program, RuleArgs, Service, Task, policies_in};
use calendar::Period;
use in_force::{InForce, RuleInForce, listed};
use report::{CallsInFlight, InFlightList, Listing, Outcome, Report, RuleList, Standing};
use rules::{Named, RuleKeys, Rules, Unread};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let Program { service, task } = Program::of_process();
    match task {
        Task::Replay(args) => replay::run(&args).await,
        Task::Completions { shell } => report::written(documents::completions(shell).trim_end()),
        Task::Man { of } => match documents::man(of.as_deref()) {
            Ok(page) => report::written(page.trim_end()),
            Err(why) => Failure::from(why).print(),
        },
        Task::OnRedis(command) => match run(&command, &service).await {
            Ok(report) => report.print(service.json),
            Err(failure) => failure.print(),
        },
    }
}

async fn run(command: &Command, service: &Service) -> Result<Report, Failure> {
    // Settings that no limiter has are an error of every command, also of one that needs none.
    let settings = RateLimiter::builder().timeout(service.timeout);
    let prefix = service.prefix.as_deref().unwrap_or_default();
    let settings = service
        .secret
        .iter()
        .fold(settings, RateLimiterBuilder::hash_keys);
    let _ = settings.prefix(prefix).build()?;
    // Keys as Redis holds them are not hashed again.
    let mut of_stored = service.clone();
    of_stored.secret = None;
    match command {
        Command::Peek { bucket, .. } => {
            let target = Target::new(bucket, service, None).await?;
            let report = Report::Standing(target.look().await?);
            Ok(report.without_overrides(target.is_without_overrides))
        }
        Command::Rules => {
            let rules = stored_rules(service, service.prefix.as_deref()).await?;
            let (store, mut in_force) = (store(service)?, Vec::new());
            for prefix in &rules.prefixes {
                in_force.push(
                    match in_force::read(&store, prefix, service.timeout).await {
                        // Another program may have written the key, an ACL forbids to read it, or
                        // its master is away, but not all masters.
                        Err(
                            RateLimitError::Misconfigured(why) | RateLimitError::Unavailable(why),
                        ) => InForce::unread(prefix, &why),
                        read => read?,
                    },
                );
            }
            Ok(Report::Rules(RuleList::new(rules, in_force)))
        }
        Command::Find { value, policies } => {
            let file = policies.as_deref().map(policies_in).transpose()?;
            let (rules, value) = (in_force(service).await?, escapes::unescaped(value));
            let has_secret = service.secret.is_some();
            let limiter = async |policies| with_policies(service, policies).await;
            let found = lookup::find(rules, &value, file.as_ref(), has_secret, limiter);
            Ok(Report::Found(found.await?))
        }
        Command::Top { name, max_keys } => {
            let mut rules = in_force(service).await?;
            if let Some(name) = name {
                rules.keep_only(name)?;
            }
            let limiter = async |policies| with_policies(&of_stored, policies).await;
            let keys = async |of: BTreeMap<_, _>, unread: &mut Unread| {
                let (store, forms) = (store(service)?, forms(service));
                let timeout = service.timeout;
                let found = rules::keys_of_all(&store, &of, forms, *max_keys, timeout, unread);
                Ok::<_, Failure>(found.await?)
            };
            Ok(Report::Top(lookup::top(rules, limiter, keys).await?))
        }
        Command::List { rule, max_keys, .. } => {
            let settled = settled(rule, service).await?;
            let listing = list(&of_stored, &settled, *max_keys);
            Ok(Report::Listing(listing.await?).without_overrides(settled.is_without_overrides()))
        }
        Command::InFlight { name, max_keys } => Ok(Report::InFlight(
            in_flight(name, *max_keys, &of_stored).await?,
        )),
        Command::Change(change) => {
            let target = Target::new(change.bucket(), service, Some(change)).await?;
            let before = target.look().await?;
            let Target {
                limiter, rule, key, ..
            } = &target;
            let changed = match change {
                Change::Reset { .. } => limiter.reset(rule, key).await,
                Change::Block { duration, .. } => {
                    limiter.block(rule, key, *duration).await.map(|()| true)
                }
                Change::Unblock { .. } => limiter.unblock(rule, key).await,
            };
            let changed = changed.map_err(Failure::of_a_change)?;
            let existed = !before.is_untouched();
            let after = target.look().await.map_err(Failure::behind_a_change)?;
            let report = Report::Outcome(Box::new(Outcome {
                command: change.name(),
                blocked_for: match change {
                    Change::Block { duration, .. } => Some(*duration),
                    _ => None,
                },
                changed,
                existed,
                before,
                after,
            }));
            Ok(report.without_overrides(target.is_without_overrides))
        }
    }
}

/// The keys of a rule that have calls in flight, at most `max_keys`.
async fn in_flight(
    name: &str,
    max_keys: usize,
    service: &Service,
) -> Result<InFlightList, Failure> {
    let known = known(name, service).await?;
    let name = known.first().map_or(name, |rule| &rule.name);
    let limiter = limiter(service, RateLimiter::builder()).await?;
    let rule = Rule::named(name, Limit::per_second(1)).with_concurrent(1);
    let of = RuleKeys {
        prefix: service.prefix.clone().unwrap_or_default(),
        name: name.to_owned(),
        algorithm: "concurrent",
        windows: Vec::new(),
    };
    let (store, mut unread) = (store(service)?, Unread::default());
    let found = rules::keys_of(&store, of, max_keys, service.timeout, &mut unread);
    let (keys, complete) = found.await?;
    let mut counts = Vec::new();
    for (key, stored) in keys {
        let in_flight = limiter.in_flight(&rule, &key).await;
        if let Some(in_flight) = unread.unless_foreign(&stored, in_flight)? {
            let key = String::from_utf8_lossy(key.as_bytes()).into_owned();
            counts.push(CallsInFlight { key, in_flight });
        }
    }
    let is_limited = known.iter().any(|rule| rule.line.concurrent.is_some());
    if counts.is_empty() && !known.is_empty() && !is_limited {
        return Err(Failure::Arguments(format!(
            "{}: it limits no calls in flight",
            printable::escaped(name)
        )));
    }
    Ok(InFlightList {
        rule: name.to_owned(),
        keys: counts,
        complete,
        is_known: is_limited,
        unread,
    })
}

fn store(service: &Service) -> Result<RedisStore, Failure> {
    let mode = if service.no_scripts {
        RedisMode::Transactions
    } else {
        RedisMode::Scripts
    };
    let store = RedisStore::new(&service.url()?).map_err(RateLimitError::from)?;
    Ok(service
        .with_certificates(store)?
        .mode(mode)
        .write_rules(false))
}

/// The rules that limiters with this prefix have written.
async fn in_force(service: &Service) -> Result<InForce, Failure> {
    let prefix = service.prefix.as_deref().unwrap_or_default();
    Ok(in_force::read(&store(service)?, prefix, service.timeout).await?)
}

/// The rules of this name, or of the only name that ends in it. Empty if Redis knows none, or an
/// ACL forbids reading them.
async fn known(name: &str, service: &Service) -> Result<Vec<RuleInForce>, Failure> {
    let mut rules = match in_force(service).await {
        Err(Failure::Limiter(RateLimitError::Misconfigured(_))) => return Ok(Vec::new()),
        rules => rules?,
    };
    let full = rules.known_name(name)?.map(str::to_owned);
    rules.rules.retain(|rule| Some(&rule.name) == full.as_ref());
    Ok(rules.rules)
}

/// The rule with its limits, from the arguments or as its limiter has written them.
async fn settled(rule: &RuleArgs, service: &Service) -> Result<RuleArgs, Failure> {
    if rule.has_limits() {
        return Ok(rule.clone());
    }
    Ok(rule.known_as(&in_force(service).await?)?)
}

async fn stored_rules(service: &Service, prefix: Option<&str>) -> Result<Rules, Failure> {
    Ok(rules::list(&store(service)?, forms(service), prefix, service.timeout).await?)
}

/// Algorithms whose keys have all forms: without scripts there are several.
fn forms(service: &Service) -> &'static [Algorithm] {
    if service.no_scripts {
        &[Algorithm::SlidingWindow, Algorithm::FixedWindow]
    } else {
        &[Algorithm::SlidingWindow]
    }
}

/// The bucket of a change, with the full name of its rule.
async fn of_a_stored_rule(
    change: &Change,
    mut bucket: Bucket,
    service: &Service,
) -> Result<Bucket, Failure> {
    // A limiter has written the name and all else.
    let is_known = !change.bucket().rule.has_limits();
    if is_known || change.takes_the_name_as_it_is() {
        return Ok(bucket);
    }
    let prefix = service.prefix.as_deref().unwrap_or_default();
    let stored = stored_rules(service, Some(prefix)).await;
    let stored = stored.and_then(|stored| Ok(stored.unread.none_missing().map(|()| stored)?));
    let stored = match stored {
        // An ACL forbids to list keys, or another master of a cluster is away. Only a block changes
        // what nobody has counted.
        Err(Failure::Limiter(
            RateLimitError::Misconfigured(_) | RateLimitError::Unavailable(_),
        )) if change.name() != "block" => return Ok(bucket),
        stored => stored?,
    };
    let blocks = change.name() == "block" && stored.complete;
    match stored.named(&bucket.rule.name) {
        Named::LastPartOf(name) => bucket.rule.name_is(name),
        Named::LastPartOfSeveral(names) if blocks => {
            let names = listed(names.iter().map(String::as_str));
            return Err(Failure::Arguments(format!(
                "{} may be {names}: say which",
                printable::escaped(&bucket.rule.name)
            )));
        }
        Named::Unknown(near) if blocks => {
            let name = &bucket.rule.name;
            // A rule may be known, and have no keys at the moment.
            if let Some(rule) = known(name, service).await?.pop() {
                bucket.rule.name_is(rule.name);
                return Ok(bucket);
            }
            let near = listed(near.iter().map(String::as_str));
            let there = if near.is_empty() {
                "no key of any rule".to_owned()
            } else {
                format!("keys of {near}")
            };
            return Err(Failure::Arguments(format!(
                "Redis holds no key of a rule {}, so nothing was changed; it holds {there}, under \
                 this prefix. If the name is right, say --new",
                printable::escaped(name)
            )));
        }
        Named::Stored | Named::LastPartOfSeveral(_) | Named::Unknown(_) => {}
    }
    let kept = rules::kept(&bucket.rule.rule()?.1);
    let ways = stored.ways_of(&bucket.rule.name);
    if blocks && !ways.is_empty() && !ways.contains(&kept) {
        return Err(Failure::Arguments(format!(
            "Redis holds keys of {} under {}, and none under {kept}, so nothing was changed: say \
             --limits, --algorithm and --zone as the service does, or --new",
            printable::escaped(&bucket.rule.name),
            ways.iter()
                .map(|way| printable::escaped(way))
                .collect::<Vec<_>>()
                .join(" and under "),
        )));
    }
    Ok(bucket)
}

/// A limiter with the settings of the service, connected to Redis. If Redis does not answer, the
/// next command fails and says why. Settings of the policy for limited calls, such as `wait`, do
/// not apply.
async fn connected(service: &Service, policy: Policy) -> Result<RateLimiter, Failure> {
    let policy = of_the_program(policy, service);
    limiter(service, RateLimiter::builder().policy(POLICY, policy)).await
}

/// The policy without settings for limited calls.
fn of_the_program(policy: Policy, service: &Service) -> Policy {
    policy
        .with_shadow(false)
        .with_wait(Duration::ZERO)
        .with_timeout(service.timeout)
        .with_on_unavailable(OnUnavailable::Deny)
}

/// A limiter with these policies, each under its number.
async fn with_policies(service: &Service, policies: Vec<Policy>) -> Result<RateLimiter, Failure> {
    let mut builder = RateLimiter::builder();
    for (number, policy) in policies.into_iter().enumerate() {
        let policy = of_the_program(policy, service);
        builder = builder.policy(lookup::policy_name(number), policy);
    }
    limiter(service, builder).await
}

async fn limiter(service: &Service, builder: RateLimiterBuilder) -> Result<RateLimiter, Failure> {
    let limiter = builder
        .store(store(service)?)
        .prefix(service.prefix.as_deref().unwrap_or_default())
        .timeout(service.timeout)
        .on_unavailable(OnUnavailable::Deny);
    let limiter = match &service.secret {
        Some(secret) => limiter.hash_keys(secret).build()?,
        None => limiter.build()?,
    };
    // What is wrong, the next command says; a user who may do less than a service may do that.
    let _ = tokio::time::timeout(service.timeout, limiter.ready()).await;
    Ok(limiter)
}

/// A key of a rule, and the limiter that decides on it.
struct Target {
    limiter: RateLimiter,
    rule: Rule,
    policy: Policy,
    key: Key,
    is_without_overrides: bool,
    is_in_shadow: bool,
}

impl Target {
    /// Checks the arguments before it sends anything to Redis.
    async fn new(
        bucket: &Bucket,
        service: &Service,
        change: Option<&Change>,
    ) -> Result<Self, Failure> {
        let mut bucket = bucket.clone();
        let (mut key, mut other) = bucket.key()?;
        let mistake = bucket.mistake();
        if !bucket.rule.has_limits() {
            let (known, by_template) =
                bucket.known_as(&in_force(service).await?, service.secret.is_some())?;
            bucket = known;
            if let Some(by_template) = by_template {
                (key, other) = (by_template, None);
            }
        }
        let (mut rule, policy) = bucket.rule.rule()?;
        let is_without_overrides = bucket.rule.is_without_overrides();
        let is_in_shadow = bucket.rule.is_in_shadow;
        let limiter = connected(service, policy.clone()).await?;
        if let Some(change) = change {
            let bucket = of_a_stored_rule(change, bucket, service).await?;
            (rule, _) = bucket.rule.rule()?;
            let is_in_clear = service.secret.is_none() && !lookup::is_digest(key.as_bytes());
            let is_new = change.takes_the_name_as_it_is() || bucket.global;
            if change.name() == "block" && !is_new && is_in_clear {
                let name = &bucket.rule.name;
                if known(name, service)
                    .await?
                    .iter()
                    .any(RuleInForce::is_hashed)
                {
                    let name = printable::escaped(name);
                    return Err(Failure::Arguments(format!("{name}: {}", lookup::hashed())));
                }
            }
        }
        let mut target = Self {
            limiter,
            rule,
            policy,
            key,
            is_without_overrides,
            is_in_shadow,
        };
        if let Some(other) = other
            && target.look().await?.is_untouched()
        {
            let first = std::mem::replace(&mut target.key, other);
            if target.look().await?.is_untouched() {
                target.key = first;
            }
        }
        if let Some(mistake) = mistake
            && target.look().await?.is_untouched()
        {
            return Err(mistake.into());
        }
        Ok(target)
    }

    async fn look(&self) -> Result<Standing, Failure> {
        let decision = self.limiter.peek(&self.rule, &self.key).await;
        let decision = decision.map_err(|error| match error {
            RateLimitError::Misconfigured(why) => Failure::Arguments(format!(
                "{} {}: {why}",
                printable::escaped(self.rule.name()),
                report::name(&String::from_utf8_lossy(self.key.as_bytes())),
            )),
            error => error.into(),
        })?;
        let standing = Standing::new(&self.key, &decision, &self.policy);
        Ok(standing.in_shadow(self.is_in_shadow))
    }
}

/// At most `max_keys` keys, each once, in order.
async fn list(service: &Service, of: &RuleArgs, max_keys: usize) -> Result<Listing, Failure> {
    let (rule, policy) = of.rule()?;
    let is_in_shadow = of.is_in_shadow;
    let limiter = connected(service, policy.clone()).await?;
    let of = RuleKeys::of(service.prefix.as_deref(), rule.name(), &policy);
    let (store, mut unread) = (store(service)?, Unread::default());
    let found = rules::keys_of(&store, of, max_keys, service.timeout, &mut unread);
    let (found, complete) = found.await?;
    let mut keys = Vec::new();
    for (key, stored) in found {
        let decision = limiter.peek(&rule, &key).await;
        if let Some(decision) = unread.unless_foreign(&stored, decision)? {
            let standing = Standing::new(&key, &decision, &policy);
            keys.push(standing.in_shadow(is_in_shadow));
        }
    }
    let period = policy
        .limits()
        .iter()
        .find_map(|limit| Period::of(limit, policy.zone()));
    let zone = period.map(|period| period.zone().to_owned());
    Ok(Listing {
        rule: rule.name(),
        keys,
        complete,
        zone,
        unread,
    })
}

/// The reason why a command was not carried out.
enum Failure {
    Arguments(String),
    Limiter(RateLimitError),
    /// A change that may have been made although no server answered.
    Change(RateLimitError),
    /// A change that the server had no memory for.
    NoMemory(StoreError),
}

impl From<String> for Failure {
    fn from(message: String) -> Self {
        Self::Arguments(message)
    }
}

impl From<RateLimitError> for Failure {
    fn from(error: RateLimitError) -> Self {
        Self::Limiter(error)
    }
}

impl Failure {
    fn of_a_change(error: RateLimitError) -> Self {
        match error {
            RateLimitError::Unavailable(why) if why.kind() == StoreErrorKind::Full => {
                Self::NoMemory(why)
            }
            error => Self::Change(error),
        }
    }

    /// Marks the failure of a look at a key after a change was made.
    fn behind_a_change(self) -> Self {
        match self {
            Self::Limiter(error) => Self::Change(error),
            failure => failure,
        }
    }

    /// Exit code 1 if a later attempt may succeed, 2 if the operator has to change something.
    fn print(self) -> ExitCode {
        let (message, code) = match self {
            Self::Limiter(RateLimitError::Unavailable(cause)) => {
                (format!("Redis cannot be asked: {cause}"), 1)
            }
            Self::Change(RateLimitError::Unavailable(cause)) => (
                format!(
                    "the change may have been made or not, see `ratelimit-admin peek`: {cause}"
                ),
                1,
            ),
            Self::NoMemory(cause) => (format!("nothing was changed: {cause}"), 1),
            Self::Limiter(RateLimitError::Misconfigured(why))
            | Self::Change(RateLimitError::Misconfigured(why)) => (why.to_string(), 2),
            Self::Limiter(error) | Self::Change(error) => (error.to_string(), 2),
            Self::Arguments(message) => (message, 2),
        };
        report::failed(&message);
        ExitCode::from(code)
    }
}
