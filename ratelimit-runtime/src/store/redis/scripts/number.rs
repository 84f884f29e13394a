//! [`Number`]: what a question carries and its reply repeats.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// The number of one question. No other question of this process has it; one of another process has
/// it with a probability of 2⁻⁶⁴.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Number(u64);

/// How many bytes it has in a call and a reply of a script.
const BYTES: usize = 8;

impl Number {
    /// A new one.
    pub(crate) fn next() -> Self {
        static NEXT: LazyLock<AtomicU64> = LazyLock::new(|| AtomicU64::new(RandomState::new().hash_one(0)));
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// As an argument of a script.
    pub(crate) fn bytes(self) -> [u8; BYTES] {
        self.0.to_le_bytes()
    }

    /// What follows the number in the reply of a script; `None` if the reply does not begin with
    /// it.
    pub(crate) fn strip(self, reply: &[u8]) -> Option<&[u8]> {
        let (number, rest) = reply.split_first_chunk()?;
        (*number == self.bytes()).then_some(rest)
    }

    /// `PING` with the number, which the reply echoes.
    pub(crate) fn ping(self) -> redis::Cmd {
        redis::cmd("PING").arg(self.0).take()
    }

    /// Whether this is the reply to [`ping`](Self::ping).
    pub(crate) fn is_echo(self, reply: &[u8]) -> bool {
        reply == itoa::Buffer::new().format(self.0).as_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_repeats_the_number_of_its_question_and_of_no_other() {
        let (number, other) = (Number::next(), Number::next());
        let reply = [number.bytes().as_slice(), b"rest"].concat();
        assert_eq!(number.strip(&reply), Some(&b"rest"[..]));
        assert_eq!(other.strip(&reply), None);
        assert_eq!(number.strip(reply.get(..BYTES - 1).unwrap_or_default()), None);
        let echo = number.0.to_string();
        assert!(number.is_echo(echo.as_bytes()) && !other.is_echo(echo.as_bytes()));
        assert!(number.ping().get_packed_command().ends_with(format!("{echo}\r\n").as_bytes()));
    }
}
