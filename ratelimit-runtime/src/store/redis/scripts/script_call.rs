//! [`ScriptCall`]: the call of a script, written as bytes.

use super::number::Number;
use super::protocol::doubles;
use super::script::Script;

/// A call that is being written.
pub(crate) struct ScriptCall<'a> {
    to: &'a mut Vec<u8>,
}

impl<'a> ScriptCall<'a> {
    /// Begins a call of so many questions about so many keys.
    ///
    /// A server that does not know the script is told it `in_full`, and knows it from then on.
    /// `SCRIPT LOAD` would be one round trip more, and in a cluster would reach nodes that do not
    /// have the keys.
    pub(crate) fn begin(to: &'a mut Vec<u8>, script: &Script, in_full: bool, keys: usize, questions: usize) -> Self {
        head(to, b'*', 4 + keys + questions);
        if in_full {
            argument(to, b"EVAL");
            argument(to, script.source().as_bytes());
        } else {
            to.extend_from_slice(script.evalsha());
        }
        argument(to, itoa::Buffer::new().format(keys).as_bytes());
        Self { to }
    }
}

impl ScriptCall<'_> {
    /// Writes one argument, and gives the place where it is.
    pub(crate) fn argument(&mut self, bytes: &[u8]) -> &mut [u8] {
        argument(self.to, bytes)
    }

    /// Writes arguments that [`argument`] has written.
    pub(super) fn arguments(&mut self, written: &[u8]) {
        self.to.extend_from_slice(written);
    }

    /// The number that the reply repeats; and the caller's time, or `None` for the server's.
    pub(crate) fn head(&mut self, number: Number, now: Option<u64>) {
        match now {
            Some(now) => argument(self.to, [number.bytes(), doubles([now])[0]].as_flattened()),
            None => argument(self.to, &number.bytes()),
        };
    }
}

fn head(to: &mut Vec<u8>, sort: u8, length: usize) {
    // Most are short.
    if let Ok(length @ 0..100) = u8::try_from(length) {
        let (tens, ones) = (b'0' + length / 10, b'0' + length % 10);
        match tens {
            b'0' => to.extend_from_slice(&[sort, ones, b'\r', b'\n']),
            _ => to.extend_from_slice(&[sort, tens, ones, b'\r', b'\n']),
        }
        return;
    }
    to.push(sort);
    to.extend_from_slice(itoa::Buffer::new().format(length).as_bytes());
    to.extend_from_slice(b"\r\n");
}

/// Writes one argument of a call, and gives the place where it is.
pub(super) fn argument<'a>(to: &'a mut Vec<u8>, bytes: &[u8]) -> &'a mut [u8] {
    // Once for all parts.
    to.reserve(bytes.len() + 24);
    head(to, b'$', bytes.len());
    let start = to.len();
    to.extend_from_slice(bytes);
    to.extend_from_slice(b"\r\n");
    let end = start + bytes.len();
    to.get_mut(start..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use redis::cmd;

    use super::super::script;
    use super::*;
    use crate::rule::Algorithm;

    #[test]
    fn a_call_is_what_the_client_library_would_write() {
        let script = script::of(Algorithm::FixedWindow);
        for (in_full, now) in [(false, None), (true, None), (false, Some(1_790_000_000_000_123))] {
            let mut written = b"before".to_vec();
            let mut call = ScriptCall::begin(&mut written, script, in_full, 2, 3);
            call.argument(b"a\r\n\xff");
            call.argument(b"");
            let number = Number::next();
            call.head(number, now);
            call.argument(b"xx").copy_from_slice(b"q1");
            call.argument(b"q2");
            call.argument(b"q3");

            let mut command = if in_full { cmd("EVAL") } else { cmd("EVALSHA") };
            command.arg(if in_full { script.source() } else { script.sha1() }).arg(2);
            command.arg(b"a\r\n\xff").arg(b"");
            let mut head = number.bytes().to_vec();
            if now.is_some() {
                head.extend(1_790_000_000_000_123.0_f64.to_le_bytes());
            }
            command.arg(head).arg("q1").arg("q2").arg("q3");
            assert_eq!(written.strip_prefix(b"before").unwrap(), command.get_packed_command());
        }
    }
}
