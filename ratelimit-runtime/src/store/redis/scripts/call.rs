//! A call of one script: written, and its reply read.

use redis::{Arg, Cmd, ServerError, Value};
use smallvec::SmallVec;

use super::answer::{Foreign, ScriptAnswer, count};
use super::question::Question;
use super::script::Script;

/// A question, and who asks it: the key's index, from 1, and how many callers.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) question: Question,
    pub(crate) asks: SmallVec<[(u8, u16); 1]>,
}

/// Whether one caller asks one question of one key: that has a shorter form.
fn is_lone(asked: &[Asked]) -> bool {
    matches!(asked, [Asked { asks, .. }] if asks[..] == [(1, 1)])
}

/// What is said to each pair of a question and a key, in their order; and when it was decided.
pub(crate) type Answers = (u64, SmallVec<[Result<ScriptAnswer, ServerError>; 1]>);

/// A call of one script at one time: at least one question. A key may stand in several.
pub(crate) fn command<'a>(
    number: u32,
    script: &Script,
    keys: impl ExactSizeIterator<Item = &'a [u8]>,
    asked: &[Asked],
) -> Cmd {
    let mut command = begin(script, keys, 2 * asked.len());
    let mut bytes = head(number, asked.first().map(|asked| &asked.question));
    for Asked { question, asks } in asked {
        bytes.extend_from_slice(&question.bytes);
        command.arg(&bytes[..]);
        bytes.clear();
        if is_lone(asked) {
            break;
        }
        for (key, callers) in asks {
            bytes.push(*key);
            bytes.extend_from_slice(&callers.to_le_bytes());
        }
        command.arg(&bytes[..]);
        bytes.clear();
    }
    command
}

/// A call of the script of stacks: questions with their keys, of one time, which are charged all or
/// none.
pub(crate) fn stack_command(number: u32, stack: &[(Box<[u8]>, Question)]) -> Cmd {
    let mut command = begin(Script::stack(), stack.iter().map(|(key, _)| &**key), 1 + stack.len());
    let mut bytes = head(number, stack.first().map(|(_, question)| question));
    command.arg(&bytes[..]);
    for (_, question) in stack {
        bytes.clear();
        bytes.push(question.script.number());
        bytes.extend_from_slice(&question.bytes);
        command.arg(&bytes[..]);
    }
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

/// The call's number, which its reply repeats, and the caller's clock.
fn head(number: u32, first: Option<&Question>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(128);
    bytes.extend_from_slice(&number.to_le_bytes());
    #[allow(clippy::cast_precision_loss, reason = "times are below 2^52")]
    let now = first.and_then(|question| question.now).map_or(0.0, |now| now as f64);
    bytes.extend_from_slice(&now.to_le_bytes());
    bytes
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

/// The reply to a [`command`].
///
/// # Errors
///
/// `Foreign` if it is not one: it has another number, or another shape.
pub(crate) fn read(reply: &Value, number: u32, asked: &[Asked]) -> Result<Answers, Foreign> {
    if let (Value::BulkString(bytes), [Asked { question, .. }], true) = (reply, asked, is_lone(asked)) {
        let (repeated, bytes) = bytes.split_first_chunk().ok_or(Foreign)?;
        let (now, answer) = bytes.split_first_chunk().ok_or(Foreign)?;
        if u32::from_le_bytes(*repeated) != number {
            return Err(Foreign);
        }
        let now = count(*now)?;
        return Ok((now, SmallVec::from_buf([Ok(ScriptAnswer::bytes(answer, question, now, 1)?)])));
    }
    let (now, answers) = numbered(reply, number)?;
    let asked =
        asked.iter().flat_map(|Asked { question, asks }| asks.iter().map(move |(_, callers)| (question, *callers)));
    Ok((now, read_all(answers, now, asked)?))
}

/// The reply to a [`stack_command`]; and whether all of it is charged: else nothing is.
///
/// # Errors
///
/// `Foreign` if it is not one.
pub(crate) fn read_stack(
    reply: &Value,
    number: u32,
    stack: &[(Box<[u8]>, Question)],
) -> Result<(Answers, bool), Foreign> {
    let (now, answers) = numbered(reply, number)?;
    let [Value::Int(is_charged), answers @ ..] = answers else { return Err(Foreign) };
    let asked = stack.iter().map(|(_, question)| (question, 1));
    Ok(((now, read_all(answers, now, asked)?), *is_charged == 1))
}

/// What stands in a reply behind its number and its time.
fn numbered(reply: &Value, number: u32) -> Result<(u64, &[Value]), Foreign> {
    let Value::Array(values) = reply else { return Err(Foreign) };
    match &values[..] {
        [Value::Int(repeated), Value::Int(now), answers @ ..] if *repeated == i64::from(number) => {
            Ok((u64::try_from(*now).map_err(|_| Foreign)?, answers))
        }
        _ => Err(Foreign),
    }
}

fn read_all<'a>(
    answers: &[Value],
    now: u64,
    asked: impl Iterator<Item = (&'a Question, u16)> + Clone,
) -> Result<SmallVec<[Result<ScriptAnswer, ServerError>; 1]>, Foreign> {
    if answers.len() != asked.clone().count() {
        return Err(Foreign);
    }
    let answers = answers.iter().zip(asked);
    answers.map(|(value, (question, callers))| ScriptAnswer::read(value, question, now, callers)).collect()
}
