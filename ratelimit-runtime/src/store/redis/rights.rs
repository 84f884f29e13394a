//! Whether the user may do what calls of a limiter do. Scripts call some commands on rare roads
//! only, and an error in one does not always name the command: so each is sent by itself, about a
//! key that is never stored, where it changes nothing. An ACL is looked at before the slot of a key
//! and the arguments of a script. One command is about two keys, which no node of a cluster has
//! together: so a cluster behind the URL of one server is noticed, also one with a single node.

use redis::{Cmd, Value};

use super::errors;
use super::settings::StoreSettings;
use super::settings::deployment::Deployment;
use super::settings::mode::RedisMode;
use crate::error::StoreError;
use crate::rule::FORMAT;

/// The commands that decide with scripts, about the key `K`, or `K` and another, `L`.
const OF_SCRIPTS: &[&str] = &[
    "EVALSHA 0000000000000000000000000000000000000000 1 K",
    "TIME",
    "GET K",
    "MGET K L",
    "SET K 0 XX",
    "SETRANGE K 0 ",
    "PEXPIRE K 1",
    "PEXPIREAT K 1",
    "UNLINK K",
    "ZADD K XX 0 0",
    "ZCARD K",
    "ZCOUNT K 0 0",
    "ZSCORE K 0",
    "ZRANGE K 0 0",
    "ZRANGEBYSCORE K 0 0",
    "ZREM K 0",
    "ZREMRANGEBYRANK K 0 0",
];
/// `EXEC` is last, so that no command is part of the transaction.
const OF_TRANSACTIONS: &[&str] = &[
    "WATCH K L",
    "UNWATCH",
    "TIME",
    "PEXPIRE K 1",
    "UNLINK K",
    "ZADD K XX 0 0",
    "ZCOUNT K 0 0",
    "ZSCORE K 0",
    "ZRANGE K 0 0",
    "ZREM K 0",
    "ZREMRANGEBYSCORE K 0 0",
    "SET K 0 XX",
    "GET K",
    "BITFIELD K GET u8 0",
    "PTTL K",
    "MULTI",
    "EXEC",
];
/// A look.
const OF_REDIS_CELL: &[&str] = &["CL.THROTTLE K 0 1 1 0"];

/// The commands that calls of a limiter with a prefix need.
pub(crate) struct Rights {
    /// The pattern of its keys.
    pattern: String,
    commands: Vec<Cmd>,
    names: Vec<&'static str>,
    is_cluster: bool,
}

impl Rights {
    pub(super) fn of(settings: &StoreSettings, prefix: &str) -> Self {
        let lines: &[&[&str]] = match settings.mode {
            RedisMode::Scripts => &[OF_SCRIPTS],
            RedisMode::RedisCell => &[OF_SCRIPTS, OF_REDIS_CELL],
            RedisMode::Transactions => &[OF_TRANSACTIONS],
        };
        // Scripts that are told the time set relative expiries.
        let unused: &[&str] = match (settings.mode, &settings.clock) {
            (RedisMode::Transactions, _) => &[],
            (_, Some(_)) => &["TIME", "PEXPIREAT"],
            (_, None) => &["PEXPIRE"],
        };
        let key = format!("{prefix}{FORMAT}:");
        let mut rights = Self {
            pattern: format!("~{key}*"),
            commands: Vec::new(),
            names: Vec::new(),
            is_cluster: matches!(settings.deployment, Deployment::Cluster(_)),
        };
        for line in lines.iter().copied().flatten() {
            let mut words = line.split(' ');
            let name = words.next().unwrap_or_default();
            if unused.contains(&name) {
                continue;
            }
            let mut command = redis::cmd(name);
            for word in words {
                match word {
                    "K" => command.arg(&key),
                    "L" => command.arg(format!("{key}L")),
                    word => command.arg(word),
                };
            }
            rights.commands.push(command);
            rights.names.push(name);
        }
        rights
    }

    pub(super) fn commands(&self) -> impl Iterator<Item = Cmd> {
        self.commands.iter().cloned()
    }

    /// `Ok` if none of the replies says that the user may not send the command, or that the server
    /// is a node of a cluster.
    ///
    /// # Errors
    ///
    /// `Misconfigured`, with all commands that are forbidden, or the pattern of the keys.
    pub(super) fn judge(&self, replies: &[Value]) -> Result<(), StoreError> {
        let (mut lacking, mut first) = (Vec::new(), None);
        for (name, reply) in self.names.iter().zip(replies) {
            match reply {
                Value::ServerError(error) if errors::lacks_command(error) => {
                    first = first.filter(|_| !lacking.is_empty()).or(Some(error));
                    lacking.push(*name);
                }
                Value::ServerError(error) if errors::is_forbidden(error) => {
                    first = first.or(Some(error));
                }
                Value::ServerError(error)
                    if errors::code(error) == "CROSSSLOT" && !self.is_cluster =>
                {
                    return Err(errors::from_server(error));
                }
                _ => {}
            }
        }
        let Some(error) = first else { return Ok(()) };
        if lacking.is_empty() {
            lacking.push(&self.pattern);
        }
        let error = errors::from_server(error);
        let message = format!("{}: {}", lacking.join(" "), error.message());
        Err(error.with_message(message))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use super::*;

    fn names(lines: &'static [&str]) -> BTreeSet<&'static str> {
        let name = |line: &'static str| line.split(' ').next();
        lines.iter().copied().filter_map(name).collect()
    }

    /// The words in capitals behind this mark.
    fn marked(text: &str, mark: char) -> BTreeSet<&str> {
        let behind = text.split(mark).skip(1);
        let words = behind.filter_map(|text| text.split(|c: char| !c.is_ascii_uppercase()).next());
        words.filter(|word| word.len() > 2).collect()
    }

    #[test]
    fn the_commands_asked_for_are_those_of_scripts_and_of_the_documentation() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/store/redis");
        let read = |file: &str| fs::read_to_string(folder.join(file)).unwrap();
        let scripts = fs::read_dir(folder.join("scripts/generated")).unwrap();
        let scripts = scripts.map(|file| fs::read_to_string(file.unwrap().path()).unwrap());
        let scripts: String = scripts.collect();
        let no_commands = ["WITHSCORES", "PXAT", "CLOCK", "ERR", "WRONGTYPE"];
        let mut called = &marked(&scripts, '\'') - &BTreeSet::from(no_commands);
        called.insert("EVALSHA");
        assert_eq!(names(OF_SCRIPTS), called);

        let between = |file: &str, from: &str, to: &str| {
            let text = read(file);
            let (_, text) = text.split_once(from).unwrap();
            text.split_once(to).unwrap().0.to_owned()
        };
        let inside = between("mod.rs", "and inside of", "Without");
        assert_eq!(&marked(&inside, '`') | &BTreeSet::from(["EVALSHA"]), called);
        let sent = between("settings/mode.rs", "The user needs", "Transactions,");
        let others = BTreeSet::from(["PING", "ROLE"]);
        assert_eq!(&marked(&sent, '`') - &others, names(OF_TRANSACTIONS));
    }
}
