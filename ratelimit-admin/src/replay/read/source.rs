//! The lines of a file, which may be compressed.

use std::borrow::Cow;
use std::cell::Cell;
use std::io::{self, BufRead, BufReader, Chain, Cursor, Read};
use std::rc::Rc;

use bzip2::bufread::MultiBzDecoder;
use flate2::bufread::GzDecoder;

/// Reads what the file holds, by its first bytes: as gzip, zstd or bzip2, or as it is. `behind`
/// counts the bytes behind a gzip that are none.
pub(super) fn decompressed<'a>(
    mut from: impl BufRead + 'a,
    behind: Rc<Cell<u64>>,
) -> io::Result<Box<dyn BufRead + 'a>> {
    fn buffered<'a>(from: impl Read + 'a) -> Box<dyn BufRead + 'a> {
        Box::new(BufReader::with_capacity(1 << 16, from))
    }
    let other = |what: &str, then: &str| {
        let why = format!("it is {what}, which replay does not read: {then}");
        Err(io::Error::new(io::ErrorKind::InvalidData, why))
    };
    Ok(match from.fill_buf()? {
        [0xfd, b'7', b'z', b'X', b'Z', ..] => {
            return other("compressed by xz", "xz -dc FILE | ratelimit-admin replay …");
        }
        [0x04, 0x22, 0x4d, 0x18, ..] => {
            return other(
                "compressed by lz4",
                "lz4 -dc FILE | ratelimit-admin replay …",
            );
        }
        [b'P', b'K', 0x03, 0x04, ..] => return other("an archive", "unpack it"),
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => {
            return other(
                "UTF-16",
                "iconv -f UTF-16 -t UTF-8 FILE | ratelimit-admin replay …",
            );
        }
        [0x1f, 0x8b, ..] => buffered(Gzip {
            member: Some(GzDecoder::new(Cursor::new(Vec::new()).chain(from))),
            behind,
        }),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => buffered(zstd::Decoder::with_buffer(from)?),
        [b'B', b'Z', b'h', ..] => buffered(MultiBzDecoder::new(from)),
        _ => Box::new(from),
    })
}

/// The members of a gzip, one after the other, and then what may stand behind: copies by blocks
/// are padded.
struct Gzip<R> {
    member: Option<GzDecoder<Chain<Cursor<Vec<u8>>, R>>>,
    behind: Rc<Cell<u64>>,
}

impl<R: BufRead> Read for Gzip<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while let Some(member) = &mut self.member {
            let read = member.read(into)?;
            if read > 0 || into.is_empty() {
                return Ok(read);
            }
            let Some(ended) = self.member.take() else {
                break;
            };
            let (_, mut rest) = ended.into_inner().into_inner();
            let mut start = Vec::new();
            rest.by_ref().take(2).read_to_end(&mut start)?;
            if start == [0x1f, 0x8b] {
                self.member = Some(GzDecoder::new(Cursor::new(start).chain(rest)));
            } else {
                let more = io::copy(&mut rest, &mut io::sink())?;
                self.behind.set(start.len() as u64 + more);
            }
        }
        Ok(0)
    }
}

/// In bytes. Lines of servers have a few thousand at most.
const LONGEST: usize = 1 << 18;

/// The number and the text of a line that is not empty, or the reason why it cannot be read.
pub(super) type Numbered = (u64, Result<String, String>);

/// The lines of a file. Bytes that are not UTF-8 are replaced.
pub(super) struct Lines<R> {
    from: R,
    number: u64,
    line: Vec<u8>,
}

impl<R: BufRead> Lines<R> {
    pub(super) fn of(from: R) -> Self {
        Self {
            from,
            number: 0,
            line: Vec::new(),
        }
    }

    fn read(&mut self) -> io::Result<usize> {
        self.line.clear();
        let mut part = (&mut self.from).take(LONGEST as u64);
        part.read_until(b'\n', &mut self.line)
    }
}

impl<R: BufRead> Iterator for Lines<R> {
    type Item = io::Result<Numbered>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            self.number += 1;
            match self.read() {
                Ok(0) => return None,
                Err(error) => return Some(Err(error)),
                Ok(LONGEST) if !self.line.ends_with(b"\n") => {
                    while !self.line.ends_with(b"\n") {
                        match self.read() {
                            Ok(0) => break,
                            Err(error) => return Some(Err(error)),
                            Ok(_) => {}
                        }
                    }
                    let why = format!("it is longer than {} KiB", LONGEST >> 10);
                    return Some(Ok((self.number, Err(why))));
                }
                Ok(_) => {}
            }
            let text = without_colors(String::from_utf8_lossy(&self.line));
            let text =
                text.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '\u{feff}');
            // The last cell between tabs may be empty.
            let text = text.trim_end_matches(['\r', '\n', ' ']);
            if !text.is_empty() {
                let text = without_data(text).unwrap_or_else(|| text.to_owned());
                return Some(Ok((self.number, Ok(text))));
            }
        }
    }
}

/// A line without the colours of a terminal.
fn without_colors(line: Cow<'_, str>) -> Cow<'_, str> {
    let Some((first, others)) = line.split_once("\u{1b}[") else {
        return line;
    };
    let is_code = |c: char| c.is_ascii_digit() || c == ';';
    let text = |part| {
        str::trim_start_matches(part, is_code)
            .strip_prefix(['m', 'K'])
            .unwrap_or(part)
    };
    let others = others.split("\u{1b}[").map(text);
    Cow::Owned([first].into_iter().chain(others).collect())
}

/// A line of syslog (RFC 5424), `<PRI>1 TIME HOST APP PID ID [DATA] LINE`, with `-` for the data:
/// they may hold addresses of relays, and quotes.
fn without_data(line: &str) -> Option<String> {
    let (priority, fields) = line.split_once(">1 ")?;
    let (_length, priority) = priority.split_once('<')?;
    if priority.len() > 3 || !priority.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let (at, _) = fields.match_indices(' ').nth(4)?;
    let (head, mut rest) = line.split_at_checked(line.len() - fields.len() + at + 1)?;
    if let Some(nil) = rest.strip_prefix("- ") {
        rest = nil;
    } else if !rest.starts_with('[') {
        return None;
    }
    while rest.starts_with('[') {
        let (mut quoted, mut escaped) = (false, false);
        let end = rest.find(|c: char| {
            let ends = c == ']' && !quoted;
            quoted ^= c == '"' && !escaped;
            escaped = c == '\\' && !escaped;
            ends
        });
        rest = rest.get(end? + 1..)?;
    }
    let line = rest.trim_start().trim_start_matches('\u{feff}');
    Some(format!("{head}- {line}"))
}
