//! [`Incoming`]: what a server sends: bytes, and the replies in them.

use std::io;
use std::ops::Range;
use std::task::{Context, Poll};

use redis::Value;
use tokio::io::ReadBuf;

use super::commands::Reply;
use super::resp::{self, Parsed, Progress};
use super::stream::ReadHalf;
use crate::error::StoreError;

/// How many bytes are read at once.
const CHUNK: usize = 16 * 1024;
/// The buffer keeps capacity for this many bytes.
const KEPT_BYTES: usize = 4 * CHUNK;

pub(crate) struct Incoming {
    reader: ReadHalf,
    chunk: Box<[u8]>,
    /// What has been read and not been taken.
    buffer: Vec<u8>,
    /// The replies at its front, and where they end.
    replies: Vec<Read>,
    end: usize,
    /// How far what follows is known.
    progress: Progress,
}

/// A reply that has been read.
enum Read {
    /// A bulk string, which is still in the buffer.
    Bulk(Range<usize>),
    Other(Value),
}

impl Incoming {
    pub(crate) fn new(reader: ReadHalf) -> Self {
        Self {
            reader,
            chunk: vec![0; CHUNK].into(),
            buffer: Vec::new(),
            replies: Vec::new(),
            end: 0,
            progress: Progress::default(),
        }
    }

    /// Reads once. Ready once something has come.
    pub(crate) fn read(&mut self, cx: &mut Context<'_>) -> Result<Poll<()>, StoreError> {
        let mut chunk = ReadBuf::new(&mut self.chunk);
        let result = self.reader.as_mut().poll_read(cx, &mut chunk);
        let came = chunk.filled().len();
        self.buffer.extend_from_slice(chunk.filled());
        match result {
            Poll::Ready(Ok(())) if came == 0 => Err(StoreError::unavailable("Redis has closed the connection")),
            Poll::Ready(Ok(())) => Ok(Poll::Ready(())),
            Poll::Ready(Err(error)) => Err(lost(error)),
            Poll::Pending => Ok(Poll::Pending),
        }
    }

    /// Finds the replies in what has come. Those in front of an error can be [taken](Self::take).
    pub(crate) fn parse(&mut self) -> Result<(), StoreError> {
        loop {
            let rest = self.buffer.get(self.end..).unwrap_or_default();
            if let Some((bulk, taken)) = resp::bulk(rest) {
                self.end += taken;
                // It ends with a line break.
                let end = self.end - 2;
                self.replies.push(Read::Bulk(end - bulk.len()..end));
                continue;
            }
            self.end += match self.progress.parse(rest) {
                Parsed::Reply(reply, taken) => {
                    self.replies.push(Read::Other(reply));
                    taken
                }
                Parsed::Push(taken) => taken,
                Parsed::Incomplete => return Ok(()),
                Parsed::Malformed => {
                    let text = "what answers at this address does not speak the protocol of Redis";
                    return Err(StoreError::unavailable(text));
                }
            };
        }
    }

    /// Hands the replies over, up to one that is not taken. After an error the connection has to
    /// end: the replies behind are dropped, and the buffer still holds the bytes of all.
    pub(crate) fn take<E>(&mut self, mut to: impl FnMut(Reply<'_>) -> Result<(), E>) -> Result<(), E> {
        for read in self.replies.drain(..) {
            to(match read {
                Read::Bulk(range) => Reply::Bulk(self.buffer.get(range).unwrap_or_default()),
                Read::Other(value) => Reply::Other(value),
            })?;
        }
        self.buffer.drain(..self.end);
        self.end = 0;
        if self.buffer.is_empty() {
            self.buffer.shrink_to(KEPT_BYTES);
        }
        Ok(())
    }

    /// Gives the socket back; nothing more is read.
    pub(crate) fn close(&mut self) {
        self.reader = Box::pin(tokio::io::empty());
    }
}

pub(crate) fn lost(error: io::Error) -> StoreError {
    StoreError::unavailable(format!("the connection to Redis was lost: {error}")).with_source(error)
}
