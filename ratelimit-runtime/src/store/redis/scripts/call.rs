//! [`Call`]: a call of one script: written, and its reply read.

use redis::{Arg, Cmd, ServerError, Value};
use smallvec::{SmallVec, smallvec};

use super::answer::{Foreign, ScriptAnswer, count};
use super::question::Question;
use super::script::Script;

/// A question, and who asks it: the key's index, from 1, and how many callers.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) question: Question,
    pub(crate) asks: Vec<(u8, u16)>,
}

/// What is asked by one command, at one time.
#[derive(Debug)]
pub(crate) enum Call<'a, K> {
    /// By one caller: a question about a key, or several, which are charged all or none.
    Alone(&'a [(K, Question)]),
    /// Questions of one script, at least one, about any of these keys: each decided by itself.
    Together(&'a [K], &'a [Asked]),
}

/// What is said to each question, for each key that it is asked of, in their order.
pub(crate) struct Answers {
    /// When it was decided.
    pub(crate) now: u64,
    /// Whether those who are admitted are charged: in a stack, all are or none is.
    pub(crate) is_charged: bool,
    pub(crate) all: SmallVec<[Result<ScriptAnswer, ServerError>; 1]>,
}

impl<K: AsRef<[u8]>> Call<'_, K> {
    pub(crate) fn script(&self) -> &'static Script {
        match self {
            Self::Alone([(_, question)]) | Self::Together(_, [Asked { question, .. }, ..]) => question.script,
            Self::Alone(_) | Self::Together(..) => Script::stack(),
        }
    }

    /// How many decisions it asks for.
    pub(crate) fn decisions(&self) -> usize {
        match self {
            Self::Alone(stack) => stack.len(),
            Self::Together(_, asked) => asked.iter().flat_map(|asked| &asked.asks).map(|ask| usize::from(ask.1)).sum(),
        }
    }

    /// The question of one caller about one key: that has a shorter form.
    fn lone(&self) -> Option<(&[u8], &Question)> {
        match self {
            Self::Alone([(key, question)]) => Some((key.as_ref(), question)),
            Self::Together([key], [Asked { question, asks }]) if asks[..] == [(1, 1)] => Some((key.as_ref(), question)),
            _ => None,
        }
    }

    pub(crate) fn command(&self, number: u32) -> Cmd {
        let mut bytes = SmallVec::<[u8; 128]>::new();
        bytes.extend_from_slice(&number.to_le_bytes());
        if let Some((key, question)) = self.lone() {
            let mut command = begin(question.script, std::iter::once(key), 1);
            bytes.extend_from_slice(&clock([question]));
            bytes.extend_from_slice(&question.bytes);
            command.arg(&bytes[..]);
            return command;
        }
        match self {
            Self::Alone(stack) => {
                let mut command = begin(self.script(), stack.iter().map(|(key, _)| key.as_ref()), 1 + stack.len());
                bytes.extend_from_slice(&clock(stack.iter().map(|(_, question)| question)));
                command.arg(&bytes[..]);
                for (_, question) in *stack {
                    bytes.clear();
                    bytes.push(question.script.number());
                    bytes.extend_from_slice(&question.bytes);
                    command.arg(&bytes[..]);
                }
                command
            }
            Self::Together(keys, asked) => {
                let mut command = begin(self.script(), keys.iter().map(AsRef::as_ref), 2 * asked.len());
                bytes.extend_from_slice(&clock(asked.iter().map(|asked| &asked.question)));
                for Asked { question, asks } in *asked {
                    bytes.extend_from_slice(&question.bytes);
                    command.arg(&bytes[..]);
                    bytes.clear();
                    for (key, callers) in asks {
                        bytes.push(*key);
                        bytes.extend_from_slice(&callers.to_le_bytes());
                    }
                    command.arg(&bytes[..]);
                    bytes.clear();
                }
                command
            }
        }
    }

    /// What the reply to its command says.
    ///
    /// # Errors
    ///
    /// `Foreign` if it is no reply to it: it has another number, or another shape.
    pub(crate) fn read(&self, reply: &Value, number: u32) -> Result<Answers, Foreign> {
        if let Some((_, question)) = self.lone() {
            let Value::BulkString(bytes) = reply else { return Err(Foreign) };
            let (repeated, bytes) = bytes.split_first_chunk().ok_or(Foreign)?;
            let (now, answer) = bytes.split_first_chunk().ok_or(Foreign)?;
            if u32::from_le_bytes(*repeated) != number {
                return Err(Foreign);
            }
            let now = count(*now)?;
            let answer = ScriptAnswer::bytes(answer, question, now, 1)?;
            return Ok(Answers { now, is_charged: true, all: smallvec![Ok(answer)] });
        }
        let Value::Array(values) = reply else { return Err(Foreign) };
        let [Value::Int(repeated), Value::Int(now), answers @ ..] = &values[..] else { return Err(Foreign) };
        if *repeated != i64::from(number) {
            return Err(Foreign);
        }
        let now = u64::try_from(*now).map_err(|_| Foreign)?;
        match self {
            Self::Alone(stack) => {
                let [Value::Int(is_charged), answers @ ..] = answers else { return Err(Foreign) };
                let all = read_all(answers, now, stack.iter().map(|(_, question)| (question, 1)))?;
                Ok(Answers { now, is_charged: *is_charged == 1, all })
            }
            Self::Together(_, asked) => {
                let asked = asked.iter();
                let pairs = asked.flat_map(|Asked { question, asks }| asks.iter().map(move |ask| (question, ask.1)));
                Ok(Answers { now, is_charged: true, all: read_all(answers, now, pairs)? })
            }
        }
    }
}

fn begin<'a>(script: &Script, keys: impl ExactSizeIterator<Item = &'a [u8]>, further: usize) -> Cmd {
    let mut command = Cmd::with_capacity(3 + keys.len() + further, 256 + 64 * keys.len());
    command.arg("EVALSHA").arg(script.sha1()).arg(keys.len());
    for key in keys {
        command.arg(key);
    }
    command
}

/// The time by the callers' clock, the newest of those who ask, as it stands in a call behind its
/// number; 0 for the server's.
#[allow(clippy::cast_precision_loss, reason = "times are below 2^52")]
fn clock<'a>(questions: impl IntoIterator<Item = &'a Question>) -> [u8; 8] {
    let now = questions.into_iter().filter_map(|question| question.now).max();
    now.map_or(0.0, |now| now as f64).to_le_bytes()
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
