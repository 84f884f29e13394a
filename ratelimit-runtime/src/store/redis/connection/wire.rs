//! [`Wire`]: the call of a script as bytes. What is the same in every call is built once.

use crate::store::redis::script::Script;

#[derive(Debug)]
pub(super) struct Wire {
    script: &'static Script,
    by_hash: Vec<u8>,
}

/// A call that is being written.
pub(super) struct Call<'a> {
    to: &'a mut Vec<u8>,
}

impl Wire {
    pub(super) fn of(script: &'static Script) -> Self {
        let mut by_hash = Vec::new();
        argument(&mut by_hash, b"EVALSHA");
        argument(&mut by_hash, script.sha1().as_bytes());
        Self { script, by_hash }
    }

    /// Begins a call of so many questions, each of which has a key. The server is told the whole script `in_full`.
    pub(super) fn call<'a>(&self, to: &'a mut Vec<u8>, in_full: bool, questions: usize) -> Call<'a> {
        head(to, b'*', 2 * questions + 4);
        if in_full {
            argument(to, b"EVAL");
            argument(to, self.script.source().as_bytes());
        } else {
            to.extend_from_slice(&self.by_hash);
        }
        argument(to, itoa::Buffer::new().format(questions).as_bytes());
        Call { to }
    }
}

impl Call<'_> {
    /// Writes one argument, and gives the place where it is.
    pub(super) fn argument(&mut self, bytes: &[u8]) -> &mut [u8] {
        argument(self.to, bytes)
    }

    /// The caller's time; `None` for the server's.
    pub(super) fn clock(&mut self, now: Option<u64>) {
        match now {
            Some(now) => argument(self.to, itoa::Buffer::new().format(now).as_bytes()),
            None => argument(self.to, b""),
        };
    }
}

fn head(to: &mut Vec<u8>, sort: u8, length: usize) {
    to.push(sort);
    to.extend_from_slice(itoa::Buffer::new().format(length).as_bytes());
    to.extend_from_slice(b"\r\n");
}

fn argument<'a>(to: &'a mut Vec<u8>, bytes: &[u8]) -> &'a mut [u8] {
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

    use super::*;
    use crate::store::redis::script;

    #[test]
    fn a_call_is_what_the_client_library_would_write() {
        let script = &script::FIXED_WINDOW;
        for (in_full, now) in [(false, None), (true, None), (false, Some(1_790_000_000_000_123))] {
            let mut written = b"before".to_vec();
            let mut call = Wire::of(script).call(&mut written, in_full, 2);
            call.argument(b"a\r\n\xff");
            call.argument(b"");
            call.clock(now);
            call.argument(b"xx").copy_from_slice(b"q1");
            call.argument(b"q2");

            let mut command = if in_full { cmd("EVAL") } else { cmd("EVALSHA") };
            command.arg(if in_full { script.source() } else { script.sha1() }).arg(2);
            command.arg(b"a\r\n\xff").arg(b"");
            match now {
                Some(now) => command.arg(now),
                None => command.arg(""),
            };
            command.arg("q1").arg("q2");
            assert_eq!(written.strip_prefix(b"before").unwrap(), command.get_packed_command());
        }
    }
}
