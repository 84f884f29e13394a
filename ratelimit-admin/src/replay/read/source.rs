//! The lines of a file, which may be compressed.

use std::borrow::Cow;
use std::io::{self, BufRead, BufReader, Read};

use bzip2::bufread::MultiBzDecoder;
use flate2::bufread::MultiGzDecoder;
use serde::Deserialize;

/// Reads what the file holds, by its first bytes: as gzip, zstd or bzip2, or as it is.
pub(super) fn decompressed<'a>(mut from: impl BufRead + 'a) -> io::Result<Box<dyn BufRead + 'a>> {
    fn buffered<'a>(from: impl Read + 'a) -> Box<dyn BufRead + 'a> {
        Box::new(BufReader::with_capacity(1 << 16, from))
    }
    Ok(match from.fill_buf()? {
        [0x1f, 0x8b, ..] => buffered(MultiGzDecoder::new(from)),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => buffered(zstd::Decoder::with_buffer(from)?),
        [b'B', b'Z', b'h', ..] => buffered(MultiBzDecoder::new(from)),
        _ => Box::new(from),
    })
}

/// In bytes. Lines of servers have a few thousand at most.
const LONGEST: usize = 1 << 18;

/// A line that is not empty, and its number; or why it is none that can be read.
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
            let text = String::from_utf8_lossy(&self.line);
            let text = text.trim_matches(|c: char| c.is_ascii_whitespace() || c == '\u{feff}');
            if !text.is_empty() {
                let text = unwrapped(text).into_owned();
                return Some(Ok((self.number, Ok(text))));
            }
        }
    }
}

/// A line as Docker and the collectors of Kubernetes store it.
#[derive(Deserialize)]
struct Wrapped {
    log: String,
    #[serde(rename = "stream")]
    _stream: String,
}

/// The line that a process wrote, if Docker has wrapped it.
fn unwrapped(line: &str) -> Cow<'_, str> {
    if line.starts_with('{')
        && line.contains(r#""log":"#)
        && let Ok(wrapped) = serde_json::from_str::<Wrapped>(line)
    {
        return wrapped.log.trim_ascii().to_owned().into();
    }
    line.into()
}
