//! [`ScriptCall`]: a call of one script with all questions that share it: its command, and the
//! reading of its reply, which repeats the number of the call.

use redis::{Cmd, ServerError, Value};
use rmp::decode;
use smallvec::{SmallVec, smallvec};

use super::answer::{ScriptAnswer, count, packed_number};
use super::question::{CallQuestion, KeyQuestion, double};
use super::script::Script;

/// The questions of one command, decided at one time: each by itself or, by the script of stacks,
/// charged all or none.
#[derive(Debug)]
pub(crate) struct ScriptCall<'a> {
    /// The number that the reply repeats.
    pub(crate) number: u32,
    pub(crate) script: &'static Script,
    pub(crate) keys: SmallVec<[&'a [u8]; 1]>,
    /// The questions; those on several keys are neighbours.
    pub(crate) questions: SmallVec<[CallQuestion<'a>; 1]>,
}

/// The answers, in the order of the questions.
pub(crate) type Answers = SmallVec<[Result<ScriptAnswer, ServerError>; 1]>;

impl<'a> ScriptCall<'a> {
    /// The call of one caller: a question about a key, or a stack.
    pub(crate) fn of_one(number: u32, stack: &'a [KeyQuestion<'_>]) -> Self {
        let script = match stack {
            [(_, question)] => question.script,
            _ => Script::stack(),
        };
        let question = |((_, question), key): (&'a KeyQuestion<'_>, u8)| CallQuestion {
            question,
            key,
            callers: 1,
        };
        Self {
            number,
            script,
            keys: stack.iter().map(|(key, _)| *key).collect(),
            questions: stack.iter().zip(1..).map(question).collect(),
        }
    }

    /// `true` for the question of one caller about one key, which has a shorter form.
    fn is_lone(&self) -> bool {
        matches!(self.questions[..], [CallQuestion { callers: 1, .. }]) && !self.script.is_stack()
    }

    /// The command, which names the script, or has its source for a server that does not know it.
    pub(crate) fn command(&self, by_source: bool) -> Cmd {
        let keys = self.keys.len();
        let mut command = Cmd::with_capacity(4 + keys + 2 * self.questions.len(), 256 + 64 * keys);
        let Script { source, sha1, .. } = self.script;
        let (name, script) = if by_source {
            ("EVAL", *source)
        } else {
            ("EVALSHA", sha1.as_str())
        };
        command.arg(name).arg(script).arg(keys);
        for key in &self.keys {
            command.arg(key);
        }
        // By the callers' clock, the newest of those who ask; 0 for the server's.
        let now = self
            .questions
            .iter()
            .filter_map(|asked| asked.question.now)
            .max()
            .unwrap_or(0);
        let mut bytes = SmallVec::<[u8; 128]>::new();
        bytes.extend_from_slice(&self.number.to_le_bytes());
        bytes.extend_from_slice(&double(now).to_le_bytes());
        let (is_stack, is_lone) = (self.script.is_stack(), self.is_lone());
        if is_stack {
            argument(&mut command, &mut bytes);
        }
        for questions in self
            .questions
            .chunk_by(|one, other| !is_stack && one.question.is_same(other.question))
        {
            let Some(CallQuestion { question, .. }) = questions.first() else {
                debug_assert!(false, "no chunk is empty");
                continue;
            };
            bytes.extend(is_stack.then_some(question.script.number));
            bytes.extend_from_slice(&question.bytes);
            argument(&mut command, &mut bytes);
            if is_stack || is_lone {
                continue;
            }
            for CallQuestion { key, callers, .. } in questions {
                bytes.push(*key);
                bytes.extend_from_slice(&callers.to_le_bytes());
            }
            argument(&mut command, &mut bytes);
        }
        command
    }

    /// The answers in the reply to the command; `None` if the reply is another command's: it has
    /// another number, or another form.
    pub(crate) fn read(&self, reply: &Value) -> Option<Answers> {
        let Value::BulkString(bytes) = reply else {
            return None;
        };
        if let ([question], true) = (&self.questions[..], self.is_lone()) {
            let (number, bytes) = bytes.split_first_chunk()?;
            let (now, answer) = bytes.split_first_chunk()?;
            let answer = ScriptAnswer::read(answer, question, count(*now)?, true)?;
            return (u32::from_le_bytes(*number) == self.number).then(|| smallvec![Ok(answer)]);
        }
        let (mut bytes, is_stack) = (&bytes[..], self.script.is_stack());
        decode::read_array_len(&mut bytes).ok()?;
        let (number, now) = (packed_number(&mut bytes)?, packed_number(&mut bytes)?);
        let is_charged = !is_stack || packed_number(&mut bytes)? == 1;
        let mut answers = Answers::with_capacity(self.questions.len());
        for question in &self.questions {
            answers.push(ScriptAnswer::packed(&mut bytes, question, now, is_charged)?);
        }
        (bytes.is_empty() && number == u64::from(self.number)).then_some(answers)
    }
}

/// Adds an argument to a command, and begins the next one.
fn argument(command: &mut Cmd, bytes: &mut SmallVec<[u8; 128]>) {
    command.arg(&bytes[..]);
    bytes.clear();
}
