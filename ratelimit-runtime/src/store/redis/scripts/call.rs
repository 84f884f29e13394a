//! A call of one script: written, and its reply read.

use redis::{Arg, Cmd, ServerError, Value};

use super::answer::{Foreign, ScriptAnswer, count};
use super::question::Question;
use super::script::Script;

/// A question, and who asks it: the key's index, from 1, and how many callers.
pub(crate) struct Asked<'a> {
    pub(crate) question: &'a Question,
    pub(crate) asks: &'a [(u8, u16)],
}

/// What is said to each pair of a question and a key, in their order; and when it was decided.
pub(crate) type Answers = (u64, Vec<Result<ScriptAnswer, ServerError>>);

/// A call of one script at one time: at least one question. A key may stand in several.
pub(crate) fn command<'a>(
    number: u32,
    script: &Script,
    keys: impl ExactSizeIterator<Item = &'a [u8]>,
    asked: &[Asked<'_>],
) -> Cmd {
    let mut command = begin(script, keys, 2 * asked.len());
    let mut bytes = Vec::with_capacity(256);
    for (index, Asked { question, asks }) in asked.iter().enumerate() {
        if index == 0 {
            head(&mut bytes, number, question.now);
        }
        bytes.extend_from_slice(&question.bytes);
        command.arg(&bytes[..]);
        bytes.clear();
        for (key, callers) in *asks {
            bytes.push(*key);
            bytes.extend_from_slice(&callers.to_le_bytes());
        }
        command.arg(&bytes[..]);
        bytes.clear();
    }
    command
}

/// A call of one caller.
pub(crate) fn lone_command(number: u32, key: &[u8], question: &Question) -> Cmd {
    let mut command = begin(question.script, std::iter::once(key), 1);
    let mut bytes = Vec::with_capacity(128);
    head(&mut bytes, number, question.now);
    bytes.extend_from_slice(&question.bytes);
    command.arg(&bytes[..]);
    command
}

fn begin<'a>(script: &Script, keys: impl ExactSizeIterator<Item = &'a [u8]>, further: usize) -> Cmd {
    let mut command = Cmd::with_capacity(3 + keys.len() + further, 256 + 64 * keys.len());
    command.arg("EVALSHA").arg(script.sha1()).arg(keys.len());
    for key in keys {
        command.arg(key);
    }
    command
}

/// The same command for a server that does not know the script, which it does from then on.
pub(crate) fn by_source(command: &Cmd, script: &Script) -> Cmd {
    let mut sent = Cmd::new();
    sent.arg("EVAL").arg(script.source());
    for argument in command.args_iter().skip(2) {
        if let Arg::Simple(argument) = argument {
            sent.arg(argument);
        }
    }
    sent
}

/// The call's number, which its reply repeats, and the caller's clock.
fn head(bytes: &mut Vec<u8>, number: u32, now: Option<u64>) {
    bytes.extend_from_slice(&number.to_le_bytes());
    #[allow(clippy::cast_precision_loss, reason = "times are below 2^52")]
    bytes.extend_from_slice(&now.map_or(0.0, |now| now as f64).to_le_bytes());
}

/// A call of the script of stacks: questions with their keys, of one time, which are charged all or
/// none.
pub(crate) fn stack_command(number: u32, members: &[(&[u8], &Question)]) -> Cmd {
    let mut command = begin(Script::stack(), members.iter().map(|(key, _)| *key), 1 + members.len());
    let mut bytes = Vec::with_capacity(128);
    head(&mut bytes, number, members.first().and_then(|(_, question)| question.now));
    command.arg(&bytes[..]);
    for (_, question) in members {
        bytes.clear();
        bytes.push(question.script.number());
        bytes.extend_from_slice(&question.bytes);
        command.arg(&bytes[..]);
    }
    command
}

/// What a stack is told.
#[derive(Debug)]
pub(crate) struct Stacked {
    /// When it was decided.
    pub(crate) now: u64,
    /// Whether all members are charged; else none is.
    pub(crate) is_charged: bool,
    /// What each member says. One that admits where another refuses is not charged.
    pub(crate) answers: Vec<Result<ScriptAnswer, ServerError>>,
}

/// The reply to a [`command`].
///
/// # Errors
///
/// `Foreign` if it is not one: it has another number, or another shape.
pub(crate) fn read(reply: &Value, number: u32, asked: &[Asked<'_>]) -> Result<Answers, Foreign> {
    let Value::Array(values) = reply else { return Err(Foreign) };
    let [Value::Int(repeated), Value::Int(now), answers @ ..] = &values[..] else { return Err(Foreign) };
    let asked =
        asked.iter().flat_map(|Asked { question, asks }| asks.iter().map(move |(_, callers)| (question, *callers)));
    if *repeated != i64::from(number) || answers.len() != asked.clone().count() {
        return Err(Foreign);
    }
    let now = u64::try_from(*now).map_err(|_| Foreign)?;
    let answers = answers.iter().zip(asked);
    let answers = answers.map(|(value, (question, callers))| ScriptAnswer::read(value, question, now, callers));
    Ok((now, answers.collect::<Result<_, _>>()?))
}

/// The reply to a [`stack_command`].
///
/// # Errors
///
/// `Foreign` if it is not one.
pub(crate) fn read_stack(reply: &Value, number: u32, members: &[(&[u8], &Question)]) -> Result<Stacked, Foreign> {
    let Value::Array(values) = reply else { return Err(Foreign) };
    let [Value::Int(repeated), Value::Int(now), Value::Int(charged), answers @ ..] = &values[..] else {
        return Err(Foreign);
    };
    if *repeated != i64::from(number) || answers.len() != members.len() {
        return Err(Foreign);
    }
    let now = u64::try_from(*now).map_err(|_| Foreign)?;
    let answers = answers.iter().zip(members).map(|(value, (_, question))| ScriptAnswer::read(value, question, now, 1));
    Ok(Stacked { now, is_charged: *charged == 1, answers: answers.collect::<Result<_, _>>()? })
}

/// The reply to a [`lone_command`], and when it was decided.
///
/// # Errors
///
/// `Foreign` if it is not one.
pub(crate) fn read_lone(reply: &Value, number: u32, question: &Question) -> Result<(u64, ScriptAnswer), Foreign> {
    let Value::BulkString(bytes) = reply else { return Err(Foreign) };
    let (repeated, bytes) = bytes.split_first_chunk().ok_or(Foreign)?;
    let (now, answer) = bytes.split_first_chunk().ok_or(Foreign)?;
    if u32::from_le_bytes(*repeated) != number {
        return Err(Foreign);
    }
    let now = count(*now)?;
    Ok((now, ScriptAnswer::bytes(answer, question, now, 1)?))
}
