//! Scripts: sent by their hash, and in full only to a server that does not know them.

use std::fmt::Write as _;
use std::sync::LazyLock;

use redis::{Cmd, ServerError, ServerErrorKind, Value};

use super::errors;
use super::link::Link;
use crate::error::StoreError;

/// A script of one key.
pub(super) struct Script {
    source: &'static str,
    sha1: LazyLock<String>,
}

impl Script {
    /// Runs the script on `key`; `args` appends its arguments.
    ///
    /// A server without the script is given its text in the same call. `SCRIPT LOAD` would be one round trip more, and
    /// in a cluster would go to nodes that this key has nothing to do with.
    pub(super) async fn run(
        &self,
        link: &Link,
        key: &[u8],
        args: impl Fn(&mut Cmd) + Sync,
    ) -> Result<Value, StoreError> {
        let answer = match link.send(&command("EVALSHA", &self.sha1, key, &args)).await? {
            Err(error) if is_unknown(&error) => link.send(&command("EVAL", self.source, key, &args)).await?,
            answer => answer,
        };
        answer.map_err(|error| errors::from_server(&error))
    }
}

fn is_unknown(error: &ServerError) -> bool {
    error.kind() == Some(ServerErrorKind::NoScript)
}

fn command(name: &str, script: &str, key: &[u8], args: impl Fn(&mut Cmd)) -> Cmd {
    const ARGS: usize = 9;
    // The numbers of a decision take at most 5 × 20 bytes.
    let mut command = Cmd::with_capacity(ARGS, name.len() + script.len() + key.len() + 101);
    command.arg(name).arg(script).arg(1).arg(key);
    args(&mut command);
    command
}

/// The scripts there are.
pub(super) static SLIDING_WINDOW: Script = {
    const SOURCE: &str = include_str!("sliding_window.lua");
    Script { source: SOURCE, sha1: LazyLock::new(|| sha1_hex(SOURCE.as_bytes())) }
};

/// SHA-1 as Redis names scripts by it; nothing secret depends on it.
#[allow(clippy::indexing_slicing, reason = "all indices are below 80 by the loops' bounds")]
#[allow(clippy::many_single_char_names, reason = "the names of the standard")]
fn sha1_hex(data: &[u8]) -> String {
    let mut message = data.to_vec();
    message.push(0x80);
    message.resize((message.len() + 8).next_multiple_of(64) - 8, 0);
    message.extend_from_slice(&(data.len() as u64 * 8).to_be_bytes());

    let mut state: [u32; 5] = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476, 0xc3d2_e1f0];
    for block in message.chunks_exact(64) {
        let mut words = [0_u32; 80];
        for (word, bytes) in words.iter_mut().zip(block.chunks_exact(4)) {
            *word = bytes.iter().fold(0, |word, byte| word << 8 | u32::from(*byte));
        }
        for i in 16..80 {
            words[i] = (words[i - 3] ^ words[i - 8] ^ words[i - 14] ^ words[i - 16]).rotate_left(1);
        }
        let [mut a, mut b, mut c, mut d, mut e] = state;
        for (i, word) in words.iter().enumerate() {
            let (mixed, constant) = match i / 20 {
                0 => (b & c | !b & d, 0x5a82_7999),
                1 => (b ^ c ^ d, 0x6ed9_eba1),
                2 => (b & c | b & d | c & d, 0x8f1b_bcdc),
                _ => (b ^ c ^ d, 0xca62_c1d6_u32),
            };
            let next = a.rotate_left(5).wrapping_add(mixed).wrapping_add(e).wrapping_add(constant).wrapping_add(*word);
            (e, d, c, b, a) = (d, c, b.rotate_left(30), a, next);
        }
        for (sum, word) in state.iter_mut().zip([a, b, c, d, e]) {
            *sum = sum.wrapping_add(word);
        }
    }
    state.iter().fold(String::with_capacity(40), |mut hex, word| {
        let _ = write!(hex, "{word:08x}");
        hex
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sha1_of_known_messages() {
        assert_eq!(sha1_hex(b""), "da39a3ee5e6b4b0d3255bfef95601890afd80709");
        assert_eq!(sha1_hex(b"abc"), "a9993e364706816aba3e25717850c26c9cd0d89d");
        // Two blocks, and a length that leaves no room for the length in the last of them.
        let message = b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
        assert_eq!(sha1_hex(message), "84983e441c3bd26ebaae4aa1f95129e5e54670f1");
        assert_eq!(sha1_hex(&vec![b'a'; 1_000_000]), "34aa973cd4c4daa4f61eeb2bdbad27316534016f");
    }

    #[test]
    fn keys_are_sent_as_they_are() {
        let command = command("EVALSHA", "ab", b"k\r\n\xff\0", |command| {
            command.arg(7_u64);
        });
        let packed = command.get_packed_command();
        assert_eq!(packed, b"*5\r\n$7\r\nEVALSHA\r\n$2\r\nab\r\n$1\r\n1\r\n$5\r\nk\r\n\xff\0\r\n$1\r\n7\r\n");
    }
}
